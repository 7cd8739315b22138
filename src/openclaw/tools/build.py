"""Builds the tools of a run from plain settings."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from openclaw.core.clock import Clock
from openclaw.core.sandbox import BoundSandbox
from openclaw.core.secret import Secret
from openclaw.core.tool import Tool
from openclaw.process.environment import safe_env
from openclaw.security.label_service import wrap_untrusted
from openclaw.tools.background import Background, Retention
from openclaw.tools.edit import EditTool
from openclaw.tools.exec import MOST_PROCESSES, YIELD_MS, Elevated, ExecTool
from openclaw.tools.files import LsTool, ReadTool, WriteTool
from openclaw.tools.image import DescribeImages, ImageTool
from openclaw.tools.patch import ApplyPatch
from openclaw.tools.plan import UpdatePlan
from openclaw.tools.process import ProcessTool
from openclaw.tools.sandboxed import SandboxedImage, SandboxedTool, SandboxWorkers
from openclaw.tools.search import FindTool, GrepTool
from openclaw.tools.settings import BrowserSettings
from openclaw.tools.web_fetch import FetchLimits, FetchRules, PageFetcher, WebCache, WebFetch, Wrap
from openclaw.tools.web_guard import AddressRules
from openclaw.tools.web_search import EngineSettings, WebSearch, choose_engine

if TYPE_CHECKING:
    from openclaw.tools.browser.tool import BrowserRules, Browsers


def build_browser_tools(settings: BrowserSettings, state: Path, browsers: "Callable[[], Browsers]") -> list[Tool]:
    """The browser tool, where its library is installed."""
    # Not `nodes` and `canvas` (`tools/nodes.py`): a client may connect with the role `node`, but the gateway cannot
    # route a call to it yet, so no device can serve them.
    found: list[Tool] = []
    if settings.enabled and _has_playwright():
        from openclaw.tools.browser.tool import BrowserTool

        found.append(BrowserTool(browsers(), _rules(settings, state), wrap_untrusted))
    return found


@cache
def _has_playwright() -> bool:
    """Cached, because looking it up is slow and it does not change while the process lives."""
    return find_spec("playwright") is not None


def _rules(settings: BrowserSettings, state: Path) -> "BrowserRules":
    from openclaw.tools.browser.tool import BrowserRules

    return BrowserRules(
        state=str(state / "browser"),
        executable=settings.executable_path,
        headless=settings.headless,
        no_sandbox=settings.no_sandbox,
        evaluate=settings.evaluate_enabled,
        default_profile=settings.default_profile,
        args=settings.extra_args,
        snapshot_mode=settings.snapshot_defaults.mode or "",
        allow_private=settings.ssrf_policy.dangerously_allow_private_network,
        allowed_hosts=settings.ssrf_policy.allowed_hostnames,
        blocked_hosts=settings.ssrf_policy.blocked_hostnames,
    )


class WebToolSettings(Struct, frozen=True, kw_only=True):
    """The owner's settings of the web tools, as plain values."""

    fence: AddressRules = AddressRules()
    max_bytes: int = 750_000
    fetch_seconds: float = 30.0
    redirects: int = 3
    user_agent: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    max_chars: int = 20_000
    chars_cap: int = 20_000
    fetch_cached_for: float = 900.0
    readability: bool = True
    provider: str | None = None
    brave_key: Secret | None = None
    searxng: str | None = None
    search_seconds: float = 30.0
    search_cached_for: float = 900.0
    results: int = 5


class ToolState:
    """State that tools keep between calls; whoever opens it closes it."""

    def __init__(self, clock: Clock, *, kept_for: float = 1800.0) -> None:
        self.clock = clock
        self.background = Background(clock, Retention(seconds=kept_for))
        self.web = WebCache(clock)
        self.workers = SandboxWorkers()

    async def close(self) -> None:
        await self.background.close()
        await self.workers.close()


def build_tools(
    *,
    shell: str,
    env: Mapping[str, str],
    workspace_only: bool = False,
    patch_workspace_only: bool = True,
    exec_timeout: float = 1800.0,
    path_prepend: Sequence[str] = (),
    background: Background | None = None,
    yield_ms: float = YIELD_MS,
    look: DescribeImages | None = None,
    plan: bool = False,
    boxed: BoundSandbox | None = None,
    workers: SandboxWorkers | None = None,
    elevated: Elevated = "off",
    most_processes: int = MOST_PROCESSES,
) -> list[Tool]:
    """All tools, in the order of the prompt. Commands inherit `env` without its credentials.

    With `boxed`, files and commands are those of the sandbox; `workers` run the file calls there.
    """
    env = safe_env(env)
    files: list[Tool] = [
        ReadTool(workspace_only=workspace_only),
        WriteTool(workspace_only=workspace_only),
        EditTool(workspace_only=workspace_only),
        ApplyPatch(workspace_only=workspace_only or patch_workspace_only),
        GrepTool(env=env, workspace_only=workspace_only),
        FindTool(env=env, workspace_only=workspace_only),
        LsTool(workspace_only=workspace_only),
    ]
    image: Tool | None = ImageTool(look, workspace_only=workspace_only) if look is not None else None
    if boxed is not None:
        assert workers is not None, "somebody has to work inside"
        files = [
            SandboxedTool(tool, boxed, workers, confined=workspace_only, patch_confined=patch_workspace_only)
            for tool in files
        ]
        if image is not None and look is not None:
            image = SandboxedImage(image, boxed, workers, look, confined=workspace_only)
    return [
        *files,
        ExecTool(
            shell=shell,
            env=env,
            timeout=exec_timeout,
            path_prepend=path_prepend,
            background=background,
            yield_ms=yield_ms,
            boxed=boxed,
            elevated=elevated,
            most_processes=most_processes,
        ),
        *([ProcessTool(background)] if background is not None else []),
        *([image] if image is not None else []),
        *([UpdatePlan()] if plan else []),
    ]


def build_web(standing: ToolState, wrap: Wrap, settings: WebToolSettings) -> list[Tool]:
    """The web tools."""
    pages = PageFetcher(
        settings.fence,
        FetchLimits(
            bytes=settings.max_bytes,
            seconds=settings.fetch_seconds,
            redirects=settings.redirects,
            headers=settings.headers,
            **({"user_agent": settings.user_agent} if settings.user_agent else {}),
        ),
    )
    rules = FetchRules(
        max_chars=settings.max_chars,
        cap=settings.chars_cap,
        cached_for=settings.fetch_cached_for,
        readability=settings.readability,
    )
    engine = choose_engine(
        EngineSettings(
            provider=settings.provider,
            brave_key=settings.brave_key,
            searxng=settings.searxng,
            seconds=settings.search_seconds,
        )
    )
    search = WebSearch(engine, standing.web, wrap, count=settings.results, cached_for=settings.search_cached_for)
    return [search, WebFetch(pages, standing.web, wrap, standing.clock, rules)]
