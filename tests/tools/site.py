"""A small web site on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Site:
    """Answers by path; remembers what was asked."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.headers: list[str] = []
        self.port = 0

    def put(self, path: str, body: str | bytes, kind: str = "text/html; charset=utf-8", status: int = 200, **more: str):
        data = body.encode() if isinstance(body, str) else body
        self.pages[path] = (status, {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in more.items()}}, data)

    def moved(self, path: str, to: str) -> None:
        self.put(path, "", status=302, Location=to)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            self.asked.append(path)
            self.headers.append(head)
            status, headers, body = self.pages.get(path.partition("?")[0], (404, {"Content-Type": "text/plain"}, b"no"))
            lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Site"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
