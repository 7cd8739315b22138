"""A tiny HTTP server on loopback that answers with prepared bytes and remembers what it was asked."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct, field

DEADLINE = 60.0


class Asked(Struct, frozen=True):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Answer(Struct, frozen=True, kw_only=True):
    """What to send: the pieces go out one by one; then the body ends, is cut, or hangs."""

    pieces: tuple[bytes, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    ending: str = "whole"


def pieces(body: bytes, size: int = 0) -> tuple[bytes, ...]:
    """`body` as the network might cut it."""
    return tuple(body[start : start + size] for start in range(0, len(body), size)) if size else (body,)


class Loopback:
    """Answers in the order given; the last answer repeats."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []
        self.connections = 0
        self.hung_up = asyncio.Event()
        self.url = ""

    def will(self, *answers: Answer) -> None:
        self.answers = list(answers)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readexactly(1)
        if head == b"\x16":  # the first byte of a TLS greeting, which this server does not speak
            writer.write(b"HTTP/1.1 400 X\r\n\r\n")
            return False
        head += await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ")
        self.asked.append(Asked(method, path, headers, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.ending == "refuse":
            return False
        sent = {"content-type": answer.content_type, "transfer-encoding": "chunked", **answer.headers}
        writer.write(f"HTTP/1.1 {answer.status} X\r\n".encode())
        writer.write("".join(f"{name}: {value}\r\n" for name, value in sent.items()).encode() + b"\r\n")
        for piece in answer.pieces:
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        if answer.ending == "hang":
            async with asyncio.timeout(DEADLINE):
                await reader.read(1)  # returns when the client goes away
            self.hung_up.set()
            return False
        if answer.ending == "cut":
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def loopback() -> AsyncIterator[Loopback]:
    served = Loopback()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await served.serve(reader, writer)
        tasks.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
