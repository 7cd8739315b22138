"""What every connection of the protocol does, over a websocket on loopback and inside one process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from openclaw.devices import signature
from openclaw.gateway.connections import Connections, Presence, WebSocketServer, attend
from openclaw.gateway.exposure import HostRules, listen
from openclaw.gateway.launch import HttpService
from openclaw.gateway.server import serving
from openclaw.process.tasks import SystemClock
from openclaw.protocol import memory, websocket
from openclaw.protocol.auth import AuthPolicy
from openclaw.protocol.client import EventGap, GatewayClient
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures
from openclaw.protocol.connect_request import CallFailed, ConnectionLost, ConnectOptions
from openclaw.protocol.connection import Disconnected, GatewayAuthChanged
from openclaw.protocol.events import EventBus
from openclaw.protocol.frames import MAX_BUFFERED_BYTES, MAX_WAITING_REQUESTS, EventFrame, StateVersion
from openclaw.protocol.params import NoParams, Params
from openclaw.protocol.rpc import Caller, MethodRegistry, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from tests.protocol.support import Desk, Unlimited

pytestmark = pytest.mark.anyio

OWNER = ConnectOptions(version="0", platform="test", scopes=(READ, WRITE))
MIB = 1 << 20


class EchoParams(Params, frozen=True, kw_only=True):
    text: str


class Door:
    """The gateway's real door, with a few methods behind it."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.bus = EventBus()
        self.connections = Connections(self.bus, Presence(clock), clock)
        self.hanging = asyncio.Event()
        self.given_up = asyncio.Event()
        registry = MethodRegistry(
            (
                RpcMethod("echo", EchoParams, self._echo, READ),
                RpcMethod("agent", NoParams, self._agent, WRITE),
                RpcMethod("hang", NoParams, self._hang, READ),
                RpcMethod("config.set", NoParams, self._hang, ADMIN),
            )
        )
        self.sockets = WebSocketServer(
            policy=lambda: AuthPolicy(mode="none"),
            registry=registry,
            offer=lambda: ServerFeatures(version="1", methods=registry.advertised(), events=("chat",)),
            snapshot=self._snapshot,
            connections=self.connections,
            devices=Desk(),
            limiter=Unlimited(),
            verify=signature.verify,
            clock=clock,
        )

    async def _snapshot(self) -> HelloSnapshot:
        return HelloSnapshot(presence=(), health={}, state_version=StateVersion(0, 0), uptime_ms=1)

    async def _echo(self, params: EchoParams, caller: Caller) -> Any:
        return {"text": params.text, "local": caller.local}

    async def _agent(self, params: NoParams, caller: Caller) -> AsyncIterator[Any]:
        yield {"status": "accepted"}
        yield {"status": "ok"}

    async def _hang(self, params: NoParams, caller: Caller) -> None:
        self.hanging.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up.set()

    async def until_empty(self) -> None:
        async with asyncio.timeout(30):
            while len(self.connections):
                await asyncio.sleep(0)


@asynccontextmanager
async def over_websocket(door: Door, who: ConnectOptions) -> AsyncIterator[GatewayClient]:
    async with serving(listen(("127.0.0.1",), 0), HostRules()) as server:
        server.front.offer(HttpService(connection=door.sockets.serve))
        async with websocket.connect(f"ws://127.0.0.1:{server.port}", who) as connected:
            yield connected


@asynccontextmanager
async def in_memory(door: Door, who: ConnectOptions) -> AsyncIterator[GatewayClient]:
    async with memory.connect(partial(attend, door.sockets.serve), who) as found:
        yield found


Joins = Callable[[Door, ConnectOptions], AbstractAsyncContextManager[GatewayClient]]


@pytest.fixture(params=[over_websocket, in_memory], ids=["websocket", "memory"])
def joins(request: pytest.FixtureRequest) -> Joins:
    found: Joins = request.param
    return found


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    made = Door()
    keeping = asyncio.create_task(made.connections.keep())
    try:
        async with asyncio.timeout(60):
            yield made
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def heard(found: GatewayClient, count: int) -> list[EventFrame | EventGap]:
    events: list[EventFrame | EventGap] = []
    async for event in found.events():
        events.append(event)
        if len(events) == count:
            break
    return events


async def test_somebody_of_this_machine_is_the_owner_after_one_handshake(door: Door, joins: Joins) -> None:
    async with joins(door, OWNER) as connected:
        assert connected.hello["type"] == "hello-ok"
        assert connected.hello["auth"]["scopes"] == [READ, WRITE]
        assert connected.hello["features"]["methods"] == ["agent", "config.set", "echo", "hang"]
        assert await connected.call("echo", {"text": "é"}) == {"text": "é", "local": True}


