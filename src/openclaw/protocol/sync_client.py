"""A blocking client for one command at a time: connect, call, read the answer.

    with SyncClient.connect(parse_url("ws://127.0.0.1:18789"), ConnectOptions(…), timeout=30) as client:
        health = client.call("health")

The one exception to a single client: most commands ask one question, and loading asyncio takes longer than the answer.
It hears no events.
"""

import itertools
import socket
import time
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import UNSET, Raw

from openclaw.core.errors import InvalidRequest
from openclaw.protocol.address import GatewayUrl
from openclaw.protocol.client_frames import ClientFrames
from openclaw.protocol.connect_request import (
    CallTimeout,
    ConnectionLost,
    ConnectOptions,
    Signer,
    call_failed,
    connect_request,
    read_challenge,
)
from openclaw.protocol.frames import EventFrame, RequestFrame, Response, encode, parse_from_server
from openclaw.protocol.framing import (
    END_OF_HEAD,
    MAX_HEAD_BYTES,
    TEXT,
    encode_close,
    encode_frame,
    new_key,
    upgrade_problem,
    upgrade_request,
)

READ_BYTES = 65_536


class Encryption(Protocol):
    """Encrypts a connection; `PinnedTls` does."""

    def wrap(self, connection: socket.socket, host: str) -> socket.socket: ...


class SyncClient:
    """An open connection after its handshake; everything together takes at most `timeout` seconds."""

    def __init__(self, connection: socket.socket, where: str, timeout: float | None) -> None:
        self._socket = connection
        self._where = where
        self._limit = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._frames = ClientFrames()
        self._ids = itertools.count(1)
        self.hello: dict[str, Any] = {}

    @classmethod
    def connect(
        cls,
        url: GatewayUrl,
        introduction: ConnectOptions,
        *,
        timeout: float | None,
        encryption: Encryption | None = None,
        signer: Signer | None = None,
    ) -> "SyncClient":
        """Connects and introduces us; a rejection raises `CallFailed`."""
        try:
            # As text, even an address in digits loads the codec for domain names in other scripts.
            host: Any = url.host.encode() if url.host.isascii() else url.host
            connection = socket.create_connection((host, url.port), timeout)
            if encryption is not None:
                connection = encryption.wrap(connection, url.host)
        except OSError as error:
            raise ConnectionLost(f"cannot reach the gateway at {url.text}: {error}. Is it running?") from error
        client = cls(connection, url.text, timeout)
        try:
            client._upgrade(url)
            client._greet(introduction, signer)
        except BaseException:
            client.close()
            raise
        return client

    def call(self, method: str, params: Mapping[str, Any] | None = None, *, final: bool = False) -> Any:
        """The payload of the answer; with `final` an `accepted` answer is not the last."""
        request_id = f"{next(self._ids)}:{method}"
        given = Raw(encode({} if params is None else params))
        self._send(encode(RequestFrame(id=request_id, method=method, params=given)))
        while True:
            response = self._receive(f"{self._where} has not answered {method}")
            if not isinstance(response, Response) or response.id != request_id:
                continue
            if not response.ok:
                raise call_failed(response)
            payload = None if response.payload is UNSET else response.payload
            if not (final and isinstance(payload, dict) and payload.get("status") == "accepted"):
                return payload

    def close(self) -> None:
        try:
            self._socket.settimeout(1)
            self._socket.sendall(encode_close(masked=True))
        except OSError:
            pass  # it is closed already
        self._socket.close()

    def __enter__(self) -> "SyncClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _upgrade(self, url: GatewayUrl) -> None:
        key = new_key()
        self._write(upgrade_request(url.authority, url.path, key))
        head = b""
        while END_OF_HEAD not in head and len(head) < MAX_HEAD_BYTES:
            more = self._read(f"{self._where} has not answered")
            if not more:
                break
            head += more
        head, _, rest = head.partition(END_OF_HEAD)
        if problem := upgrade_problem(head, key):
            raise ConnectionLost(f"cannot reach the gateway at {self._where}: {problem}. Is it running?")
        if rest:
            self._frames.feed(rest)

    def _greet(self, introduction: ConnectOptions, signer: Signer | None) -> None:
        silent = "the gateway did not finish the handshake"
        first = self._receive(silent)
        if not isinstance(first, EventFrame):
            raise InvalidRequest("the gateway sent no challenge: is this really an OpenClaw gateway?")
        self._send(encode(connect_request(introduction, read_challenge(first), "connect", signer)))
        while not isinstance(answer := self._receive(silent), Response):
            pass
        if not answer.ok:
            raise call_failed(answer)
        self.hello = answer.payload if isinstance(answer.payload, dict) else {}

    def _receive(self, silent: str) -> Response | EventFrame | None:
        """The next message; raises `CallTimeout` with `silent` when there is none in time."""
        frames = self._frames
        while not frames.messages:  # one that came just before the end is read first
            if frames.lost is not None:
                raise frames.lost
            frames.feed(self._read(silent))
            if replies := frames.take_replies():
                self._write(replies)
        return parse_from_server(frames.messages.popleft())

    def _read(self, silent: str) -> bytes:
        try:
            self._socket.settimeout(self._left())
            data = self._socket.recv(READ_BYTES)
        except TimeoutError:
            raise CallTimeout(f"{silent} within {self._limit:g} s") from None
        except OSError as error:
            raise ConnectionLost("the connection to the gateway broke") from error
        return data

    def _send(self, message: bytes) -> None:
        self._write(encode_frame(TEXT, message, masked=True))

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self._left())
            self._socket.sendall(data)
        except TimeoutError:
            raise CallTimeout(f"{self._where} takes nothing within {self._limit:g} s") from None
        except OSError as error:
            raise ConnectionLost("the connection to the gateway broke") from error

    def _left(self) -> float | None:
        # Not 0, which would mean not to wait at all.
        return None if self._deadline is None else max(0.001, self._deadline - time.monotonic())
