"""HTTP by a general client, for addresses that `http1` leaves to it: through proxies, with passwords, in any script."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import httpx2

from openclaw.core.deferred import ssl
from openclaw.models.providers.http1 import (
    CONNECT_SECONDS,
    BrokenEncoding,
    ConnectTimedOut,
    HttpFailure,
    NotAnAddress,
    NotReached,
    ProxyFailed,
    ReadTimedOut,
    StreamedResponse,
)


class _Answer:
    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self.ended = False
        self._chunks = response.aiter_bytes()

    async def read(self) -> bytes:
        try:
            return await anext(self._chunks, b"")
        except httpx2.HTTPError as error:
            raise _failure(error) from error


class ProxiedClient:
    """The connection pool of one provider."""

    def __init__(self, certificates: "Callable[[], ssl.SSLContext]") -> None:
        self._client = httpx2.AsyncClient(verify=certificates())

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, seconds: float | None
    ) -> AsyncIterator[StreamedResponse]:
        """Sends `body`; the answer for the length of the block."""
        timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS, pool=None)
        try:
            async with self._client.stream("POST", url, content=body, headers=headers, timeout=timeout) as response:
                yield _Answer(response)
        except httpx2.HTTPError as error:
            raise _failure(error) from error
        except httpx2.InvalidURL as error:
            raise NotAnAddress(str(error)) from error

    async def close(self) -> None:
        await self._client.aclose()


def _failure(error: httpx2.HTTPError) -> HttpFailure:
    match error:
        case httpx2.ConnectTimeout():
            return ConnectTimedOut(str(error))
        case httpx2.TimeoutException():
            return ReadTimedOut(str(error))
        case httpx2.ProxyError():
            return ProxyFailed(str(error))
        case httpx2.ConnectError():
            return NotReached(str(error))
        case httpx2.UnsupportedProtocol():
            return NotAnAddress(str(error))
        case httpx2.DecodingError():
            return BrokenEncoding(str(error))
        case _:
            return HttpFailure(str(error))
