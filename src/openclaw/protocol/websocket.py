"""Connects a client to a gateway over a WebSocket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from openclaw.core.deferred import Deferred
from openclaw.protocol.address import GatewayUrl, check_pinnable, parse_url
from openclaw.protocol.client import GatewayClient, greeted
from openclaw.protocol.client_frames import ClientFrames
from openclaw.protocol.connect_request import ConnectionLost, ConnectOptions, Signer
from openclaw.protocol.frames import CLOSE_NORMAL
from openclaw.protocol.framing import (
    END_OF_HEAD,
    TEXT,
    encode_close,
    encode_frame,
    new_key,
    upgrade_problem,
    upgrade_request,
)

if TYPE_CHECKING:
    from openclaw.protocol import tls
else:
    tls = Deferred("openclaw.protocol.tls")

OPEN_SECONDS = 10.0
CLOSE_SECONDS = 5.0
READ_BYTES = 65_536


class _WebSocket:
    """A websocket as a `ClientSocket`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = ClientFrames()

    async def upgrade(self, url: GatewayUrl) -> None:
        """Turns the HTTP connection into a WebSocket."""
        key = new_key()
        self._writer.write(upgrade_request(url.authority, url.path, key))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                head = await self._reader.readuntil(END_OF_HEAD)
            problem = upgrade_problem(head.removesuffix(END_OF_HEAD), key)
        except TimeoutError:
            problem = f"no answer within {OPEN_SECONDS:g} s"
        except (asyncio.IncompleteReadError, OSError):
            problem = "it hung up"
        except asyncio.LimitOverrunError:
            problem = "something else than a gateway answers"
        if problem:
            raise ConnectionLost(f"cannot reach the gateway at {url.text}: {problem}. Is it running?")

    async def send(self, data: str | bytes) -> None:
        if self._frames.lost is not None:
            raise self._frames.lost
        self._writer.write(encode_frame(TEXT, data.encode() if isinstance(data, str) else data, masked=True))
        try:
            await self._writer.drain()
        except OSError as error:
            raise ConnectionLost("the connection to the gateway broke") from error

    async def receive(self) -> bytes:
        frames = self._frames
        while not frames.messages:  # one that came just before the end is read first
            if frames.lost is not None:
                raise frames.lost
            try:
                frames.feed(await self._reader.read(READ_BYTES))
            except OSError:
                frames.feed(b"")
            if replies := frames.take_replies():
                self._writer.write(replies)
        return frames.messages.popleft()

    async def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        if self._frames.lost is None:
            self._frames.lost = ConnectionLost("the connection to the gateway is closed", close_code=code)
            self._writer.write(encode_close(code, reason, masked=True))
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()


@asynccontextmanager
async def connect(
    url: str, introduction: ConnectOptions, signer: Signer | None = None, *, pinned: str = "", proves: bool = False
) -> AsyncIterator[GatewayClient]:
    """A connection after its handshake, for the length of the block; unencrypted only on this machine, or when it
    `proves` to know a secret that it does not send.

    `pinned` is the SHA-256 of the certificate a `wss://` gateway must present, in hexadecimal; without it the system's
    trust store decides.
    """
    where = parse_url(url, proves=proves)
    check_pinnable(where, pinned)
    context = tls.client_context(pinned) if where.encrypted else None
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            streams = await asyncio.open_connection(where.host, where.port, ssl=context)
    except OSError as error:  # also when it took too long
        raise ConnectionLost(f"cannot reach the gateway at {url}: {error}. Is it running?") from error
    socket = _WebSocket(*streams)
    try:
        if context is not None:
            tls.check_pin(streams[1].get_extra_info("ssl_object").getpeercert(binary_form=True), pinned)
        await socket.upgrade(where)
        async with greeted(GatewayClient(socket), introduction, signer) as client:
            yield client
    finally:
        await socket.close()
