"""Search engines: what each is asked, and how its answer is read."""

from html.parser import HTMLParser
from typing import Any, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from msgspec import Struct

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.secret import Secret
from openclaw.tools.guard import AddressRules
from openclaw.tools.web_pages import FetchedPage, FetchLimits, PageFetcher

BRAVE = "https://api.search.brave.com/res/v1/web/search"
DUCKDUCKGO = "https://html.duckduckgo.com/html/"
_FRESH = {"day": "d", "week": "w", "month": "m", "year": "y"}


class WebQuery(Struct, frozen=True, kw_only=True):
    text: str
    count: int = 5
    country: str = ""
    language: str = ""
    ui_language: str = ""
    freshness: str = ""
    after: str = ""
    before: str = ""


class WebResult(Struct, frozen=True, kw_only=True):
    title: str
    url: str
    description: str = ""
    published: str = ""

    def shown(self) -> dict[str, str]:
        return {
            "title": self.title,
            "url": self.url,
            "description": self.description,
            "published": self.published,
            "siteName": _site(self.url),
        }


class Engine(Protocol):
    name: str

    async def search(self, query: WebQuery) -> list[WebResult]: ...


class Engines(Struct, frozen=True, kw_only=True):
    """What the settings and the environment say about searching."""

    provider: str | None = None
    brave_key: Secret | None = None
    searxng: str | None = None
    seconds: float = 30.0
    brave: str = BRAVE
    duckduckgo: str = DUCKDUCKGO
    fence: AddressRules = AddressRules()


def choose(settings: Engines) -> Engine | None:
    """The engine that was named; else the first that can be used: Brave, SearXNG, DuckDuckGo."""
    pages = PageFetcher(settings.fence, FetchLimits(seconds=settings.seconds, bytes=2_000_000))
    match settings.provider or _first(settings):
        case "brave":
            return Brave(pages, settings.brave, settings.brave_key)
        case "searxng":
            return Searxng(settings)
        case "duckduckgo":
            return DuckDuckGo(pages, settings.duckduckgo)
    return None


def _first(settings: Engines) -> str:
    return "brave" if settings.brave_key else "searxng" if settings.searxng else "duckduckgo"


class Brave:
    name = "brave"

    def __init__(self, pages: PageFetcher, address: str, key: Secret | None) -> None:
        self._pages = pages
        self._address = address
        self._key = key

    async def search(self, query: WebQuery) -> list[WebResult]:
        if not self._key:
            raise InvalidRequest("no key for Brave Search: set BRAVE_API_KEY or tools.web.search.apiKey")
        fresh = f"p{_FRESH[query.freshness]}" if query.freshness else ""
        if query.after or query.before:
            fresh = f"{query.after or '1970-01-01'}to{query.before or '2100-01-01'}"
        asked = {
            "q": query.text,
            "count": str(query.count),
            "country": query.country.upper(),
            "search_lang": query.language,
            "ui_lang": query.ui_language,
            "freshness": fresh,
        }
        got = await self._pages.get(
            _with(self._address, asked),
            headers={"X-Subscription-Token": self._key.reveal(), "Accept": "application/json"},
        )
        answer = _decoded(got, "Brave Search", _BraveAnswer)
        return [
            WebResult(title=_plain(each.title), url=each.url, description=_plain(each.description), published=each.age)
            for each in answer.web.results
            if each.url
        ]


class Searxng:
    """An instance the owner runs or trusts; it may be on a private address, because the owner named it."""

    name = "searxng"

    def __init__(self, settings: Engines) -> None:
        self._address = (settings.searxng or "").rstrip("/")
        host = urlsplit(self._address).hostname or ""
        fence = AddressRules(allowed_hosts=(host,) if host else ())
        self._pages = PageFetcher(fence, FetchLimits(seconds=settings.seconds, bytes=2_000_000, redirects=0))

    async def search(self, query: WebQuery) -> list[WebResult]:
        if not self._address:
            raise InvalidRequest("no SearXNG address: set tools.web.search.baseUrl or SEARXNG_BASE_URL")
        asked = {
            "q": query.text,
            "format": "json",
            "language": query.language,
            "time_range": query.freshness,
        }
        got = await self._pages.get(_with(f"{self._address}/search", asked), headers={"Accept": "application/json"})
        answer = _decoded(got, "SearXNG", _SearxngAnswer)
        return [
            WebResult(
                title=_plain(each.title),
                url=each.url,
                description=_plain(each.content or ""),
                published=each.published_date or "",
            )
            for each in answer.results
            if each.url
        ][: query.count]


