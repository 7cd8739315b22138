"""The assistant for editors: an ACP agent on standard input and output. Each of an editor's sessions is one of ours.

Importing it needs the extra `acp`.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import Any, Literal

from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.process.tasks import SystemClock
from openclaw.protocol.client import EventGap, GatewayClient
from openclaw.protocol.connect_request import CallFailed, CallTimeout, ConnectionLost
from openclaw.version import __version__

try:
    import acp
    from acp import RequestError, schema
except ModuleNotFoundError as error:
    raise Unavailable(
        "`openclaw acp` needs the extra `acp`: install it with: pip install 'openclaw-py[acp]'"
    ) from error

log = logging.getLogger(__name__)

SHOWN = 20_000
AWAY_SECONDS = 15.0
"""A prompt waits so long for a gateway that restarts."""
ENDING_SECONDS = 10.0
LONGEST_HISTORY = 1_000
PAUSE = 0.5

Kind = Literal["read", "edit", "search", "execute", "fetch", "other"]
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("read", "ls", "image", "memory_get"), "read"),
    **dict.fromkeys(("write", "edit", "apply_patch"), "edit"),
    **dict.fromkeys(("grep", "find", "memory_search", "web_search"), "search"),
    **dict.fromkeys(("exec", "process"), "execute"),
    **dict.fromkeys(("web_fetch", "browser"), "fetch"),
}
OPTIONS = {
    "allow-once": schema.PermissionOption(option_id="allow-once", name="Allow once", kind="allow_once"),
    "allow-always": schema.PermissionOption(option_id="allow-always", name="Always allow", kind="allow_always"),
    "deny": schema.PermissionOption(option_id="deny", name="Reject", kind="reject_once"),
}

Connect = Callable[[], AbstractAsyncContextManager[GatewayClient]]


class EditorAgent:
    """What an editor talks to."""

    def __init__(self, session: "EditorSession") -> None:
        self._session = session
        self._cwds: dict[str, str] = {}
        self._running: dict[str, asyncio.Task[str]] = {}
        self._client: Any = None

    def on_connect(self, conn: Any) -> None:
        self._client = self._session.editor = conn

    async def initialize(self, protocol_version: int, **given: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True, prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True)
            ),
            agent_info=schema.Implementation(name="openclaw", title="OpenClaw", version=__version__),
        )

    async def authenticate(self, method_id: str, **given: Any) -> None:
        return None

    async def new_session(self, cwd: str, **given: Any) -> schema.NewSessionResponse:
        session_id = str(uuid.uuid4())
        self._cwds[session_id] = cwd
        return schema.NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd: str, session_id: str, **given: Any) -> schema.LoadSessionResponse:
        """Shows an earlier conversation again, message by message."""
        messages = await self._session.history(session_id)
        if messages is None:
            raise RequestError.invalid_params({"sessionId": f"there is no session {session_id}"})
        self._cwds[session_id] = cwd
        for message in messages:
            if text := _text(message.get("content")):
                is_user = message["role"] == "user"
                update: Any = acp.update_user_message_text if is_user else acp.update_agent_message_text
                await self._client.session_update(session_id=session_id, update=update(text))
        return schema.LoadSessionResponse()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **given: Any) -> schema.PromptResponse:
        if session_id not in self._cwds:
            raise RequestError.invalid_params({"sessionId": "start a session first"})
        if session_id in self._running:
            raise RequestError.invalid_params({"sessionId": "it is busy: cancel first, or wait"})
        text, images = _read_prompt(prompt)
        asked: dict[str, Any] = {"message": text}
        if self._cwds[session_id]:
            asked["cwd"] = self._cwds[session_id]
        if images:
            asked["attachments"] = images
        task = asyncio.create_task(self._run(session_id, asked), name=f"acp:{session_id}")
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
        return schema.PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **given: Any) -> None:
        task = self._running.get(session_id)
        if task is not None:
            task.cancel()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return None

    async def _run(self, session_id: str, asked: dict[str, Any]) -> str:
        """Runs the turn and shows it; gives why it ended, in the protocol's words."""
        reason = "end_turn"
        async with aclosing(self._session.run(session_id, asked)) as updates:
            async for update in updates:
                if isinstance(update, str):
                    reason = update
                else:
                    await self._client.session_update(session_id=session_id, update=update)
        return reason


def _read_prompt(prompt: Sequence[Any]) -> tuple[str, list[dict[str, str]]]:
    """What an editor sends, as words and pictures; files come along as text, links as addresses."""
    words: list[str] = []
    images: list[dict[str, str]] = []
    for block in prompt:
        match block.type:
            case "text":
                words.append(block.text)
            case "image":
                images.append({"type": "image", "mimeType": block.mime_type, "content": block.data})
            case "resource" if getattr(block.resource, "text", None) is not None:
                words.append(f"[{block.resource.uri}]\n{block.resource.text}")
            case "resource_link":
                words.append(f"[{block.uri}]")
            case other:
                words.append(f"[{other}: cannot be read here]")
    return "\n\n".join(words), images


