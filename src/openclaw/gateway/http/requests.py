"""Turns an HTTP request into a run and waits for it: images, messages, client functions, session, the run."""

import asyncio
import base64
import binascii
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from msgspec import Struct

from openclaw.agent.settings import agent_ids
from openclaw.agent.tool_runner import ToolRunner
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.messages import Image
from openclaw.core.text import compile_lazily
from openclaw.gateway.app import App
from openclaw.gateway.http import problems
from openclaw.gateway.http.endpoint import HttpCall
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.stream import RunFanout, RunListener, StreamedText
from openclaw.runs.inbox import Inbox, RunOutcome
from openclaw.runs.queue import QueueRules
from openclaw.runs.request import ClientTool, RunRequest
from openclaw.runs.toolset import Toolset
from openclaw.runs.worker import RunService

# Images.

MOST_IMAGES = 8
MOST_BYTES = 10 * 1024 * 1024
KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DATA_URL = compile_lazily(
    r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)((?:;[a-z0-9-]+=[^;,]*)*);base64,", re.IGNORECASE | re.ASCII
)


def image(url: str) -> Image:
    """The image in a data URL."""
    found = _DATA_URL.match(url)
    if found is None:
        raise HttpProblem(400, "an image must be a data: URL with base64 content; addresses are not fetched")
    kind = found[1].lower().replace("image/jpg", "image/jpeg")
    if kind not in KINDS:
        raise HttpProblem(400, f"{kind} images are not supported: send {', '.join(KINDS)}")
    try:
        data = base64.b64decode("".join(url[found.end() :].split()), validate=True)
    except (binascii.Error, ValueError):
        raise HttpProblem(400, "the content of an image is not base64") from None
    if not data:
        raise HttpProblem(400, "an image is empty")
    if len(data) > MOST_BYTES:
        raise HttpProblem(400, f"an image is larger than {MOST_BYTES} bytes: send a smaller one")
    return Image(base64.b64encode(data).decode(), kind)


# Messages.


class RequestedAnswer(Struct, frozen=True):
    """A call the assistant made earlier, as the client repeats it."""

    id: str
    name: str
    arguments: str


class RequestText(Struct, frozen=True, kw_only=True):
    """One message of a request."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    images: tuple[Image, ...] = ()
    calls: tuple[RequestedAnswer, ...] = ()
    call_id: str = ""


class RequestedTurn(Struct, frozen=True, kw_only=True):
    """What a turn starts from."""

    text: str
    images: tuple[Image, ...] = ()
    extra: str = ""


def compose_turn(said: Sequence[RequestText], *, fresh: bool) -> RequestedTurn:
    """Builds the turn from the messages of a request."""
    if sum(len(each.images) for each in said) > MOST_IMAGES:
        raise HttpProblem(400, f"more than {MOST_IMAGES} images: send fewer", code="too_many_images")
    names = {call.id: call.name for each in said for call in each.calls}
    extra = "\n\n".join(each.text for each in said if each.role == "system" and each.text.strip())
    talk = [each for each in said if each.role != "system"]
    new = _newest(talk)
    if not any(each.text.strip() or each.images for each in new):
        why = "there is nothing to answer: send a user message with text or an image"
        raise HttpProblem(400, why, param="messages")
    earlier = [each for each in talk if not any(each is one for one in new)] if fresh else []
    text = "\n\n".join(_shown(each, names) if each.role == "tool" else each.text for each in new)
    if earlier:
        before = "\n\n".join(_shown(each, names) for each in earlier)
        text = f"[The conversation so far, as the client tells it]\n\n{before}\n\n[What to answer now]\n\n{text}"
    images = tuple(image for each in (*earlier, *new) for image in each.images)
    return RequestedTurn(text=text, images=images, extra=extra)


def _newest(talk: Sequence[RequestText]) -> list[RequestText]:
    """What the assistant has not seen yet: results of its calls, and the person's last message."""
    end = max((place for place, each in enumerate(talk) if each.role in ("user", "tool")), default=-1)
    start = max((place for place, each in enumerate(talk[: end + 1]) if each.role == "assistant"), default=-1)
    recent = talk[start + 1 : end + 1]
    last_user = next((each for each in reversed(recent) if each.role == "user"), None)
    return [each for each in recent if each.role == "tool" or each is last_user]


