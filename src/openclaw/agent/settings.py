"""Settings of `agents`: the agents, their defaults, and the resolved view of one."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from openclaw.automation.settings import HeartbeatSettings
from openclaw.core.errors import NotFound
from openclaw.core.keys import DEFAULT_AGENT, normalise_agent
from openclaw.core.provider import ThinkingLevel
from openclaw.core.settings import Count, Millis, Settings, cache_per_settings
from openclaw.memory.settings import MemorySearchOverride, MemorySearchSettings
from openclaw.models.settings import RuntimeSettings
from openclaw.security.settings import AgentToolSettings, ElevatedDefault, SandboxSettings
from openclaw.sessions.settings import CompactionSettings, PruningSettings
from openclaw.skills.settings import SkillsLimits

MEMORY_GET_CHARS, POST_COMPACTION_CHARS = 12_000, 1_800
NATURAL_MS = (800, 2_500)
"""A pause between two messages as people make it."""


_NESTED = re.compile(r"[*+}]\??\)*[^()]*\)[*+{]")


class ModelChoiceSettings(Settings, frozen=True):
    """A primary model and what to use when it fails."""

    primary: str | None = None
    """provider/model or an alias"""
    fallbacks: tuple[str, ...] = ()
    """tried in this order when the primary fails"""


class ModelPreference(Settings, frozen=True):
    """What is wanted of one model."""

    alias: str | None = None
    """a short name for it"""
    params: Mapping[str, Any] = field(default_factory=dict)
    """request parameters such as temperature or thinking"""


class IdentitySettings(Settings, frozen=True):
    """How an agent presents itself."""

    name: str | None = None
    """its name"""
    theme: str | None = None
    """a few words on its manner"""
    emoji: str | None = None
    """one emoji"""
    avatar: str | None = None
    """path or address of a picture"""


class SubagentSettings(Settings, frozen=True):
    """`subagents`: work handed to others."""

    delegation_mode: Literal["suggest", "prefer"] | None = None
    """suggest mentions sub-agents, prefer makes the agent a coordinator"""
    allow_agents: tuple[str, ...] | None = None
    """agents that may be started, * for any; only the agent itself when absent"""
    model: str | ModelChoiceSettings | None = None
    """their model; the agent's own when absent"""
    thinking: ThinkingLevel | None = None
    """how hard they think"""
    require_agent_id: bool = False
    """sessions_spawn must name the agent"""


class SubagentDefaults(SubagentSettings, frozen=True):
    """`agents.defaults.subagents`: work handed to others, and its limits."""

    max_concurrent: Count = 8
    """sub-agents that run at once"""
    max_spawn_depth: Annotated[int, Meta(ge=1, le=5)] = 5
    """how deep sub-agents may start sub-agents"""
    max_children_per_agent: Annotated[int, Meta(ge=1, le=20)] = 5
    """running sub-agents of one session"""
    run_timeout_seconds: Annotated[float, Meta(ge=0)] = 0
    """longest run of a sub-agent; 0 means no limit"""
    archive_after_minutes: Annotated[float, Meta(ge=0)] = 60
    """when an ended one leaves the list; 0 keeps it"""


class BlockChunkSettings(Settings, frozen=True):
    """`agents.defaults.blockStreamingChunk`: how long the blocks of an answer are."""

    min_chars: Annotated[int, Meta(ge=1)] = 800
    """a block is at least so long"""
    max_chars: Annotated[int, Meta(ge=1)] = 1_200
    """and at most so long, and never longer than a message"""
    break_preference: Literal["paragraph", "newline", "sentence"] = "paragraph"
    """where a block ends, if it can"""


class BlockCoalesceSettings(Settings, frozen=True):
    """`agents.defaults.blockStreamingCoalesce`: short texts between tool calls, put together."""

    min_chars: Annotated[int, Meta(ge=1)] = 1
    """what is shorter waits for the text that follows"""


class HumanDelaySettings(Settings, frozen=True):
    """`humanDelay`: a pause before every part of an answer but the first, as a person takes one."""

    mode: Literal["off", "natural", "custom"] = "off"
    """no pause, 0.8 to 2.5 seconds, or between minMs and maxMs"""
    min_ms: Millis | None = None
    """the shortest pause of custom; 800 if unset"""
    max_ms: Millis | None = None
    """and the longest; 2500 if unset"""

    def seconds(self, share: float) -> float:
        """The pause at `share` (0 to 1) between the shortest and the longest."""
        if self.mode == "off":
            return 0.0
        custom = self.mode == "custom"
        least = self.min_ms if custom and self.min_ms is not None else NATURAL_MS[0]
        most = self.max_ms if custom and self.max_ms is not None else NATURAL_MS[1]
        return (least + max(0, most - least) * share) / 1000


