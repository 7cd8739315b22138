"""Devices as the protocol and the pairing book both speak of them."""

from msgspec import Struct

from openclaw.core.secret import Secret


class DeviceClaim(Struct, frozen=True, kw_only=True):
    """A device that has proven its key, and what it asks for."""

    device_id: str
    public_key: str
    role: str
    scopes: tuple[str, ...] = ()
    platform: str = ""
    device_family: str = ""
    display_name: str = ""
    client_id: str = ""
    client_mode: str = ""
    remote_ip: str = ""


class DeviceState(Struct, frozen=True, kw_only=True):
    """What an approved device may do. `token_scopes` is None unless it showed a token that is good for its role."""

    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    platform: str = ""
    device_family: str = ""
    token_scopes: tuple[str, ...] | None = None


class DeviceGrant(Struct, frozen=True):
    """What a device may be: a role, and what it may do in it."""

    role: str
    scopes: tuple[str, ...] = ()


class DeviceToken(Struct, frozen=True):
    """A token as it is handed out, once."""

    token: Secret
    issued_at_ms: int


class SetUp(Struct, frozen=True):
    """What a device has after it came with a setup code: a token for each role."""

    tokens: tuple[tuple[DeviceGrant, DeviceToken], ...]
