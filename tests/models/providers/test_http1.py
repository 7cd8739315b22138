"""The small HTTP client: answers in any form, cut anywhere; connections used again."""

import asyncio
import gzip
from typing import Any

import pytest

from openclaw.models.providers.http import certificates
from openclaw.models.providers.http1 import (
    BrokenEncoding,
    HttpAddress,
    HttpConnection,
    HttpConnections,
    HttpFailure,
    ReadTimedOut,
    parse_address,
)

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
FORMS = {
    "chunks": CHUNKED + b"3\r\none\r\n4;note=x\r\n two\r\n0\r\n\r\n",
    "chunks and trailers": CHUNKED + b"7\r\none two\r\n0\r\nx-sum: 1\r\n\r\n",
    "a known length": HEAD + b"content-length: 7\r\n\r\none two",
    "after a hint": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + HEAD + b"content-length: 7\r\n\r\none two",
    "compressed": CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")
    + b"".join(b"1\r\n%c\r\n" % byte for byte in gzip.compress(b"one two"))
    + b"0\r\n\r\n",
}


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.aborted = False

    def write(self, data: Any) -> None:
        self.sent += data

    def is_reading(self) -> bool:
        return True

    def abort(self) -> None:
        self.aborted = True


async def exchange(*pieces: bytes, ends: bool = False) -> tuple[HttpConnection, bytes]:
    """A connection after an answer that arrived in `pieces`, and the body it read."""
    connection = HttpConnection()
    connection.connection_made(Wire())

    async def all_of_it() -> bytes:
        await connection.send(b"POST / HTTP/1.1\r\n\r\n", b"{}", None)
        body = b""
        while data := await connection.read():
            body += data
        return body

    reading = asyncio.create_task(all_of_it())
    await asyncio.sleep(0)
    for piece in pieces:
        connection.data_received(piece)
        await asyncio.sleep(0)
    if ends:
        connection.eof_received()
        connection.connection_lost(None)
    return connection, await reading


@pytest.mark.parametrize("form", FORMS)
async def test_an_answer_is_the_same_wherever_it_is_cut(form: str) -> None:
    raw = FORMS[form]
    for at in range(1, len(raw)):
        connection, body = await exchange(raw[:at], raw[at:])
        assert (connection.status, body) == (200, b"one two")
        assert connection.free
    connection, body = await exchange(*(raw[at : at + 1] for at in range(len(raw))))
    assert body == b"one two"


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    connection, body = await exchange(HEAD + b"\r\n", b"one", b" two", ends=True)
    assert body == b"one two"
    assert not connection.free


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 200", CHUNKED + b"7\r\none", FORMS["a known length"][:-1]])
async def test_an_answer_that_breaks_off_is_no_answer(cut: bytes) -> None:
    with pytest.raises(HttpFailure):
        await exchange(cut, ends=True)


@pytest.mark.parametrize("nonsense", [b"SSH-2.0-x\r\n\r\n", CHUNKED + b"zz\r\n", b"HTTP/1.1 ok\r\n\r\n"])
async def test_what_is_not_http_is_refused(nonsense: bytes) -> None:
    with pytest.raises(HttpFailure):
        await exchange(nonsense)


async def test_an_unknown_compression_is_named() -> None:
    with pytest.raises(BrokenEncoding, match="snappy"):
        await exchange(HEAD + b"content-encoding: snappy\r\ncontent-length: 1\r\n\r\nx")


async def test_a_connection_that_is_to_close_is_not_used_again() -> None:
    connection, _ = await exchange(HEAD + b"connection: close\r\ncontent-length: 1\r\n\r\nx")
    assert not connection.free


async def test_silence_is_limited() -> None:
    connection = HttpConnection()
    connection.connection_made(Wire())
    with pytest.raises(ReadTimedOut):
        await connection.send(b"", b"", 0.001)


async def test_a_connection_serves_one_request_after_another_until_the_server_closes_it() -> None:
    served: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            writer.write(FORMS["chunks"])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = HttpAddress(False, "127.0.0.1", server.sockets[0].getsockname()[1], "/")
    pool = HttpConnections(certificates)

    async def ask() -> HttpConnection:
        async with pool.post(address, {}, b"{}", None) as answer:
            while await answer.read():
                pass
        assert isinstance(answer, HttpConnection)
        return answer

    async with server:
        first = await ask()
        assert await ask() is first
        served[0].close()
        while first.free:
            await asyncio.sleep(0)
        assert await ask() is not first
        pool.close()
        for each in served:
            each.close()


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://localhost/v1", HttpAddress(False, "localhost", 80, "/v1")),
        ("HTTPS://api.example.com:8443", HttpAddress(True, "api.example.com", 8443, "/")),
        ("http://[::1]:11434/api", HttpAddress(False, "::1", 11434, "/api")),
        ("http://me:secret@host/", None),
        ("http://bücher.example/", None),
        ("http://host:99999/", None),
        ("http://host/a b", None),
        ("http://host/\r\nx: y", None),
        ("ftp://host/", None),
    ],
)
def test_only_plain_addresses_are_understood(url: str, parts: HttpAddress | None) -> None:
    assert parse_address(url) == parts
