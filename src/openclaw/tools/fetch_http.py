"""Getting a page over HTTP within limits: of time, of size, of redirects, of addresses."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import httpx2

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.text import literal
from openclaw.tools.fetch_transport import GuardedTransport, system_resolve
from openclaw.tools.guard import AddressRules, check_host, parse_url
from openclaw.tools.web_pages import FetchedPage, FetchLimits, Resolve

_REDIRECTS = (301, 302, 303, 307, 308)


async def get(
    url: str, headers: Mapping[str, str], fence: AddressRules, limits: FetchLimits, resolve: Resolve | None
) -> FetchedPage:
    """The answer at the end of the redirects, each of which is judged like the first address."""
    try:
        async with asyncio.timeout(limits.seconds):
            return await _follow(url, headers, fence, limits, resolve or system_resolve)
    except TimeoutError as error:
        raise Unavailable(f"No complete answer within {limits.seconds:g} seconds.") from error
    except httpx2.TimeoutException as error:
        raise Unavailable("The server did not answer in time.") from error
    except httpx2.DecodingError as error:
        raise Unavailable("The answer cannot be decompressed.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unavailable(f"The page cannot be fetched: {literal(str(error))[:200]}") from error


async def _follow(
    url: str, extra: Mapping[str, str], fence: AddressRules, limits: FetchLimits, resolve: Resolve
) -> FetchedPage:
    first = parse_url(url)
    plain = {
        "User-Agent": limits.user_agent,
        "Accept": "text/markdown, text/html;q=0.9, */*;q=0.1",
        "Accept-Encoding": "gzip, deflate",
    }
    sent = {**plain, **limits.headers, **extra}
    async with httpx2.AsyncClient(
        transport=GuardedTransport(fence, resolve), trust_env=False, follow_redirects=False, timeout=limits.seconds
    ) as client:
        for _ in range(limits.redirects + 1):
            parts = parse_url(url)
            check_host(parts.hostname or "", fence)
            if (parts.scheme, parts.netloc) != (first.scheme, first.netloc):
                sent = plain  # what was meant for one server is not told to another
            async with client.stream("GET", url, headers=sent) as answer:
                target = answer.headers.get("location")
                if answer.status_code not in _REDIRECTS or not target:
                    return await _read(url, answer, limits.bytes)
                url = _joined(url, target)
    raise InvalidRequest(f"The page redirects more than {limits.redirects} times.")


async def _read(url: str, answer: Any, most: int) -> FetchedPage:
    body = bytearray()
    truncated = False
    async for part in answer.aiter_bytes():
        body += part
        if len(body) >= most:
            truncated = len(body) > most
            del body[most:]
            break
    kind = literal(answer.headers.get("content-type", "")).partition(";")[0].strip().lower()
    return FetchedPage(
        url=url,
        status=answer.status_code,
        content_type=kind or "application/octet-stream",
        body=bytes(body),
        truncated=truncated,
        charset=answer.charset_encoding or "utf-8",
    )


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError as error:
        raise InvalidRequest("The page redirects to something that is not a URL.") from error
