"""`agents` with what other rooms add to it: two rooms meet here, where all settings are listed."""

from typing import Annotated

from openclaw.agent.settings import AgentDefaults, AgentEntry, AgentsSettings
from openclaw.core.settings import doc
from openclaw.memory.settings import MemorySearchOverride, MemorySearchSettings


class Defaults(AgentDefaults, frozen=True):
    """`agents.defaults`: what every agent starts from."""

    memory_search: Annotated[MemorySearchSettings, doc("how notes are found again")] = MemorySearchSettings()


class Entry(AgentEntry, frozen=True):
    """One agent of `agents.list`."""

    memory_search: Annotated[MemorySearchOverride | None, doc("how its notes are found again")] = None


class Agents(AgentsSettings, frozen=True):
    """`agents`: defaults and the list."""

    defaults: Annotated[Defaults, doc("what every agent starts from")] = Defaults()
    list: Annotated[tuple[Entry, ...], doc("the agents; without any there is one called main")] = ()
