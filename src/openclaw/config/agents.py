"""The sections `agents.defaults` and `agents.list`, complete with the settings other packages add."""

from typing import Annotated

from openclaw.agent.settings import AgentDefaults, AgentEntry, AgentsSettings
from openclaw.core.settings import doc
from openclaw.memory.settings import MemorySearchOverride, MemorySearchSettings
from openclaw.security.settings import AgentToolSettings, ElevatedDefault, SandboxSettings


class Defaults(AgentDefaults, frozen=True):
    """`agents.defaults`: what every agent starts from."""

    memory_search: Annotated[MemorySearchSettings, doc("how notes are found again")] = MemorySearchSettings()
    sandbox: Annotated[SandboxSettings, doc("a box for files and commands")] = SandboxSettings()
    elevated_default: Annotated[
        ElevatedDefault | None, doc("whether sessions may leave their sandbox before anybody says /elevated; off")
    ] = None
    acknowledge_elevated_default: Annotated[
        bool, doc("says that elevatedDefault above off is meant; without it the owner is asked each time")
    ] = False


class AgentSection(AgentEntry, frozen=True):
    """One agent of `agents.list`."""

    memory_search: Annotated[MemorySearchOverride | None, doc("how its notes are found again")] = None
    sandbox: Annotated[SandboxSettings | None, doc("its own box for files and commands")] = None
    tools: Annotated[AgentToolSettings, doc("its tools, out of those that remain for all")] = AgentToolSettings()


class AgentsSection(AgentsSettings, frozen=True):
    """`agents`: defaults and the list."""

    defaults: Annotated[Defaults, doc("what every agent starts from")] = Defaults()
    list: Annotated[tuple[AgentSection, ...], doc("the agents; without any there is one called main")] = ()
