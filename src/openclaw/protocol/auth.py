"""Authentication of a connecting client: credentials, device proof, pairing, rate limits and granted scopes. Pure."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.protocol.connect import ConnectAuth, ConnectParams, Version, redact_text, signed_text
from openclaw.protocol.frames import HANDSHAKE_TIMEOUT_MS, MINIMUM_PROBE_PROTOCOL, PROTOCOL
from openclaw.protocol.peer import BROWSER_CLIENTS, NoProxyUser, Peer, ProxyUser, is_loopback
from openclaw.protocol.scopes import allows, covers, known

# Devices and their tokens.


class DeviceClaim(Struct, frozen=True, kw_only=True):
    """A device that has proven its key, and the role and scopes it requests."""

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
    """What an approved device may do. `token_scopes` is None unless it presented a valid token for its role."""

    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    platform: str = ""
    device_family: str = ""
    token_scopes: tuple[str, ...] | None = None


class DeviceGrant(Struct, frozen=True):
    """A role, and the scopes in it."""

    role: str
    scopes: tuple[str, ...] = ()


class DeviceToken(Struct, frozen=True):
    """A newly issued token; shown once."""

    token: Secret
    issued_at_ms: int


class SetupTokens(Struct, frozen=True):
    """The tokens, one per role, that a device received for its setup code."""

    tokens: tuple[tuple[DeviceGrant, DeviceToken], ...]


# Rate limits.

MAX_ADDRESSES = 10_000


class RateLimits(Struct, frozen=True, kw_only=True):
    max_attempts: int = 10
    window_ms: int = 60_000
    lockout_ms: int = 300_000
    exempt_loopback: bool = False


class AuthLimiter:
    """Counts failures by address; after `max_attempts` within the window the address is locked out."""

    def __init__(self, limits: Callable[[], RateLimits] = RateLimits) -> None:
        self._limits = limits
        self._failures: dict[str, list[int]] = {}
        self._locked: dict[str, int] = {}

    def wait_ms(self, key: str, now: int) -> int:
        """Milliseconds until `key` may try again; 0 when it may now."""
        until = self._locked.get(key, 0)
        if until <= now:
            self._locked.pop(key, None)
            return 0
        return until - now

    def fail(self, key: str, now: int) -> None:
        limits = self._limits()
        if limits.exempt_loopback and is_loopback(key):
            return
        recent = [at for at in self._failures.pop(key, ()) if at > now - limits.window_ms]
        recent.append(now)
        if len(recent) >= limits.max_attempts:
            self._locked.pop(key, None)
            self._locked[key] = now + limits.lockout_ms
            _forget_oldest(self._locked)
        else:
            self._failures[key] = recent
            _forget_oldest(self._failures)

    def clear(self, key: str) -> None:
        """Forgets the failures of `key` after a successful attempt."""
        self._failures.pop(key, None)


def _forget_oldest(table: dict[str, int] | dict[str, list[int]]) -> None:
    # Many addresses, or many forged ones, must not grow the tables without limit.
    while len(table) > MAX_ADDRESSES:
        del table[next(iter(table))]


# The device's signature.

SIGNED_WITHIN_MS = 120_000
KEY_BYTES = 32

VERSIONS: tuple[Version, ...] = ("v3", "v2")

Verify = Callable[[bytes, bytes, bytes], bool]
"""`verify(public_key, signature, message)`: the Ed25519 check, passed in."""

Reason = Literal[
    "device-id-mismatch",
    "device-signature-stale",
    "device-nonce-missing",
    "device-nonce-mismatch",
    "device-signature",
    "device-public-key",
]
CODES: dict[Reason, str] = {
    "device-id-mismatch": "DEVICE_AUTH_DEVICE_ID_MISMATCH",
    "device-signature-stale": "DEVICE_AUTH_SIGNATURE_EXPIRED",
    "device-nonce-missing": "DEVICE_AUTH_NONCE_REQUIRED",
    "device-nonce-mismatch": "DEVICE_AUTH_NONCE_MISMATCH",
    "device-signature": "DEVICE_AUTH_SIGNATURE_INVALID",
    "device-public-key": "DEVICE_AUTH_PUBLIC_KEY_INVALID",
}


def check_proof(params: ConnectParams, nonce: str, now_ms: int, verify: Verify) -> Reason | None:
    """The problem of the proof in `params`, checked in the order clients rely on; None when it is valid."""
    device = params.device
    if device is None:
        return "device-id-mismatch"
    key = from_base64url(device.public_key)
    if key is None or device_id(key) != device.id:
        return "device-id-mismatch"
    if abs(now_ms - device.signed_at) > SIGNED_WITHIN_MS:
        return "device-signature-stale"
    if not device.nonce.strip():
        return "device-nonce-missing"
    if device.nonce != nonce:
        return "device-nonce-mismatch"
    if len(key) != KEY_BYTES:
        return "device-public-key"
    signature = from_base64url(device.signature) or b""
    for version in VERSIONS:
        text = signed_text(params, device.id, device.signed_at, device.nonce, version)
        if verify(key, signature, text.encode("utf-8", "replace")):
            return None
    return "device-signature"


def device_id(public_key: bytes) -> str:
    return hashlib.sha256(public_key).hexdigest()


def to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


# Decisions about credentials, pairing and scopes.

Mode = Literal["token", "password", "none", "trusted-proxy"]
AuthMethod = Literal["token", "password", "none", "trusted-proxy", "device-token", "bootstrap-token"]
PairingReason = Literal["not-paired", "role-upgrade", "scope-upgrade", "metadata-upgrade"]

_KEEPS_SCOPES = {("cli", "cli"), ("gateway-client", "backend")}


class AuthPolicy(Struct, frozen=True, kw_only=True):
    """The authentication the gateway requires."""

    mode: Mode = "token"
    secret: Secret | None = None
    """With `trusted-proxy`: what local programs present, which connect without the proxy."""
    auto_approve: tuple[str, ...] = ()
    """Scopes up to which a device of a user the proxy vouches for is approved automatically."""
    allowed_origins: tuple[str, ...] = ()
    known_hosts: tuple[str, ...] = ()
    """Host names under which browsers may reach this gateway, besides loopback and IP addresses."""
    trusted_proxies: tuple[str, ...] = ()
    peers: Secret | None = None
    """What the gateways of a cluster prove to each other that they know."""
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
    """The name of a mode's secret."""
    return "password" if mode == "password" else "token"