async def test_answers_and_refusals_reach_the_one_who_asked(door: Door, joins: Joins) -> None:
    async with joins(door, OWNER) as connected:
        assert (await connected.call("agent"))["status"] == "accepted"
        assert (await connected.call("agent", final=True))["status"] == "ok"
        with pytest.raises(CallFailed) as failed:
            await connected.call("config.set", {})
        assert (failed.value.code, failed.value.reason) == ("FORBIDDEN", "MISSING_SCOPE")
        with pytest.raises(CallFailed, match="text"):
            await connected.call("echo", {})
        said = await asyncio.gather(*(connected.call("echo", {"text": str(number)}) for number in range(200)))
        assert [each["text"] for each in said] == [str(number) for number in range(200)]


async def test_a_client_that_cannot_speak_the_protocol_is_told_so(door: Door, joins: Joins) -> None:
    with pytest.raises(CallFailed, match="protocol"):
        async with joins(door, replace(OWNER, min_protocol=99, max_protocol=99)):
            pass
    assert len(door.connections) == 0


async def test_large_messages_arrive_whole_in_both_directions(door: Door, joins: Joins) -> None:
    text = "sail " * MIB
    async with joins(door, OWNER) as connected:
        answers = await asyncio.gather(*(connected.call("echo", {"text": text}) for _ in range(3)))
    assert all(each["text"] == text for each in answers)


async def test_events_come_in_order_and_numbered(door: Door, joins: Joins) -> None:
    async with joins(door, OWNER) as connected:
        for number in range(100):
            door.bus.publish("chat", {"n": number, "state": "final", "text": "x" * number * 1000})
        events = await heard(connected, 100)
    assert [event.seq for event in events if isinstance(event, EventFrame)] == list(range(1, 101))
    assert [event.payload["n"] for event in events if isinstance(event, EventFrame)] == list(range(100))


async def test_a_client_that_leaves_ends_what_it_asked_for(door: Door, joins: Joins) -> None:
    async with joins(door, OWNER) as connected:
        asked = asyncio.create_task(connected.call("hang", timeout=None))
        await door.hanging.wait()
        await connected.close()
        with pytest.raises(ConnectionLost):
            await asked
        await door.given_up.wait()
        await door.until_empty()
        with pytest.raises(ConnectionLost):
            await connected.call("echo", {"text": "too late"})


async def test_a_gateway_that_closes_ends_calls_and_events_and_says_why(door: Door, joins: Joins) -> None:
    async with joins(door, OWNER) as connected:
        door.bus.publish("chat", {"n": 1, "state": "final"})
        await heard(connected, 1)
        asked = asyncio.create_task(connected.call("hang", timeout=None))
        await door.hanging.wait()
        assert door.connections.withdraw(GatewayAuthChanged()) == 1
        for lost in (asked, heard(connected, 1), connected.call("echo", {"text": "too late"})):
            with pytest.raises(ConnectionLost, match="gateway auth changed") as gone:
                await lost
            assert gone.value.close_code == 4001
        await door.until_empty()


async def test_what_was_said_before_the_end_is_still_heard() -> None:
    socket, transport = memory.pair()
    transport.post([b"one", b"two"])
    transport.close(1012, "restart")
    with pytest.raises(Disconnected):
        transport.post([b"three"])
    assert [await socket.receive(), await socket.receive()] == [b"one", b"two"]
    with pytest.raises(ConnectionLost, match="restart"):
        await socket.receive()
    with pytest.raises(Disconnected, match="1012 restart"):
        await transport.receive()


async def test_a_sender_waits_for_a_reader_and_no_longer_than_the_connection() -> None:
    socket, transport = memory.pair()
    sending = asyncio.create_task(socket.send(b"x" * (memory.MAX_UNREAD_BYTES + 1)))
    await asyncio.sleep(0)
    assert not sending.done()
    assert len(await transport.receive()) > memory.MAX_UNREAD_BYTES
    await sending
    again = asyncio.create_task(socket.send(b"x" * (memory.MAX_UNREAD_BYTES + 1)))
    await asyncio.sleep(0)
    transport.close()
    with pytest.raises(ConnectionLost):
        await again


async def test_requests_wait_in_one_queue_of_so_many(door: Door) -> None:
    async with in_memory(door, OWNER) as connected:
        asked = (connected.call("echo", {"text": "x"}) for _ in range(MAX_WAITING_REQUESTS + 10))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in answers if isinstance(each, CallFailed)]
        assert [each.code for each in refused] == ["UNAVAILABLE"] * 10
        assert all(each.error.retryable for each in refused)
        assert await connected.call("echo", {"text": "y"})  # there is room again


async def test_a_client_that_does_not_read_is_cut(door: Door) -> None:
    socket, transport = memory.pair()
    serving = asyncio.create_task(attend(door.sockets.serve, transport))
    deaf = GatewayClient(socket, ticks=False)
    await deaf.greet(OWNER, None)
    payload = {"state": "final", "text": "x" * MIB}
    for _ in range(MAX_BUFFERED_BYTES // MIB + 2):
        door.bus.publish("chat", payload)
    await serving
    assert door.connections.cut == 1
