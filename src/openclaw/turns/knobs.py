"""The settings of one agent that shape its prompt, resolved: config in, values out, nothing live."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from openclaw.agent.settings import AgentDefaults, AgentEntry, HeartbeatSettings
from openclaw.commands.settings import CommandsSettings
from openclaw.core.secret import Secret
from openclaw.core.text import PromptText
from openclaw.prompt.facts import DEFAULT_HEARTBEAT
from openclaw.prompt.owners import authorized_senders


class PromptOptions(Struct, frozen=True, kw_only=True):
    """What the configuration says about one agent's prompt."""

    senders: PromptText | None = None
    aliases: tuple[str, ...] = ()
    citations: Literal["auto", "on", "off"] = "auto"
    delegation: Literal["suggest", "prefer"] = "suggest"
    heartbeat: PromptText | None = None
    """The heartbeat prompt, for the agent that has heartbeats."""
    heartbeats: bool = False
    """Whether there are heartbeats at all, and prompts speak of them."""


def resolve(
    agent: AgentEntry,
    defaults: AgentDefaults,
    commands: CommandsSettings,
    *,
    is_default: bool,
    secret: Callable[[], Secret],
    citations: Literal["auto", "on", "off"] = "auto",
) -> PromptOptions:
    """The knobs of `agent`; `secret` is asked only when owner ids are to be hashed."""
    hashed = commands.owner_display == "hash" and any(
        name.strip() not in ("", "*") for name in commands.owner_allow_from
    )
    key = (commands.owner_display_secret or secret()) if hashed else None
    heartbeat = _heartbeat(agent.heartbeat or defaults.heartbeat)
    return PromptOptions(
        senders=authorized_senders(commands.owner_allow_from, commands.owner_display, key),
        aliases=tuple(
            f"- {alias}: {ref}"
            for alias, ref in sorted((item.alias, ref) for ref, item in defaults.models.items() if item.alias)
        ),
        citations=citations,
        delegation=agent.subagents.delegation_mode or defaults.subagents.delegation_mode or "suggest",
        heartbeat=heartbeat if is_default or agent.heartbeat else None,
        heartbeats=heartbeat is not None,
    )


def _heartbeat(settings: HeartbeatSettings | None) -> PromptText | None:
    if settings is None or not settings.include_system_prompt_section or settings.every.strip() in ("0", "0m", "0s"):
        return None
    if settings.prompt:
        return PromptText(settings.prompt, "agents.defaults.heartbeat.prompt", "owner")
    return DEFAULT_HEARTBEAT
