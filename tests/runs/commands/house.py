"""A whole gateway in this process, talked to like a chat window does: what is typed, and what is shown."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any

from openclaw.config.load import load
from openclaw.core.clock import Clock
from openclaw.gateway.connections import attend
from openclaw.gateway.exposure import ExposureOptions
from openclaw.gateway.launch import Control, GatewayLaunch
from openclaw.gateway.local import NOWHERE
from openclaw.gateway.serve import compose
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.protocol import memory
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import ConnectOptions
from openclaw.protocol.frames import EventFrame
from openclaw.protocol.scopes import SCOPES
from openclaw.testing import ScriptedModel, TemporaryHome

DEADLINE = 120
Connecting = AbstractAsyncContextManager[GatewayClient]


class ChatWindow:
    """One client. Every `chat` event that ends a run is kept, in order."""

    def __init__(
        self, client: GatewayClient, model: ScriptedModel, control: Control, connect: Callable[[], Connecting]
    ) -> None:
        self.client = client
        self.connect = connect
        """Opens another client of the same gateway, one that shows tools."""
        self.model = model
        self.control = control
        self.ends: dict[str, list[dict[str, Any]]] = {}
        self._changed = asyncio.Condition()
        self._ids = itertools.count(1)

    async def listen(self) -> None:
        async for event in self.client.events():
            if not isinstance(event, EventFrame) or event.event != "chat":
                continue
            payload: dict[str, Any] = dict(event.payload or {})
            if payload.get("state") in ("final", "error", "aborted"):
                async with self._changed:
                    self.ends.setdefault(str(payload["runId"]), []).append(payload)
                    self._changed.notify_all()

    async def sends(self, text: str, session: str = "main", **more: Any) -> str:
        """Sends a message, and gives its run."""
        run_id = f"run-{next(self._ids)}"
        params = {"sessionKey": session, "message": text, "idempotencyKey": run_id, **more}
        await self.client.call("chat.send", params)
        return run_id

    async def end_of(self, run_id: str) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE), self._changed:
            await self._changed.wait_for(lambda: run_id in self.ends)
            return self.ends[run_id][0]

    async def asks(self, text: str, session: str = "main", **more: Any) -> str:
        """Sends a message and waits for its answer."""
        return text_of(await self.end_of(await self.sends(text, session, **more)))

    async def until_asked(self, count: int) -> None:
        """Waits until the model was asked so many times."""
        async with asyncio.timeout(DEADLINE):
            while len(self.model.requests) < count:
                await asyncio.sleep(0.01)

    def said(self, at: int = -1) -> str:
        """The last message of a request to the model."""
        return self.model.requests[at].messages[-1].text


def text_of(payload: dict[str, Any]) -> str:
    content = (payload.get("message") or {}).get("content") or []
    return "".join(block.get("text", "") for block in content) or str(payload.get("errorMessage") or "")


@asynccontextmanager
async def chat_window(
    home: TemporaryHome,
    model: ScriptedModel,
    *,
    scopes: tuple[str, ...] = SCOPES,
    clock: Clock | None = None,
    **settings: Any,
) -> AsyncIterator[ChatWindow]:
    """A gateway that stays, without a port, and one chat window on it."""
    if settings or not home.config_path.exists():
        home.use_model("scripted/scripted", "scripted/other", **settings)
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.workspace)
    launch = GatewayLaunch(
        environment=environment,
        wishes=ExposureOptions(),
        loaded=load(environment.home, environment.environ),
        exposure=NOWHERE,
        secret=None,
        server=None,
        control=Control(),
        clock=clock or SystemClock(),
        safe=False,
    )
    owner = ConnectOptions(version="1", platform="linux", scopes=scopes)
    async with (
        compose(launch, lambda endpoint: model) as parts,
        memory.connect(partial(attend, parts.connection), owner) as client,
    ):
        terminal = ConnectOptions(version="1", platform="linux", scopes=scopes, caps=("tool-events",))
        window = ChatWindow(
            client, model, launch.control, partial(memory.connect, partial(attend, parts.connection), terminal)
        )
        listening = asyncio.create_task(window.listen())
        try:
            yield window
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
