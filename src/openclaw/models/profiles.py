"""Auth profiles: several credentials for one provider, and which of them is tried first. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from openclaw.core.secret import Secret
from openclaw.core.settings import SecretRef
from openclaw.models.cooldown import CredentialStats, blocked_until

EARLY = 5 * 60 * 1000
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
    email: str | None = None


class Profiles(Struct, frozen=True, kw_only=True):
    """What a store holds."""

    profiles: Mapping[str, AuthProfile] = field(default_factory=dict)
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    last_good: Mapping[str, str] = field(default_factory=dict)
    stats: Mapping[str, CredentialStats] = field(default_factory=dict)

    def of(self, provider: str) -> tuple[str, ...]:
        return tuple(name for name, profile in self.profiles.items() if profile.provider == provider)


def merge(shared: Profiles, own: Profiles) -> Profiles:
    """The main agent's profiles with an agent's own laid over them."""
    return Profiles(
        profiles={**shared.profiles, **own.profiles},
        order={**shared.order, **own.order},
        last_good={**shared.last_good, **own.last_good},
        stats={**shared.stats, **own.stats},
    )


def expired(profile: AuthProfile, now: int) -> bool:
    return profile.expires is not None and profile.expires - EARLY <= now


def order(
    stored: Profiles,
    provider: str,
    model: str | None,
    now: int,
    *,
    wanted: Sequence[str] | None = None,
    declared: Sequence[str] = (),
) -> tuple[str, ...]:
    """Profile ids of `provider`, the one to try first first.

    `wanted` is the order the user set (the store's own order comes before it), `declared` the profiles named in the
    configuration. Without an order, sign-ins come before keys and the one that rested longest before the others.
    Those that must still rest come last, the soonest to return first.
    """
    explicit = stored.order.get(provider) or wanted
    ids = [name for name in (explicit or declared or stored.of(provider)) if name in stored.profiles]
    ids = [name for name in dict.fromkeys(ids) if stored.profiles[name].provider == provider]
    waits = {name: blocked_until(stored.stats.get(name, CredentialStats()), model, now) or 0 for name in ids}
    if explicit:
        return tuple(sorted(ids, key=lambda name: waits[name]))

    def rank(name: str) -> tuple[int, bool, int, int]:
        profile = stored.profiles[name]
        last_used = stored.stats.get(name, CredentialStats()).last_used or 0
        return waits[name], expired(profile, now), _RANK[profile.type], last_used

    return tuple(sorted(ids, key=rank))
