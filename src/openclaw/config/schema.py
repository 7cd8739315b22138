"""The schema of the configuration file: every section with its type, and functions that walk the types."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct, field, inspect

from openclaw.agent.settings import AgentsSettings
from openclaw.automation.settings import CronSettings, WebhookSettings
from openclaw.budget.settings import BudgetSettings, RecordSettings
from openclaw.channels.discord.settings import DiscordSettings
from openclaw.channels.email.settings import EmailSettings
from openclaw.channels.irc.settings import IrcSettings
from openclaw.channels.matrix.settings import MatrixSettings
from openclaw.channels.settings import ChannelSettings, DeliverySettings
from openclaw.channels.signal.settings import SignalSettings
from openclaw.channels.slack.settings import SlackSettings
from openclaw.channels.telegram.settings import TelegramSettings
from openclaw.channels.webhook.settings import WebhookChannelSettings
from openclaw.channels.whatsapp.settings import WhatsAppSettings
from openclaw.config.field_docs import field_docs
from openclaw.config.settings import (
    DiagnosticsSettings,
    EnvSettings,
    GatewaySettings,
    LoggingSettings,
    MetaSettings,
    SecretsSettings,
    StateStoreSettings,
    WizardSettings,
)
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretRef, Settings
from openclaw.memory.settings import MemorySettings
from openclaw.models.settings import AuthSettings, ModelsSettings
from openclaw.plugins.settings import InternalHooksSettings, PluginsSettings
from openclaw.runs.settings import MessagesSettings
from openclaw.security.settings import ApprovalsSettings, CommandsSettings, SecuritySettings
from openclaw.sessions.settings import SessionSettings
from openclaw.skills.settings import SkillsSettings
from openclaw.tools.settings import AcpSettings, BrowserSettings, McpSettings, ToolsSettings, TtsSettings


class HooksConfig(WebhookSettings, frozen=True):
    """`hooks`: calls from outside that wake the assistant, and handlers for what happens inside."""

    internal: InternalHooksSettings = InternalHooksSettings()
    """handlers for what happens inside"""


class Config(Settings, frozen=True):
    """Everything that can be set."""

    schema_url: str | None = field(name="$schema", default=None)
    """address of the schema, for editors"""
    agents: AgentsSettings = AgentsSettings()
    """who the agents are and how they run"""
    models: ModelsSettings = ModelsSettings()
    """where answers come from"""
    auth: AuthSettings = AuthSettings()
    """several credentials for one provider, and their order"""
    budget: BudgetSettings = BudgetSettings()
    """what calls to models may cost"""
    record: RecordSettings = RecordSettings()
    """what is kept of every run"""
    memory: MemorySettings = MemorySettings()
    """how the assistant speaks of its notes"""
    session: SessionSettings = SessionSettings()
    """how conversations are kept apart and kept whole"""
    messages: MessagesSettings = MessagesSettings()
    """how messages are taken in"""
    tools: ToolsSettings = ToolsSettings()
    """which tools an agent has and how far they may go"""
    tts: TtsSettings = TtsSettings()
    """the assistant's voice"""
    browser: BrowserSettings = BrowserSettings()
    """a real browser for the assistant"""
    acp: AcpSettings = AcpSettings()
    """handing work to coding agents of other makers"""
    mcp: McpSettings = McpSettings()
    """servers that lend us tools"""
    cron: CronSettings = CronSettings()
    """jobs that run by the clock"""
    hooks: HooksConfig = HooksConfig()
    """calls from outside that wake the assistant, and handlers for what happens"""
    gateway: GatewaySettings = GatewaySettings()
    """the long-lived process that every client talks to"""
    commands: CommandsSettings = CommandsSettings()
    """who may command the assistant"""
    approvals: ApprovalsSettings = ApprovalsSettings()
    """what becomes of questions to the owner"""
    delivery: DeliverySettings = DeliverySettings()
    """how messages to people on channels are sent"""
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict)
    """whom each channel lets in, and what may be used in its groups"""
    skills: SkillsSettings = SkillsSettings()
    """abilities kept as files"""
    plugins: PluginsSettings = PluginsSettings()
    """extensions that others wrote"""
    security: SecuritySettings = SecuritySettings()
    """protections that work whatever the model does"""
    env: EnvSettings = EnvSettings()
    """variables for ${NAME} and for programs we start"""
    secrets: SecretsSettings = SecretsSettings()
    """where credentials are kept"""
    store: StateStoreSettings = StateStoreSettings()
    """where the state is kept"""
    logging: LoggingSettings = LoggingSettings()
    """what is written down, and where"""
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    """what the gateway watches in itself"""
    meta: MetaSettings = MetaSettings()
    """notes of the program that last wrote the file"""
    wizard: WizardSettings = WizardSettings()
    """notes of the guided set-up"""