class DuckDuckGo:
    """The engine that needs no key: its page for browsers without scripts."""

    name = "duckduckgo"

    def __init__(self, pages: PageFetcher, address: str) -> None:
        self._pages = pages
        self._address = address

    async def search(self, query: WebQuery) -> list[WebResult]:
        region = f"{query.country.lower()}-{(query.language or 'en').lower()}" if query.country else ""
        asked = {"q": query.text, "kl": region, "df": _FRESH.get(query.freshness, "")}
        got = await self._pages.get(_with(self._address, asked))
        if got.status != 200:
            raise Unavailable(f"DuckDuckGo answered {got.status}: wait a while, or set up another engine.")
        page = _Results()
        page.feed(got.text)
        page.close()
        if not page.found and "anomaly" in got.text:
            raise Unavailable("DuckDuckGo wants to see a person: wait a while, or set up another engine.")
        return page.found[: query.count]


class _Results(HTMLParser):
    """Reads result titles, addresses and snippets."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[WebResult] = []
        self._url = ""
        self._part: list[str] | None = None
        self._is_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        kinds = (given.get("class") or "").split()
        if "result__a" in kinds:
            self._url, self._part, self._is_title = _target(given.get("href") or ""), [], True
        elif "result__snippet" in kinds and self.found:
            self._part, self._is_title = [], False

    def handle_data(self, data: str) -> None:
        if self._part is not None:
            self._part.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self._part is None or tag not in ("a", "div", "td"):
            return
        words = " ".join("".join(self._part).split())
        if self._is_title and self._url:
            self.found.append(WebResult(title=words, url=self._url))
        elif not self._is_title and self.found:
            self.found[-1] = msgspec.structs.replace(self.found[-1], description=words)
        self._part = None


def _target(href: str) -> str:
    """The address behind a link of the result page; advertisements have none."""
    try:
        url = urlsplit(f"https:{href}" if href.startswith("//") else href)
        hidden = parse_qs(url.query).get("uddg")
    except ValueError:
        return ""
    if hidden:
        href = hidden[0]
    elif (url.hostname or "").endswith("duckduckgo.com"):
        return ""
    return href if href.startswith(("http://", "https://")) else ""


class _BraveResult(Struct, frozen=True):
    title: str = ""
    url: str = ""
    description: str = ""
    age: str = ""


class _BraveWeb(Struct, frozen=True):
    results: tuple[_BraveResult, ...] = ()


class _BraveAnswer(Struct, frozen=True):
    web: _BraveWeb = _BraveWeb()


class _SearxngResult(Struct, frozen=True, rename="camel"):
    title: str = ""
    url: str = ""
    content: str | None = None
    published_date: str | None = None


class _SearxngAnswer(Struct, frozen=True):
    results: tuple[_SearxngResult, ...] = ()


def _decoded(got: FetchedPage, who: str, kind: type[Any]) -> Any:
    if got.status in (401, 403):
        raise Unavailable(f"{who} refused the request ({got.status}): check the key, or that JSON answers are enabled.")
    if got.status == 429:
        raise Unavailable(f"{who} says there were too many requests: wait a while.")
    if got.status != 200:
        raise Unavailable(f"{who} answered {got.status}.")
    try:
        return msgspec.json.decode(got.body, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{who} answered something that cannot be read.") from error


def _with(address: str, asked: dict[str, str]) -> str:
    return f"{address}?{urlencode({name: value for name, value in asked.items() if value})}"


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def _plain(text: str) -> str:
    """`text` without the tags engines put round what matched."""
    page = _Words()
    page.feed(text)
    page.close()
    return " ".join("".join(page.words).split())


def _site(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        return ""
