"""The assistant for editors: an ACP agent on standard input and output. Each of an editor's sessions is one of ours."""

import asyncio
import contextvars
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Image
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Decision
from openclaw.process.tasks import SystemClock
from openclaw.protocol.client import CallFailed, CallTimeout, ConnectionLost, EventGap, GatewayClient
from openclaw.runs.request import RunRequest
from openclaw.version import __version__

if TYPE_CHECKING:
    from acp.schema import InitializeResponse, LoadSessionResponse, NewSessionResponse, PromptResponse


log = logging.getLogger(__name__)

INSTALL = "`openclaw acp` needs the extra `acp`: install it with: pip install 'openclaw-py[acp]'"
SHOWN = 20_000
Kind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
KINDS: dict[str, Kind] = {
    "read": "read",
    "ls": "read",
    "image": "read",
    "memory_get": "read",
    "write": "edit",
    "edit": "edit",
    "apply_patch": "edit",
    "grep": "search",
    "find": "search",
    "memory_search": "search",
    "web_search": "search",
    "exec": "execute",
    "process": "execute",
    "web_fetch": "fetch",
    "browser": "fetch",
}
_session: contextvars.ContextVar[str] = contextvars.ContextVar("acp_session", default="")


@contextmanager
def in_session(session_id: str) -> Iterator[None]:
    """Questions that are asked inside are asked in this session of the editor."""
    before = _session.set(session_id)
    try:
        yield
    finally:
        _session.reset(before)


class EditorApprover:
    """Asks the person at the editor, in the session whose turn needs the answer."""

    def __init__(self) -> None:
        self.client: Any = None

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        from acp import RequestError
        from acp.schema import PermissionOption, ToolCallUpdate

        options = [
            PermissionOption(option_id="allow-once", name="Allow once", kind="allow_once"),
            PermissionOption(option_id="deny", name="Reject", kind="reject_once"),
        ]
        if request.standing:
            always = PermissionOption(option_id="allow-always", name="Always allow", kind="allow_always")
            options.insert(1, always)
        call = ToolCallUpdate(
            tool_call_id=f"approval-{request.id}",
            title=request.command[:500],
            kind=KINDS.get(request.tool, "other"),
            status="pending",
            raw_input={"command": request.command, "cwd": request.cwd, "why": request.why},
        )
        try:
            answer = await self.client.request_permission(session_id=_session.get(), tool_call=call, options=options)
        except RequestError as error:
            return ApprovalAnswer("deny", why=f"the editor could not ask ({error})")
        chosen = getattr(answer.outcome, "option_id", "deny")
        known: dict[str, Decision] = {"allow-once": "allow-once", "allow-always": "allow-always"}
        return ApprovalAnswer(known.get(chosen, "deny"), by="editor")


class EditorText(Struct, frozen=True):
    """Something the assistant says, or with `aside` thinks."""

    text: str
    aside: bool = False


class EditorTurnStarted(Struct, frozen=True):
    """A tool starts."""

    id: str
    name: str
    arguments: Mapping[str, Any]


class Doing(Struct, frozen=True):
    """What a tool shows meanwhile, and at its end."""

    id: str
    text: str
    status: Literal["in_progress", "completed", "failed"] = "in_progress"


class EditorTurnEnded(Struct, frozen=True):
    """The turn is over, and why, in the protocol's words."""

    reason: str


Shown = EditorText | EditorTurnStarted | Doing | EditorTurnEnded