BUILT_IN_CHANNELS: dict[str, type[ChannelSettings]] = {
    "discord": DiscordSettings,
    "email": EmailSettings,
    "irc": IrcSettings,
    "matrix": MatrixSettings,
    "signal": SignalSettings,
    "slack": SlackSettings,
    "telegram": TelegramSettings,
    "webhook": WebhookChannelSettings,
    "whatsapp": WhatsAppSettings,
}
"""The sections of `channels` that have keys of their own; any other name is a plugin's channel."""


@cache
def root() -> inspect.StructType:
    """The type of the whole file, for walking."""
    found = inspect.type_info(Config)
    assert isinstance(found, inspect.StructType)
    return found


def partial_root(names: Collection[str]) -> inspect.StructType:
    """`root` with only the sections called `names` resolved, which is quicker: a file sets a few of them."""
    fields = zip(Config.__struct_fields__, Config.__struct_encode_fields__, strict=True)
    return inspect.StructType(
        cls=Config,
        fields=tuple(
            inspect.Field(
                name=name,
                encode_name=encoded,
                type=_section(name) if encoded in names else inspect.AnyType(),
                required=False,
            )
            for name, encoded in fields
        ),
    )


@cache
def _section(name: str) -> inspect.Type:
    return inspect.type_info(get_type_hints(Config, include_extras=True)[name])


def strip_metadata(kind: inspect.Type) -> inspect.Type:
    """`kind` without its metadata."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def options(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """The members of a union, or the one type."""
    kind = strip_metadata(kind)
    if isinstance(kind, inspect.UnionType):
        return tuple(strip_metadata(member) for member in kind.types)
    return (kind,)


def is_secret(kind: inspect.Type) -> bool:
    return any(isinstance(option, inspect.CustomType) and option.cls is Secret for option in options(kind))


def child_type(kind: inspect.Type | None, part: str | int) -> inspect.Type | None:
    """The type of the child `part`, or None where the schema says nothing."""
    for option in options(kind) if kind is not None else ():
        match option:
            case inspect.StructType() if isinstance(part, str):
                for known in option.fields:
                    if known.encode_name == part:
                        return known.type
            case inspect.DictType() if isinstance(part, str):
                return value_type(option, part)
            case inspect.VarTupleType() | inspect.ListType():
                return option.item_type
    return None


def value_type(kind: inspect.DictType, name: str) -> inspect.Type:
    """The type of what stands under `name`: a built-in channel has its own."""
    of = strip_metadata(kind.value_type)
    if isinstance(of, inspect.StructType) and of.cls is ChannelSettings and name in BUILT_IN_CHANNELS:
        return _channel_type(name)
    return kind.value_type


@cache
def _channel_type(name: str) -> inspect.Type:
    return inspect.type_info(BUILT_IN_CHANNELS[name])


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the file, for editors and forms."""
    (top,), parts = msgspec.json.schema_components([Config], schema_hook=_foreign, ref_template="#/$defs/{name}")
    (_, *channels), more = msgspec.json.schema_components(
        [SecretRef, *BUILT_IN_CHANNELS.values()], schema_hook=_foreign, ref_template="#/$defs/{name}"
    )
    parts = {**parts, **more}
    parts["Config"]["properties"]["channels"]["properties"] = dict(zip(BUILT_IN_CHANNELS, channels, strict=True))
    documented = {
        kind.__name__: field_docs(kind) for kind in _struct_types(root(), *map(_channel_type, BUILT_IN_CHANNELS))
    }
    for title, part in parts.items():
        docs = documented.get(title, {})
        for name, entry in part.get("properties", {}).items():
            entry.setdefault("description", docs.get(name) or part.get("description", part["title"]))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "OpenClaw configuration",
        **top,
        "$defs": dict(sorted(parts.items())),
    }


def _struct_types(*kinds: inspect.Type) -> set[type[Struct]]:
    """The settings types among `kinds` and in what they contain."""
    found: set[type[Struct]] = set()
    waiting = list(kinds)
    while waiting:
        for option in options(waiting.pop()):
            match option:
                case inspect.StructType(cls=cls) if cls not in found:
                    found.add(cls)
                    waiting += [each.type for each in option.fields]
                case inspect.DictType(value_type=inner):
                    waiting.append(inner)
                case inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner):
                    waiting.append(inner)
    return found


def _foreign(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/SecretRef"}], "sensitive": True}
    raise NotImplementedError(kind)