class SharedSecretClaim(Struct, frozen=True):
    """The client knows the gateway's secret, or none is required."""

    method: AuthMethod


class TryDeviceToken(Struct, frozen=True):
    """Not the secret, but possibly a device token. `field` is where it was sent."""

    token: Secret
    field: Literal["token", "deviceToken"]


class TrySetupCode(Struct, frozen=True):
    """A setup code created on the gateway's machine for a new device."""

    code: Secret


class WrongCredential(Struct, frozen=True):
    """The secret is wrong."""


class MissingCredential(Struct, frozen=True):
    """No secret was sent."""


Credential = SharedSecretClaim | TryDeviceToken | TrySetupCode | WrongCredential | MissingCredential | NoProxyUser


def judge_credential(policy: AuthPolicy, auth: ConnectAuth | None, has_device: bool, peer: Peer) -> Credential:
    """Classifies the credentials in `auth`; the field that matches the mode wins over the other one."""
    if policy.mode == "none":
        return SharedSecretClaim("none")
    if policy.mode == "trusted-proxy":
        if isinstance(peer.vouched, ProxyUser):
            return SharedSecretClaim("trusted-proxy")
        if not peer.local:  # bypassing the proxy is for local programs that know the token
            return peer.vouched or NoProxyUser("trusted_proxy_untrusted_source")
    if auth is None:
        return MissingCredential()
    kind = secret_kind(policy.mode)
    fields = (auth.token, auth.password) if kind == "token" else (auth.password, auth.token)
    given = fields[0] or fields[1]
    if given and policy.secret and secrets_equal(given, policy.secret):
        return SharedSecretClaim(kind)
    if has_device:
        if auth.device_token:
            return TryDeviceToken(Secret(auth.device_token), "deviceToken")
        if auth.bootstrap_token:
            return TrySetupCode(Secret(auth.bootstrap_token))
        if auth.token:
            return TryDeviceToken(Secret(auth.token), "token")
    return WrongCredential() if given else MissingCredential()


