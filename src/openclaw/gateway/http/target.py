"""Which agent and which session a request means. Pure."""

import hashlib
import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from openclaw.core.errors import NotFound
from openclaw.core.keys import SessionKey
from openclaw.gateway.http.endpoint import HttpCall
from openclaw.gateway.http.problems import HttpProblem

KeyOf = Callable[[str | None, str | None], SessionKey]
"""The session meant by a key, an agent, both or neither; refuses agents that do not exist."""

PREFIX = "openclaw"
DEFAULT = "default"
_MODEL = re.compile(r"(?:openclaw[/:]|agent:)(?P<agent>[a-zA-Z0-9][a-zA-Z0-9_-]{0,63})\Z")
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_.@+-]{0,99}\Z")
_CHANNEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
WEB = "webchat"


class RequestTarget(Struct, frozen=True, kw_only=True):
    """Where a request goes."""

    key: SessionKey
    stable: bool
    """The client comes back to this session."""
    model: str | None = None
    channel: str = WEB


def agent_in(model: str) -> str | None:
    """The agent a model name means, None for the default one."""
    name = model.strip()
    if name in (PREFIX, f"{PREFIX}/{DEFAULT}", f"{PREFIX}:{DEFAULT}"):
        return None
    found = _MODEL.match(name)
    if found is None:
        raise HttpProblem(
            400,
            "`model` names an agent: use openclaw, or openclaw/<agentId>; the language model is chosen by the agent, "
            "or by the header x-openclaw-model",
            param="model",
        )
    return found["agent"].lower()


def target(
    call: HttpCall,
    key_of: KeyOf,
    *,
    model: str,
    user: str | None,
    run_id: str,
    family: Literal["openai", "openresponses"],
) -> RequestTarget:
    """The target of a request; `user` and the headers may name a session, otherwise it is a new one."""
    named = agent_in(model)  # read also when the header decides: a wrong name is a mistake either way
    agent = call.header("x-openclaw-agent-id") or named
    explicit = call.header("x-openclaw-session-key")
    try:
        if explicit:
            key, stable = key_of(explicit, agent), True
        elif user and user.strip():
            key, stable = key_of(f"{family}-user:{_plain(user.strip())}", agent), True
        else:
            key, stable = key_of(f"{family}:{run_id.partition('_')[2]}", agent), False
    except NotFound as error:
        raise HttpProblem(404, error.message, param="model", code="model_not_found") from error
    return RequestTarget(key=key, stable=stable, model=call.header("x-openclaw-model"), channel=_channel(call))


def _plain(user: str) -> str:
    """`user` as one segment of a key: two people never share a session because of how their names are written."""
    return user if _PLAIN.match(user) else "sha256-" + hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def _channel(call: HttpCall) -> str:
    name = (call.header("x-openclaw-message-channel") or WEB).lower()
    if not _CHANNEL.match(name):
        raise HttpProblem(400, "x-openclaw-message-channel is not the name of a channel: use letters, digits, - and _")
    return name
