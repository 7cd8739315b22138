"""Maps an HTTP call to an event or a run, filling in the mapping's templates. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from openclaw.automation.settings import WebhookMapping, WebhookMatch, WebhookSettings
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey

_SLOT = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_UNKEYED = re.compile(r"[^A-Za-z0-9_.@-]")
FILLED_CHARS = 20_000
KEY_CHARS = 256


class WakeCall(Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of `/hooks/wake`."""

    text: Annotated[str, Meta(min_length=1)]
    mode: Literal["now", "next-heartbeat"] = "now"
    agent_id: str | None = None
    session_key: str | None = None


class AgentCall(Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of `/hooks/agent`."""

    message: Annotated[str, Meta(min_length=1)]
    name: str = "Hook"
    agent_id: str | None = None
    session_key: str | None = None
    wake_mode: Literal["now", "next-heartbeat"] = "now"
    deliver: bool = True
    channel: str | None = None
    """Where the result goes: last, owner, or a channel with `to`."""
    to: str | None = None
    model: str | None = None
    thinking: str | None = None
    timeout_seconds: Annotated[float, Meta(gt=0)] | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=KEY_CHARS)] | None = None
    wait_for_completion: bool = False


class WebhookCall(Struct, frozen=True, kw_only=True):
    """A call as a mapping sees it."""

    path: str
    payload: Any
    headers: Mapping[str, str]
    query: Mapping[str, str]
    now: str


PRESETS = {
    "gmail": WebhookMapping(
        id="gmail",
        match=WebhookMatch(path="gmail"),
        name="Gmail",
        session_key="hook:gmail:{{payload.id}}",
        for_each="payload.messages",
        message_template=(
            "A mail has come.\nFrom: {{payload.from}}\nSubject: {{payload.subject}}\n\n"
            "{{payload.snippet}}\n{{payload.body}}"
        ),
    )
}
"""Gmail's Pub/Sub push, as `gog gmail watch serve` posts it: a list of letters, each its own run."""
MOST_CALLS = 200
TRANSFORMED = frozenset(
    "action message text name agentId sessionKey wakeMode deliver channel to model thinking timeoutSeconds "
    "idempotencyKey".split()
)
"""What a transform may say."""


def find_mapping(settings: WebhookSettings, call: WebhookCall) -> WebhookMapping | None:
    """The first mapping that matches; presets come last."""
    source = call.payload.get("source") if isinstance(call.payload, dict) else None
    for mapping in (*settings.mappings, *(PRESETS[name] for name in settings.presets)):
        path, wanted = mapping.match.path, mapping.match.source
        named = path if path is not None else mapping.id
        if (named is None or named.strip("/") == call.path.strip("/")) and wanted in (None, source):
            return mapping
    return None


def split_call(mapping: WebhookMapping, call: WebhookCall) -> list[WebhookCall]:
    """Splits a call: one for each entry of the list a mapping names, or the call itself."""
    if mapping.for_each is None:
        return [call]
    found = _at(mapping.for_each, call)
    return [structs.replace(call, payload=entry) for entry in found[:MOST_CALLS]] if isinstance(found, list) else []


def map_call(mapping: WebhookMapping, call: WebhookCall) -> WakeCall | AgentCall | None:
    """The event or run a mapped call becomes; None when its template comes out empty."""
    template = mapping.text_template if mapping.action == "wake" else mapping.message_template
    text = fill_template(template or "{{payload}}", call).strip()
    if not text:
        return None
    if mapping.action == "wake":
        return WakeCall(text=text, mode=mapping.wake_mode, agent_id=mapping.agent_id)
    return AgentCall(
        message=text,
        name=mapping.name or mapping.id or "Hook",
        agent_id=mapping.agent_id,
        session_key=_key(mapping, call),
        # A push repeats until it is acknowledged: the letter's id makes it one run.
        idempotency_key=_key(mapping, call) if mapping is PRESETS["gmail"] else None,
        wake_mode=mapping.wake_mode,
        deliver=mapping.deliver,
        channel=mapping.channel,
        to=mapping.to,
        model=mapping.model,
        thinking=mapping.thinking,
        timeout_seconds=mapping.timeout_seconds,
    )


def merge_transformed(mapping: WebhookMapping, call: WebhookCall, answer: Any) -> WakeCall | AgentCall | None:
    """What a call becomes by what a transform says: nothing, a text, or fields in place of the mapping's."""
    if answer is None:
        return None
    if isinstance(answer, str):
        answer = {"message": answer, "text": answer}
    if not isinstance(answer, dict):
        raise InvalidRequest("a transform returns None, a text or a dict")
    if unknown := sorted(set(answer) - TRANSFORMED):
        raise InvalidRequest(f"a transform cannot set {', '.join(map(str, unknown))}")
    if not str(answer.get("sessionKey") or "hook:").startswith("hook:"):
        raise InvalidRequest("the sessionKey of a transform begins with hook:")
    mapped = structs.replace(mapping, action=answer.get("action", mapping.action))
    kind: Any = WakeCall if mapped.action == "wake" else AgentCall
    base = map_call(mapped, call)
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}
    given = {name: value for name, value in answer.items() if name in fields and value is not None}
    if "wakeMode" in answer:
        given["mode" if kind is WakeCall else "wakeMode"] = answer["wakeMode"]
    try:
        found: WakeCall | AgentCall = msgspec.convert({**(msgspec.to_builtins(base) if base else {}), **given}, kind)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"what a transform returned does not fit: {error}") from None
    return found