def _shown(each: RequestText, names: dict[str, str]) -> str:
    pictures = [f"[{len(each.images)} image{'s' if len(each.images) > 1 else ''}]"] if each.images else []
    if each.role == "tool":
        name = names.get(each.call_id, "a function")
        return "\n".join([f"Result of {name} ({each.call_id}):", *filter(None, [each.text or "(nothing)"]), *pictures])
    calls = [f"Called {call.name} ({call.id}) with {call.arguments}" for call in each.calls]
    who = "Assistant" if each.role == "assistant" else "User"
    return "\n".join([f"{who}: {each.text}".rstrip(), *pictures, *calls])


# Client functions.

MOST = 128
_NAME = compile_lazily(r"[a-zA-Z0-9_-]{1,64}\Z")


class FunctionChoice(Struct, frozen=True):
    """Which functions the model sees, and what it is told about them."""

    tools: tuple[ClientTool, ...] = ()
    order: str = ""


def validate_functions(tools: Sequence[ClientTool], taken: Collection[str]) -> tuple[ClientTool, ...]:
    """Validates the names and schemas of `tools`; `taken` are the assistant's own."""
    if len(tools) > MOST:
        raise HttpProblem(400, f"more than {MOST} functions: send fewer", param="tools")
    seen: set[str] = set()
    for tool in tools:
        why = ""
        if not _NAME.match(tool.name):
            why = f"{tool.name!r} cannot be a function name: use letters, digits, - and _"
        elif tool.name in seen:
            why = f"there are two functions called {tool.name}: rename one"
        elif tool.name.lower() in taken:
            why = f"{tool.name} is the name of one of the agent's own tools: rename it"
        elif tool.parameters and tool.parameters.get("type", "object") != "object":
            why = f"the parameters of {tool.name} must be a JSON Schema of an object"
        if why:
            raise HttpProblem(400, why, param="tools")
        seen.add(tool.name)
    return tuple(tools)


def choose(tools: tuple[ClientTool, ...], choice: Any) -> FunctionChoice:
    """Applies `tool_choice`. The agent keeps its own tools whatever the client chooses."""
    match choice:
        case None | "auto":
            return FunctionChoice(tools)
        case "none":
            return FunctionChoice()
        case "required":
            if not tools:
                raise HttpProblem(400, "tool_choice is required, but there are no tools", param="tool_choice")
            names = ", ".join(tool.name for tool in tools)
            return FunctionChoice(tools, f"Call one of these functions before you answer: {names}.")
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            chosen = tuple(tool for tool in tools if tool.name == name)
            if not chosen:
                raise HttpProblem(400, f"tool_choice names {name}, which is not among the tools", param="tool_choice")
            return FunctionChoice(chosen, f"Call the function {name} before you answer.")
        case _:
            raise HttpProblem(400, "tool_choice must be none, auto, required or one function", param="tool_choice")


Finish = Literal["stop", "length", "tool_calls"]


def finish(stop_reason: str, handed_over: bool) -> Finish:
    if handed_over:
        return "tool_calls"
    return "length" if stop_reason == "length" else "stop"


# The session.

KeyOf = Callable[[str | None, str | None], SessionKey]
"""The session meant by a key, an agent, both or neither; refuses agents that do not exist."""

