"""Settings of `agents`: who the agents are and how they run."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from openclaw.core.provider import ThinkingLevel
from openclaw.core.settings import Count, Settings, doc


class ModelChoiceSettings(Settings, frozen=True):
    """A primary model and what to use when it fails."""

    primary: Annotated[str | None, doc("provider/model or an alias")] = None
    fallbacks: Annotated[tuple[str, ...], doc("tried in this order when the primary fails")] = ()


class ModelPreference(Settings, frozen=True):
    """What is wanted of one model."""

    alias: Annotated[str | None, doc("a short name for it")] = None
    params: Annotated[Mapping[str, Any], doc("request parameters such as temperature or thinking")] = field(
        default_factory=dict
    )


class IdentitySettings(Settings, frozen=True):
    """How an agent presents itself."""

    name: Annotated[str | None, doc("its name")] = None
    theme: Annotated[str | None, doc("a few words on its manner")] = None
    emoji: Annotated[str | None, doc("one emoji")] = None
    avatar: Annotated[str | None, doc("path or address of a picture")] = None


class ActiveHours(Settings, frozen=True):
    """When heartbeats may happen."""

    start: Annotated[str, doc("from this time of day, HH:MM")]
    end: Annotated[str, doc("up to this time of day, HH:MM or 24:00")]
    timezone: Annotated[str | None, doc("IANA time zone; the user's when absent")] = None


class ToolLimits(Settings, frozen=True):
    """Tools for some turns only; policy has removed others before."""

    allow: Annotated[tuple[str, ...], doc("only these; all when empty")] = ()
    deny: Annotated[tuple[str, ...], doc("none of these")] = ()


class HeartbeatWatch(Settings, frozen=True):
    """What has to change before a heartbeat asks the model."""

    files: Annotated[tuple[str, ...], doc("files or folders, relative to the workspace")] = ()
    commands: Annotated[tuple[str, ...], doc("command lines whose exit code or output is compared")] = ()
    urls: Annotated[tuple[str, ...], doc("addresses whose status or content is compared")] = ()
    maildirs: Annotated[tuple[str, ...], doc("Maildirs that are looked into for new mail")] = ()
    due: Annotated[bool, doc("look for lines in the notes that say due: and a date")] = False


class HeartbeatSettings(Settings, frozen=True):
    """`heartbeat`: a regular look at what needs attention; its presence switches it on."""

    every: Annotated[str, doc("how often, for example 30m or 2h; 0m switches it off")] = "30m"
    prompt: Annotated[str | None, doc("what to ask instead of the built-in question")] = None
    include_system_prompt_section: Annotated[bool, doc("explain heartbeats in the system prompt")] = True
    active_hours: Annotated[ActiveHours | None, doc("when it may happen; always when absent")] = None
    model: Annotated[str | None, doc("which model looks; the agent's when absent")] = None
    ack_max_chars: Annotated[int, doc("an answer with HEARTBEAT_OK and at most this much more is not shown", ge=0)] = (
        300
    )
    timeout_seconds: Annotated[float | None, doc("longest run; ten minutes, or the interval when that is shorter")] = (
        None
    )
    tools: Annotated[ToolLimits, doc("which tools a heartbeat has")] = ToolLimits()
    watch: Annotated[HeartbeatWatch, doc("ask the model only when one of these changed")] = HeartbeatWatch()


class SubagentSettings(Settings, frozen=True):
    """`subagents`: work handed to others."""

    delegation_mode: Annotated[
        Literal["suggest", "prefer"] | None, doc("suggest mentions sub-agents, prefer makes the agent a coordinator")
    ] = None
    allow_agents: Annotated[
        tuple[str, ...] | None, doc("agents that may be started, * for any; only the agent itself when absent")
    ] = None
    model: Annotated[str | ModelChoiceSettings | None, doc("their model; the agent's own when absent")] = None
    thinking: Annotated[ThinkingLevel | None, doc("how hard they think")] = None
    require_agent_id: Annotated[bool, doc("sessions_spawn must name the agent")] = False


class SubagentDefaults(SubagentSettings, frozen=True):
    """`agents.defaults.subagents`: work handed to others, and its limits."""

    max_concurrent: Annotated[Count, doc("sub-agents that run at once")] = 8
    max_spawn_depth: Annotated[int, doc("how deep sub-agents may start sub-agents", ge=1, le=5)] = 5
    max_children_per_agent: Annotated[int, doc("running sub-agents of one session", ge=1, le=20)] = 5
    run_timeout_seconds: Annotated[float, doc("longest run of a sub-agent; 0 means no limit", ge=0)] = 0
    archive_after_minutes: Annotated[float, doc("when an ended one leaves the list; 0 keeps it", ge=0)] = 60


class SkillsLimits(Settings, frozen=True):
    """`skillsLimits`: how much of the prompt an agent's skills may take."""

    max_skills_prompt_chars: Annotated[
        int | None, doc("characters of the list of skills; the general limit when absent")
    ] = None


