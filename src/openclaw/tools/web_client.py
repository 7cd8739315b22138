"""Fetches pages through guarded connections. Apart from `web_fetch`, because the library is slow to load."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any
from urllib.parse import urljoin

import httpcore2
import httpx2

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.text import sanitize_line
from openclaw.tools.settings import FetchSettings
from openclaw.tools.web_fetch import FetchedPage, Resolve
from openclaw.tools.web_guard import AddressRules, check_addresses, check_host, parse_url

USER_AGENT = "Mozilla/5.0 (compatible; OpenClaw)"
REDIRECTS = (301, 302, 303, 307, 308)

# Guarded connections.

MOST_LOOKUPS = 16


@cache
def _lookups() -> ThreadPoolExecutor:
    """A separate pool: a look-up cannot be cancelled, and one that hangs should not block the default threads."""
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
    """Connects to the checked address, so that a second look-up cannot return another (DNS rebinding)."""

    def __init__(self, rules: AddressRules, resolve: Resolve) -> None:
        self._rules = rules
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
        check_host(host, self._rules)
        addresses = check_addresses(host, await self._resolve(host, port), self._rules)
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
            raise _translate(error) from error

    async def aclose(self) -> None:
        await self._stream.aclose()


class GuardedTransport(httpx2.AsyncBaseTransport):
    """A transport without proxies or environment that connects to checked addresses only."""

    def __init__(self, rules: AddressRules, resolve: Resolve = system_resolve) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            network_backend=PinnedNetwork(rules, resolve),
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
            raise _translate(error) from error
        return httpx2.Response(
            status_code=answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


def _translate(error: Exception) -> httpx2.TransportError:
    if isinstance(error, httpcore2.TimeoutException):
        return httpx2.ReadTimeout("no answer in time")
    if isinstance(error, httpcore2.ConnectError):
        return httpx2.ConnectError(str(error) or "it cannot be reached")
    if isinstance(error, httpcore2.ProtocolError):  # its own words quote what the server sent
        return httpx2.RemoteProtocolError("the server does not speak HTTP")
    return httpx2.ReadError(str(error) or "the connection was lost")


async def fetch_page(
    url: str,
    headers: Mapping[str, str],
    visited: list[str],
    rules: AddressRules,
    limits: FetchSettings,
    resolve: Resolve,
) -> FetchedPage:
    """The answer at the end of the redirects, each of which is added to `visited`."""
    limit = limits.timeout_seconds
    try:
        async with asyncio.timeout(limit):
            return await _follow(url, headers, visited, rules, limits, resolve)
    except TimeoutError as error:
        raise Unavailable(f"No complete answer within {limit:g} seconds.") from error
    except httpx2.TimeoutException as error:
        raise Unavailable("The server did not answer in time.") from error
    except httpx2.DecodingError as error:
        raise Unavailable("The answer cannot be decompressed.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unavailable(f"The page cannot be fetched: {sanitize_line(str(error))[:200]}") from error


async def _follow(
    url: str,
    headers: Mapping[str, str],
    visited: list[str],
    rules: AddressRules,
    limits: FetchSettings,
    resolve: Resolve,
) -> FetchedPage:
    """Follows redirects, each of which is checked like the first address and added to `visited`."""
    first = parse_url(url)
    plain = {
        "User-Agent": limits.user_agent or USER_AGENT,
        "Accept": "text/markdown, text/html;q=0.9, */*;q=0.1",
        "Accept-Encoding": "gzip, deflate",
    }
    sent = {**plain, **limits.headers, **headers}
    async with httpx2.AsyncClient(
        transport=GuardedTransport(rules, resolve),
        trust_env=False,
        follow_redirects=False,
        timeout=limits.timeout_seconds,
    ) as client:
        for _ in range(limits.max_redirects + 1):
            visited.append(url)
            parts = parse_url(url)
            check_host(parts.hostname or "", rules)
            if (parts.scheme, parts.netloc) != (first.scheme, first.netloc):
                sent = plain  # headers meant for one server are not sent to another
            async with client.stream("GET", url, headers=sent) as answer:
                target = answer.headers.get("location")
                if answer.status_code not in REDIRECTS or not target:
                    return await _read(url, answer, limits.max_response_bytes)
            try:
                url = urljoin(url, target)
            except ValueError as error:
                raise InvalidRequest("The page redirects to something that is not a URL.") from error
    raise InvalidRequest(f"The page redirects more than {limits.max_redirects} times.")


async def _read(url: str, answer: Any, most: int) -> FetchedPage:
    body = bytearray()
    truncated = False
    async for part in answer.aiter_bytes():
        body += part
        if len(body) >= most:
            truncated = len(body) > most
            del body[most:]
            break
    kind = sanitize_line(answer.headers.get("content-type", "")).partition(";")[0].strip().lower()
    return FetchedPage(
        url=url,
        status=answer.status_code,
        content_type=kind or "application/octet-stream",
        body=bytes(body),
        truncated=truncated,
        charset=answer.charset_encoding or "utf-8",
    )
