"""Tools and slash commands."""

from typing import Any, Literal

from openclaw.wire.params.kinds import NonEmpty, Params


class ToolsCatalogParams(Params, frozen=True, kw_only=True):
    """Params of `tools.catalog`."""

    agent_id: NonEmpty | None = None
    include_plugins: bool | None = None


class ToolsEffectiveParams(Params, frozen=True, kw_only=True):
    """Params of `tools.effective`."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None


class ToolsInvokeParams(Params, frozen=True, kw_only=True):
    """Params of `tools.invoke`."""

    name: NonEmpty
    args: dict[str, Any] | None = None
    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    confirm: bool | None = None
    idempotency_key: NonEmpty | None = None
    conversation_read_origin: Literal["direct-operator"] | None = None


class CommandsListParams(Params, frozen=True, kw_only=True):
    """Params of `commands.list`."""

    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    provider: NonEmpty | None = None
    scope: Literal["text", "native", "both"] | None = None
    include_args: bool | None = None