class EditorSession:
    """The gateway behind an editor, over one connection that is taken up again when it breaks."""

    def __init__(self, connect: Connect, clock: Clock) -> None:
        self._connect = connect
        self._clock = clock
        self._client: GatewayClient | None = None
        self._there = asyncio.Event()
        self._runs: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}
        self._sessions: dict[str, str] = {}
        """The editor's id of each of our sessions."""
        self._asking: set[asyncio.Task[None]] = set()
        self.agent = ""
        self.editor: Any = None

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
                        self._hear(event.event, event.payload)

    def _hear(self, name: str, payload: dict[str, Any]) -> None:
        if name == "agent" and (queue := self._runs.get(str(payload.get("runId")))) is not None:
            queue.put_nowait(payload)
        elif name == "exec.approval.requested":
            request = payload.get("request") or {}
            session_id = self._sessions.get(str(request.get("sessionKey")))
            if session_id is not None:
                approval_id = str(payload.get("id"))
                task = asyncio.create_task(self._ask(session_id, approval_id, request), name=f"acp:{approval_id}")
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)

    async def _ask(self, session_id: str, approval_id: str, request: dict[str, Any]) -> None:
        """Puts the gateway's question to the person at the editor; somebody else may be quicker."""
        command, why = str(request.get("command")), str(request.get("warningText") or "")
        always = "allow-always" in (request.get("allowedDecisions") or ())
        call = schema.ToolCallUpdate(
            tool_call_id=f"approval-{approval_id}",
            title=command[:500],
            kind="execute",
            status="pending",
            raw_input={"command": command, "cwd": str(request.get("cwd")), "why": why},
        )
        options = [option for name, option in OPTIONS.items() if always or name != "allow-always"]
        decision = "deny"
        try:
            answer = await self.editor.request_permission(session_id=session_id, tool_call=call, options=options)
            decision = getattr(answer.outcome, "option_id", "deny")
        except RequestError as error:
            log.warning("the editor could not ask (%s)", error)
        with suppress(OpenClawError):
            given = {"id": approval_id, "decision": decision if decision in OPTIONS else "deny"}
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

    def _key(self, session_id: str) -> str:
        return f"agent:{self.agent}:acp:{session_id}"

    async def history(self, session_id: str) -> list[dict[str, Any]] | None:
        """A conversation so far; None when there is none."""
        client = await self.connected()
        found = await client.call("chat.history", {"sessionKey": self._key(session_id), "limit": LONGEST_HISTORY})
        if not found.get("sessionInfo"):
            return None
        return [message for message in found["messages"] if message.get("role") in ("user", "assistant")]

    async def run(self, session_id: str, asked: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Carries a turn out and yields updates for the editor, or a word for why it ended. Stopped with its reader."""
        client = await self.connected()
        key, run_id = self._key(session_id), str(uuid.uuid4())
        self._sessions[key] = session_id
        queue = self._runs[run_id] = asyncio.Queue()
        params = {**asked, "sessionKey": key, "idempotencyKey": run_id}
        running = asyncio.create_task(client.call("agent", params, timeout=None, final=True), name="acp turn")
        settled = False
        try:
            said = False
            async for event in _until(queue, running):
                if (update := _update_of(event)) is not None:
                    said = said or isinstance(update, schema.AgentMessageChunk | schema.AgentThoughtChunk)
                    yield update
            try:
                final = await running
            except CallFailed as error:
                settled = True
                raise Unavailable(error.message) from error
            settled = True
            if not said:  # a command, answered without a run
                for payload in (final.get("result") or {}).get("payloads") or ():
                    yield acp.update_agent_message_text(str(payload.get("text") or ""))
        finally:
            self._runs.pop(run_id, None)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if not settled:
                # Stops the run over there, and waits until it has ended.
                with suppress(OpenClawError):
                    await client.call("chat.abort", {"sessionKey": key, "runId": run_id})
                    await client.call("agent.wait", {"runId": run_id, "timeoutMs": round(ENDING_SECONDS * 1000)})


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


def _update_of(event: dict[str, Any]) -> Any:
    """An event of a run as an update for the editor; a word when it is why the turn ended."""
    data = event.get("data") or {}
    match event.get("stream"), data.get("phase"):
        case "assistant", _ if data.get("delta"):
            return acp.update_agent_message_text(str(data["delta"]))
        case "thinking", _ if data.get("delta"):
            return acp.update_agent_thought_text(str(data["delta"]))
        case "tool", "start":
            name, given = str(data.get("name")), dict(data.get("args") or {})
            text = " ".join(str(value).replace("\n", " ") for value in given.values())
            title = f"{name} {text if len(text) <= 80 else text[:79] + '…'}".strip()
            call_id, kind = str(data.get("toolCallId")), KINDS.get(name, "other")
            return acp.start_tool_call(call_id, title, kind=kind, status="in_progress", raw_input=given)
        case "tool", "update":
            return _progress(data, _text((data.get("partialResult") or {}).get("content"))[-SHOWN:], "in_progress")
        case "tool", "result":
            text = _text((data.get("result") or {}).get("content"))[:SHOWN]
            return _progress(data, text, "failed" if data.get("isError") else "completed")
        case "lifecycle", "error":
            return acp.update_agent_message_text(f"\n{data.get('error')}")
        case "lifecycle", "end" if data.get("stopReason") == "length":
            return "max_tokens"
    return None


def _progress(data: dict[str, Any], text: str, status: Literal["in_progress", "completed", "failed"]) -> Any:
    shown = [acp.tool_content(acp.text_block(text))]
    return acp.update_tool_call(str(data.get("toolCallId")), status=status, content=shown)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block, dict) and block.get("type") == "text")


@asynccontextmanager
async def editor_session(connect: Connect, agent_id: str | None) -> AsyncIterator[EditorSession]:
    """A session that is connected for the length of the block."""
    session = EditorSession(connect, SystemClock())
    keeping = asyncio.create_task(session.keep(), name="acp gateway")
    try:
        client = await session.first(keeping)
        known = await client.call("agent.identity.get", {"agentId": agent_id} if agent_id else {})
        session.agent = str(known["agentId"])
        yield session
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def serve(connect: Connect, agent_id: str | None) -> None:
    """Serves until the editor hangs up; `connect` makes a client of the gateway, again when the connection broke."""
    async with editor_session(connect, agent_id) as session:
        agent: Any = EditorAgent(session)
        await acp.run_agent(agent)
