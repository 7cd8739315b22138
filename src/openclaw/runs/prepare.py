"""Builds what keeps a conversation within its model's window, from the settings and the parts of one turn."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from openclaw.agent.loop import ModelAsker
from openclaw.agent.settings import AgentDefaults
from openclaw.agent.tool_runner import ToolRunner
from openclaw.core.clock import Clock
from openclaw.core.harness import ModelRouter
from openclaw.core.keys import SessionKey
from openclaw.core.provider import Model, System
from openclaw.core.tool import Tool, ToolSpec
from openclaw.sessions.compaction.manager import CompactionManager
from openclaw.sessions.compaction.summarise import MemoryFlush, Summariser

AsideRoute = Callable[[str | None, str | None], Awaitable[ModelRouter]]
"""The models for a question aside: one that is named, or the conversation's; and how hard they think."""
SUMMARY_THINKING = "low"


class CompactionInputs(Struct, frozen=True, kw_only=True):
    """A turn, as far as its upkeep is concerned."""

    key: SessionKey
    model: Model
    system: System
    specs: Sequence[ToolSpec]
    tools: Sequence[Tool]
    """What policy leaves of the tools."""
    workspace: Path
    timezone: str


def upkeep(
    kept: CompactionInputs,
    defaults: AgentDefaults,
    summarising: Model,
    route: AsideRoute,
    box: Callable[[Sequence[Tool]], ToolRunner],
    clock: Clock,
) -> CompactionManager:
    """`summarising` is the model that writes summaries, `box` puts tools into a toolbox of this turn."""
    settings = defaults.compaction
    level = settings.thinking_level or SUMMARY_THINKING
    thinking = None if level == "inherit" else level
    return CompactionManager(
        settings=settings,
        pruning=defaults.context_pruning,
        model=kept.model,
        system=kept.system,
        tools=kept.specs,
        compactor=Summariser(
            settings,
            ModelAsker(lambda: route(settings.model, thinking), clock),
            lambda: box(()),
            clock,
            window=summarising.context_window,
        ),
        flush=_flush(kept, defaults, route, box, clock),
        clock=clock,
    )


def _flush(
    kept: CompactionInputs,
    defaults: AgentDefaults,
    route: AsideRoute,
    box: Callable[[Sequence[Tool]], ToolRunner],
    clock: Clock,
) -> MemoryFlush | None:
    """Notes before a compaction; not where the assistant may not write, nor in errands without a person."""
    settings = defaults.compaction.memory_flush
    allowed = {tool.spec.name: tool for tool in kept.tools}
    if not settings.enabled or "write" not in allowed or kept.key.is_cron or kept.key.is_subagent:
        return None
    reading = [allowed["read"]] if "read" in allowed else []
    return MemoryFlush(
        settings,
        ModelAsker(lambda: route(settings.model, None), clock),
        lambda writing: box([*reading, writing]),
        clock,
        workspace=kept.workspace,
        timezone=kept.timezone,
    )
