"""One agent as its settings describe it: its own entry over the defaults. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from openclaw.agent.settings import AgentEntry, AgentsSettings, ModelChoiceSettings
from openclaw.core.errors import NotFound
from openclaw.core.keys import DEFAULT_AGENT, normalise_agent


class AgentView(Struct, frozen=True, kw_only=True):
    """What a turn needs to know of its agent."""

    id: str
    is_default: bool
    workspace: str | None = None
    primary: str | None = None
    fallbacks: tuple[str, ...] = ()
    aliases: Mapping[str, str | None] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    entry: AgentEntry


def default_agent(agents: AgentsSettings) -> str:
    """The agent that answers when none is named."""
    chosen = next((entry for entry in agents.list if entry.default), agents.list[0] if agents.list else None)
    return normalise_agent(chosen.id) if chosen else DEFAULT_AGENT


def agent_ids(agents: AgentsSettings) -> tuple[str, ...]:
    return tuple(normalise_agent(entry.id) for entry in agents.list) or (DEFAULT_AGENT,)


def view(agents: AgentsSettings, agent_id: str) -> AgentView:
    """The agent called `agent_id`."""
    wanted = normalise_agent(agent_id)
    known = agent_ids(agents)
    if wanted not in known:
        raise NotFound(f"there is no agent {wanted!r} (known: {', '.join(known)}): add it under agents.list")
    entry = next((item for item in agents.list if normalise_agent(item.id) == wanted), AgentEntry(id=wanted))
    defaults = agents.defaults
    own, shared = _choice(entry.model), _choice(defaults.model)
    # An agent that names its model as plain text wants that model, not somebody else's fallbacks.
    fallbacks = own.fallbacks if own.primary else shared.fallbacks
    return AgentView(
        id=wanted,
        is_default=wanted == default_agent(agents),
        workspace=entry.workspace,
        primary=own.primary or shared.primary,
        fallbacks=fallbacks,
        aliases={ref: preference.alias for ref, preference in defaults.models.items()},
        params={**defaults.params, **entry.params},
        entry=entry,
    )


def image_model(agents: AgentsSettings) -> str | None:
    """The model that looks at images for those that cannot."""
    return _choice(agents.defaults.image_model).primary


def _choice(model: str | ModelChoiceSettings | None) -> ModelChoiceSettings:
    return model if isinstance(model, ModelChoiceSettings) else ModelChoiceSettings(primary=model)
