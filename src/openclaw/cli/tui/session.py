"""The connection of a chat to its gateway: connects, reconnects, and sends each message exactly once.

A view waits for `changed` and reads `talk`, `questions`, `info` and `connection`.
"""

import asyncio
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Literal

from openclaw.cli.client import given
from openclaw.cli.talk.message import RUN_CAPS, connect_to
from openclaw.cli.tui.conversation import ChatConversation, Pending
from openclaw.cli.tui.lines import ChatArguments
from openclaw.core.clock import Clock
from openclaw.core.commands import is_command
from openclaw.core.errors import OpenClawError
from openclaw.process.environment import Environment
from openclaw.protocol.client import EventGap, GatewayClient
from openclaw.protocol.connect_request import CallFailed, CallTimeout, ConnectionLost

FIRST_WAIT = 0.3
LONGEST_WAIT = 5.0
PAGE = 60
PAGE_BYTES = 2_000_000
MESSAGE_CHARS = 100_000
RESULT_WAIT = 120.0
"""A command such as /compact may take a while."""

Connection = Literal["connecting", "connected", "away", "pairing", "refused"]


class ChatDisconnected(OpenClawError):
    """There is no connection at the moment."""

    code = "UNAVAILABLE"


class ChatSession:
    """One terminal's session with a gateway."""

    def __init__(self, chosen: ChatArguments, environment: Environment, clock: Clock) -> None:
        self.talk = ChatConversation()
        self.changed = asyncio.Event()
        self.connection: Connection = "connecting"
        self.trouble = ""
        self.address = ""
        """Where the gateway is."""
        self.questions: list[Mapping[str, Any]] = []
        self.info: Mapping[str, Any] = {}
        """The session's row: model, tokens, cost."""
        self.defaults: Mapping[str, Any] = {}
        self.commands: list[Mapping[str, Any]] = []
        self._chosen = chosen
        self._environment = environment
        self._clock = clock
        self._key = chosen.session_key or "main"
        self._agent = chosen.agent_id
        self._client: GatewayClient | None = None
        self._sending = asyncio.Lock()
        self._let_in = False
        """Whether a gateway ever did; who refuses us later may be another program on its port."""

    # Connection.

    async def keep(self) -> None:
        """Stays connected until it is cancelled, or the gateway refuses us from the start."""
        wait = FIRST_WAIT
        while True:
            try:
                target = self._chosen.target(self._environment)
                self.address = target.url
                async with connect_to(target, caps=RUN_CAPS) as client:
                    wait = FIRST_WAIT
                    await self._converse(client)
            except CallFailed as error:
                if error.reason == "PAIRING_REQUIRED":
                    # Somebody approves this device at the gateway; the next attempt is let in.
                    self._become("pairing", error.message)
                elif not self._let_in:
                    self._become("refused", error.message)
                    return
                else:
                    self._become("away", error.message)
            except OpenClawError as error:
                self._become("away", error.message)
            finally:
                self._client = None
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _converse(self, client: GatewayClient) -> None:
        await client.call("sessions.subscribe", {})
        if self._chosen.skills:
            await client.call("skills.offer", {"paths": list(self._chosen.skills)})
        self._client, self._let_in = client, True
        await self._load()
        self.commands = (await client.call("commands.list", {})).get("commands") or []
        self.questions = list(await client.call("exec.approval.list", {}))
        self._become("connected", "")
        flushing = asyncio.create_task(self._flush(), name="unsent messages")
        try:
            async with aclosing(client.events()) as events:
                async for event in events:
                    if isinstance(event, EventGap):
                        await self._load()
                    elif isinstance(event.payload, Mapping):
                        await self._hear(event.event, event.payload)
                    self.changed.set()
        finally:
            flushing.cancel()
            await asyncio.wait((flushing,))

    def _become(self, connection: Connection, trouble: str) -> None:
        self.connection, self.trouble = connection, trouble
        self.changed.set()

    async def _load(self) -> None:
        history = await self._call("chat.history", {**self._where(), **_page(0)})
        self.talk.load(history)
        self._key, self._agent = self.talk.key, None
        self.info = history.get("sessionInfo") or {}
        self.defaults = history.get("defaults") or {}
        self.changed.set()

    async def _hear(self, event: str, payload: Mapping[str, Any]) -> None:
        if event in ("exec.approval.requested", "exec.approval.resolved"):
            others = [each for each in self.questions if each.get("id") != payload.get("id")]
            self.questions = [*others, payload] if event.endswith("requested") else others
        elif event == "sessions.changed" and payload.get("sessionKey") == self.talk.key:
            if payload.get("reason") in ("reset", "delete", "compact", "inject"):
                await self._load()
            elif isinstance(row := payload.get("session"), Mapping):
                self.info = row
            elif payload.get("phase") in ("start", "end", "error"):
                await self.look()
        else:
            self.talk.hear(event, payload)
            if (
                event == "chat"
                and payload.get("state") in ("aborted", "error")
                and payload.get("sessionKey") == self._key
            ):
                # The partial text of an aborted run is recorded after its end.
                await self._load()

    async def _call(self, method: str, params: Any, limit: float | None = 30.0) -> Any:
        if self._client is None:
            raise ChatDisconnected("the gateway is away: this works when it is back")
        return await self._client.call(method, params, timeout=limit)

    def _where(self) -> dict[str, Any]:
        return {"sessionKey": self._key, **({"agentId": self._agent} if self._agent else {})}

    # Actions.

    async def send(self, text: str, images: tuple[Mapping[str, Any], ...] = ()) -> None:
        """Sends a message: now, or when the gateway is back."""
        self.talk.pending.append(Pending(run_id=str(uuid.uuid4()), text=text, images=images))
        self.changed.set()
        await self._flush()

    async def _flush(self) -> None:
        """Sends what has not arrived. Repeating a message is safe: the gateway knows it by its idempotency key."""
        async with self._sending:
            for message in list(self.talk.pending):
                if message.problem or self._client is None or message not in self.talk.pending:
                    continue
                if message.sent and is_command(message.text):
                    self.talk.marks(message.run_id, problem="the connection was lost before it was answered")
                    continue
                try:
                    await self._deliver(message)
                except (ConnectionLost, ChatDisconnected, CallTimeout):
                    return
                except OpenClawError as error:
                    self.talk.marks(message.run_id, problem=error.message)
                self.changed.set()

    async def _deliver(self, message: Pending) -> None:
        again = message.sent
        params: dict[str, Any] = {**self._where(), "message": message.text, "idempotencyKey": message.run_id}
        if message.images:
            params["attachments"] = list(message.images)
        if self._chosen.thinking:
            params["thinking"] = self._chosen.thinking
        joins = bool(self.talk.running) and not is_command(message.text)
        method = "chat.send" if joins or not message.text.strip() else "agent"
        if method == "agent":
            params |= given(cwd=str(self._environment.cwd), model=self._chosen.model or None)
        self.talk.marks(message.run_id, sent=True)
        self.changed.set()
        answer = await self._call(method, params, RESULT_WAIT)
        status = answer.get("status")
        if method == "agent" and status == "ok":
            payloads = (answer.get("result") or {}).get("payloads") or []
            self.talk.answered(message.run_id, "\n".join(str(each.get("text") or "") for each in payloads))
        elif again and status in ("ok", "error"):
            # It was answered while we were disconnected.
            await self._load()
            self.talk.forget(message.run_id)

    async def stop(self) -> None:
        """Stops the run of this session and what waits behind it."""
        await self._call("chat.abort", {"sessionKey": self.talk.key})

    async def decide(self, question: str, decision: str) -> None:
        try:
            await self._call("exec.approval.resolve", {"id": question, "decision": decision})
        finally:
            self.questions = [each for each in self.questions if each.get("id") != question]
            self.changed.set()

    async def older(self) -> bool:
        """Loads the previous page; whether there was one."""
        if not self.talk.more:
            return False
        self.talk.page(await self._call("chat.history", {"sessionKey": self.talk.key, **_page(self.talk.held)}))
        self.changed.set()
        return True

    async def look(self) -> None:
        """Reloads the session's row."""
        found = (await self._call("sessions.describe", {"key": self.talk.key})).get("session")
        self.info = found or {}
        self.changed.set()

    async def listed(self) -> list[Mapping[str, Any]]:
        """The sessions, the latest first."""
        answer = await self._call("sessions.list", {"limit": 200})
        return list(answer.get("sessions") or ())

    async def models(self) -> list[Mapping[str, Any]]:
        """The models there is a key for."""
        found: list[Mapping[str, Any]] = (await self._call("models.list", {}))["models"]
        return found

    async def search(self, text: str) -> list[Mapping[str, Any]]:
        """Where something was said, in any conversation."""
        found: list[Mapping[str, Any]] = (await self._call("sessions.search", {"query": text, "limit": 25}))["results"]
        return found

    async def switch(self, key: str) -> None:
        self._key, self._agent = key, None
        await self._load()

    async def begin(self) -> None:
        """Starts a new session, or goes to one that nobody has used yet."""
        own = [row for row in await self.listed() if ":dashboard:" in str(row.get("key"))]
        unused = (row for row in own if not any(map(row.get, ("systemSent", "label", "activeRunIds"))))
        made = next(unused, None) or await self._call("sessions.create", {})
        await self.switch(str(made["key"]))


def _page(offset: int) -> dict[str, int]:
    return {"limit": PAGE, "offset": offset, "maxBytes": PAGE_BYTES, "maxChars": MESSAGE_CHARS}
