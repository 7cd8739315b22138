"""The schema of the configuration file: every section with its type, and functions that walk the types."""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import field, inspect

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
from openclaw.core.settings import SecretRef, Settings, doc
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

    internal: Annotated[InternalHooksSettings, doc("handlers for what happens inside")] = InternalHooksSettings()


class Config(Settings, frozen=True):
    """Everything that can be set."""

    schema_url: Annotated[str | None, doc("address of the schema, for editors")] = field(name="$schema", default=None)
    agents: Annotated[AgentsSettings, doc("who the agents are and how they run")] = AgentsSettings()
    models: Annotated[ModelsSettings, doc("where answers come from")] = ModelsSettings()
    auth: Annotated[AuthSettings, doc("several credentials for one provider, and their order")] = AuthSettings()
    budget: Annotated[BudgetSettings, doc("what calls to models may cost")] = BudgetSettings()
    record: Annotated[RecordSettings, doc("what is kept of every run")] = RecordSettings()
    memory: Annotated[MemorySettings, doc("how the assistant speaks of its notes")] = MemorySettings()
    session: Annotated[SessionSettings, doc("how conversations are kept apart and kept whole")] = SessionSettings()
    messages: Annotated[MessagesSettings, doc("how messages are taken in")] = MessagesSettings()
    tools: Annotated[ToolsSettings, doc("which tools an agent has and how far they may go")] = ToolsSettings()
    tts: Annotated[TtsSettings, doc("the assistant's voice")] = TtsSettings()
    browser: Annotated[BrowserSettings, doc("a real browser for the assistant")] = BrowserSettings()
    acp: Annotated[AcpSettings, doc("handing work to coding agents of other makers")] = AcpSettings()
    mcp: Annotated[McpSettings, doc("servers that lend us tools")] = McpSettings()
    cron: Annotated[CronSettings, doc("jobs that run by the clock")] = CronSettings()
    hooks: Annotated[HooksConfig, doc("calls from outside that wake the assistant, and handlers for what happens")] = (
        HooksConfig()
    )
    gateway: Annotated[GatewaySettings, doc("the long-lived process that every client talks to")] = GatewaySettings()
    commands: Annotated[CommandsSettings, doc("who may command the assistant")] = CommandsSettings()
    approvals: Annotated[ApprovalsSettings, doc("what becomes of questions to the owner")] = ApprovalsSettings()
    delivery: Annotated[DeliverySettings, doc("how messages to people on channels are sent")] = DeliverySettings()
    channels: Annotated[
        Mapping[str, ChannelSettings], doc("whom each channel lets in, and what may be used in its groups")
    ] = field(default_factory=dict)
    skills: Annotated[SkillsSettings, doc("abilities kept as files")] = SkillsSettings()
    plugins: Annotated[PluginsSettings, doc("extensions that others wrote")] = PluginsSettings()
    security: Annotated[SecuritySettings, doc("protections that work whatever the model does")] = SecuritySettings()
    env: Annotated[EnvSettings, doc("variables for ${NAME} and for programs we start")] = EnvSettings()
    secrets: Annotated[SecretsSettings, doc("where credentials are kept")] = SecretsSettings()
    store: Annotated[StateStoreSettings, doc("where the state is kept")] = StateStoreSettings()
    logging: Annotated[LoggingSettings, doc("what is written down, and where")] = LoggingSettings()
    diagnostics: Annotated[DiagnosticsSettings, doc("what the gateway watches in itself")] = DiagnosticsSettings()
    meta: Annotated[MetaSettings, doc("notes of the program that last wrote the file")] = MetaSettings()
    wizard: Annotated[WizardSettings, doc("notes of the guided set-up")] = WizardSettings()


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


def doc_of(kind: inspect.Type) -> str:
    """The `doc(…)` text of a field."""
    if isinstance(kind, inspect.Metadata) and kind.extra_json_schema:
        return str(kind.extra_json_schema.get("description", ""))
    return ""


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
    for part in parts.values():
        for entry in part.get("properties", {}).values():
            entry.setdefault("description", part.get("description", part["title"]))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "OpenClaw configuration",
        **top,
        "$defs": dict(sorted(parts.items())),
    }


def _foreign(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/SecretRef"}], "sensitive": True}
    raise NotImplementedError(kind)