def secrets_equal(given: str, secret: Secret) -> bool:
    """Compares in constant time; hashing first hides the length too. An empty secret matches nothing."""
    ours = secret.reveal()
    left, right = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (given, ours))
    return hmac.compare_digest(left, right) and bool(ours)


def peer_proof(secret: Secret, nonce: str) -> Secret:
    """What a gateway of the cluster shows instead of the secret; it is worth nothing for another challenge."""
    return Secret(f"peer:{hmac.digest(secret.reveal().encode(), nonce.encode(), 'sha256').hex()}")


def is_peer(policy: AuthPolicy, auth: ConnectAuth | None, nonce: str) -> bool:
    """Whether the client is another gateway of this cluster."""
    if policy.peers is None or not policy.peers.reveal() or auth is None or not auth.token:
        return False
    return secrets_equal(auth.token, peer_proof(policy.peers, nonce))


GUESS_PROOF_CHARS = 32


def is_guess_proof(secret: Secret | None) -> bool:
    """Whether nobody finds a secret by trying, however fast: whoever shows it is not guessing."""
    text = secret.reveal() if secret else ""
    return len(text) >= GUESS_PROOF_CHARS and len(set(text)) >= GUESS_PROOF_CHARS // 3


def protocol_fits(params: ConnectParams) -> bool:
    """Whether the protocol versions overlap: probes and nodes may be one version behind."""
    low, high, mode = params.min_protocol, params.max_protocol, params.client.mode
    may_be_older = mode == "probe" or (mode == "node" and params.role == "node")
    return low <= PROTOCOL and high >= (MINIMUM_PROBE_PROTOCOL if may_be_older else PROTOCOL)


def needs_no_pairing(params: ConnectParams, method: AuthMethod) -> bool:
    """Whether a web page needs no pairing because a trusted proxy authenticated its user."""
    return (
        method == "trusted-proxy" and params.client.id in BROWSER_CLIENTS and (params.role or "operator") == "operator"
    )


def granted_without_device(params: ConnectParams, peer: Peer, method: AuthMethod) -> tuple[str, ...]:
    """The scopes of a client without a device: those it declares, if a trusted proxy vouches for its page or it is a
    local program that no web page can imitate; else none."""
    if needs_no_pairing(params, method):
        return requested_scopes(params, peer)
    client = (params.client.id, params.client.mode)
    if client in _KEEPS_SCOPES and peer.local and peer.origin is None:
        return requested_scopes(params, peer)
    return ()


def requested_scopes(params: ConnectParams, peer: Peer) -> tuple[str, ...]:
    """The requested scopes that exist and that the upgrade request did not exclude."""
    asked = known(params.scopes or ())
    if peer.scopes_cap is None:
        return asked
    return tuple(scope for scope in asked if allows(peer.scopes_cap, scope))


def pairing_reason(known: DeviceState | None, claim: DeviceClaim) -> PairingReason | None:
    """Why a person must approve this device; None when everything it requests was approved before."""
    if known is None:
        return "not-paired"
    if claim.role not in known.roles:
        return "role-upgrade"
    if not covers(known.scopes, claim.scopes):
        return "scope-upgrade"
    for before, after in ((known.platform, claim.platform), (known.device_family, claim.device_family)):
        if before and redact_text(before) != redact_text(after):
            return "metadata-upgrade"
    return None


def approves_by_proxy(reason: PairingReason, claim: DeviceClaim, policy: AuthPolicy, method: AuthMethod) -> bool:
    """Whether a trusted proxy's authentication approves the device."""
    asks = reason in ("not-paired", "scope-upgrade") and claim.role == "operator" and bool(claim.scopes)
    return asks and method == "trusted-proxy" and covers(policy.auto_approve, claim.scopes)


def approves_silently(reason: PairingReason, peer: Peer, client_id: str, method: AuthMethod) -> bool:
    """Whether connecting from this machine approves the device."""
    in_browser = client_id in BROWSER_CLIENTS
    if not peer.local or (peer.origin is not None and not in_browser):
        return False
    if reason == "scope-upgrade":
        return method != "device-token"
    if reason == "metadata-upgrade":
        return peer.origin is None and not in_browser
    return True
