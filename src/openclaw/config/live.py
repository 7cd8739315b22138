"""The configuration in force: one immutable value, replaced whole on reload."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from openclaw.agent.settings import AgentsSettings
from openclaw.automation.settings import CronSettings
from openclaw.budget.settings import BudgetSettings, RecordSettings
from openclaw.channels.settings import ChannelSettings, DeliverySettings
from openclaw.config import tree
from openclaw.config.load import LoadedConfig
from openclaw.config.schema import Config, HooksConfig
from openclaw.core.errors import OpenClawError
from openclaw.memory.settings import MemorySettings
from openclaw.models.settings import AuthSettings, ModelsSettings
from openclaw.plugins.settings import InternalHooksSettings, PluginsSettings
from openclaw.runs.settings import MessagesSettings
from openclaw.security.settings import CommandsSettings, SecuritySettings
from openclaw.sessions.settings import SessionSettings
from openclaw.skills.settings import SkillsSettings
from openclaw.tools.settings import AcpSettings, ToolsSettings, TtsSettings

T = TypeVar("T")


class _Section(Generic[T]):
    """One section of the configuration in force."""

    current: T


class LiveConfig:
    """Holds the loaded configuration. Services read `current`, or one section of it as a `Live` value."""

    current: LoadedConfig
    config: Config

    def __init__(self, loaded: LoadedConfig) -> None:
        self.agents = _Section[AgentsSettings]()
        self.auth = _Section[AuthSettings]()
        self.budget = _Section[BudgetSettings]()
        self.channels = _Section[Mapping[str, ChannelSettings]]()
        self.commands = _Section[CommandsSettings]()
        self.cron = _Section[CronSettings]()
        self.delivery = _Section[DeliverySettings]()
        self.hooks = _Section[HooksConfig]()
        self.memory = _Section[MemorySettings]()
        self.messages = _Section[MessagesSettings]()
        self.models = _Section[ModelsSettings]()
        self.plugins = _Section[PluginsSettings]()
        self.security = _Section[SecuritySettings]()
        self.session = _Section[SessionSettings]()
        self.skills = _Section[SkillsSettings]()
        self.tools = _Section[ToolsSettings]()
        self.tts = _Section[TtsSettings]()
        self.internal_hooks = _Section[InternalHooksSettings]()
        self.acp = _Section[AcpSettings]()
        self.record = _Section[RecordSettings]()
        self.variables = _Section[Mapping[str, str]]()
        self.replace(loaded)

    def is_set(self, path: str) -> bool:
        """Whether the file sets `path` to something."""
        try:
            return bool(tree.find(self.current.raw, tree.parse_path(path)))
        except (OpenClawError, LookupError):
            return False

    def replace(self, loaded: LoadedConfig) -> None:
        """From now on `loaded` holds."""
        self.current, self.config = loaded, loaded.config
        for name in Config.__struct_fields__:
            if isinstance(section := vars(self).get(name), _Section):
                section.current = getattr(loaded.config, name)
        self.internal_hooks.current = loaded.config.hooks.internal
        self.variables.current = loaded.variables
