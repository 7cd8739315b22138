"""Device identities: Ed25519 keys and signatures, the device id derived from a key, and the identity file.

The cryptography library is imported with the first key, because it is slow to load.
"""

import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.protocol.auth import device_id, from_base64url, to_base64url
from openclaw.storage.atomic import create_file

SEED_BYTES = 32


def verify(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether `signature` over `message` is valid for `public_key`; False for malformed input."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class DeviceIdentity:
    """Our own identity to a gateway: an Ed25519 key, and the device id derived from it. Its repr hides the key."""

    __slots__ = ("_key", "device_id", "public_key")

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = self._key.public_key().public_bytes_raw()
        self.public_key = to_base64url(public)
        self.device_id = device_id(public)

    def sign(self, text: str) -> str:
        return to_base64url(self._key.sign(text.encode("utf-8", "replace")))

    def __repr__(self) -> str:
        return f"Identity({self.device_id})"


class _File(Struct, frozen=True, kw_only=True, rename="camel"):
    version: Literal[1]
    device_id: str
    public_key: str
    private_key: str
    created_at_ms: int


def load_or_create(path: Path, now: int) -> DeviceIdentity:
    """Loads the identity in `path`, or creates it; two processes that start together get the same one."""
    while (identity := _load(path)) is None:
        seed = secrets.token_bytes(SEED_BYTES)
        made = DeviceIdentity(seed)
        file = _File(
            version=1,
            device_id=made.device_id,
            public_key=made.public_key,
            private_key=to_base64url(seed),
            created_at_ms=now,
        )
        try:
            create_file(path, msgspec.json.format(msgspec.json.encode(file)))
        except OSError as error:
            raise StateError(
                f"cannot write the device key {path}: {error.strerror}. Check the disk and its mode."
            ) from error
    return identity


def _load(path: Path) -> DeviceIdentity | None:
    try:
        data = path.read_bytes()
        if path.stat().st_mode & 0o077 and os.name != "nt":
            path.chmod(0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot read the device key {path}: {error.strerror}. Check its owner and mode.") from error
    try:
        seed = from_base64url(msgspec.json.decode(data, type=_File).private_key)
    except ValueError:
        seed = None
    if seed is None or len(seed) != SEED_BYTES:
        raise StateError(f"{path} is not a device key. Move it away; a new one is made, which must be paired again.")
    return DeviceIdentity(seed)
