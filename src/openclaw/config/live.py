"""The configuration in force: one immutable value, replaced whole on reload."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from openclaw.agent.settings import AgentsSettings
from openclaw.automation.settings import CronSettings
from openclaw.budget.settings import BudgetSettings, RecordSettings
from openclaw.channels.settings import DeliverySettings
from openclaw.config import tree
from openclaw.config.load import LoadedConfig
from openclaw.config.schema import Config, HooksConfig
from openclaw.core.errors import OpenClawError
from openclaw.core.settings import Live
from openclaw.memory.settings import MemorySettings
from openclaw.models.settings import AuthSettings, ModelsSettings
from openclaw.plugins.settings import InternalHooksSettings, PluginsSettings
from openclaw.security.settings import CommandsSettings, SecuritySettings
from openclaw.sessions.settings import SessionSettings
from openclaw.skills.settings import SkillsSettings
from openclaw.tools.settings import AcpSettings, ToolsSettings

T = TypeVar("T")


class _Section(Generic[T]):
    """One section of whatever configuration is in force."""

    def __init__(self, live: "LiveConfig", name: str) -> None:
        self._live = live
        self._name = name

    @property
    def current(self) -> T:
        section: T = getattr(self._live.config, self._name)
        return section


class LiveConfig:
    """Holds the loaded configuration. Services read `current`, or one section of it as a `Live` value."""

    def __init__(self, loaded: LoadedConfig) -> None:
        self.current = loaded
        self.agents: Live[AgentsSettings] = _Section(self, "agents")
        self.auth: Live[AuthSettings] = _Section(self, "auth")
        self.budget: Live[BudgetSettings] = _Section(self, "budget")
        self.commands: Live[CommandsSettings] = _Section(self, "commands")
        self.cron: Live[CronSettings] = _Section(self, "cron")
        self.delivery: Live[DeliverySettings] = _Section(self, "delivery")
        self.hooks: Live[HooksConfig] = _Section(self, "hooks")
        self.memory: Live[MemorySettings] = _Section(self, "memory")
        self.models: Live[ModelsSettings] = _Section(self, "models")
        self.plugins: Live[PluginsSettings] = _Section(self, "plugins")
        self.security: Live[SecuritySettings] = _Section(self, "security")
        self.session: Live[SessionSettings] = _Section(self, "session")
        self.skills: Live[SkillsSettings] = _Section(self, "skills")
        self.tools: Live[ToolsSettings] = _Section(self, "tools")
        self.internal_hooks: Live[InternalHooksSettings] = _InternalHooks(self)
        self.acp: Live[AcpSettings] = _Section(self, "acp")
        self.record: Live[RecordSettings] = _Section(self, "record")
        self.variables: Live[Mapping[str, str]] = _Variables(self)

    @property
    def config(self) -> Config:
        return self.current.config

    def is_set(self, path: str) -> bool:
        """Whether the file sets `path` to something."""
        try:
            return bool(tree.find(self.current.raw, tree.parse_path(path)))
        except (OpenClawError, LookupError):
            return False

    def replace(self, loaded: LoadedConfig) -> None:
        """From now on `loaded` holds."""
        self.current = loaded


class _InternalHooks:
    """`hooks.internal`."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live

    @property
    def current(self) -> InternalHooksSettings:
        return self._live.config.hooks.internal


class _Variables:
    """The environment with the configuration's own variables."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live

    @property
    def current(self) -> Mapping[str, str]:
        return self._live.current.variables
