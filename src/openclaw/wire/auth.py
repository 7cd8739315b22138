"""Whether a client may come in, as decisions: the secret, the device rule, pairing, what scopes remain. Pure."""

import hashlib
import hmac
from typing import Literal

from msgspec import Struct

from openclaw.core.device import DeviceClaim, DeviceState
from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.wire.frames import HANDSHAKE_TIMEOUT_MS
from openclaw.wire.params.connect import ConnectAuth, ConnectParams
from openclaw.wire.peer import BROWSER_CLIENTS, NotVouched, Peer, Vouched
from openclaw.wire.proof import plain
from openclaw.wire.scopes import allows, covers, known

Mode = Literal["token", "password", "none", "trusted-proxy"]
Method = Literal["token", "password", "none", "trusted-proxy", "device-token", "bootstrap-token"]
PairingReason = Literal["not-paired", "role-upgrade", "scope-upgrade", "metadata-upgrade"]

_KEEPS_SCOPES = {("cli", "cli"), ("gateway-client", "backend")}


class AuthPolicy(Struct, frozen=True, kw_only=True):
    """What the gateway demands of whoever connects."""

    mode: Mode = "token"
    secret: Secret | None = None
    """With `trusted-proxy`: what programs of this machine present, which come without the proxy."""
    auto_approve: tuple[str, ...] = ()
    """Scopes up to which a device of somebody the proxy vouches for needs no approval."""
    allowed_origins: tuple[str, ...] = ()
    known_hosts: tuple[str, ...] = ()
    """Names a browser may reach this gateway under, beside loopback and plain addresses."""
    trusted_proxies: tuple[str, ...] = ()
    ready: bool = True
    handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS

    def __post_init__(self) -> None:
        if self.mode != "none" and not self.secret:
            kind = secret_kind(self.mode)
            raise ConfigError(
                f"gateway.auth.mode is {self.mode} but no {kind} is set: set gateway.auth.{kind}",
                path=f"gateway.auth.{kind}",
            )


def secret_kind(mode: Mode) -> Literal["token", "password"]:
    """What the secret of a mode is called."""
    return "password" if mode == "password" else "token"


class SharedSecretClaim(Struct, frozen=True):
    """Whoever it is knows the gateway's secret, or none is asked for."""

    method: Method


class TryDeviceToken(Struct, frozen=True):
    """Not the secret, but perhaps a token this device was given. `field` is where it was sent."""

    token: Secret
    field: Literal["token", "deviceToken"]


class TrySetupCode(Struct, frozen=True):
    """A code that was made on the gateway's machine for a device that is new."""

    code: Secret


class Wrong(Struct, frozen=True):
    """A secret was sent and is not ours."""


class MissingCredential(Struct, frozen=True):
    """No secret was sent."""


Credential = SharedSecretClaim | TryDeviceToken | TrySetupCode | Wrong | MissingCredential | NotVouched


def judge_credential(policy: AuthPolicy, auth: ConnectAuth | None, has_device: bool, peer: Peer) -> Credential:
    """What the credentials in `auth` are worth; the field that matches the mode wins over the other one."""
    if policy.mode == "none":
        return SharedSecretClaim("none")
    if policy.mode == "trusted-proxy":
        if isinstance(peer.vouched, Vouched):
            return SharedSecretClaim("trusted-proxy")
        if not peer.local:  # past the proxy come only programs of this machine, which know the token
            return peer.vouched or NotVouched("trusted_proxy_untrusted_source")
    if auth is None:
        return MissingCredential()
    kind = secret_kind(policy.mode)
    fields = (auth.token, auth.password) if kind == "token" else (auth.password, auth.token)
    given = fields[0] or fields[1]
    if given and policy.secret and same(given, policy.secret):
        return SharedSecretClaim(kind)
    if has_device:
        if auth.device_token:
            return TryDeviceToken(Secret(auth.device_token), "deviceToken")
        if auth.bootstrap_token:
            return TrySetupCode(Secret(auth.bootstrap_token))
        if auth.token:
            return TryDeviceToken(Secret(auth.token), "token")
    return Wrong() if given else MissingCredential()


def same(given: str, secret: Secret) -> bool:
    """In constant time; hashing first hides the length too."""
    return hmac.compare_digest(_digest(given), _digest(secret.reveal()))


def protocol_fits(params: ConnectParams, current: int, oldest_probe: int) -> bool:
    """Whether we can talk: probes and nodes may be one version behind."""
    low, high = params.min_protocol, params.max_protocol
    if low <= current <= high:
        return True
    if low > current:
        return False
    is_node = params.role == "node" and params.client.mode == "node"
    return (params.client.mode == "probe" or is_node) and high >= oldest_probe


def needs_no_pairing(params: ConnectParams, method: Method) -> bool:
    """Whether a page is let in on the word of a proxy: who may use it is decided there."""
    return (
        method == "trusted-proxy" and params.client.id in BROWSER_CLIENTS and (params.role or "operator") == "operator"
    )


def granted_without_device(params: ConnectParams, peer: Peer, method: Method) -> tuple[str, ...]:
    """Declared scopes are only worth something from a page a proxy vouches for, or from a program on this machine that
    no web page can be."""
    if needs_no_pairing(params, method):
        return declared(params, peer)
    client = (params.client.id, params.client.mode)
    if client in _KEEPS_SCOPES and peer.local and peer.origin is None:
        return declared(params, peer)
    return ()


def declared(params: ConnectParams, peer: Peer) -> tuple[str, ...]:
    """The scopes asked for that exist and that the upgrade request did not rule out."""
    asked = known(params.scopes or ())
    if peer.scopes_cap is None:
        return asked
    return tuple(scope for scope in asked if allows(peer.scopes_cap, scope))


def pairing_reason(standing: DeviceState | None, claim: DeviceClaim) -> PairingReason | None:
    """Why a person must approve this device first; None when everything it asks for was approved before."""
    if standing is None:
        return "not-paired"
    if claim.role not in standing.roles:
        return "role-upgrade"
    if not covers(standing.scopes, claim.scopes):
        return "scope-upgrade"
    for before, after in ((standing.platform, claim.platform), (standing.device_family, claim.device_family)):
        if before and plain(before) != plain(after):
            return "metadata-upgrade"
    return None


def approves_by_proxy(reason: PairingReason, claim: DeviceClaim, policy: AuthPolicy, method: Method) -> bool:
    """Whether the word of a proxy is approval enough for a device."""
    asks = reason in ("not-paired", "scope-upgrade") and claim.role == "operator" and bool(claim.scopes)
    return asks and method == "trusted-proxy" and covers(policy.auto_approve, claim.scopes)


def approves_silently(reason: PairingReason, peer: Peer, client_id: str, method: Method) -> bool:
    """Whether being at this machine is approval enough."""
    in_browser = client_id in BROWSER_CLIENTS
    if not peer.local or (peer.origin is not None and not in_browser):
        return False
    if reason == "scope-upgrade":
        return method != "device-token"
    if reason == "metadata-upgrade":
        return peer.origin is None and not in_browser
    return True


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()
