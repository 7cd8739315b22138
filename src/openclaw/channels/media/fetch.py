"""Fetches a file that goes out from its address, to disk, under a limit, from where the web tools may connect to."""

import asyncio
import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urljoin, urlsplit

import httpx2

from openclaw.core.channel import MessageRefused, TryLater
from openclaw.core.deferred import mimetypes
from openclaw.core.errors import InvalidRequest
from openclaw.tools.settings import FetchSettings
from openclaw.tools.web_client import REDIRECTS, USER_AGENT, GuardedTransport
from openclaw.tools.web_guard import AddressBlocked, address_rules, check_host, parse_url

FETCH_SECONDS = 300.0
_NOT_IN_NAME = re.compile(r"[^\w.() -]")


async def fetch_file(url: str, folder: Path, limit: int, settings: FetchSettings) -> Path:
    """The file in `folder`; raises `MessageRefused` or `TryLater`."""
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            return await _follow(url, folder, limit, settings)
    except (AddressBlocked, InvalidRequest) as error:
        raise MessageRefused(f"the file cannot be fetched: {error.message}") from error
    except (TimeoutError, httpx2.HTTPError) as error:
        raise TryLater(f"the file of {urlsplit(url).hostname} did not come: {type(error).__name__}") from error


async def _follow(url: str, folder: Path, limit: int, settings: FetchSettings) -> Path:
    """Follows redirects, each of which is checked like the first address."""
    rules = address_rules(settings.ssrf_policy, "tools.web.fetch.ssrfPolicy")
    headers = {"User-Agent": settings.user_agent or USER_AGENT}
    transport = GuardedTransport(rules)
    async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=settings.timeout_seconds) as client:
        for _ in range(settings.max_redirects + 1):
            check_host(parse_url(url).hostname or "", rules)
            async with client.stream("GET", url, headers=headers) as answer:
                if answer.status_code not in REDIRECTS:
                    return await _save(url, answer, folder, limit)
                url = _join(url, answer.headers.get("location", ""))
    raise MessageRefused(f"the file cannot be fetched: more than {settings.max_redirects} redirects")


def _join(url: str, target: str) -> str:
    try:
        return urljoin(url, target)
    except ValueError as error:
        raise InvalidRequest("it redirects to something that is not a URL") from error


async def _save(url: str, answer: httpx2.Response, folder: Path, limit: int) -> Path:
    host = urlsplit(url).hostname
    if answer.status_code >= 400:
        kind = TryLater if answer.status_code >= 500 or answer.status_code == 429 else MessageRefused
        raise kind(f"the file cannot be fetched: {host} answered {answer.status_code}")
    path = folder / _file_name(url, answer.headers.get("content-type", ""))
    size = 0
    with path.open("wb") as file:
        async for piece in answer.aiter_bytes():
            size += len(piece)
            if size > limit:
                raise MessageRefused(f"the file of {host} has more than {limit:,} bytes")
            file.write(piece)
    if not size:
        raise MessageRefused(f"the file of {host} is empty")
    return path


def _file_name(url: str, content_type: str) -> str:
    """The last part of the address, with the ending that its type has."""
    name = _NOT_IN_NAME.sub("_", PurePosixPath(unquote(urlsplit(url).path)).name).strip(". ")[-100:] or "file"
    if PurePosixPath(name).suffix:
        return name
    return name + (mimetypes.guess_extension(content_type.partition(";")[0].strip()) or "")
