"""The port: health, fences, sizes, early and late clients, over real sockets."""

import asyncio
import contextlib
import http.client
import os
import socket
import stat
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from openclaw.gateway.connections import Transport
from openclaw.gateway.exposure import HostRules, listen
from openclaw.gateway.http.web import PlainTextResponse, Request, Route, WebResponse
from openclaw.gateway.launch import HttpService
from openclaw.gateway.server import Server, ServerLimits, read_body, serving
from tests.commandline import PATIENCE

pytestmark = pytest.mark.anyio


async def echo(transport: Transport) -> None:
    while True:
        message = await transport.receive()
        if message == "bug":
            raise ZeroDivisionError
        if message == "leave":
            transport.close(4001, "withdrawn " * 50)
            return
        await transport.send(message.encode() if isinstance(message, str) else message)


async def size(request: Request) -> WebResponse:
    return PlainTextResponse(str(len(await request.body())))


async def small(request: Request) -> WebResponse:
    return PlainTextResponse(str(len(await read_body(request, 10))))


SERVICE = HttpService(
    connection=echo, routes=[Route("/size", size, methods=["POST"]), Route("/small", small, methods=["POST"])]
)


@asynccontextmanager
async def server(offer: bool = True, fences: HostRules | None = None, **limits: float) -> AsyncIterator[Server]:
    async with serving(listen(("127.0.0.1",), 0), fences or HostRules(), limits=ServerLimits(**limits)) as running:  # type: ignore[arg-type]
        if offer:
            running.front.offer(SERVICE)
        yield running


def ws(running: Server, **options: object) -> connect:
    return connect(f"ws://127.0.0.1:{running.port}/any/path", **options)  # type: ignore[arg-type]


async def request(
    running: Server, method: str, path: str, body: bytes | Iterable[bytes] | None = None, **headers: str
) -> tuple[int, bytes]:
    def ask() -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


async def closed(client: ClientConnection) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as ended:
        async with asyncio.timeout(120):
            while True:
                await client.recv()
    assert ended.value.rcvd is not None
    return ended.value.rcvd.code, ended.value.rcvd.reason


async def test_health_and_readiness_are_told_apart() -> None:
    async with server(offer=False) as running:
        for path in ("/health", "/healthz"):
            assert await request(running, "GET", path) == (200, b'{"ok":true,"status":"live"}')
        status, body = await request(running, "GET", "/readyz")
        assert status == 503 and b'"failing":["startup"]' in body
        running.front.offer(SERVICE)
        for path in ("/ready", "/readyz"):
            status, body = await request(running, "GET", path)
            assert status == 200 and b'"ready":true,"failing":[]' in body
        status, body = await request(running, "GET", "/readyz", x_forwarded_for="203.0.113.9")
        assert body == b'{"ready":true}'


async def test_whoever_comes_too_early_waits_and_is_served() -> None:
    async with server(offer=False) as running, ws(running) as client:
        await client.send("early")
        posted = asyncio.create_task(request(running, "POST", "/size", b"12345"))
        running.front.offer(SERVICE)
        async with asyncio.timeout(120):
            assert await client.recv() == "early"
            assert await posted == (200, b"5")


async def test_a_start_that_takes_too_long_sends_clients_away() -> None:
    async with server(offer=False, start_seconds=0.05) as running:
        async with ws(running) as client:
            assert (await closed(client))[0] == 1013
        assert (await request(running, "POST", "/size", b""))[0] == 503


async def test_any_path_is_a_websocket_without_compression() -> None:
    async with server() as running, ws(running) as client:
        await client.send("hello")
        assert await client.recv() == "hello"
        assert client.response is not None and "Sec-WebSocket-Extensions" not in client.response.headers


