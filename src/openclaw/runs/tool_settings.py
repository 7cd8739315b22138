"""The tools of this machine as the configuration wants them, and who may have which."""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from openclaw.config.agents import AgentSection
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey, normalise_agent
from openclaw.core.sandbox import SandboxedRun
from openclaw.core.secret import Secret
from openclaw.core.tool import Tool
from openclaw.security.exec_policy import MODES
from openclaw.security.label_service import wrap
from openclaw.security.settings import AgentToolSettings, Ask, ExecOverride, Security
from openclaw.security.tool_policy import Level, RequestSender, ToolLayer, ToolRequest, emptied, remaining, unknown
from openclaw.tools.settings import ExecSettings, ToolsSettings

log = logging.getLogger("agents/tool-policy")
_WARNED: set[str] = set()
"""Entries that were already complained about in this process."""


USUAL = AgentToolSettings()
"""An agent that has nothing of its own."""


class GatewayToolsSource(Protocol):
    """What a running gateway adds: tools that need it, and limits that only it knows."""

    def tools(self, key: SessionKey) -> list[Tool]: ...

    def layers(self, key: SessionKey) -> list[ToolLayer]: ...

    async def refresh(self) -> None:
        """Learns what other processes have changed in those limits; asked before each turn."""
        ...


class NoGatewayTools:
    """There is no gateway."""

    def tools(self, key: SessionKey) -> list[Tool]:
        return []

    def layers(self, key: SessionKey) -> list[ToolLayer]:
        return []

    async def refresh(self) -> None:
        return


def machine_tools(
    settings: ToolsSettings,
    variables: Mapping[str, str],
    standing: Any,
    look: Any,
    *,
    background: bool,
    own: AgentToolSettings = USUAL,
    boxed: SandboxedRun | None = None,
    elevated: Level = "off",
) -> list[Tool]:
    """The tools that need nothing but this machine; commands outlive their call only with `background`.

    With `boxed` they work in a sandbox.
    """
    from openclaw.tools.build import WebToolSettings, build, build_web
    from openclaw.tools.web_guard import AddressRules

    confined = settings.fs.workspace_only if own.fs.workspace_only is None else own.fs.workspace_only
    longest = settings.exec.timeout_seconds if own.exec.timeout_seconds is None else own.exec.timeout_seconds
    built = build(
        workspace_only=confined,
        boxed=boxed,
        workers=standing.workers,
        elevated=elevated,
        most_processes=settings.exec.max_processes,
        patch_workspace_only=settings.exec.apply_patch.workspace_only,
        exec_timeout=longest,
        shell=variables.get("SHELL", "/bin/sh"),
        env=variables,
        path_prepend=settings.exec.path_prepend,
        background=standing.background if background else None,
        yield_ms=_yield_ms(settings.exec.background_ms, variables),
        look=look,
        plan=settings.experimental.plan_tool,
    )
    fetch, search = settings.web.fetch, settings.web.search
    key = variables.get("BRAVE_API_KEY", "")
    return built + build_web(
        standing,
        wrap,
        WebToolSettings(
            fence=AddressRules(
                allow_private=fetch.ssrf_policy.dangerously_allow_private_network,
                allowed_hosts=fetch.ssrf_policy.allowed_hostnames,
                blocked_hosts=fetch.ssrf_policy.blocked_hostnames,
            ),
            max_bytes=fetch.max_response_bytes,
            fetch_seconds=fetch.timeout_seconds,
            redirects=fetch.max_redirects,
            user_agent=fetch.user_agent,
            headers=fetch.headers,
            max_chars=fetch.max_chars,
            chars_cap=fetch.max_chars_cap,
            fetch_cached_for=fetch.cache_ttl_minutes * 60,
            readability=fetch.readability,
            provider=search.provider,
            brave_key=search.api_key or (Secret(key) if key else None),
            searxng=search.base_url or variables.get("SEARXNG_BASE_URL") or None,
            search_seconds=search.timeout_seconds,
            search_cached_for=search.cache_ttl_minutes * 60,
            results=search.max_results,
        ),
    )


def asked(key: SessionKey, model: str, boxed: SandboxedRun | None) -> ToolRequest:
    """For whom tools are wanted, as far as the session's key and its box tell."""
    route = key.route
    sender, group = None, ""
    if route is not None and route.kind == "direct":
        sender = RequestSender(channel=route.channel, id=route.peer)
    elif route is not None:  # anyone of the group may be speaking
        sender, group = RequestSender(channel=route.channel), route.peer
    read_only = boxed is not None and boxed.box.access == "ro"
    return ToolRequest(
        agent=key.agent, model=model, sender=sender, group=group, boxed=boxed is not None, read_only=read_only
    )


def kept(names: Sequence[str], layers: Sequence[ToolLayer]) -> tuple[str, ...]:
    """The tools that remain; what went is logged, a list that leaves nothing is an error."""
    return _kept(tuple(names), tuple(layers))


@lru_cache(maxsize=256)
def _kept(names: tuple[str, ...], layers: tuple[ToolLayer, ...]) -> tuple[str, ...]:
    """From turn to turn it is the same question."""
    remain, removed = remaining(names, layers)
    for each in removed:
        log.debug("%s was removed by %s (%s)", each.tool, each.by, each.key)
    for entry in set(unknown(names, layers)) - _WARNED:
        _WARNED.add(entry)
        log.warning("%s names no tool there is", entry)
    if not remain and (culprit := emptied(names, layers)):
        raise InvalidRequest(f"no tool is left: {culprit} allows none of those there are")
    return remain


def exec_policy(settings: ExecSettings, own: ExecOverride = USUAL.exec) -> tuple[Security, Ask]:
    """What may run and who is asked: an agent's own settings over those for all."""
    security, ask = MODES[own.mode] if own.mode else (settings.security, settings.ask)
    return own.security or security, own.ask or ask


def _yield_ms(configured: int, variables: Mapping[str, str]) -> int:
    given = variables.get("OPENCLAW_BASH_YIELD_MS", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 9 else configured


def exec_policies(settings: ExecSettings, agents: Sequence[AgentSection]) -> dict[str, tuple[Security, Ask]]:
    """What may run and who is asked, for every agent that is listed."""
    return {normalise_agent(entry.id): exec_policy(settings, entry.tools.exec) for entry in agents}