def fill_template(template: str, call: WebhookCall) -> str:
    """Fills in `{{payload.a.b[0]}}`, `{{headers.x}}`, `{{query.k}}`, `{{path}}` and `{{now}}`."""

    def fill(slot: re.Match[str]) -> str:
        return _text(_at(slot[1], call))[:FILLED_CHARS]

    return _SLOT.sub(fill, template)


def _key(mapping: WebhookMapping, call: WebhookCall) -> str | None:
    """The session a mapping names. What a caller puts into it cannot change which kind it is."""
    if not mapping.session_key:
        return None
    values = [_text(_at(slot, call)) for slot in _SLOT.findall(mapping.session_key)]
    if not all(values):
        return None
    # The texts between the slots, each followed by the value of a slot.
    between = _SLOT.split(mapping.session_key)[::2]
    inert = (*(_UNKEYED.sub("_", value) for value in values), "")
    return "".join(part for pair in zip(between, inert, strict=True) for part in pair)[:KEY_CHARS]


def _at(path: str, call: WebhookCall) -> Any:
    """The value at `path`, None where there is none. A path without one of our prefixes is one in the body."""
    found = {"payload": call.payload, "headers": call.headers, "query": call.query, "path": call.path, "now": call.now}
    steps = _STEP.findall(path)
    at: Any = found if steps and steps[0][0] in found else call.payload
    for name, place in steps:
        if place:
            at = at[int(place)] if isinstance(at, list) and int(place) < len(at) else None
        elif isinstance(at, Mapping):
            at = at.get(name.lower() if at is call.headers else name)
        else:
            at = None
    return at


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def check_agent(settings: WebhookSettings, agent_id: str | None) -> str | None:
    if agent_id and settings.allowed_agent_ids and agent_id not in settings.allowed_agent_ids:
        raise InvalidRequest(f"hooks may not reach the agent {agent_id}: add it to hooks.allowedAgentIds")
    return agent_id


def choose_session(settings: WebhookSettings, asked: str | None, fresh: SessionKey) -> str:
    """The session of a run: the caller's if that is allowed, the configured one, or a new one."""
    if asked is None:
        return settings.default_session_key or str(fresh)
    if not settings.allow_request_session_key:
        raise InvalidRequest("sessionKey is not accepted from callers: set hooks.allowRequestSessionKey to allow it")
    prefixes = settings.allowed_session_key_prefixes
    if prefixes and not asked.startswith(prefixes):
        raise InvalidRequest("this sessionKey is not allowed: see hooks.allowedSessionKeyPrefixes")
    return asked
