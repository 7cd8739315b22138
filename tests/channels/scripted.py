"""What platforms on loopback share: servers that live as long as a block, waiting for what happens, requests."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from openclaw.core.channel import Inbound, Platform
from openclaw.core.errors import StateError
from tests.plugins.support import DEADLINE

F = TypeVar("F")


class ScriptedServer(Generic[F]):
    """`with SomeServer() as server`: `changed` guards everything that people and the bot do."""

    calls: list[Any]
    sent: Any

    def __init__(self, name: str, port: int = 0) -> None:
        self.faults: list[F] = []
        self.changed = threading.Condition()
        self.closing = False
        self._name = name
        self._servers: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._http.daemon_threads = True
        self._serve(self._http, 0.05)

    def _serve(self, server: Any, *arguments: Any) -> None:
        """Has `server` serve for as long as the block lasts."""
        self._servers.append(server)
        self._run(server.serve_forever, *arguments)

    def _run(self, work: Callable[..., Any], *arguments: Any) -> None:
        name = f"{self._name}-{len(self._threads)}"
        self._threads.append(threading.Thread(target=work, args=arguments, name=name))

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        return self.root

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing = True
        self.drop()
        with self.changed:
            self.changed.notify_all()
        for server in self._servers:
            server.shutdown()
        for thread in self._threads:
            thread.join()
        self._http.server_close()

    def drop(self) -> None:
        """Cuts the connections that stay open."""

    def until(self, true: Callable[[], Any], seconds: float = 60.0) -> None:
        """Waits until `true()` holds."""
        with self.changed:
            assert self.changed.wait_for(true, seconds), f"sent: {self.sent}, calls: {self.calls[-20:]}"

    def hears(self, count: int, seconds: float = 60.0) -> list[dict[str, Any]]:
        """The bot's messages, once there are so many."""
        self.until(lambda: len(self.sent) >= count, seconds)
        return list(self.sent)

    def take_fault(self, meets: Callable[[F], bool]) -> F | None:
        """The first fault that this call meets; it is met once."""
        fault = next((each for each in self.faults if meets(each)), None)
        if fault is not None:
            self.faults.remove(fault)
        return fault

    def _handler(self) -> type["ScriptedHandler"]:
        raise NotImplementedError


class ScriptedHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise every answer would wait 40 ms for an acknowledgement

    def read(self) -> bytes | None:
        """The body; None when whoever called is gone, because half a request is none."""
        length = int(self.headers.get("content-length") or 0)
        data = self.rfile.read(length)
        if len(data) < length:
            self.cut()
            return None
        return data

    def cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def reply(self, status: int, content: bytes, kind: str = "application/json", **headers: str) -> None:
        try:
            self.send_response(status)
            if content:
                self.send_header("content-type", kind)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        return None


class Heard:
    """An inbox that remembers; it fails as often as it is told."""

    def __init__(self, cursor: str | None = None, failures: int = 0) -> None:
        self.events: list[Inbound] = []
        self.cursor = cursor
        self.failures = failures
        self.connections = 0
        self.changed = asyncio.Event()

    def connected(self) -> None:
        self.connections += 1
        self.changed.set()

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None:
        if events and self.failures:
            self.failures -= 1
            raise StateError("the disk is full")
        self.events += [each for each in events if each.id not in {known.id for known in self.events}]
        self.cursor = cursor or self.cursor
        self.changed.set()

    async def until(self, wanted: int | Callable[[], object]) -> list[Inbound]:
        """What was heard, once it is so much, or once something is true."""
        async with asyncio.timeout(DEADLINE):
            while not (len(self.events) >= wanted if isinstance(wanted, int) else wanted()):
                self.changed.clear()
                await self.changed.wait()
        return self.events


@asynccontextmanager
async def listening(platform: Platform, inbox: Heard) -> AsyncIterator["asyncio.Task[None]"]:
    """The account listens for as long as the block lasts."""
    task = asyncio.create_task(platform.run(inbox.cursor, inbox))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def there(server: ScriptedServer[Any], true: Callable[[], object]) -> None:
    """Waits until the server has seen something."""
    await asyncio.to_thread(server.until, true, DEADLINE)
