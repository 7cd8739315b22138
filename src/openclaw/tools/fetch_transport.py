"""HTTP that connects only to addresses the guard has seen: a name is looked up once, checked, and pinned."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import httpcore2
import httpx2

from openclaw.tools.guard import AddressRules, check_addresses, check_host
from openclaw.tools.web_pages import Resolve

MOST_LOOKUPS = 16


@cache
def _lookups() -> ThreadPoolExecutor:
    """A look-up cannot be stopped: one that hangs after its call was cancelled keeps a thread of these, not of all."""
    return ThreadPoolExecutor(MOST_LOOKUPS, thread_name_prefix="lookup")


async def system_resolve(host: str, port: int) -> list[str]:
    """The addresses of `host`, as a connection would look them up."""
    look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(_lookups(), look)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError(f"{host} cannot be found") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class PinnedNetwork(httpcore2.AsyncNetworkBackend):
    """Connects to the address that was checked, so that a second look-up cannot give another."""

    def __init__(self, fence: AddressRules, resolve: Resolve) -> None:
        self._fence = fence
        self._resolve = resolve
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        check_host(host, self._fence)
        addresses = check_addresses(host, await self._resolve(host, port), self._fence)
        problem: httpcore2.ConnectError | httpcore2.ConnectTimeout | None = None
        for address in addresses[:3]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem or httpcore2.ConnectError(f"{host} cannot be reached")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("sockets of this machine are never opened")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._stream:
                yield part
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise _translated(error) from error

    async def aclose(self) -> None:
        await self._stream.aclose()


class GuardedTransport(httpx2.AsyncBaseTransport):
    """A transport without proxies, environment or second thoughts about addresses."""

    def __init__(self, fence: AddressRules, resolve: Resolve = system_resolve) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            network_backend=PinnedNetwork(fence, resolve),
            max_keepalive_connections=0,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        wanted = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        try:
            answer = await self._pool.handle_async_request(wanted)
        except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise _translated(error) from error
        return httpx2.Response(
            status_code=answer.status,
            headers=answer.headers,
            stream=_Body(answer.stream),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


def _translated(error: Exception) -> httpx2.TransportError:
    if isinstance(error, httpcore2.TimeoutException):
        return httpx2.ReadTimeout("no answer in time")
    if isinstance(error, httpcore2.ConnectError):
        return httpx2.ConnectError(str(error) or "it cannot be reached")
    return httpx2.ReadError(str(error) or "the connection was lost")
