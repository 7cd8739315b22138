"""Paired devices and their tokens."""

from typing import Annotated

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, Params


class DevicePairApproveParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.approve`."""

    request_id: NonEmpty


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
