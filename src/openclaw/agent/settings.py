"""Settings of `agents`: who the agents are and how they run."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import field

from openclaw.core.provider import ThinkingLevel
from openclaw.core.settings import Count, Settings, doc


class ModelChoice(Settings, frozen=True):
    """A primary model and what to use when it fails."""

    primary: Annotated[str | None, doc("provider/model or an alias")] = None
    fallbacks: Annotated[tuple[str, ...], doc("tried in this order when the primary fails")] = ()


class ModelPreference(Settings, frozen=True):
    """What is wanted of one model."""

    alias: Annotated[str | None, doc("a short name for it")] = None
    params: Annotated[Mapping[str, Any], doc("request parameters such as temperature or thinking")] = field(
        default_factory=dict
    )


class Identity(Settings, frozen=True):
    """How an agent presents itself."""

    name: Annotated[str | None, doc("its name")] = None
    theme: Annotated[str | None, doc("a few words on its manner")] = None
    emoji: Annotated[str | None, doc("one emoji")] = None
    avatar: Annotated[str | None, doc("path or address of a picture")] = None


class HeartbeatSettings(Settings, frozen=True):
    """`heartbeat`: a regular look at what needs attention; its presence switches it on."""

    every: Annotated[str, doc("how often, for example 30m or 2h; 0m switches it off")] = "30m"
    prompt: Annotated[str | None, doc("what to ask instead of the built-in question")] = None
    include_system_prompt_section: Annotated[bool, doc("explain heartbeats in the system prompt")] = True


class SubagentSettings(Settings, frozen=True):
    """`subagents`: work handed to others."""

    delegation_mode: Annotated[
        Literal["suggest", "prefer"] | None, doc("suggest mentions sub-agents, prefer makes the agent a coordinator")
    ] = None


class SkillsLimits(Settings, frozen=True):
    """`skillsLimits`: how much of the prompt an agent's skills may take."""

    max_skills_prompt_chars: Annotated[
        int | None, doc("characters of the list of skills; the general limit when absent")
    ] = None


class AgentDefaults(Settings, frozen=True):
    """`agents.defaults`: what every agent starts from."""

    model: Annotated[str | ModelChoice | None, doc("the model to use: a reference, or primary and fallbacks")] = None
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
    subagents: Annotated[SubagentSettings, doc("work handed to others")] = SubagentSettings()
    thinking_default: Annotated[ThinkingLevel | None, doc("how hard to think when nothing else says so")] = None
    timeout_seconds: Annotated[float, doc("longest run; 0 means no limit", ge=0)] = 172_800
    max_concurrent: Annotated[Count | None, doc("runs at once over all sessions")] = None
    skills: Annotated[tuple[str, ...] | None, doc("the only skills agents may use; all when absent")] = None
    params: Annotated[Mapping[str, Any], doc("request parameters for every model")] = field(default_factory=dict)


class AgentEntry(Settings, frozen=True):
    """One agent of `agents.list`."""

    id: Annotated[str, doc("its id: letters, digits, - and _", min_length=1, max_length=64)]
    default: Annotated[bool, doc("use it when no agent is named")] = False
    name: Annotated[str | None, doc("a name for people")] = None
    workspace: Annotated[str | None, doc("directory of its files")] = None
    agent_dir: Annotated[str | None, doc("directory of its credentials and state")] = None
    model: Annotated[str | ModelChoice | None, doc("its model: a reference, or primary and fallbacks")] = None
    identity: Annotated[Identity, doc("how it presents itself")] = Identity()
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
