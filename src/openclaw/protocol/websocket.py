"""Connects a client to a gateway over a WebSocket. Apart from `client`, because the library is slow to load."""

import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import websockets.asyncio.client
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from openclaw.core.errors import InvalidRequest
from openclaw.protocol.client import ConnectionLost, ConnectOptions, GatewayClient, Signer, greeted
from openclaw.protocol.frames import CLOSE_NORMAL, MAX_PAYLOAD_BYTES
from openclaw.protocol.peer import is_loopback


class _WebSocket:
    """A websocket as a `ClientSocket`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, data: str | bytes) -> None:
        try:
            await self._socket.send(data, text=True)
        except ConnectionClosed as error:
            raise _lost(error) from error

    async def receive(self) -> str | bytes:
        try:
            return await self._socket.recv()
        except ConnectionClosed as error:
            raise _lost(error) from error

    async def close(self, code: int = CLOSE_NORMAL, reason: str = "") -> None:
        await self._socket.close(code, reason)


@asynccontextmanager
async def connect(
    url: str, introduction: ConnectOptions, signer: Signer | None = None, *, pinned: str = "", proves: bool = False
) -> AsyncIterator[GatewayClient]:
    """A connection after its handshake, for the length of the block; unencrypted only on this machine, or when it
    `proves` to know a secret that it does not send.

    `pinned` is the SHA-256 of the certificate a `wss://` gateway must present, in hexadecimal; without it the system's
    trust store decides.
    """
    if not proves:
        check_url(url)
    encryption: dict[str, Any] = {}
    if pinned:
        if not url.startswith("wss:"):
            raise InvalidRequest(f"{url} has no certificate to compare: leave the fingerprint out, or use wss://")
        encryption["ssl"] = context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the one valid certificate is known by its digest
    try:
        socket = await websockets.asyncio.client.connect(
            url, max_size=MAX_PAYLOAD_BYTES, compression=None, ping_interval=None, proxy=None, **encryption
        )
    except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
        raise ConnectionLost(f"cannot reach the gateway at {url}: {error}. Is it running?") from error
    try:
        if pinned:
            _check_pin(socket, pinned)
        async with greeted(GatewayClient(_WebSocket(socket)), introduction, signer) as client:
            yield client
    finally:
        await socket.close()


def _check_pin(socket: ClientConnection, pinned: str) -> None:
    """Checks the certificate's digest, before any secret is sent."""
    shown = socket.transport.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
    if not hmac.compare_digest(hashlib.sha256(shown).hexdigest(), pinned.replace(":", "").lower()):
        raise ConnectionLost("the gateway shows another certificate than expected: something else answers there")


def check_url(url: str) -> None:
    """Refuses to send a secret unencrypted to another machine."""
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise InvalidRequest(f"not a gateway address: {url}; it looks like ws://127.0.0.1:18789")
    if parts.scheme == "ws" and not is_loopback(parts.hostname):
        raise InvalidRequest(f"{url} is not encrypted and not on this machine: use wss://")


def _lost(error: ConnectionClosed) -> ConnectionLost:
    close = error.rcvd or error.sent
    if close is None:
        return ConnectionLost("the connection to the gateway broke")
    return ConnectionLost(f"the gateway closed the connection: {close.reason or close.code}", close_code=close.code)