class ContextLimits(Settings, frozen=True):
    """`contextLimits`: how many characters of something a model is shown."""

    memory_get_max_chars: Annotated[int, Meta(ge=1, le=250_000)] | None = None
    """most that memory_get shows at once; 12000 if unset"""
    post_compaction_max_chars: Annotated[int, Meta(ge=1, le=50_000)] | None = None
    """most of compaction.postCompactionSections; 1800 if unset"""


class GroupChatSettings(Settings, frozen=True):
    """`messages.groupChat`, and `groupChat` of an agent, which comes first."""

    mention_patterns: tuple[str, ...] | None = None
    """regular expressions: a message in a group that fits one mentions the assistant, in any case of letters"""
    history_limit: Millis | None = None
    """how many messages of a group it is told that did not mention it; 0 for none, 50 if unset"""

    def __post_init__(self) -> None:
        for pattern in self.mention_patterns or ():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
            # Repetition inside repetition: a message could keep such a pattern busy for hours.
            if _NESTED.search(pattern):
                raise ValueError(f"{pattern!r} repeats something that repeats: write it without * or + inside (…)+")


class AgentDefaults(Settings, frozen=True):
    """`agents.defaults`: what every agent starts from."""

    model: str | ModelChoiceSettings | None = None
    """the model to use: a reference, or primary and fallbacks"""
    image_model: str | ModelChoiceSettings | None = None
    """looks at images when the model in use cannot"""
    models: Mapping[str, ModelPreference] = field(default_factory=dict)
    """aliases and parameters by model reference"""
    workspace: str | None = None
    """directory of the default agent's files"""
    skip_bootstrap: bool = False
    """no workspace file in any prompt, and no starter files in the workspace"""
    bootstrap_max_chars: Annotated[int, Meta(ge=1)] = 20_000
    """most characters of one workspace file in the prompt"""
    bootstrap_total_max_chars: Annotated[int, Meta(ge=1)] = 60_000
    """most characters of all workspace files in the prompt"""
    bootstrap_untrusted_max_chars: Annotated[int, Meta(ge=1)] = 4_000
    """most characters of one file of a workspace that is not trusted"""
    bootstrap_prompt_truncation_warning: Literal["off", "once", "always"] = "always"
    """tell the model when files were shortened"""
    user_timezone: str | None = None
    """IANA time zone of the user; the machine's when absent"""
    time_format: Literal["auto", "12", "24"] = "auto"
    """how the time of day is told; auto is 24 hours"""
    repo_root: str | None = None
    """repository shown to the model; found through git when absent"""
    heartbeat: HeartbeatSettings | None = None
    """a regular look at what needs attention"""
    subagents: SubagentDefaults = SubagentDefaults()
    """work handed to others, and its limits"""
    thinking_default: ThinkingLevel | None = None
    """how hard to think when nothing else says so"""
    verbose_default: Literal["off", "on", "full"] = "off"
    """what is told of tools, before anybody says /verbose"""
    reasoning_default: Literal["off", "on", "stream"] = "off"
    """whether reasoning is shown, before anybody says /reasoning"""
    trace_default: Literal["off", "on"] = "off"
    """tell what plugins changed, before anybody says /trace"""
    context_tokens: Count | None = None
    """use at most so much of a model's context window; all of it if unset"""
    timeout_seconds: Annotated[float, Meta(ge=0)] = 172_800
    """longest run; 0 means no limit"""
    max_concurrent: Count | None = None
    """runs at once over all sessions"""
    block_streaming_default: Literal["off", "on"] = "off"
    """send finished parts of an answer while the rest is written, where messages stay"""
    block_streaming_break: Literal["text_end", "message_end"] = "text_end"
    """send a part as soon as it is long enough, or when its message ended"""
    block_streaming_chunk: BlockChunkSettings = BlockChunkSettings()
    """how long the parts are"""
    block_streaming_coalesce: BlockCoalesceSettings = BlockCoalesceSettings()
    """short parts, put together"""
    human_delay: HumanDelaySettings = HumanDelaySettings()
    """pauses between the parts of an answer"""
    typing_mode: Literal["never", "instant", "thinking", "message"] = "instant"
    """show typing never, from when a message is accepted, from when a model is asked, or from its first words"""
    typing_interval_seconds: Annotated[float, Meta(ge=0)] = 0
    """repeat the typing notice so often; 0 means as the platform needs it"""
    compaction: CompactionSettings = CompactionSettings()
    """when a conversation outgrows its model"""
    context_limits: ContextLimits = ContextLimits()
    """how much of something a model is shown"""
    context_pruning: PruningSettings = PruningSettings()
    """old tool results shown shortened"""
    skills: tuple[str, ...] | None = None
    """the only skills agents may use; all when absent"""
    params: Mapping[str, Any] = field(default_factory=dict)
    """request parameters for every model"""
    memory_search: MemorySearchSettings = MemorySearchSettings()
    """how notes are found again"""
    sandbox: SandboxSettings = SandboxSettings()
    """a box for files and commands"""
    elevated_default: ElevatedDefault | None = None
    """whether sessions may leave their sandbox before anybody says /elevated; off"""
    acknowledge_elevated_default: bool = False
    """says that elevatedDefault above off is meant; without it the owner is asked each time"""


