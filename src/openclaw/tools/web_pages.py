"""Getting a page over HTTP within limits: of time, of size, of redirects, of addresses."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import httpx2
from msgspec import Struct, field

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.text import literal
from openclaw.tools.fetch_transport import GuardedTransport, Resolve, system_resolve
from openclaw.tools.guard import Fence, check_host, parse_url

USER_AGENT = "Mozilla/5.0 (compatible; OpenClaw)"
_REDIRECTS = (301, 302, 303, 307, 308)


class Limits(Struct, frozen=True, kw_only=True):
    bytes: int = 750_000
    seconds: float = 30.0
    redirects: int = 3
    user_agent: str = USER_AGENT
    headers: Mapping[str, str] = field(default_factory=dict)


class Got(Struct, frozen=True, kw_only=True):
    """What a server answered."""

    url: str
    status: int
    content_type: str
    body: bytes
    truncated: bool
    charset: str

    @property
    def text(self) -> str:
        try:
            return self.body.decode(self.charset, "replace")
        except (LookupError, ValueError):
            return self.body.decode("utf-8", "replace")


class Pages:
    """Fetches pages through the guard."""

    def __init__(self, fence: Fence, limits: Limits, resolve: Resolve = system_resolve) -> None:
        self._fence = fence
        self._limits = limits
        self._resolve = resolve

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Got:
        """The answer at the end of the redirects; what cannot be had is an error with a reason."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._follow(url, headers or {})
        except TimeoutError as error:
            raise Unavailable(f"No complete answer within {limits.seconds:g} seconds.") from error
        except httpx2.TimeoutException as error:
            raise Unavailable("The server did not answer in time.") from error
        except httpx2.DecodingError as error:
            raise Unavailable("The answer cannot be decompressed.") from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unavailable(f"The page cannot be fetched: {literal(str(error))[:200]}") from error

    async def _follow(self, url: str, extra: Mapping[str, str]) -> Got:
        limits = self._limits
        sent = {
            "User-Agent": limits.user_agent,
            "Accept": "text/markdown, text/html;q=0.9, */*;q=0.1",
            "Accept-Encoding": "gzip, deflate",
        }
        sent = {**sent, **limits.headers, **extra}
        first = parse_url(url)
        async with httpx2.AsyncClient(
            transport=GuardedTransport(self._fence, self._resolve),
            trust_env=False,
            follow_redirects=False,
            timeout=limits.seconds,
        ) as client:
            for _ in range(limits.redirects + 1):
                parts = parse_url(url)
                check_host(parts.hostname or "", self._fence)
                if (parts.scheme, parts.netloc) != (first.scheme, first.netloc):
                    # What was meant for one server is not told to another.
                    sent = {name: value for name, value in sent.items() if name not in (*limits.headers, *extra)}
                async with client.stream("GET", url, headers=sent) as answer:
                    target = answer.headers.get("location")
                    if answer.status_code not in _REDIRECTS or not target:
                        return await self._read(url, answer)
                    url = _joined(url, target)
        raise InvalidRequest(f"The page redirects more than {limits.redirects} times.")

    async def _read(self, url: str, answer: Any) -> Got:
        body = bytearray()
        truncated = False
        async for part in answer.aiter_bytes():
            body += part
            if len(body) >= self._limits.bytes:
                truncated = len(body) > self._limits.bytes
                del body[self._limits.bytes :]
                break
        kind = literal(answer.headers.get("content-type", "")).partition(";")[0].strip().lower()
        return Got(
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
