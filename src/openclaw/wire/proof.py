"""How a device proves its key: a signature over the challenge, who it says it is and what it asks for. Pure.

The text binds the proof to this connection (nonce), this moment (signedAt) and these claims, so that a recorded proof
opens nothing.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from openclaw.wire.params.connect import ConnectParams

SIGNED_WITHIN_MS = 120_000
KEY_BYTES = 32

Version = Literal["v3", "v2"]
VERSIONS: tuple[Version, ...] = ("v3", "v2")

Verify = Callable[[bytes, bytes, bytes], bool]
"""`verify(public_key, signature, message)`: the Ed25519 check, handed in."""

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


class Signed(Struct, frozen=True, kw_only=True):
    """The fields under the signature."""

    device_id: str
    client_id: str
    client_mode: str
    role: str
    scopes: tuple[str, ...]
    signed_at: int
    token: str
    nonce: str
    platform: str = ""
    device_family: str = ""

    def __repr__(self) -> str:
        return f"Signed(device_id={self.device_id!r}, …)"

    def text(self, version: Version) -> str:
        fields = [
            version,
            self.device_id,
            self.client_id,
            self.client_mode,
            self.role,
            ",".join(self.scopes),
            str(self.signed_at),
            self.token,
            self.nonce,
        ]
        if version == "v3":
            fields += [plain(self.platform), plain(self.device_family)]
        return "|".join(fields)


def signed_fields(params: ConnectParams, device_id: str, signed_at: int, nonce: str) -> Signed:
    """What a client with these connect params signs."""
    auth = params.auth
    token = (auth.token or auth.device_token or auth.bootstrap_token) if auth else None
    return Signed(
        device_id=device_id,
        client_id=params.client.id,
        client_mode=params.client.mode,
        role=params.role or "operator",
        scopes=params.scopes or (),
        signed_at=signed_at,
        token=token or "",
        nonce=nonce,
        platform=params.client.platform,
        device_family=params.client.device_family or "",
    )


def proof_problem(params: ConnectParams, nonce: str, now_ms: int, verify: Verify) -> Reason | None:
    """What is wrong with the proof in `params`, checked in the order clients rely on."""
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
    fields = signed_fields(params, device.id, device.signed_at, device.nonce)
    if not any(verify(key, signature, _bytes(fields.text(version))) for version in VERSIONS):
        return "device-signature"
    return None


def device_id(public_key: bytes) -> str:
    return hashlib.sha256(public_key).hexdigest()


def plain(text: str) -> str:
    """A platform or family name as it is signed and compared: trimmed, ASCII letters lower-case."""
    return "".join(char.lower() if char.isascii() else char for char in text.strip())


def to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
