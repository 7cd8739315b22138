"""Tools that reach beyond the house: a browser."""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from openclaw.core.tool import Tool
from openclaw.gateway import wings
from openclaw.gateway.tools.wrapping import wrap
from openclaw.policy.reach import BrowserSettings


def tools(settings: BrowserSettings, state: Path, browsers: Callable[[], Any]) -> list[Tool]:
    """What there is here. A browser is offered where its library is installed."""
    # `nodes` and `canvas` (`tools/nodes.py`) are not among them: a client may connect with the role `node`, but the
    # gateway has no way to hand it a call, so no device can serve them yet.
    found: list[Tool] = []
    if settings.enabled and _has_playwright():
        found.append(wings.browser_tool(browsers(), wrap, _rules(settings, state)))
    return found


@cache
def _has_playwright() -> bool:
    """What is installed does not change while the process lives, and finding out is slow."""
    return find_spec("playwright") is not None


def _rules(settings: BrowserSettings, state: Path) -> dict[str, Any]:
    return {
        "state": str(state / "browser"),
        "executable": settings.executable_path,
        "headless": settings.headless,
        "no_sandbox": settings.no_sandbox,
        "evaluate": settings.evaluate_enabled,
        "default_profile": settings.default_profile,
        "args": settings.extra_args,
        "snapshot_mode": settings.snapshot_defaults.mode or "",
        "allow_private": settings.ssrf_policy.dangerously_allow_private_network,
        "allowed_hosts": settings.ssrf_policy.allowed_hostnames,
        "blocked_hosts": settings.ssrf_policy.blocked_hostnames,
    }
