"""A real web server on loopback with the real assistant behind it and a scripted model inside."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from openai import AsyncOpenAI

from openclaw.config.settings import EndpointSettings, HttpEndpointsSettings
from openclaw.core.provider import Provider
from openclaw.core.secret import Secret
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest
from openclaw.gateway.app import App, open_app
from openclaw.gateway.connections import Transport
from openclaw.gateway.exposure import HostRules, listen
from openclaw.gateway.http import routes as http_routes
from openclaw.gateway.http.api import routes
from openclaw.gateway.http.embeddings import Embed
from openclaw.gateway.http.endpoint import HttpAuth
from openclaw.gateway.http.requests import HttpBackend
from openclaw.gateway.http.stream import RunFanout
from openclaw.gateway.http.web import Route
from openclaw.gateway.launch import HttpService
from openclaw.gateway.server import ServerLimits, serving
from openclaw.gateway.services import build_services
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.protocol.auth import AuthLimiter, RateLimits
from openclaw.runs.events import RunEvent
from openclaw.runs.queue import Lanes
from openclaw.runs.worker import RunService
from openclaw.testing import TemporaryHome
from tests.commandline import PATIENCE

TOKEN = "correct-horse-battery-staple"
SCRIPTED: dict[str, Any] = {
    "models": {
        "providers": {
            "scripted": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "api": "openai-completions",
                "models": [{"id": "scripted", "input": ["text", "image"]}],
            }
        }
    },
    "agents": {"defaults": {"model": "scripted/scripted"}, "list": [{"id": "main"}, {"id": "ops"}]},
}
ON = EndpointSettings(enabled=True)
BOTH = HttpEndpointsSettings(chat_completions=ON, responses=ON)


async def nobody_comes(transport: Transport) -> None:
    transport.close()


class Nobody:
    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer("deny")


STRICT = RateLimits(max_attempts=3, lockout_ms=30_000)
"""Locks an address out after three failures."""


class House:
    """What a test looks at."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.fanout: RunFanout
        self.secret: Secret | None = Secret(TOKEN)
        self.events: list[RunEvent] = []
        self.port = 0
        self.runs: RunService
        self.routes: list[Route] = []
        self._changed = asyncio.Event()

    def tell(self, told: RunEvent) -> None:
        self.events.append(told)
        self._changed.set()

    async def until(self, wanted: Callable[[RunEvent], bool]) -> RunEvent:
        async with asyncio.timeout(120):
            while True:
                for event in self.events:
                    if wanted(event):
                        return event
                self._changed.clear()
                await self._changed.wait()

    def client(self, key: str = TOKEN) -> AsyncOpenAI:
        return AsyncOpenAI(api_key=key, base_url=f"http://127.0.0.1:{self.port}/v1", max_retries=0, timeout=PATIENCE)

    async def send(self, data: bytes) -> bytes:
        """Everything the server answers to raw bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            async with asyncio.timeout(120):
                writer.write(data)
                await writer.drain()
                return await reader.read()
        finally:
            writer.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of one plain request."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {"host": "127.0.0.1", "connection": "close", "content-length": str(len(data)), **(headers or {})}
        if key is not None:
            sent["authorization"] = f"Bearer {key}"
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        answer = await self.send(head.encode() + b"\r\n" + data)
        top, _, rest = answer.partition(b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        got = dict(line.lower().split(": ", 1) for line in lines[1:])
        return int(lines[0].split()[1]), got, json.loads(rest) if rest else None


@asynccontextmanager
async def house(
    home: TemporaryHome,
    model: Provider,
    *,
    switches: HttpEndpointsSettings = BOTH,
    embed: Embed | None = None,
    config: Mapping[str, Any] | None = None,
    places: int = 8,
) -> AsyncIterator[House]:
    home.configure({**SCRIPTED, **(config or {})})
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.root)
    clock = SystemClock()
    async with open_app(environment, clock=clock, approver=Nobody(), open_provider=lambda _: model) as app:
        place = House(app)
        services = build_services(app, place.tell, lanes=Lanes({"main": places}))
        place.fanout = RunFanout(services.publish)
        async with services.serving() as runs:
            place.runs = runs
            how = HttpAuth(
                secret=lambda: place.secret,
                limiter=AuthLimiter(lambda: STRICT),
                clock=clock,
                address=lambda scope: (scope.get("client") or ("",))[0],
            )
            backend = HttpBackend(app, services.toolset, runs, services.inbox, place.fanout)
            found = routes(backend, embed, switches, how)
            place.routes = found
            async with serving(
                listen(("127.0.0.1",), 0), HostRules(names=frozenset(("x",))), limits=ServerLimits(body_bytes=1 << 30)
            ) as server:
                server.front.offer(HttpService(connection=nobody_comes, routes=http_routes.lazy_routes(lambda: found)))
                place.port = server.port
                yield place
        assert len(place.fanout) == 0
