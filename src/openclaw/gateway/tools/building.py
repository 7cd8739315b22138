"""The tools of this machine as the configuration wants them, and who may have which."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from openclaw.core.keys import SessionKey
from openclaw.core.messages import Message
from openclaw.core.secret import Secret
from openclaw.core.tool import Tool
from openclaw.gateway import wings
from openclaw.gateway.tools.wrapping import wrap
from openclaw.policy.layers import Layer, profile_layer
from openclaw.policy.settings import ToolsSettings
from openclaw.trust.wrap import is_wrapped


class Hall(Protocol):
    """What a running gateway adds: tools that need it, and limits that only it knows."""

    def tools(self, key: SessionKey) -> list[Tool]: ...

    def layers(self, key: SessionKey) -> list[Layer]: ...


class NoHall:
    """There is no gateway."""

    def tools(self, key: SessionKey) -> list[Tool]:
        return []

    def layers(self, key: SessionKey) -> list[Layer]:
        return []


def machine_tools(
    settings: ToolsSettings, variables: Mapping[str, str], standing: Any, look: Any, *, background: bool
) -> list[Tool]:
    """The tools that need nothing but this machine; commands outlive their call only with `background`."""
    built = wings.tools(
        {
            "workspace_only": settings.fs.workspace_only,
            "patch_workspace_only": settings.exec.apply_patch.workspace_only,
            "exec_timeout": settings.exec.timeout_seconds,
            "shell": variables.get("SHELL", "/bin/sh"),
            "env": variables,
            "path_prepend": settings.exec.path_prepend,
            "background": standing.background if background else None,
            "yield_ms": _yield_ms(settings.exec.background_ms, variables),
            "look": look,
            "plan": settings.experimental.plan_tool,
        }
    )
    fetch, search = settings.web.fetch, settings.web.search
    key = variables.get("BRAVE_API_KEY", "")
    return built + wings.web_tools(
        standing,
        wrap,
        {
            "allow_private": fetch.ssrf_policy.dangerously_allow_private_network,
            "allowed_hosts": fetch.ssrf_policy.allowed_hostnames,
            "blocked_hosts": fetch.ssrf_policy.blocked_hostnames,
        },
        {
            "max_bytes": fetch.max_response_bytes,
            "fetch_seconds": fetch.timeout_seconds,
            "redirects": fetch.max_redirects,
            "user_agent": fetch.user_agent,
            "headers": fetch.headers,
            "max_chars": fetch.max_chars,
            "chars_cap": fetch.max_chars_cap,
            "fetch_cached_for": fetch.cache_ttl_minutes * 60,
            "readability": fetch.readability,
            "provider": search.provider,
            "brave_key": search.api_key or (Secret(key) if key else None),
            "searxng": search.base_url or variables.get("SEARXNG_BASE_URL") or None,
            "search_seconds": search.timeout_seconds,
            "search_cached_for": search.cache_ttl_minutes * 60,
            "results": search.max_results,
        },
    )


def layers(settings: ToolsSettings) -> list[Layer]:
    """What the configuration takes away, whoever asks."""
    found = [profile_layer(settings.profile, settings.also_allow)] if settings.profile else []
    found.append(Layer(name="tools.allow/deny", allow=settings.allow or None, deny=settings.deny))
    switches = {
        "tools.exec.applyPatch.enabled": (settings.exec.apply_patch.enabled, "apply_patch"),
        "tools.web.fetch.enabled": (settings.web.fetch.enabled, "web_fetch"),
        "tools.web.search.enabled": (settings.web.search.enabled, "web_search"),
    }
    return found + [Layer(name=name, deny=(tool,)) for name, (on, tool) in switches.items() if not on]


def untrusted(messages: Sequence[Message]) -> tuple[str, ...]:
    """Where enclosed external text stands in a conversation that a model is about to read."""
    marked = sum(is_wrapped(message.text) for message in messages)
    return (f"{marked} earlier message(s) of this session",) if marked else ()


def _yield_ms(configured: int, variables: Mapping[str, str]) -> int:
    given = variables.get("OPENCLAW_BASH_YIELD_MS", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 9 else configured
