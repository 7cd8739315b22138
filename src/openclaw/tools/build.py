"""Builds the tools of a run from plain settings."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from openclaw.core.clock import Clock
from openclaw.core.sandbox import BoundSandbox
from openclaw.core.secret import Secret
from openclaw.core.tool import Tool
from openclaw.process.environment import safe_env
from openclaw.security.settings import AgentToolSettings
from openclaw.security.tool_policy import Level
from openclaw.tools.ask import AskUser
from openclaw.tools.background import Background, Retention
from openclaw.tools.exec import ExecTool
from openclaw.tools.image import DescribeImages, ImageTool
from openclaw.tools.plan import UpdatePlan
from openclaw.tools.process import ProcessTool
from openclaw.tools.sandboxed import SandboxedImage, SandboxedTool, SandboxWorkers
from openclaw.tools.sandboxed_worker import file_tools
from openclaw.tools.settings import BrowserSettings, FsSettings, ToolsSettings, WebSettings
from openclaw.tools.web_fetch import PageFetcher, WebCache, WebFetch
from openclaw.tools.web_guard import address_rules
from openclaw.tools.web_search import WebSearch, choose_engine

if TYPE_CHECKING:
    from openclaw.tools.browser.tool import Browsers


def build_browser_tools(settings: BrowserSettings, state: Path, browsers: "Callable[[], Browsers]") -> list[Tool]:
    """The browser tool, where its library is installed."""
    if not settings.enabled or not _has_playwright():
        return []
    from openclaw.tools.browser.tool import BrowserTool

    return [BrowserTool(browsers(), settings, state / "browser")]


@cache
def _has_playwright() -> bool:
    """Cached, because looking it up is slow and it does not change while the process lives."""
    return find_spec("playwright") is not None


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
    settings: ToolsSettings = ToolsSettings(),  # noqa: B008 (immutable)
    *,
    shell: str,
    env: Mapping[str, str],
    background: Background | None = None,
    look: DescribeImages | None = None,
    boxed: BoundSandbox | None = None,
    workers: SandboxWorkers | None = None,
    elevated: Level = "off",
) -> list[Tool]:
    """The tools of this machine but those of the web, in the order of the prompt.

    Commands inherit `env` without its credentials. With `boxed`, files and commands are those of the sandbox;
    `workers` run the file calls there.
    """
    env = safe_env(env)
    confined, patch_confined = settings.fs.workspace_only, settings.exec.apply_patch.workspace_only
    files = file_tools(env, confined=confined, patch_confined=patch_confined)
    image: Tool | None = ImageTool(look, workspace_only=confined) if look is not None else None
    if boxed is not None:
        assert workers is not None, "somebody has to work inside"
        files = [
            SandboxedTool(tool, boxed, workers, confined=confined, patch_confined=patch_confined) for tool in files
        ]
        if image is not None and look is not None:
            image = SandboxedImage(image, boxed, workers, look, confined=confined)
    return [
        *files,
        ExecTool(settings.exec, shell=shell, env=env, background=background, boxed=boxed, elevated=elevated),
        *([ProcessTool(background)] if background is not None else []),
        *([image] if image is not None else []),
        *([UpdatePlan()] if settings.experimental.plan_tool else []),
        AskUser(),
    ]


def build_web(state: ToolState, settings: WebSettings, env: Mapping[str, str]) -> list[Tool]:
    """The web tools; `env` is where a search key or address is looked up that the settings do not have."""
    fetch = settings.fetch
    search = structs.replace(
        settings.search,
        api_key=settings.search.api_key or (Secret(env["BRAVE_API_KEY"]) if env.get("BRAVE_API_KEY") else None),
        base_url=settings.search.base_url or env.get("SEARXNG_BASE_URL"),
    )
    pages = PageFetcher(address_rules(fetch.ssrf_policy, "tools.web.fetch.ssrfPolicy"), fetch)
    return [WebSearch(choose_engine(search), state.web, search), WebFetch(pages, state.web, state.clock, fetch)]


def build_machine_tools(
    settings: ToolsSettings,
    variables: Mapping[str, str],
    standing: ToolState,
    look: DescribeImages,
    *,
    background: bool,
    own: AgentToolSettings,
    boxed: BoundSandbox | None = None,
    elevated: Level = "off",
) -> list[Tool]:
    """The tools that need nothing but this machine; commands outlive their call only with `background`.

    With `boxed` they work in a sandbox.
    """
    confined = settings.fs.workspace_only if own.fs.workspace_only is None else own.fs.workspace_only
    longest = settings.exec.timeout_seconds if own.exec.timeout_seconds is None else own.exec.timeout_seconds
    settings = structs.replace(
        settings,
        fs=FsSettings(workspace_only=confined),
        exec=structs.replace(
            settings.exec,
            timeout_seconds=longest,
            background_ms=_yield_ms(settings.exec.background_ms, variables),
        ),
    )
    built = build_tools(
        settings,
        shell=variables.get("SHELL", "/bin/sh"),
        env=variables,
        background=standing.background if background else None,
        look=look,
        boxed=boxed,
        workers=standing.workers,
        elevated=elevated,
    )
    return built + build_web(standing, settings.web, variables)


def _yield_ms(configured: int, variables: Mapping[str, str]) -> int:
    given = variables.get("OPENCLAW_BASH_YIELD_MS", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 9 else configured