class AgentEntry(Settings, frozen=True):
    """One agent of `agents.list`."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    """its id: letters, digits, - and _"""
    default: bool = False
    """use it when no agent is named"""
    name: str | None = None
    """a name for people"""
    workspace: str | None = None
    """directory of its files"""
    agent_dir: str | None = None
    """directory of its credentials and state"""
    model: str | ModelChoiceSettings | None = None
    """its model: a reference, or primary and fallbacks"""
    identity: IdentitySettings = IdentitySettings()
    """how it presents itself"""
    group_chat: GroupChatSettings = GroupChatSettings()
    """groups, for this agent"""
    context_limits: ContextLimits = ContextLimits()
    """how much of something its model is shown"""
    human_delay: HumanDelaySettings | None = None
    """its own pauses between the parts of an answer"""
    heartbeat: HeartbeatSettings | None = None
    """its own heartbeat; if any agent has one, only those agents have heartbeats"""
    subagents: SubagentSettings = SubagentSettings()
    """work handed to others"""
    skills: tuple[str, ...] | None = None
    """the only skills it may use; those of the defaults when absent"""
    skills_limits: SkillsLimits = SkillsLimits()
    """how much of the prompt its skills may take"""
    params: Mapping[str, Any] = field(default_factory=dict)
    """request parameters for its runs"""
    agent_runtime: RuntimeSettings = RuntimeSettings()
    """what carries out its turns, whatever the model"""
    memory_search: MemorySearchOverride | None = None
    """how its notes are found again"""
    sandbox: SandboxSettings | None = None
    """its own box for files and commands"""
    tools: AgentToolSettings = AgentToolSettings()
    """its tools, out of those that remain for all"""


class AgentsSettings(Settings, frozen=True):
    """`agents`: defaults and the list."""

    defaults: AgentDefaults = AgentDefaults()
    """what every agent starts from"""
    list: tuple[AgentEntry, ...] = ()
    """the agents; without any there is one called main"""


class ResolvedAgent(Struct, frozen=True, kw_only=True):
    """The resolved settings of one agent, for a turn."""

    id: str
    is_default: bool
    workspace: str | None = None
    primary: str | None = None
    fallbacks: tuple[str, ...] = ()
    aliases: Mapping[str, str | None] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    memory_get_chars: int
    post_compaction_chars: int
    entry: AgentEntry


@cache_per_settings
def default_agent(agents: AgentsSettings) -> str:
    """The agent that answers when none is named."""
    chosen = next((entry for entry in agents.list if entry.default), agents.list[0] if agents.list else None)
    return normalise_agent(chosen.id) if chosen else DEFAULT_AGENT


@cache_per_settings
def agent_ids(agents: AgentsSettings) -> tuple[str, ...]:
    return tuple(normalise_agent(entry.id) for entry in agents.list) or (DEFAULT_AGENT,)


@cache_per_settings
def resolve_agent(agents: AgentsSettings, agent_id: str) -> ResolvedAgent:
    """The resolved agent called `agent_id`."""
    wanted = normalise_agent(agent_id)
    known = agent_ids(agents)
    if wanted not in known:
        raise NotFound(f"there is no agent {wanted!r} (known: {', '.join(known)}): openclaw agents add {wanted}")
    entry = next((item for item in agents.list if normalise_agent(item.id) == wanted), AgentEntry(id=wanted))
    defaults = agents.defaults
    own, shared = _choice(entry.model), _choice(defaults.model)
    # An agent with a model as plain text uses that model without the defaults' fallbacks.
    fallbacks = own.fallbacks if own.primary else shared.fallbacks
    return ResolvedAgent(
        id=wanted,
        is_default=wanted == default_agent(agents),
        workspace=entry.workspace,
        primary=own.primary or shared.primary,
        fallbacks=fallbacks,
        aliases={ref: preference.alias for ref, preference in defaults.models.items()},
        params={**defaults.params, **entry.params},
        memory_get_chars=_first(
            entry.context_limits.memory_get_max_chars, defaults.context_limits.memory_get_max_chars, MEMORY_GET_CHARS
        ),
        post_compaction_chars=_first(
            entry.context_limits.post_compaction_max_chars,
            defaults.context_limits.post_compaction_max_chars,
            POST_COMPACTION_CHARS,
        ),
        entry=entry,
    )


def image_model(agents: AgentsSettings) -> str | None:
    """The model that describes images for models without vision."""
    return _choice(agents.defaults.image_model).primary


def _first(*limits: int | None) -> int:
    return next(limit for limit in limits if limit is not None)


def _choice(model: str | ModelChoiceSettings | None) -> ModelChoiceSettings:
    return model if isinstance(model, ModelChoiceSettings) else ModelChoiceSettings(primary=model)
