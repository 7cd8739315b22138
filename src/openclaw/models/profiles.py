"""Auth profiles: the stored credentials of each provider, their order, and the file they are kept in."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretRef
from openclaw.models.failover import CredentialStats, blocked_until
from openclaw.storage.atomic import replace_file
from openclaw.storage.locks import Holder, KernelLock

EXPIRY_MARGIN_MS = 5 * 60 * 1000
"""A token this close to its end, in milliseconds, is treated as expired."""

Kind = Literal["api_key", "oauth", "token"]
_RANK: Mapping[Kind, int] = {"oauth": 0, "token": 1, "api_key": 2}


class AuthProfile(Struct, frozen=True, kw_only=True):
    """One stored credential."""

    provider: str
    type: Kind = "api_key"
    secret: Secret | None = None
    ref: SecretRef | None = None
    expires: int | None = None


class Profiles(Struct, frozen=True, kw_only=True):
    """The content of a profile store."""

    profiles: Mapping[str, AuthProfile] = field(default_factory=dict)
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stats: Mapping[str, CredentialStats] = field(default_factory=dict)

    def of(self, provider: str) -> tuple[str, ...]:
        return tuple(name for name, profile in self.profiles.items() if profile.provider == provider)


def merge(shared: Profiles, own: Profiles) -> Profiles:
    """Merges the main agent's profiles with an agent's own, which win."""
    return Profiles(
        profiles={**shared.profiles, **own.profiles},
        order={**shared.order, **own.order},
        stats={**shared.stats, **own.stats},
    )


def is_expired(profile: AuthProfile, now: int) -> bool:
    return profile.expires is not None and profile.expires - EXPIRY_MARGIN_MS <= now


def sort_profiles(
    stored: Profiles,
    provider: str,
    model: str | None,
    now: int,
    *,
    wanted: Sequence[str] | None = None,
    declared: Sequence[str] = (),
) -> tuple[str, ...]:
    """Sorts the profile ids of `provider`, the first to try first.

    `wanted` is the order the user set (the store's own order comes before it), `declared` the profiles named in the
    configuration. Without an order, sign-ins come before keys, then the least recently used first. Profiles in
    cooldown come last, the soonest to return first.
    """
    explicit = stored.order.get(provider) or wanted
    ids = [name for name in (explicit or declared or stored.of(provider)) if name in stored.profiles]
    ids = [name for name in dict.fromkeys(ids) if stored.profiles[name].provider == provider]
    waits = {name: blocked_until(stored.stats.get(name, CredentialStats()), model, now) or 0 for name in ids}
    if explicit:
        return tuple(sorted(ids, key=waits.__getitem__))

    def rank(name: str) -> tuple[int, bool, int, int]:
        profile = stored.profiles[name]
        last_used = stored.stats.get(name, CredentialStats()).last_used or 0
        return waits[name], is_expired(profile, now), _RANK[profile.type], last_used

    return tuple(sorted(ids, key=rank))


# The file on disk.

FILE = "auth-profiles.json"
MAX_BYTES = 4 << 20
LOCK_SECONDS = 5.0


class _Stored(Struct, rename="camel"):
    provider: str
    type: Kind = "api_key"
    key: str | None = None
    token: str | None = None
    access: str | None = None
    expires: int | None = None
    key_ref: SecretRef | None = None
    token_ref: SecretRef | None = None


class _File(Struct, rename="camel"):
    version: int = 1
    profiles: dict[str, _Stored] = field(default_factory=dict)
    order: dict[str, tuple[str, ...]] = field(default_factory=dict)
    usage_stats: dict[str, CredentialStats] = field(default_factory=dict)


class ProfileStore:
    """Reads and updates one profile file. A missing file is an empty one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_agent(cls, agent_dir: Path) -> "ProfileStore":
        return cls(agent_dir / FILE)

    def load(self) -> Profiles:
        file = self._decode(self._read())
        profiles = {name: _profile(entry) for name, entry in file.profiles.items()}
        return Profiles(profiles=profiles, order=file.order, stats=file.usage_stats)

    def stamp(self) -> tuple[int, ...]:
        """Another one whenever the file has changed."""
        try:
            about = self.path.stat()
        except OSError:
            return ()
        return about.st_mtime_ns, about.st_size, about.st_ino

    def put(
        self, profile_id: str, provider: str, secret: Secret, kind: Literal["api_key", "token"] = "api_key"
    ) -> None:
        """Stores `secret` as the profile `profile_id`."""
        name = "key" if kind == "api_key" else "token"
        with self._editing() as raw:
            raw.setdefault("profiles", {})[profile_id] = {"type": kind, "provider": provider, name: secret.reveal()}

    def update(
        self, profile_id: str, change: Callable[[CredentialStats], CredentialStats], *, good_for: str | None = None
    ) -> CredentialStats:
        """Applies `change` to the stats of a profile; `good_for` names the provider it just worked with."""
        with self._editing() as raw:
            stats = change(self._decode(msgspec.json.encode(raw)).usage_stats.get(profile_id, CredentialStats()))
            kept = raw.setdefault("usageStats", {}).get(profile_id, {})
            foreign = {
                name: value for name, value in kept.items() if name not in CredentialStats.__struct_encode_fields__
            }
            raw["usageStats"][profile_id] = {**foreign, **msgspec.to_builtins(stats)}
            if good_for is not None:
                raw.setdefault("lastGood", {})[good_for] = profile_id
        return stats

    @contextlib.contextmanager
    def _editing(self) -> Iterator[dict[str, Any]]:
        """Locks the file and yields its content, written back when the block ends without an error."""
        with KernelLock(self.path.with_name(self.path.name + ".lock")) as lock:
            deadline = time.monotonic() + LOCK_SECONDS
            while not lock.take(Holder(pid=os.getpid(), created_at=0, owner="auth profiles")):
                if time.monotonic() > deadline:
                    raise StateError(f"{self.path} is being written by another process: try again")
                time.sleep(0.01)
            before = self._read()
            self._decode(before)
            raw: dict[str, Any] = msgspec.json.decode(before) if before else {"version": 1}
            yield raw
            replace_file(self.path, msgspec.json.format(msgspec.json.encode(raw), indent=2))

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StateError(f"cannot read {self.path}: {error.strerror}") from error
        if len(data) > MAX_BYTES:
            raise StateError(f"{self.path} is larger than {MAX_BYTES >> 20} MB: that is not a profile file")
        return data

    def _decode(self, data: bytes) -> _File:
        if not data.strip():
            return _File()
        try:
            return msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StateError(f"{self.path} cannot be used: {error}. Correct it, or move it away") from error


def _profile(entry: _Stored) -> AuthProfile:
    text = {"api_key": entry.key, "token": entry.token, "oauth": entry.access}[entry.type]
    return AuthProfile(
        provider=entry.provider.strip().lower(),
        type=entry.type,
        secret=Secret(text) if text else None,
        ref=entry.key_ref if entry.type == "api_key" else entry.token_ref,
        expires=entry.expires,
    )
