"""Settings of `agents`: the agents, their defaults, and the resolved view of one."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from openclaw.automation.settings import HeartbeatSettings
from openclaw.core.errors import NotFound
from openclaw.core.keys import DEFAULT_AGENT, normalise_agent
from openclaw.core.provider import ThinkingLevel
from openclaw.core.settings import Count, Millis, Settings, cache_per_settings, doc
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


class BlockChunkSettings(Settings, frozen=True):
    """`agents.defaults.blockStreamingChunk`: how long the blocks of an answer are."""

    min_chars: Annotated[int, doc("a block is at least so long", ge=1)] = 800
    max_chars: Annotated[int, doc("and at most so long, and never longer than a message", ge=1)] = 1_200
    break_preference: Annotated[Literal["paragraph", "newline", "sentence"], doc("where a block ends, if it can")] = (
        "paragraph"
    )


class BlockCoalesceSettings(Settings, frozen=True):
    """`agents.defaults.blockStreamingCoalesce`: short texts between tool calls, put together."""

    min_chars: Annotated[int, doc("what is shorter waits for the text that follows", ge=1)] = 1


class HumanDelaySettings(Settings, frozen=True):
    """`humanDelay`: a pause before every part of an answer but the first, as a person takes one."""

    mode: Annotated[
        Literal["off", "natural", "custom"], doc("no pause, 0.8 to 2.5 seconds, or between minMs and maxMs")
    ] = "off"
    min_ms: Annotated[Millis | None, doc("the shortest pause of custom; 800 if unset")] = None
    max_ms: Annotated[Millis | None, doc("and the longest; 2500 if unset")] = None

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

    memory_get_max_chars: Annotated[
        Annotated[int, doc("", ge=1, le=250_000)] | None, doc("most that memory_get shows at once; 12000 if unset")
    ] = None
    post_compaction_max_chars: Annotated[
        Annotated[int, doc("", ge=1, le=50_000)] | None,
        doc("most of compaction.postCompactionSections; 1800 if unset"),
    ] = None


class GroupChatSettings(Settings, frozen=True):
    """`messages.groupChat`, and `groupChat` of an agent, which comes first."""

    mention_patterns: Annotated[
        tuple[str, ...] | None,
        doc("regular expressions: a message in a group that fits one mentions the assistant, in any case of letters"),
    ] = None
    history_limit: Annotated[
        Millis | None, doc("how many messages of a group it is told that did not mention it; 0 for none, 50 if unset")
    ] = None

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

    model: Annotated[
        str | ModelChoiceSettings | None, doc("the model to use: a reference, or primary and fallbacks")
    ] = None
    image_model: Annotated[str | ModelChoiceSettings | None, doc("looks at images when the model in use cannot")] = None
    models: Annotated[Mapping[str, ModelPreference], doc("aliases and parameters by model reference")] = field(
        default_factory=dict
    )
    workspace: Annotated[str | None, doc("directory of the default agent's files")] = None
    skip_bootstrap: Annotated[bool, doc("no workspace file in any prompt, and no starter files in the workspace")] = (
        False
    )
    bootstrap_max_chars: Annotated[int, doc("most characters of one workspace file in the prompt", ge=1)] = 20_000
    bootstrap_total_max_chars: Annotated[int, doc("most characters of all workspace files in the prompt", ge=1)] = (
        60_000
    )
    bootstrap_untrusted_max_chars: Annotated[
        int, doc("most characters of one file of a workspace that is not trusted", ge=1)
    ] = 4_000
    bootstrap_prompt_truncation_warning: Annotated[
        Literal["off", "once", "always"], doc("tell the model when files were shortened")
    ] = "always"
    user_timezone: Annotated[str | None, doc("IANA time zone of the user; the machine's when absent")] = None
    time_format: Annotated[Literal["auto", "12", "24"], doc("how the time of day is told; auto is 24 hours")] = "auto"
    repo_root: Annotated[str | None, doc("repository shown to the model; found through git when absent")] = None
    heartbeat: Annotated[HeartbeatSettings | None, doc("a regular look at what needs attention")] = None
    subagents: Annotated[SubagentDefaults, doc("work handed to others, and its limits")] = SubagentDefaults()
    thinking_default: Annotated[ThinkingLevel | None, doc("how hard to think when nothing else says so")] = None
    verbose_default: Annotated[
        Literal["off", "on", "full"], doc("what is told of tools, before anybody says /verbose")
    ] = "off"
    reasoning_default: Annotated[
        Literal["off", "on", "stream"],
        doc("whether reasoning is shown, before anybody says /reasoning"),
    ] = "off"
    trace_default: Annotated[Literal["off", "on"], doc("tell what plugins changed, before anybody says /trace")] = "off"
    context_tokens: Annotated[
        Count | None, doc("use at most so much of a model's context window; all of it if unset")
    ] = None
    timeout_seconds: Annotated[float, doc("longest run; 0 means no limit", ge=0)] = 172_800
    max_concurrent: Annotated[Count | None, doc("runs at once over all sessions")] = None
    block_streaming_default: Annotated[
        Literal["off", "on"], doc("send finished parts of an answer while the rest is written, where messages stay")
    ] = "off"
    block_streaming_break: Annotated[
        Literal["text_end", "message_end"], doc("send a part as soon as it is long enough, or when its message ended")
    ] = "text_end"
    block_streaming_chunk: Annotated[BlockChunkSettings, doc("how long the parts are")] = BlockChunkSettings()
    block_streaming_coalesce: Annotated[BlockCoalesceSettings, doc("short parts, put together")] = (
        BlockCoalesceSettings()
    )
    human_delay: Annotated[HumanDelaySettings, doc("pauses between the parts of an answer")] = HumanDelaySettings()
    typing_mode: Annotated[
        Literal["never", "instant", "thinking", "message"],
        doc("show typing never, from when a message is accepted, from when a model is asked, or from its first words"),
    ] = "instant"
    typing_interval_seconds: Annotated[
        float, doc("repeat the typing notice so often; 0 means as the platform needs it", ge=0)
    ] = 0
    compaction: Annotated[CompactionSettings, doc("when a conversation outgrows its model")] = CompactionSettings()
    context_limits: Annotated[ContextLimits, doc("how much of something a model is shown")] = ContextLimits()
    context_pruning: Annotated[PruningSettings, doc("old tool results shown shortened")] = PruningSettings()
    skills: Annotated[tuple[str, ...] | None, doc("the only skills agents may use; all when absent")] = None
    params: Annotated[Mapping[str, Any], doc("request parameters for every model")] = field(default_factory=dict)
    memory_search: Annotated[MemorySearchSettings, doc("how notes are found again")] = MemorySearchSettings()
    sandbox: Annotated[SandboxSettings, doc("a box for files and commands")] = SandboxSettings()
    elevated_default: Annotated[
        ElevatedDefault | None, doc("whether sessions may leave their sandbox before anybody says /elevated; off")
    ] = None
    acknowledge_elevated_default: Annotated[
        bool, doc("says that elevatedDefault above off is meant; without it the owner is asked each time")
    ] = False


class AgentEntry(Settings, frozen=True):
    """One agent of `agents.list`."""

    id: Annotated[str, doc("its id: letters, digits, - and _", min_length=1, max_length=64)]
    default: Annotated[bool, doc("use it when no agent is named")] = False
    name: Annotated[str | None, doc("a name for people")] = None
    workspace: Annotated[str | None, doc("directory of its files")] = None
    agent_dir: Annotated[str | None, doc("directory of its credentials and state")] = None
    model: Annotated[str | ModelChoiceSettings | None, doc("its model: a reference, or primary and fallbacks")] = None
    identity: Annotated[IdentitySettings, doc("how it presents itself")] = IdentitySettings()
    group_chat: Annotated[GroupChatSettings, doc("groups, for this agent")] = GroupChatSettings()
    context_limits: Annotated[ContextLimits, doc("how much of something its model is shown")] = ContextLimits()
    human_delay: Annotated[HumanDelaySettings | None, doc("its own pauses between the parts of an answer")] = None
    heartbeat: Annotated[
        HeartbeatSettings | None, doc("its own heartbeat; if any agent has one, only those agents have heartbeats")
    ] = None
    subagents: Annotated[SubagentSettings, doc("work handed to others")] = SubagentSettings()
    skills: Annotated[tuple[str, ...] | None, doc("the only skills it may use; those of the defaults when absent")] = (
        None
    )
    skills_limits: Annotated[SkillsLimits, doc("how much of the prompt its skills may take")] = SkillsLimits()
    params: Annotated[Mapping[str, Any], doc("request parameters for its runs")] = field(default_factory=dict)
    agent_runtime: Annotated[RuntimeSettings, doc("what carries out its turns, whatever the model")] = RuntimeSettings()
    memory_search: Annotated[MemorySearchOverride | None, doc("how its notes are found again")] = None
    sandbox: Annotated[SandboxSettings | None, doc("its own box for files and commands")] = None
    tools: Annotated[AgentToolSettings, doc("its tools, out of those that remain for all")] = AgentToolSettings()


class AgentsSettings(Settings, frozen=True):
    """`agents`: defaults and the list."""

    defaults: Annotated[AgentDefaults, doc("what every agent starts from")] = AgentDefaults()
    list: Annotated[tuple[AgentEntry, ...], doc("the agents; without any there is one called main")] = ()


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
