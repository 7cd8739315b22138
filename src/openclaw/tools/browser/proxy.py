"""The only way out for the browser: a proxy on loopback that connects only to addresses the guard has seen.

Redirects, pictures, scripts, sockets and workers of a page all come through here, whatever they are called and however
often a name changes its address.
"""

import asyncio
from collections import deque
from contextlib import suppress

from openclaw.core.errors import OpenClawError
from openclaw.tools.guard import AddressRules, check_addresses, check_host, parse_url

HEAD_BYTES = 64 * 1024
CONNECT_SECONDS = 20.0
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"


class Proxy:
    """Serves for as long as its server is open; remembers what it refused."""

    def __init__(self, fence: AddressRules) -> None:
        self._fence = fence
        self.refused: deque[str] = deque(maxlen=50)

    async def open(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CONNECT_SECONDS)
            await self._pass_on(head, reader, writer)
        except OpenClawError as error:
            self.refused.append(error.message)
            with suppress(ConnectionError):
                writer.write(REFUSED + error.message.encode())
                await writer.drain()
        except (TimeoutError, ConnectionError, OSError, ValueError, asyncio.IncompleteReadError):
            pass  # the browser sees a connection that ended, and says so
        finally:
            with suppress(ConnectionError, OSError):
                writer.close()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, _, rest = head.decode("latin-1").partition("\r\n")
        method, target, _ = first.split(" ", 2)
        if method == "CONNECT":
            url = parse_url(f"https://{target}/")
            there, out = await self._connect(url.hostname or "", url.port or 443)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both_ways(reader, writer, there, out, None)
            return
        url = parse_url(target)
        there, out = await self._connect(url.hostname or "", url.port or 80)
        lines = [line for line in rest.split("\r\n") if line and not line.lower().startswith(("proxy-", "connection:"))]
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        # One request a connection: a second one might be meant for another host.
        out.write("\r\n".join([f"{method} {path} HTTP/1.1", *lines, "Connection: close", "", ""]).encode("latin-1"))
        await _both_ways(reader, writer, there, out, _length(lines))

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        check_host(host, self._fence)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=1)
        addresses = check_addresses(host, list(dict.fromkeys(str(entry[4][0]) for entry in found)), self._fence)
        async with asyncio.timeout(CONNECT_SECONDS):
            for address in addresses[:-1]:
                with suppress(OSError):
                    return await asyncio.open_connection(address, port)
            return await asyncio.open_connection(addresses[-1], port)


def _length(lines: list[str]) -> int:
    for line in lines:
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(value)
        if name.lower() == "transfer-encoding":
            raise ValueError("a body without a length")
    return 0


async def _both_ways(
    here: asyncio.StreamReader,
    back: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    out: asyncio.StreamWriter,
    most: int | None,
) -> None:
    """Carries bytes until the far side has ended, at most `most` of them outward."""
    outward = asyncio.create_task(_carry(here, out, most))
    try:
        await _carry(there, back, None)
    finally:
        outward.cancel()
        await asyncio.gather(outward, return_exceptions=True)
        with suppress(ConnectionError, OSError):
            out.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, most: int | None) -> None:
    with suppress(ConnectionError, OSError):
        while most is None or most > 0:
            part = await source.read(65_536 if most is None else min(most, 65_536))
            if not part:
                break
            most = None if most is None else most - len(part)
            sink.write(part)
            await sink.drain()
        if most is None and sink.can_write_eof():
            sink.write_eof()
