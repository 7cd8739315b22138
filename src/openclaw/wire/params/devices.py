"""Paired devices and their tokens."""

from typing import Annotated, Literal

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, Params


class DevicePairApproveParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.approve`."""

    request_id: NonEmpty


class DevicePairSetupCodeParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.setupCode`."""

    public_url: NonEmpty | None = None
    prefer_remote_url: bool | None = None
    include_qr: bool | None = None
    bootstrap_profile: Literal["limited", "node", "voice-node"] | None = None
    join_url: Literal[True] | None = None


class DevicePairSetupStatusParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.setupStatus`."""

    setup_id: Annotated[str, Meta(min_length=1, max_length=128)]


class DevicePairRejectParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.reject`."""

    request_id: NonEmpty


class DevicePairRemoveParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.remove`."""

    device_id: NonEmpty


class DevicePairRenameParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.rename`."""

    device_id: NonEmpty
    label: Annotated[str, Meta(min_length=1, max_length=64)]


class DeviceTokenRotateParams(Params, frozen=True, kw_only=True):
    """Params of `device.token.rotate`."""

    device_id: NonEmpty
    role: NonEmpty
    scopes: tuple[NonEmpty, ...] | None = None


class DeviceTokenRevokeParams(Params, frozen=True, kw_only=True):
    """Params of `device.token.revoke`."""

    device_id: NonEmpty
    role: NonEmpty