class EditorAgent:
    """What an editor talks to."""

    def __init__(self, session: "EditorSession", approver: EditorApprover) -> None:
        self._session = session
        self._approver = approver
        self._places: dict[str, str] = {}
        self._running: dict[str, asyncio.Task[str]] = {}
        self._client: Any = None

    def on_connect(self, conn: Any) -> None:
        self._client = self._approver.client = conn

    async def initialize(self, protocol_version: int, **given: Any) -> "InitializeResponse":
        from acp import PROTOCOL_VERSION
        from acp.schema import AgentCapabilities, Implementation, InitializeResponse, PromptCapabilities

        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_capabilities=AgentCapabilities(
                load_session=True, prompt_capabilities=PromptCapabilities(image=True, embedded_context=True)
            ),
            agent_info=Implementation(name="openclaw", title="OpenClaw", version=__version__),
        )

    async def authenticate(self, method_id: str, **given: Any) -> None:
        return None

    async def new_session(self, cwd: str, **given: Any) -> "NewSessionResponse":
        from acp.schema import NewSessionResponse

        session_id = str(uuid.uuid4())
        self._places[session_id] = cwd
        return NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd: str, session_id: str, **given: Any) -> "LoadSessionResponse":
        """Shows an earlier conversation again, message by message."""
        from acp import RequestError, update_agent_message_text, update_user_message_text
        from acp.schema import LoadSessionResponse

        said = await self._session.said(self._key(session_id))
        if said is None:
            raise RequestError.invalid_params({"sessionId": f"there is no session {session_id}"})
        self._places[session_id] = cwd
        for role, text in said:
            if text:
                shown = update_user_message_text if role == "user" else update_agent_message_text
                await self._update(session_id, shown(text))
        return LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **given: Any) -> "PromptResponse":
        from acp import RequestError
        from acp.schema import PromptResponse

        if session_id not in self._places:
            raise RequestError.invalid_params({"sessionId": "start a session first"})
        if session_id in self._running:
            raise RequestError.invalid_params({"sessionId": "it is busy: cancel first, or wait"})
        text, images = _asked(prompt)
        turn = RunRequest(
            run_id=str(uuid.uuid4()),
            key=self._key(session_id),
            text=text,
            images=images,
            place=self._places[session_id],
        )
        task = asyncio.create_task(self._drive(session_id, turn), name=f"acp:{session_id}")
        self._running[session_id] = task
        try:
            reason: Any = await task
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()
                raise
            reason = "cancelled"
        except OpenClawError as error:
            raise RequestError.internal_error({"reason": error.message}) from error
        finally:
            del self._running[session_id]
        return PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **given: Any) -> None:
        task = self._running.get(session_id)
        if task is not None:
            task.cancel()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        from acp import RequestError

        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return None

    def _key(self, session_id: str) -> SessionKey:
        return SessionKey(self._session.agent, f"acp:{session_id}")

    async def _drive(self, session_id: str, turn: RunRequest) -> str:
        """Runs the turn and shows it; gives why it ended, in the protocol's words."""
        from acp import (
            start_tool_call,
            text_block,
            tool_content,
            update_agent_message_text,
            update_agent_thought_text,
            update_tool_call,
        )

        _session.set(session_id)
        reason = "end_turn"
        async with aclosing(self._session.run(session_id, turn)) as events:
            async for event in events:
                update: Any = None
                match event:
                    case EditorText(text=text, aside=aside):
                        update = update_agent_thought_text(text) if aside else update_agent_message_text(text)
                    case EditorTurnStarted(id=call_id, name=name, arguments=arguments):
                        title = f"{name} {_short(arguments)}".strip()
                        kind = KINDS.get(name, "other")
                        given = dict(arguments)
                        update = start_tool_call(call_id, title, kind=kind, status="in_progress", raw_input=given)
                    case Doing(id=call_id, text=text, status=status):
                        shown = [tool_content(text_block(text))]
                        update = update_tool_call(call_id, status=status, content=shown)
                    case EditorTurnEnded(reason=reason):
                        continue
                await self._update(session_id, update)
        return reason

    async def _update(self, session_id: str, update: Any) -> None:
        await self._client.session_update(session_id=session_id, update=update)


def _asked(prompt: Sequence[Any]) -> tuple[str, tuple[Image, ...]]:
    """What an editor sends, as words and pictures; files come along as text, links as addresses."""
    words: list[str] = []
    images: list[Image] = []
    for block in prompt:
        match block.type:
            case "text":
                words.append(block.text)
            case "image":
                images.append(Image(data=block.data, mime_type=block.mime_type))
            case "resource" if getattr(block.resource, "text", None) is not None:
                words.append(f"[{block.resource.uri}]\n{block.resource.text}")
            case "resource_link":
                words.append(f"[{block.uri}]")
            case other:
                words.append(f"[{other}: cannot be read here]")
    return "\n\n".join(words), tuple(images)


def _short(arguments: Mapping[str, Any]) -> str:
    text = " ".join(str(value).replace("\n", " ") for value in arguments.values())
    return text if len(text) <= 80 else text[:79] + "…"


Connect = Callable[[], AbstractAsyncContextManager[GatewayClient]]