PREFIX = "openclaw"
DEFAULT = "default"
_MODEL = compile_lazily(r"(?:openclaw[/:]|agent:)(?P<agent>[a-zA-Z0-9][a-zA-Z0-9_-]{0,63})\Z")
_PLAIN = compile_lazily(r"[a-z0-9][a-z0-9_.@+-]{0,99}\Z")
_CHANNEL = compile_lazily(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
WEB = "webchat"


class RequestTarget(Struct, frozen=True, kw_only=True):
    """The agent and session of a request."""

    key: SessionKey
    stable: bool
    """The client will use this session again."""
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


def resolve_target(
    call: HttpCall,
    key_of: KeyOf,
    *,
    model: str,
    user: str | None,
    run_id: str,
    family: Literal["openai", "openresponses"],
) -> RequestTarget:
    """The target of a request; `user` and the headers may name a session, otherwise it is a new one."""
    named = agent_in(model)  # checked also when the header decides: a wrong name is a mistake either way
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
    channel = (call.header("x-openclaw-message-channel") or WEB).lower()
    if not _CHANNEL.match(channel):
        raise HttpProblem(400, "x-openclaw-message-channel is not the name of a channel: use letters, digits, - and _")
    return RequestTarget(key=key, stable=stable, model=call.header("x-openclaw-model"), channel=channel)


def _plain(user: str) -> str:
    """`user` as one segment of a key: different names never map to one session."""
    return user if _PLAIN.match(user) else "sha256-" + hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


# The run.

QUIET_SECONDS = 15.0
"""After this long without output a waiting client gets a keep-alive."""
# Each request gets an answer of its own, so none is steered into another or merged with it.
_RULES = QueueRules(mode="followup", cap=20, drop="new")


class HttpBackend:
    """What the handlers ask of agents, sessions, tools and runs."""

    def __init__(self, app: App, toolset: Toolset, runs: RunService, inbox: Inbox, fanout: RunFanout) -> None:
        """`fanout` has what `runs` publish."""
        self.key_of: KeyOf = app.key
        self.clock = app.clock
        self.index = app.index
        self._app = app
        self._toolset = toolset
        self._runs = runs
        self._inbox = inbox
        self._fanout = fanout

    def agents(self) -> Sequence[str]:
        return agent_ids(self._app.live.config.agents)

    async def has_history(self, key: SessionKey) -> bool:
        """Whether something was said in a session before."""
        row = await self.index.get(key)
        return row is not None and (row.messages > 0 or row.status == "running")

    async def session_of(self, run_id: str) -> SessionKey | None:
        """The session an earlier run took place in."""
        entry = await self._inbox.get(run_id)
        return parse_session_key(entry.session_key) if entry else None

    def tool_names(self) -> frozenset[str]:
        """The agent's own tools."""
        return frozenset(tool.spec.name for tool in self._toolset.of())

    def tool_runner(self, key: SessionKey, without: Sequence[str]) -> ToolRunner:
        """The tools of a session, less those named."""
        return self._app.preparer.tool_runner(self._toolset, key, without=without)

    @asynccontextmanager
    async def asking(self, turn: RunRequest) -> AsyncIterator["HttpRun"]:
        """Runs `turn`; stops it when the block is left before its end."""
        with self._fanout.listening(turn.run_id) as events:
            try:
                await self._runs.submit(turn, rules=_RULES)
            except InvalidRequest as error:
                raise HttpProblem(429, error.message, "rate_limit_error", code="queue_full") from error
            try:
                yield HttpRun(events, StreamedText([tool.name for tool in turn.client_tools]))
            finally:
                if not events.settled:
                    await asyncio.shield(self._runs.abort(turn.key, turn.run_id))


def build_request(run_id: str, target: RequestTarget, asked: RequestedTurn, choice: FunctionChoice) -> RunRequest:
    return RunRequest(
        run_id=run_id,
        key=target.key,
        text=asked.text,
        images=asked.images,
        model=target.model,
        channel=target.channel,
        extra="\n\n".join(part for part in (asked.extra, choice.order) if part),
        client_tools=choice.tools,
    )


class HttpRun:
    """A run in progress, as its client follows it."""

    def __init__(self, events: RunListener, speech: StreamedText) -> None:
        self._events = events
        self.speech = speech

    async def pieces(self) -> AsyncIterator[str]:
        """The text as it comes, until the run is over; an empty piece after a long pause."""
        while self.speech.outcome is None:
            told = await self._events.next(QUIET_SECONDS)
            text = "" if told is None else self.speech.take(told)
            if text or told is None:
                yield text

    async def beginning(self) -> str:
        """The text until a model was asked: whatever fails before that still gets an HTTP status of its own."""
        while not self.speech.began:
            told = await self._events.next(QUIET_SECONDS)
            if told is None:
                return ""
            if text := self.speech.take(told):
                return text
        if self.speech.outcome is not None:
            self.check()
        return ""

    async def end(self) -> RunOutcome:
        """The outcome; raises the problem of a run that failed."""
        async for _ in self.pieces():
            pass
        return self.check()

    def check(self) -> RunOutcome:
        outcome = self.speech.outcome
        if outcome is None:
            raise HttpProblem(500, "the run ended without an outcome", problems.FAILED)
        if outcome.status == "error":
            raise problems.from_outcome(outcome)
        return outcome
