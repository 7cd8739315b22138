"""Events on their way to many clients: once encoded, in order, and never held up by the one that does not read."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from openclaw.gateway.connections import ConnectedClient, Connections, Presence, Transport
from openclaw.gateway.exposure import HostRules, listen
from openclaw.gateway.launch import HttpService
from openclaw.gateway.server import Server, serving
from openclaw.process.tasks import SystemClock
from openclaw.protocol.connection import Connection, GatewayAuthChanged
from openclaw.protocol.events import MOST_WAITING, EventBus
from openclaw.protocol.rpc import Caller
from openclaw.protocol.scopes import READ

pytestmark = pytest.mark.anyio

MIB = 1 << 20


class Hall:
    """A port whose clients need no handshake."""

    def __init__(self) -> None:
        self.bus = EventBus()
        clock = SystemClock()
        self.audience = Connections(self.bus, Presence(clock), clock)
        self.arrived = asyncio.Condition()
        self.server: Server

    async def serve(self, transport: Transport) -> None:
        number = len(self.audience) + 1
        member = ConnectedClient(
            Connection(Caller(conn_id=str(number), scopes=(READ,), client_mode="cli"), "token"), transport
        )
        with self.audience.joined(member):
            self.audience.greeted(member)
            async with self.arrived:
                self.arrived.notify_all()
            while True:
                await transport.receive()

    async def count(self, expected: int) -> None:
        async with asyncio.timeout(120), self.arrived:
            await self.arrived.wait_for(lambda: len(self.audience) == expected)

    def client(self) -> connect:
        return connect(f"ws://127.0.0.1:{self.server.port}", max_size=None)


@asynccontextmanager
async def hall() -> AsyncIterator[Hall]:
    made = Hall()
    async with serving(listen(("127.0.0.1",), 0), HostRules()) as made.server:
        made.server.front.offer(HttpService(connection=made.serve))
        keeping = asyncio.create_task(made.audience.keep())
        try:
            yield made
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def heard(client: ClientConnection, count: int) -> list[dict[str, object]]:
    async with asyncio.timeout(60):
        return [json.loads(await client.recv()) for _ in range(count)]


async def test_everyone_hears_everything_in_order() -> None:
    async with hall() as made, made.client() as first, made.client() as second:
        await made.count(2)
        for number in range(100):
            made.bus.publish("chat", {"n": number, "state": "final", "text": "x" * (number * 1000)})
        for client in (first, second):
            events = await heard(client, 100)
            assert [event["seq"] for event in events] == list(range(1, 101))
            assert [event["payload"]["n"] for event in events] == list(range(100))  # type: ignore[index]


async def test_a_client_that_does_not_read_is_cut_and_the_others_go_on() -> None:
    async with hall() as made, made.client() as reader:
        with socket.create_connection(("127.0.0.1", made.server.port)) as deaf:
            deaf.sendall(
                b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            await made.count(2)
            payload = {"state": "final", "text": "x" * MIB}
            for number in range(1, 71):
                made.bus.publish("chat", payload)
                assert (await heard(reader, 1))[0]["seq"] == number
            assert made.audience.cut == 1
            async with asyncio.timeout(120):
                while len(made.audience) > 1:
                    await asyncio.sleep(0.01)
            made.bus.publish("chat", payload)
            assert (await heard(reader, 1))[0]["seq"] == 71


async def test_what_the_next_one_replaces_is_dropped_for_a_client_that_does_not_read() -> None:
    async with hall() as made:
        with socket.create_connection(("127.0.0.1", made.server.port)) as deaf:
            deaf.sendall(
                b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            await made.count(1)
            for _ in range(70):
                made.bus.publish("chat", {"state": "delta", "text": "x" * MIB})
            async with asyncio.timeout(120):
                while made.audience.delivered + made.audience.dropped < 70:
                    await asyncio.sleep(0.01)
            assert made.audience.dropped > 5
            assert made.audience.cut == 0 and len(made.audience) == 1


async def test_a_flood_that_is_too_large_shows_as_a_gap() -> None:
    async with hall() as made, made.client() as client:
        await made.count(1)
        for number in range(MOST_WAITING + 50):
            made.bus.publish("chat", {"n": number, "state": "final"})
        events = await heard(client, MOST_WAITING)
        assert events[0]["seq"] == 51  # the fifty that nobody kept are told of at once
        assert events[-1]["payload"] == {"n": MOST_WAITING - 1, "state": "final"}


async def test_authority_that_is_gone_ends_connections_at_once() -> None:
    async with hall() as made, made.client() as client:
        await made.count(1)
        assert made.audience.withdraw(GatewayAuthChanged()) == 1
        with pytest.raises(ConnectionClosed) as ended:
            await heard(client, 1)
        assert ended.value.rcvd is not None and ended.value.rcvd.code == 4001
