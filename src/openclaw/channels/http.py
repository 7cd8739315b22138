"""HTTP for channels whose platform has a REST interface: translates httpx2's errors into those of the seam.

A new channel makes every request inside `translate_errors` and hands out files with `stream_file`; only what its
platform's own answers mean stays in its `wire.py`.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager

import httpx2

from openclaw.core.channel import MessageRefused, TryLater, Unsure
from openclaw.core.errors import OpenClawError


@contextmanager
def translate_errors(service: str, what: str = "", *, sending: bool = False) -> Iterator[None]:
    """Raises `TryLater` for a request that cannot have arrived, and `Unsure` for a message that may have.

    Errors name `service` and `what` was asked, never the address: it may hold a token.
    """
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise TryLater(f"{service} could not be reached: {type(error).__name__}") from None
    except httpx2.HTTPError as error:
        raise unclear(f"{service} did not answer{what and f' {what}'}: {type(error).__name__}", sending) from None


def unclear(why: str, sending: bool) -> OpenClawError:
    """An answer from which one cannot tell what became of the request."""
    return Unsure(why) if sending else TryLater(why)


async def stream_file(
    http: httpx2.AsyncClient,
    url: str,
    service: str,
    *,
    failure: Callable[[int, bytes], OpenClawError] | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[bytes, None]:
    """A file, piece by piece; `failure` says what another status than 200 means, where a platform has its own words."""
    try:
        async with http.stream("GET", url, headers=headers) as answer:
            status = answer.status_code
            if status != 200 and failure is not None:
                raise failure(status, await answer.aread())
            if status != 200:
                kind = TryLater if status >= 500 or status == 429 else MessageRefused
                raise kind(f"{service} answered {status} instead of the file")
            async for piece in answer.aiter_bytes():
                yield piece
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise TryLater(f"{service} did not hand out the file: {type(error).__name__}") from None
