"""Configuration, which travels as text."""

from typing import Annotated

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, NonNegative, Params


class ConfigSetParams(Params, frozen=True, kw_only=True):
    """Params of `config.set`."""

    raw: NonEmpty
    base_hash: NonEmpty | None = None


class DeliveryContext(Params, frozen=True, kw_only=True):
    channel: str | None = None
    to: str | None = None
    account_id: str | None = None
    thread_id: str | int | float | None = None


class ConfigPatchParams(Params, frozen=True, kw_only=True):
    """Params of `config.patch`."""

    raw: NonEmpty
    base_hash: NonEmpty | None = None
    session_key: str | None = None
    delivery_context: DeliveryContext | None = None
    note: str | None = None
    restart_delay_ms: NonNegative | None = None
    replace_paths: Annotated[tuple[NonEmpty, ...], Meta(max_length=256)] | None = None


class ConfigApplyParams(Params, frozen=True, kw_only=True):
    """Params of `config.apply`."""

    raw: NonEmpty
    base_hash: NonEmpty | None = None
    session_key: str | None = None
    delivery_context: DeliveryContext | None = None
    note: str | None = None
    restart_delay_ms: NonNegative | None = None


class ConfigSchemaLookupParams(Params, frozen=True, kw_only=True):
    """Params of `config.schema.lookup`."""

    path: Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^[A-Za-z0-9_./\[\]\-*]+$")]
