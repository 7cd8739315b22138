"""Both ends together: in memory, and once over a real socket."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import websockets.asyncio.client
from msgspec.structs import replace
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret
from openclaw.devices import signature
from openclaw.devices.signature import DeviceIdentity
from openclaw.protocol.address import parse_url
from openclaw.protocol.auth import AuthLimiter
from openclaw.protocol.client import EventGap, GatewayClient
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures, Version
from openclaw.protocol.connect_request import CallFailed, CallTimeout, ConnectionLost, connect_request, read_challenge
from openclaw.protocol.connection import Close, Connection, Send, TokenRevoked
from openclaw.protocol.events import BusEvent
from openclaw.protocol.frames import EventFrame, RequestFrame, StateVersion, encode, parse_from_server
from openclaw.protocol.handshake import Established, Handshake
from openclaw.protocol.params import NoParams
from openclaw.protocol.peer import Peer
from openclaw.protocol.rpc import Caller, MethodRegistry, RpcMethod, dispatch
from openclaw.protocol.scopes import READ, WRITE
from openclaw.protocol.websocket import connect
from tests.protocol.support import LOCAL, NONCE, NOW, POLICY, SECRET, Desk, Door, Seal, Unlimited, judged, operator

pytestmark = pytest.mark.anyio

SNAPSHOT = HelloSnapshot(presence=(), health={}, state_version=StateVersion(0, 0), uptime_ms=1)


@pytest.mark.parametrize("version", ["v3", "v2"])
async def test_a_real_key_gets_in_with_either_signature(version: Version) -> None:
    handshake = Handshake(
        POLICY,
        LOCAL,
        conn_id="c",
        nonce=NONCE,
        now=NOW,
        limiter=Unlimited(),
        directory=Desk(),
        verify=signature.verify,
    )
    challenge = parse_from_server(handshake.open().data)
    assert isinstance(challenge, EventFrame)
    identity = DeviceIdentity(secrets.token_bytes(32))
    request = connect_request(operator(), read_challenge(challenge), "c1", identity, version)
    (inside,) = await judged(handshake, encode(request), NOW)
    assert isinstance(inside, Established)
    assert inside.connection.caller.device_id == identity.device_id


async def test_after_ten_wrong_guesses_even_the_right_one_waits() -> None:
    door = Door()
    door.limiter = AuthLimiter()
    for _ in range(10):
        guess = await door.knock(operator(token=Secret("wrong")))
        assert guess.error["details"]["code"] == "AUTH_TOKEN_MISMATCH"
    locked = await door.knock()
    assert locked.error["details"]["code"] == "AUTH_RATE_LIMITED"
    assert locked.error["retryAfterMs"] == 300_000


@pytest.mark.parametrize(
    "event",
    [
        EventFrame(event="tick", payload={"nonce": "n", "ts": 1}),
        EventFrame(event="connect.challenge"),
        EventFrame(event="connect.challenge", payload={"nonce": " ", "ts": 1}),
        EventFrame(event="connect.challenge", payload={"nonce": "n", "ts": -1}),
        EventFrame(event="connect.challenge", payload={"nonce": "n", "ts": True}),
        EventFrame(event="connect.challenge", payload={"nonce": "n"}),
    ],
)
def test_a_client_does_not_answer_a_bad_challenge(event: EventFrame) -> None:
    with pytest.raises(InvalidRequest):
        read_challenge(event)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ws://", "nonsense", "ws://192.168.1.2:18789", "ws://claw.lan"])
def test_a_secret_is_not_sent_in_the_clear(url: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_url(url)


@pytest.mark.parametrize("url", ["ws://127.0.0.1:1", "ws://localhost:1", "ws://[::1]:1", "wss://claw.example"])
def test_this_machine_and_encrypted_ones_are_fine(url: str) -> None:
    parse_url(url)


async def echo(params: NoParams, caller: Caller) -> dict[str, str]:
    return {"you": caller.client_id}


async def run(params: NoParams, caller: Caller) -> AsyncIterator[dict[str, str]]:
    yield {"status": "accepted", "runId": "r"}
    yield {"status": "ok", "runId": "r"}


async def hang(params: NoParams, caller: Caller) -> None:
    await asyncio.Event().wait()


class Gateway:
    """The smallest server the protocol objects can drive."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.registry = MethodRegistry(
            (
                RpcMethod("health", NoParams, echo, scope=None),
                RpcMethod("agent", NoParams, run, scope=WRITE),
                RpcMethod("hang", NoParams, hang, scope=READ),
            )
        )
        self.sockets: dict[ServerConnection, Connection] = {}

    async def serve(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        headers = {name.lower(): value for name, value in socket.request.headers.raw_items()}
        peer = Peer.of(socket.remote_address[0], headers)
        handshake = Handshake(
            POLICY,
            peer,
            conn_id="c",
            nonce=NONCE,
            now=NOW,
            limiter=Unlimited(),
            directory=self.desk,
            verify=signature.verify,
        )
        await socket.send(handshake.open().data, text=True)
        async with asyncio.TaskGroup() as group:
            running: list[asyncio.Task[None]] = []
            async for data in socket:
                connection = self.sockets.get(socket)
                if connection is None:
                    for action in await judged(handshake, data, NOW):
                        await self.act(socket, action)
                elif isinstance(request := connection.receive(data), RequestFrame):
                    running.append(group.create_task(self.reply(socket, connection, request)))
            for task in running:
                task.cancel()

    async def act(self, socket: ServerConnection, action: Any) -> None:
        match action:
            case Send(data):
                await socket.send(data, text=True)
            case Close(code, reason):
                await socket.close(code, reason)
            case Established(connection, request_id):
                offer = ServerFeatures(version="1", methods=self.registry.advertised(), events=["tick"])
                await self.act(socket, connection.hello(request_id, offer, SNAPSHOT))
                self.sockets[socket] = connection

    async def reply(self, socket: ServerConnection, connection: Connection, request: RequestFrame) -> None:
        async for response in dispatch(self.registry, request, connection.caller):
            for action in connection.answer(response, 0):
                await self.act(socket, action)

    async def tell_all(self, event: str, payload: Any, skipped: int = 0) -> None:
        for socket, connection in self.sockets.items():
            connection.seq += skipped
            await self.act(socket, connection.hear(BusEvent(event, payload), 0))


@asynccontextmanager
async def gateway() -> AsyncIterator[tuple[Gateway, str]]:
    door = Gateway()
    async with serve(door.serve, "127.0.0.1", 0, compression=None) as server:
        yield door, f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


async def soon(client: GatewayClient) -> Any:
    async with asyncio.timeout(120):
        return await anext(client.events())


async def test_a_client_talks_to_a_gateway_over_a_socket() -> None:
    async with gateway() as (_, url), connect(url, operator(scopes=(WRITE,))) as client:
        assert client.hello["features"]["methods"] == ["agent", "hang", "health"]
        assert await client.call("health") == {"you": "cli"}
        assert (await client.call("agent"))["status"] == "accepted"
        assert (await client.call("agent", final=True))["status"] == "ok"
        with pytest.raises(CallFailed) as failed:
            await client.call("config.set", {})
        assert (failed.value.code, failed.value.reason) == ("FORBIDDEN", "MISSING_SCOPE")
        with pytest.raises(CallTimeout, match=r"no answer to hang within 0\.05 seconds"):
            await client.call("hang", timeout=0.05)


async def test_events_arrive_and_a_gap_shows() -> None:
    async with gateway() as (door, url), connect(url, operator()) as client:
        await door.tell_all("chat", {"n": 1})
        await door.tell_all("tick", {"ts": 1})
        await door.tell_all("chat", {"n": 2}, skipped=3)
        first, gap, second = await soon(client), await soon(client), await soon(client)
        assert (first.payload, gap, second.payload) == ({"n": 1}, EventGap(3, 6), {"n": 2})


async def test_a_paired_device_comes_back_with_its_token_until_it_is_rotated() -> None:
    identity = DeviceIdentity(secrets.token_bytes(32))
    async with gateway() as (door, url):
        async with connect(url, operator(), identity) as client:
            token = Secret(client.hello["auth"]["deviceToken"])
        async with connect(url, operator(token=None, device_token=token), identity) as client:
            assert client.hello["auth"]["method"] == "device-token"
            door.desk.tokens.clear()
            for socket, connection in door.sockets.items():
                if close := connection.withdrawn(TokenRevoked(identity.device_id, "operator")):
                    await door.act(socket, close)
            with pytest.raises(ConnectionLost) as lost:
                await soon(client)
            assert lost.value.close_code == 4001
        with pytest.raises(CallFailed) as failed:
            async with connect(url, operator(token=None, device_token=token), identity):
                pass
        assert failed.value.reason == "AUTH_DEVICE_TOKEN_MISMATCH"


async def test_a_wrong_token_is_an_error_that_says_so() -> None:
    async with gateway() as (_, url):
        with pytest.raises(CallFailed, match="gateway token mismatch") as failed:
            async with connect(url, operator(token=Secret("wrong"))):
                pass
        assert failed.value.reason == "AUTH_TOKEN_MISMATCH"
        assert SECRET not in str(failed.value)


async def test_a_web_page_of_someone_else_stays_outside() -> None:
    async with gateway() as (_, url):
        async with websockets.asyncio.client.connect(url, origin=Origin("https://evil.example")) as socket:
            challenge = parse_from_server(await socket.recv())
            assert isinstance(challenge, EventFrame)
            await socket.send(encode(connect_request(operator(), read_challenge(challenge), "c")), text=True)
            answer = json.loads(await socket.recv())
            assert answer["error"]["details"]["code"] == "CONTROL_UI_ORIGIN_NOT_ALLOWED"
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


async def test_a_silent_gateway_is_given_up() -> None:
    async def silent(socket: ServerConnection) -> None:
        await socket.send('{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1}}')
        await socket.recv()
        await socket.send('{"type":"res","id":"connect","ok":true,"payload":{"policy":{"tickIntervalMs":20}}}')
        await socket.wait_closed()

    async with serve(silent, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        async with connect(url, operator()) as client:
            with pytest.raises(ConnectionLost) as lost:
                await soon(client)
            assert lost.value.close_code == 4000
            with pytest.raises(ConnectionLost):
                await client.call("health")


async def test_no_gateway_at_all_is_said_plainly() -> None:
    async with serve(lambda socket: socket.wait_closed(), "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
    with pytest.raises(ConnectionLost, match="Is it running"):
        async with connect(url, operator()):
            pass


async def test_guesses_lock_out_neither_a_paired_device_nor_a_secret_nobody_guesses() -> None:
    door = Door()
    device = Seal()
    paired = await door.knock(device=device)
    assert isinstance(paired.inside, Established)
    stranger = Seal("stranger")
    door.limiter = AuthLimiter()
    for _ in range(10):
        await door.knock(operator(token=Secret("wrong")))
    assert isinstance((await door.knock(device=device)).inside, Established)
    locked = await door.knock(device=stranger)
    assert locked.error["details"]["code"] == "AUTH_RATE_LIMITED"
    guess = await door.knock(operator(token=None, device_token=Secret("guess")), device=device)
    assert guess.error["details"]["code"] == "AUTH_RATE_LIMITED"

    long = Secret("0123456789abcdef" * 4)
    strong = Door(replace(POLICY, secret=long))
    strong.limiter = AuthLimiter()
    for _ in range(10):
        await strong.knock(operator(token=Secret("wrong")))
    assert isinstance((await strong.knock(operator(token=long))).inside, Established)
    assert (await strong.knock(operator(token=Secret("wrong")))).error["details"]["code"] == "AUTH_RATE_LIMITED"