def check_installed() -> None:
    if find_spec("acp") is None:
        raise Unavailable(INSTALL)


async def serve(connect: Connect, agent_id: str | None) -> None:
    """Serves until the editor hangs up; `connect` makes a client of the gateway, again when the connection broke."""
    from acp import run_agent

    approver = EditorApprover()
    async with editor_session(connect, approver, agent_id) as session:
        agent: Any = EditorAgent(session, approver)
        await run_agent(agent)


AWAY_SECONDS = 15.0
"""A prompt waits so long for a gateway that restarts."""
ENDING_SECONDS = 10.0
LONGEST_HISTORY = 1_000
PAUSE = 0.5


class EditorSession:
    """The gateway behind an editor, over one connection that is taken up again when it breaks."""

    def __init__(self, connect: Connect, approver: EditorApprover, clock: Clock) -> None:
        self._connect = connect
        self._approver = approver
        self._clock = clock
        self._client: GatewayClient | None = None
        self._there = asyncio.Event()
        self._runs: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}
        self._sessions: dict[str, str] = {}
        """The editor's id of each of our sessions."""
        self._asking: set[asyncio.Task[None]] = set()
        self.agent = ""

    async def keep(self) -> None:
        """Holds the connection until it is cancelled."""
        try:
            while True:
                try:
                    await self._listen()
                except OpenClawError as error:
                    if self._client is None and not isinstance(error, CallFailed | ConnectionLost | CallTimeout):
                        raise  # a gateway in this process that cannot start: waiting does not mend it
                    log.warning("%s", error.message)
                self._there.clear()
                for queue in self._runs.values():
                    queue.put_nowait(None)
                await self._clock.sleep(PAUSE)
        finally:
            for task in self._asking:
                task.cancel()
            await asyncio.gather(*self._asking, return_exceptions=True)

    async def _listen(self) -> None:
        async with self._connect() as client:
            self._client = client
            self._there.set()
            async with aclosing(client.events()) as events:
                async for event in events:
                    if not isinstance(event, EventGap) and isinstance(event.payload, dict):
                        self._take(event.event, event.payload)

    def _take(self, name: str, payload: dict[str, Any]) -> None:
        if name == "agent" and (queue := self._runs.get(str(payload.get("runId")))) is not None:
            queue.put_nowait(payload)
        elif name == "exec.approval.requested":
            session = self._sessions.get(str((payload.get("request") or {}).get("sessionKey")))
            if session is not None:
                task = asyncio.create_task(self._ask(session, payload), name=f"acp approval:{payload.get('id')}")
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)

    async def _ask(self, session: str, payload: dict[str, Any]) -> None:
        """Puts the gateway's question to the person at the editor; somebody else may be quicker."""
        request = payload.get("request") or {}
        with in_session(session):
            answer = await self._approver.decide(
                ApprovalRequest(
                    id=str(payload.get("id")),
                    tool="exec",
                    command=str(request.get("command")),
                    cwd=str(request.get("cwd")),
                    agent_id=str(request.get("agentId")),
                    session_key=str(request.get("sessionKey")),
                    why=str(request.get("warningText") or ""),
                    standing="allow-always" in (request.get("allowedDecisions") or ()),
                )
            )
        with suppress(OpenClawError):
            given = {"id": payload.get("id"), "decision": answer.decision}
            await (await self.connected()).call("exec.approval.resolve", given)

    async def first(self, keeping: "asyncio.Task[None]") -> GatewayClient:
        """The first connection; raises what ended `keeping` instead."""
        connecting = asyncio.create_task(self.connected())
        both: set[asyncio.Task[Any]] = {connecting, keeping}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if keeping.done():
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            keeping.result()
        return await connecting

    async def connected(self) -> GatewayClient:
        try:
            async with asyncio.timeout(AWAY_SECONDS):
                await self._there.wait()
        except TimeoutError as error:
            raise Unavailable("the gateway is away: start it again (openclaw gateway run), then go on") from error
        assert self._client is not None
        return self._client

    async def said(self, key: SessionKey) -> Sequence[tuple[Literal["user", "assistant"], str]] | None:
        """A conversation so far; None when there is none."""
        client = await self.connected()
        found = await client.call("chat.history", {"sessionKey": str(key), "limit": LONGEST_HISTORY})
        if not found.get("sessionInfo"):
            return None
        return [
            (message["role"], _text(message.get("content")))
            for message in found["messages"]
            if message.get("role") in ("user", "assistant")
        ]

    async def run(self, session_id: str, turn: RunRequest) -> AsyncGenerator[Shown, None]:
        """Carries a turn out; stopped when the reader is."""
        client = await self.connected()
        self._sessions[str(turn.key)] = session_id
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._runs[turn.run_id] = queue
        params = {
            "message": turn.text,
            "sessionKey": str(turn.key),
            "idempotencyKey": turn.run_id,
            **({"cwd": turn.place} if turn.place else {}),
            **({"attachments": [_attached(each) for each in turn.images]} if turn.images else {}),
        }
        running = asyncio.create_task(client.call("agent", params, timeout=None, final=True), name="acp turn")
        settled = False
        try:
            said = False
            async for event in _until(queue, running):
                if (shown := _shown(event)) is not None:
                    said = said or isinstance(shown, EditorText)
                    yield shown
            try:
                final = await running
            except CallFailed as error:
                settled = True
                raise Unavailable(error.message) from error
            settled = True
            if not said:  # a command, answered without a run
                for payload in (final.get("result") or {}).get("payloads") or ():
                    yield EditorText(str(payload.get("text") or ""))
        finally:
            self._runs.pop(turn.run_id, None)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if not settled:
                await _stop(client, turn)


