"""Setup codes: what a person carries from this machine to a new device, good once and for a few minutes.

A code lets a device in for what it was made for, without another approval. Codes live in memory, by fingerprint only: a
restart of the gateway withdraws them all.
"""

import uuid
from typing import Literal

from msgspec import Struct

from openclaw.core.device import DeviceClaim, DeviceGrant
from openclaw.core.secret import Secret
from openclaw.devices import tokens
from openclaw.wire.scopes import APPROVALS, READ, TALK, WRITE, covers

GOOD_FOR_MS = 10 * 60_000
MOST_OPEN = 20
"""Codes that can be open at the same time; the oldest gives way."""
MOST_USED = 50

Profile = Literal["full", "limited", "node", "voice-node"]
PROFILES: dict[Profile, tuple[DeviceGrant, ...]] = {
    "full": (DeviceGrant("operator", (READ, WRITE, APPROVALS, TALK)), DeviceGrant("node")),
    "limited": (DeviceGrant("operator", (READ, WRITE)),),
    "node": (DeviceGrant("node"),),
    "voice-node": (DeviceGrant("node"), DeviceGrant("operator", (TALK,))),
}


class SetupCode(Struct, frozen=True):
    """A code as it is shown, once."""

    setup_id: str
    token: Secret
    expires_at_ms: int


class _Open(Struct, frozen=True):
    setup_id: str
    profile: Profile
    expires_at_ms: int


class SetupCodes:
    """The codes that were made and not used."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._used: dict[str, str] = {}

    def make(self, profile: Profile, now: int) -> SetupCode:
        self._forget(now)
        while len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
        token, setup_id, expires = tokens.issue(), str(uuid.uuid4()), now + GOOD_FOR_MS
        self._open[tokens.hashed(token)] = _Open(setup_id, profile, expires)
        return SetupCode(setup_id, token, expires)

    def grants(self, token: Secret, now: int) -> tuple[DeviceGrant, ...] | None:
        """What the code is good for; None when it is none of ours, or none any more."""
        self._forget(now)
        found = self._open.get(tokens.hashed(token))
        return PROFILES[found.profile] if found else None

    def use(self, token: Secret, device_id: str) -> str:
        """The code is spent; gives the id it was made under."""
        setup_id = self._open.pop(tokens.hashed(token)).setup_id
        self._used[setup_id] = device_id
        while len(self._used) > MOST_USED:
            del self._used[next(iter(self._used))]
        return setup_id

    def status(self, setup_id: str, now: int) -> tuple[Literal["pending", "completed", "expired"], str]:
        """What became of a code, and the device that used it."""
        self._forget(now)
        if setup_id in self._used:
            return "completed", self._used[setup_id]
        return ("pending" if any(one.setup_id == setup_id for one in self._open.values()) else "expired"), ""

    def _forget(self, now: int) -> None:
        for print_, one in list(self._open.items()):
            if one.expires_at_ms <= now:
                del self._open[print_]


def suits(claim: DeviceClaim, grants: tuple[DeviceGrant, ...]) -> bool:
    """Whether a device asks for no more than a code gives."""
    return any(grant.role == claim.role and covers(grant.scopes, claim.scopes) for grant in grants)
