"""Device identities: Ed25519 keys and signatures, the device id derived from a key, and the identity file.

The cryptography library is imported with the first key, because it is slow to load.
"""

import base64
import binascii
import contextlib
import hashlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.storage.atomic import private_directory, sync_directory

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


SEED_BYTES = 32


class SigningKey:
    """An Ed25519 private key; its repr shows nothing of it."""

    __slots__ = ("_key",)

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key

    @classmethod
    def generate(cls) -> "SigningKey":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> "SigningKey":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    def seed(self) -> bytes:
        return self._key.private_bytes_raw()

    def public_bytes(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def __repr__(self) -> str:
        return "SigningKey(…)"


def verify(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether `signature` over `message` is valid for `public_key`; False for malformed input."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def device_id(public_key: bytes) -> str:
    return hashlib.sha256(public_key).hexdigest()


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class DeviceIdentity:
    """Our own identity to a gateway: a key, and the device id derived from it."""

    __slots__ = ("_key", "device_id", "public_key")

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self.public_key = base64url(key.public_bytes())
        self.device_id = device_id(key.public_bytes())

    @classmethod
    def generate(cls) -> "DeviceIdentity":
        return cls(SigningKey.generate())

    def sign(self, text: str) -> str:
        return base64url(self._key.sign(text.encode("utf-8", "replace")))

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
        key = SigningKey.generate()
        made = DeviceIdentity(key)
        _create(
            path,
            _File(
                version=1,
                device_id=made.device_id,
                public_key=made.public_key,
                private_key=base64url(key.seed()),
                created_at_ms=now,
            ),
        )
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
        file = msgspec.json.decode(data, type=_File)
        seed = base64.urlsafe_b64decode(file.private_key + "=" * (-len(file.private_key) % 4))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        seed = b""
    if len(seed) != SEED_BYTES:
        raise StateError(f"{path} is not a device key. Move it away; a new one is made, which must be paired again.")
    return DeviceIdentity(SigningKey.from_seed(seed))


def _create(path: Path, file: _File) -> None:
    """Writes `file` unless another process did: `link` never replaces an existing file."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        private_directory(path.parent)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(msgspec.json.format(msgspec.json.encode(file)))
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    except OSError as error:
        raise StateError(
            f"cannot write the device key {path}: {error.strerror}. Check the disk and its mode."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