async def _until(
    queue: "asyncio.Queue[dict[str, Any] | None]", running: "asyncio.Task[Any]"
) -> AsyncIterator[dict[str, Any]]:
    """The events of a run up to its last one, or to the answer of a call that began none."""
    seen = False
    while True:
        getting = asyncio.ensure_future(queue.get())
        both: set[asyncio.Future[Any]] = {getting} if seen else {getting, running}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not getting.done():
                getting.cancel()
        if not getting.done() or getting.cancelled():
            return
        event = getting.result()
        if event is None:
            raise Unavailable("the gateway went away in the middle of the turn: ask again when it is back")
        seen = True
        yield event
        if event.get("stream") == "lifecycle" and (event.get("data") or {}).get("phase") in ("end", "error"):
            return


async def _stop(client: GatewayClient, turn: RunRequest) -> None:
    """Stops the run over there, and waits until it has ended."""
    with suppress(OpenClawError):
        await client.call("chat.abort", {"sessionKey": str(turn.key), "runId": turn.run_id})
        await client.call("agent.wait", {"runId": turn.run_id, "timeoutMs": round(ENDING_SECONDS * 1000)})


def _shown(event: dict[str, Any]) -> Shown | None:
    data = event.get("data") or {}
    match event.get("stream"), data.get("phase"):
        case "assistant", _:
            return EditorText(str(data.get("delta") or "")) if data.get("delta") else None
        case "thinking", _:
            return EditorText(str(data.get("delta") or ""), aside=True) if data.get("delta") else None
        case "tool", "start":
            return EditorTurnStarted(str(data.get("toolCallId")), str(data.get("name")), data.get("args") or {})
        case "tool", "update":
            return Doing(str(data.get("toolCallId")), _text((data.get("partialResult") or {}).get("content"))[-SHOWN:])
        case "tool", "result":
            text = _text((data.get("result") or {}).get("content"))[:SHOWN]
            return Doing(str(data.get("toolCallId")), text, "failed" if data.get("isError") else "completed")
        case "lifecycle", "error":
            return EditorText(f"\n{data.get('error')}")
        case "lifecycle", "end" if data.get("stopReason") == "length":
            return EditorTurnEnded("max_tokens")
    return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block, dict) and block.get("type") == "text")


def _attached(image: Image) -> dict[str, str]:
    return {"type": "image", "mimeType": image.mime_type, "content": image.data}


@asynccontextmanager
async def editor_session(
    connect: Connect, approver: EditorApprover, agent_id: str | None
) -> AsyncIterator[EditorSession]:
    """A session that is connected for the length of the block."""
    session = EditorSession(connect, approver, SystemClock())
    keeping = asyncio.create_task(session.keep(), name="acp gateway")
    try:
        client = await session.first(keeping)
        known = await client.call("agent.identity.get", {"agentId": agent_id} if agent_id else {})
        session.agent = str(known["agentId"])
        yield session
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
