"""Many clients of a gateway that only listen, in a process of their own so that they cost the test nothing.

    with Crowd(gateway, 900) as crowd: …
    crowd.heard   # [events, one number a connection]

Each speaks raw frames over its own socket, answers pings, and checks that its events are numbered without a gap.
"""

import asyncio
import base64
import json
import os
import struct
import subprocess
import sys

from openclaw.core.secret import Secret
from openclaw.protocol.connect_request import ConnectOptions, connect_request, read_challenge
from openclaw.protocol.frames import EventFrame, encode, parse_from_server
from openclaw.protocol.scopes import SCOPES
from tests.e2e.gateway_process import GatewayProcess

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
AT_ONCE = 50
"""How many shake hands at the same time: the handshakes of a thousand would time out behind each other."""


class Crowd:
    """`count` connections for the length of the block; what they heard is known after it."""

    def __init__(self, gateway: GatewayProcess, count: int) -> None:
        self._command = [sys.executable, "-m", "tests.e2e.crowd", str(gateway.port), str(count)]
        self._token = gateway.token
        self.heard: list[int] = []
        self.closed = 0
        self.gaps = 0

    def __enter__(self) -> "Crowd":
        environ = {**os.environ, "CROWD_TOKEN": self._token.reveal()}
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        told = self._process.communicate("over\n", timeout=60)[0]
        report = json.loads(told)
        self.heard, self.closed, self.gaps = report["heard"], report["closed"], report["gaps"]


class Listener(asyncio.Protocol):
    """One connection: the upgrade, the handshake, then counting."""

    def __init__(self, port: int, token: Secret) -> None:
        self._port = port
        self._token = token
        self._buffer = bytearray()
        self._upgraded = False
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard = 0
        self.gaps = 0
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def connection_lost(self, _: Exception | None) -> None:
        self.closed = True
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("the gateway hung up"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            del self._buffer[: end + 4]
            self._upgraded = True
        at = 0
        while (found := _frame(self._buffer, at)) is not None:
            kind, start, at = found
            self._take(kind, self._buffer, start, at)
        del self._buffer[:at]

    def _take(self, kind: int, data: bytearray, start: int, end: int) -> None:
        if kind == PING:
            self._say(PONG, bytes(data[start:end]))
        elif kind == CLOSE:
            self._transport.close()
        elif self.ready.done():
            self.heard += 1
            number = data.rfind(b'"seq":', start, end)
            if not data.startswith(b'"seq":%d' % self.heard, number):
                self.gaps += 1
        elif isinstance(frame := parse_from_server(bytes(data[start:end])), EventFrame):
            card = ConnectOptions(version="0", platform="test", scopes=SCOPES, token=self._token)
            self._say(TEXT, encode(connect_request(card, read_challenge(frame), "connect", None)))
        else:
            self.ready.set_result(None)

    def _say(self, kind: int, data: bytes) -> None:
        # The mask of a client may be zero: the frame is then as it is.
        size = bytes([0x80 | len(data)]) if len(data) < 126 else struct.pack("!BH", 0x80 | 126, len(data))
        self._transport.write(bytes([0x80 | kind]) + size + bytes(4) + data)


def _frame(data: bytearray, at: int) -> tuple[int, int, int] | None:
    """Kind, start and end of the payload of the frame at `at`, once all of it is there."""
    if len(data) < at + 2:
        return None
    size, start = data[at + 1], at + 2
    if size == 126:
        size, start = int.from_bytes(data[at + 2 : at + 4]), at + 4
    elif size == 127:
        size, start = int.from_bytes(data[at + 2 : at + 10]), at + 10
    return (data[at] & 0x0F, start, start + size) if len(data) >= start + size else None


async def _listen(port: int, count: int, token: Secret) -> None:
    loop = asyncio.get_running_loop()
    listeners: list[Listener] = []
    for begun in range(0, count, AT_ONCE):
        some = [
            (await loop.create_connection(lambda: Listener(port, token), "127.0.0.1", port))[1]
            for _ in range(min(AT_ONCE, count - begun))
        ]
        await asyncio.gather(*(listener.ready for listener in some))
        listeners += some
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    report = {
        "heard": [listener.heard for listener in listeners],
        "closed": sum(listener.closed for listener in listeners),
        "gaps": sum(listener.gaps for listener in listeners),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(_listen(int(sys.argv[1]), int(sys.argv[2]), Secret(os.environ["CROWD_TOKEN"])))