Size = int | Annotated[str, Meta(pattern=r"^\d+(\.\d+)?\s*([kKmMgG]?[bB])?$")]
"""Bytes, or with a unit: 2mb."""
Span = Annotated[str, Meta(pattern=r"^\d+(\.\d+)?\s*(ms|s|m|h|d)?$")]
"""A time with a unit, 5m or 1h; minutes without one."""


class QualityGuardSettings(Settings, frozen=True):
    """`compaction.qualityGuard`: a summary is checked before it replaces anything."""

    enabled: Annotated[bool, doc("check headings, the open request and identifiers")] = True
    max_retries: Annotated[int, doc("how often a poor summary is asked for again", ge=0)] = 1


class MidTurnSettings(Settings, frozen=True):
    """`compaction.midTurnPrecheck`: looking at the size between the steps of a turn."""

    enabled: Annotated[bool, doc("compact between two steps instead of waiting for the model to refuse")] = False


class MemoryFlushSettings(Settings, frozen=True):
    """`compaction.memoryFlush`: a silent turn that writes lasting notes before a compaction."""

    enabled: Annotated[bool, doc("let the assistant write notes to memory/ before it forgets the details")] = True
    model: Annotated[str | None, doc("the model for it; the session's when absent")] = None
    soft_threshold_tokens: Annotated[int, doc("how long before a compaction, in tokens", ge=0)] = 4_000
    force_flush_transcript_bytes: Annotated[
        Size, doc("also when the conversation takes this much on disk, such as 2mb; 0 never")
    ] = "2mb"


class CompactionSettings(Settings, frozen=True):
    """`compaction`: what happens when a conversation outgrows its model."""

    enabled: Annotated[bool, doc("compact by itself; /compact works either way")] = True
    mode: Annotated[Literal["default", "safeguard"], doc("safeguard asks for fixed headings and checks them")] = (
        "safeguard"
    )
    model: Annotated[str | None, doc("the model that summarises; the session's and its fallbacks when absent")] = None
    thinking_level: Annotated[
        ThinkingLevel | Literal["inherit"] | None, doc("how hard to think about a summary; low when absent")
    ] = None
    keep_recent_tokens: Annotated[int, doc("how much of the end stays word for word", ge=0)] = 20_000
    identifier_policy: Annotated[Literal["strict", "off"], doc("strict keeps ids, paths, dates to the letter")] = (
        "strict"
    )
    recent_turns_preserve: Annotated[int, doc("latest turns quoted beside the summary", ge=0, le=12)] = 3
    quality_guard: Annotated[QualityGuardSettings, doc("checks on a summary")] = QualityGuardSettings()
    mid_turn_precheck: Annotated[MidTurnSettings, doc("checks between the steps of a turn")] = MidTurnSettings()
    timeout_seconds: Annotated[float, doc("longest time for one compaction; 0 means no limit", ge=0)] = 900
    memory_flush: Annotated[MemoryFlushSettings, doc("notes before a compaction")] = MemoryFlushSettings()
    max_active_transcript_bytes: Annotated[
        Size, doc("also compact when the conversation takes this much on disk, such as 8mb; 0 never")
    ] = 0


class ToolFilter(Settings, frozen=True):
    """Tool names, * for any characters."""

    allow: Annotated[tuple[str, ...], doc("only these; all when empty")] = ()
    deny: Annotated[tuple[str, ...], doc("never these")] = ()


class HardClearSettings(Settings, frozen=True):
    """`contextPruning.hardClear`: taking old results out altogether."""

    enabled: Annotated[bool, doc("clear the oldest results when shortening was not enough")] = True
    placeholder: Annotated[str, doc("what stands in their place", min_length=1)] = "[Old tool result content cleared]"