def no_delay(port: int) -> list[int]:
    """`TCP_NODELAY` of every connection that this process accepted on `port`."""
    found: list[int] = []
    for fd in (int(each.name) for each in Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):  # closed since, or a socket without a peer
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                with socket.socket(fileno=os.dup(fd)) as one:
                    one.getpeername()
                    if one.getsockname()[1:2] == (port,):
                        found.append(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    return found


async def test_small_messages_leave_at_once() -> None:
    async with server() as running, ws(running) as client:
        await client.send("hello")
        assert await client.recv() == "hello"
        (option,) = no_delay(running.port)
        assert option != 0


async def test_a_bug_ends_one_connection_and_no_other() -> None:
    async with server() as running, ws(running) as one, ws(running) as other:
        await one.send("bug")
        assert await closed(one) == (1011, "internal error")
        await other.send("still here")
        assert await other.recv() == "still here"
        assert running.front.connections == 1


async def test_a_close_has_its_code_and_a_reason_that_fits() -> None:
    async with server() as running, ws(running) as client:
        await client.send("leave")
        code, reason = await closed(client)
        assert code == 4001 and reason.startswith("withdrawn") and len(reason) == 123


async def test_a_message_that_is_too_long_ends_the_connection() -> None:
    async with server(frame_bytes=1_000) as running, ws(running) as client:
        await client.send("x" * 1_000)
        assert await client.recv() == "x" * 1_000
        await client.send("x" * 1_001)
        assert (await closed(client))[0] == 1009


async def test_a_client_that_does_not_answer_pings_is_dropped() -> None:
    async with server(ping_seconds=0.2) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        async with asyncio.timeout(120):
            assert b"101" in await reader.readline()
            while await reader.read(1_000):
                pass
        writer.close()
        await writer.wait_closed()


async def test_at_the_end_clients_are_told_that_the_service_restarts() -> None:
    async with server() as running:
        client = await ws(running)
        await client.send("hello")
        await client.recv()
    assert (await closed(client))[0] == 1012


async def test_a_foreign_host_name_is_refused() -> None:
    async with server(fences=HostRules(names=frozenset(("chat.example.org",)))) as running:
        assert (await request(running, "GET", "/healthz", Host="evil.example"))[0] == 421
        assert (await request(running, "GET", "/healthz", Host="chat.example.org"))[0] == 200
        with pytest.raises(InvalidStatus):
            async with connect("ws://evil.example/", host="127.0.0.1", port=running.port, open_timeout=5, proxy=None):
                pass


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403),
        ("null", 403),
        ("http://127.0.0.1:1", 403),
        ("https://chat.example.org", 200),
        ("self", 200),
    ],
)
async def test_a_page_from_elsewhere_is_refused(origin: str, status: int) -> None:
    async with server(fences=HostRules(origins=("https://chat.example.org",))) as running:
        origin = running.url if origin == "self" else origin
        assert (await request(running, "GET", "/healthz", Origin=origin))[0] == status


async def test_the_protocol_hears_where_a_page_comes_from() -> None:
    heard: asyncio.Queue[Transport] = asyncio.Queue()

    async def listen_in(transport: Transport) -> None:
        heard.put_nowait(transport)
        await transport.receive()

    async with server(offer=False) as running:
        running.front.offer(HttpService(connection=listen_in))
        async with ws(running, origin="http://evil.example"):
            async with asyncio.timeout(120):
                transport = await heard.get()
    assert transport.peer.origin == "http://evil.example"
    assert transport.peer.local and transport.buffered == 0


async def test_bodies_have_a_limit_declared_or_not() -> None:
    async with server(body_bytes=1_000) as running:
        assert await request(running, "POST", "/size", b"x" * 1_000) == (200, b"1000")
        assert (await request(running, "POST", "/size", b"x" * 1_001))[0] == 413
        assert (await request(running, "POST", "/size", iter([b"x" * 600] * 2)))[0] == 413
        assert (await request(running, "POST", "/small", iter([b"x" * 6] * 2)))[0] == 413
        assert (await request(running, "POST", "/small", b"x" * 10))[0] == 200
        assert (await request(running, "GET", "/nothing"))[0] == 404


async def test_while_it_drains_nobody_new_is_served() -> None:
    async with server() as running, ws(running) as old:
        running.front.withdraw("draining")
        status, body = await request(running, "GET", "/readyz")
        assert status == 503 and b"draining" in body
        async with ws(running) as late:
            assert (await closed(late))[0] == 1013
        await old.send("go on")
        assert await old.recv() == "go on"
