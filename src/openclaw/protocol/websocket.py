"""Connects a client to a gateway over a WebSocket."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from openclaw.protocol.address import GatewayUrl, parse_url
from openclaw.protocol.client import GatewayClient, greeted
from openclaw.protocol.connect_request import ConnectionLost, ConnectOptions, Signer
from openclaw.protocol.frames import CLOSE_NORMAL
from openclaw.protocol.framing import END_OF_HEAD, TEXT, FrameReader, Upgrade, encode_close, encode_frame
from openclaw.protocol.tls import check_pin, client_context

OPEN_SECONDS = 10.0
CLOSE_SECONDS = 5.0
READ_BYTES = 65_536


class _WebSocket:
    """A websocket as a `ClientSocket`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._messages: deque[bytes] = deque()
        self._lost: ConnectionLost | None = None

    async def upgrade(self, url: GatewayUrl) -> None:
        """Turns the HTTP connection into a WebSocket."""
        upgrade = Upgrade.new()
        self._writer.write(upgrade.request(url.authority, url.path))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                head = await self._reader.readuntil(END_OF_HEAD)
            problem = upgrade.check(head.removesuffix(END_OF_HEAD))
        except TimeoutError:
            problem = f"no answer within {OPEN_SECONDS:g} s"
        except (asyncio.IncompleteReadError, OSError):
            problem = "it hung up"
        except asyncio.LimitOverrunError:
            problem = "something else than a gateway answers"
        if problem:
            raise ConnectionLost(f"cannot reach the gateway at {url.text}: {problem}. Is it running?")

    async def send(self, data: str | bytes) -> None:
        if self._lost is not None:
            raise self._lost
        self._writer.write(encode_frame(TEXT, data.encode() if isinstance(data, str) else data))
        try:
            await self._writer.drain()
        except OSError as error:
            raise _broke() from error

    async def receive(self) -> bytes:
        while not self._messages:
            if self._lost is not None:
                raise self._lost
            try:
                data = await self._reader.read(READ_BYTES)
                self._messages.extend(self._frames.feed(data))
                if not data:
                    self._lost = self._lost or _broke()
            except ConnectionLost as error:
                self._lost = error
            except OSError as error:
                self._lost = _broke()
                self._lost.__cause__ = error
            if self._frames.replies:
                self._writer.write(bytes(self._frames.replies))
                self._frames.replies.clear()
        return self._messages.popleft()

    async def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        if self._lost is None:
            self._lost = ConnectionLost("the connection to the gateway is closed", close_code=code)
            self._writer.write(encode_close(code, reason))
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()


def _broke() -> ConnectionLost:
    return ConnectionLost("the connection to the gateway broke")


@asynccontextmanager
async def connect(
    url: str, introduction: ConnectOptions, signer: Signer | None = None, *, pinned: str = ""
) -> AsyncIterator[GatewayClient]:
    """A connection after its handshake, for the length of the block; unencrypted only on this machine.

    `pinned` is the SHA-256 of the certificate a `wss://` gateway must present, in hexadecimal; without it the system's
    trust store decides.
    """
    where = parse_url(url)
    context = client_context(pinned) if where.encrypted else None
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            streams = await asyncio.open_connection(where.host, where.port, ssl=context)
    except OSError as error:  # also when it took too long
        raise ConnectionLost(f"cannot reach the gateway at {url}: {error}. Is it running?") from error
    socket = _WebSocket(*streams)
    try:
        if context is not None:
            check_pin(streams[1].get_extra_info("ssl_object").getpeercert(binary_form=True), pinned)
        await socket.upgrade(where)
        async with greeted(GatewayClient(socket), introduction, signer) as client:
            yield client
    finally:
        await socket.close()
