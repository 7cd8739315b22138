"""This machine's own device key: one small file, made at need, readable by its owner only."""

import base64
import binascii
import contextlib
import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from openclaw.core.errors import StateError
from openclaw.devices.signature import SEED_BYTES, SigningKey, base64url, device_id
from openclaw.store.atomic import private_directory, sync_directory


class DeviceIdentity:
    """Who we are to a gateway: an id that follows from a key, and the power to prove it."""

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
    """The identity in `path`, made there first if need be; two processes that start together get the same one."""
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
    """Writes `file` unless another process was quicker: a link never replaces what is there."""
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
