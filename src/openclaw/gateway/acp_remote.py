"""An editor's turns, carried out by the running gateway: with its sessions, sub-agents and channels."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Literal

from msgspec import structs

from openclaw.core.approval import ApprovalRequest
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Image
from openclaw.gateway.acp_serve import (
    SHOWN,
    Doing,
    EditorApprover,
    EditorText,
    EditorTurnEnded,
    EditorTurnStarted,
    Shown,
    in_session,
)
from openclaw.gateway.clock import SystemClock
from openclaw.gateway.reach import find, introduction
from openclaw.gateway.surroundings import Environment
from openclaw.turns.turn import RunRequest
from openclaw.wire.client import CallFailed, EventGap, GatewayClient, connect

log = logging.getLogger(__name__)

AWAY_SECONDS = 15.0
"""A prompt waits so long for a gateway that restarts."""
ENDING_SECONDS = 10.0
LONGEST_HISTORY = 1_000
PAUSE = 0.5


class RemoteEditorSession:
    """A `Mind` in the gateway, over one connection that is taken up again when it breaks."""

    def __init__(self, surroundings: Environment, approver: EditorApprover, clock: Clock) -> None:
        self._surroundings = surroundings
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
        target = find(self._surroundings)
        card = structs.replace(introduction(target), caps=("tool-events",))
        async with connect(target.url, card, pinned=target.fingerprint) as client:
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

    async def connected(self) -> GatewayClient:
        try:
            async with asyncio.timeout(AWAY_SECONDS):
                await self._there.wait()
        except TimeoutError as error:
            raise Unavailable("the gateway is away: start it again (openclaw gateway run), then go on") from error
        assert self._client is not None
        return self._client

    async def said(self, key: SessionKey) -> Sequence[tuple[Literal["user", "assistant"], str]] | None:
        client = await self.connected()
        found = await client.call("chat.history", {"sessionKey": str(key), "limit": LONGEST_HISTORY})
        if not found.get("sessionInfo"):
            return None
        return [
            (message["role"], _text(message.get("content")))
            for message in found["messages"]
            if message.get("role") in ("user", "assistant")
        ]

    async def run(self, session_id: str, turn: RunRequest) -> AsyncIterator[Shown]:
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
async def through_gateway(
    surroundings: Environment, approver: EditorApprover, agent_id: str | None
) -> AsyncIterator[RemoteEditorSession]:
    """The gateway as a `Mind`, for the length of the block."""
    mind = RemoteEditorSession(surroundings, approver, SystemClock())
    keeping = asyncio.create_task(mind.keep(), name="acp gateway")
    try:
        client = await mind.connected()
        known = await client.call("agent.identity.get", {"agentId": agent_id} if agent_id else {})
        mind.agent = str(known["agentId"])
        yield mind
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
