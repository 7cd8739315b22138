"""Health, status, presence, logs and the heartbeat."""

from typing import Annotated, Literal

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, NonNegative, Params


class WakeParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Params of `wake`."""

    mode: Literal["now", "next-heartbeat"]
    text: NonEmpty
    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None


class LogsTailParams(Params, frozen=True, kw_only=True):
    """Params of `logs.tail`."""

    cursor: NonNegative | None = None
    limit: Annotated[int, Meta(ge=1, le=5000)] | None = None
    max_bytes: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class DoctorRepairParams(Params, frozen=True, kw_only=True):
    """Params of `doctor.repair`: a finding of `doctor.check`, and the plan a person agreed to."""

    check_id: NonEmpty
    plan: NonEmpty


class HealthParams(Params, frozen=True, kw_only=True):
    """Params of `health`."""

    probe: bool | None = None


class StatusParams(Params, frozen=True, kw_only=True):
    """Params of `status`."""

    include_channel_summary: bool | None = None
    include_cli_projection: bool | None = None


class SystemEventParams(Params, frozen=True, kw_only=True):
    """Params of `system-event`."""

    text: str
    device_id: str | None = None
    instance_id: str | None = None
    host: str | None = None
    ip: str | None = None
    mode: str | None = None
    version: str | None = None
    platform: str | None = None
    device_family: str | None = None
    model_identifier: str | None = None
    last_input_seconds: float | None = None
    reason: str | None = None
    roles: tuple[str, ...] | None = None
    scopes: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None


class SetHeartbeatsParams(Params, frozen=True, kw_only=True):
    """Params of `set-heartbeats`."""

    enabled: bool


class UsageCostParams(Params, frozen=True, kw_only=True):
    """Params of `usage.cost`."""

    days: int | None = None
    agent_id: str | None = None
    agent_scope: Literal["all"] | None = None
    start_date: str | None = None
    end_date: str | None = None
    mode: str | None = None
    time_zone: str | None = None
    utc_offset: str | None = None