class PruningSettings(Settings, frozen=True):
    """`contextPruning`: old tool results are shown shortened; the transcript keeps them whole."""

    mode: Annotated[
        Literal["off", "cache-ttl"] | None,
        doc("cache-ttl prunes once the provider's cache is cold; by model if absent"),
    ] = None
    ttl: Annotated[Span | None, doc("how long a cache stays warm, such as 5m or 1h")] = None
    tools: Annotated[ToolFilter, doc("whose results may be pruned")] = ToolFilter()
    hard_clear: Annotated[HardClearSettings, doc("taking old results out altogether")] = HardClearSettings()


class AgentDefaults(Settings, frozen=True):
    """`agents.defaults`: what every agent starts from."""

    model: Annotated[
        str | ModelChoiceSettings | None, doc("the model to use: a reference, or primary and fallbacks")
    ] = None
    image_model: Annotated[str | ModelChoiceSettings | None, doc("looks at images when the model in use cannot")] = None
    models: Annotated[Mapping[str, ModelPreference], doc("aliases and parameters by model reference")] = field(
        default_factory=dict
    )
    workspace: Annotated[str | None, doc("directory of the default agent's files")] = None
    skip_bootstrap: Annotated[bool, doc("do not create the workspace's starter files")] = False
    bootstrap_max_chars: Annotated[int, doc("most characters of one workspace file in the prompt", ge=1)] = 20_000
    bootstrap_total_max_chars: Annotated[int, doc("most characters of all workspace files in the prompt", ge=1)] = (
        60_000
    )
    bootstrap_prompt_truncation_warning: Annotated[
        Literal["off", "once", "always"], doc("tell the model when files were shortened")
    ] = "always"
    user_timezone: Annotated[str | None, doc("IANA time zone of the user; the machine's when absent")] = None
    repo_root: Annotated[str | None, doc("repository shown to the model; found through git when absent")] = None
    heartbeat: Annotated[HeartbeatSettings | None, doc("a regular look at what needs attention")] = None
    subagents: Annotated[SubagentDefaults, doc("work handed to others, and its limits")] = SubagentDefaults()
    thinking_default: Annotated[ThinkingLevel | None, doc("how hard to think when nothing else says so")] = None
    timeout_seconds: Annotated[float, doc("longest run; 0 means no limit", ge=0)] = 172_800
    max_concurrent: Annotated[Count | None, doc("runs at once over all sessions")] = None
    compaction: Annotated[CompactionSettings, doc("when a conversation outgrows its model")] = CompactionSettings()
    context_pruning: Annotated[PruningSettings, doc("old tool results shown shortened")] = PruningSettings()
    skills: Annotated[tuple[str, ...] | None, doc("the only skills agents may use; all when absent")] = None
    params: Annotated[Mapping[str, Any], doc("request parameters for every model")] = field(default_factory=dict)


class AgentEntry(Settings, frozen=True):
    """One agent of `agents.list`."""

    id: Annotated[str, doc("its id: letters, digits, - and _", min_length=1, max_length=64)]
    default: Annotated[bool, doc("use it when no agent is named")] = False
    name: Annotated[str | None, doc("a name for people")] = None
    workspace: Annotated[str | None, doc("directory of its files")] = None
    agent_dir: Annotated[str | None, doc("directory of its credentials and state")] = None
    model: Annotated[str | ModelChoiceSettings | None, doc("its model: a reference, or primary and fallbacks")] = None
    identity: Annotated[IdentitySettings, doc("how it presents itself")] = IdentitySettings()
    heartbeat: Annotated[
        HeartbeatSettings | None, doc("its own heartbeat; if any agent has one, only those agents have heartbeats")
    ] = None
    subagents: Annotated[SubagentSettings, doc("work handed to others")] = SubagentSettings()
    skills: Annotated[tuple[str, ...] | None, doc("the only skills it may use; those of the defaults when absent")] = (
        None
    )
    skills_limits: Annotated[SkillsLimits, doc("how much of the prompt its skills may take")] = SkillsLimits()
    params: Annotated[Mapping[str, Any], doc("request parameters for its runs")] = field(default_factory=dict)


class AgentsSettings(Settings, frozen=True):
    """`agents`: defaults and the list."""

    defaults: Annotated[AgentDefaults, doc("what every agent starts from")] = AgentDefaults()
    list: Annotated[tuple[AgentEntry, ...], doc("the agents; without any there is one called main")] = ()
