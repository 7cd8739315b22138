"""What is asked of the web and what comes back; the HTTP library is loaded when the first page is fetched."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field

from openclaw.tools.guard import AddressRules

USER_AGENT = "Mozilla/5.0 (compatible; OpenClaw)"
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host."""


class FetchLimits(Struct, frozen=True, kw_only=True):
    bytes: int = 750_000
    seconds: float = 30.0
    redirects: int = 3
    user_agent: str = USER_AGENT
    headers: Mapping[str, str] = field(default_factory=dict)


class FetchedPage(Struct, frozen=True, kw_only=True):
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


class PageFetcher:
    """Fetches pages through the guard."""

    def __init__(self, fence: AddressRules, limits: FetchLimits, resolve: Resolve | None = None) -> None:
        self._fence = fence
        self._limits = limits
        self._resolve = resolve

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> FetchedPage:
        """The answer at the end of the redirects; what cannot be had is an error with a reason."""
        from openclaw.tools.fetch_http import get

        return await get(url, headers or {}, self._fence, self._limits, self._resolve)
