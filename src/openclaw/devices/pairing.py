"""Device pairing: tokens, setup codes, pending requests and approved devices.

States: none → pending request → paired → removed. Every change is committed before anyone is notified.
"""

import hashlib
import hmac
import secrets
import uuid
from collections.abc import Iterable
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.secret import Secret
from openclaw.protocol.auth import DeviceClaim, DeviceGrant, DeviceState, DeviceToken, SetupTokens
from openclaw.protocol.scopes import APPROVALS, READ, TALK, WRITE, covers
from openclaw.storage.database import Database, Row, Transaction, transact

# Tokens.

TOKEN_BYTES = 32


def issue() -> Secret:
    """Creates a token: 43 base64url characters."""
    return Secret(secrets.token_urlsafe(TOKEN_BYTES))


def hash_token(token: Secret) -> str:
    """The hash to store. A token has 256 random bits, so a plain hash cannot be reversed."""
    return hashlib.sha256(token.reveal().encode("utf-8", "replace")).hexdigest()


def matches(token: Secret, stored: str) -> bool:
    return hmac.compare_digest(hash_token(token), stored)


# Setup codes.

GOOD_FOR_MS = 10 * 60_000
MOST_OPEN = 20
"""Most valid codes at a time; the oldest is dropped."""
MOST_USED = 50

Profile = Literal["full", "limited", "node", "voice-node"]
PROFILES: dict[Profile, tuple[DeviceGrant, ...]] = {
    "full": (DeviceGrant("operator", (READ, WRITE, APPROVALS, TALK)), DeviceGrant("node")),
    "limited": (DeviceGrant("operator", (READ, WRITE)),),
    "node": (DeviceGrant("node"),),
    "voice-node": (DeviceGrant("node"), DeviceGrant("operator", (TALK,))),
}


class SetupCode(Struct, frozen=True):
    """A new code; its token is shown only once."""

    setup_id: str
    token: Secret
    expires_at_ms: int


class _Open(Struct, frozen=True):
    setup_id: str
    profile: Profile
    expires_at_ms: int


class SetupCodes:
    """Setup codes, in memory: the valid ones, and who used the latest."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._used: dict[str, str] = {}

    def make(self, profile: Profile, now: int) -> SetupCode:
        self._forget(now)
        while len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
        token, setup_id, expires = issue(), str(uuid.uuid4()), now + GOOD_FOR_MS
        self._open[hash_token(token)] = _Open(setup_id, profile, expires)
        return SetupCode(setup_id, token, expires)

    def grants(self, token: Secret, now: int) -> tuple[DeviceGrant, ...] | None:
        """The grants of a code; None when it is unknown, used or expired."""
        self._forget(now)
        found = self._open.get(hash_token(token))
        return PROFILES[found.profile] if found else None

    def use(self, token: Secret, device_id: str) -> str:
        """Invalidates the code; returns its setup id."""
        setup_id = self._open.pop(hash_token(token)).setup_id
        self._used[setup_id] = device_id
        while len(self._used) > MOST_USED:
            del self._used[next(iter(self._used))]
        return setup_id

    def status(self, setup_id: str, now: int) -> tuple[Literal["pending", "completed", "expired"], str]:
        """The status of a code, and the device that used it."""
        self._forget(now)
        if setup_id in self._used:
            return "completed", self._used[setup_id]
        return ("pending" if any(one.setup_id == setup_id for one in self._open.values()) else "expired"), ""

    def _forget(self, now: int) -> None:
        self._open = {print_: one for print_, one in self._open.items() if one.expires_at_ms > now}


# Requests and devices.

PENDING_FOR_MS = 5 * 60_000
"""Lifetime of a request; a client that retries extends its own."""
MAX_PENDING = 100
REQUESTED = "device.pair.requested"
"""Database topic of a new request; the payload is its id."""
SET_UP = "device.pair.setup"
"""Database topic of a used setup code; the payload is its id and the device's."""
# A device that connects with the shared secret gets a new token each time, since only hashes are stored. Its other
# processes may still use earlier ones.
TOKENS_PER_ROLE = 4


class PendingRequest(Struct, frozen=True, kw_only=True):
    """A pairing request that waits for approval."""

    request_id: str
    claim: DeviceClaim
    reason: str
    created_at_ms: int


class TokenInfo(Struct, frozen=True, kw_only=True):
    role: str
    scopes: tuple[str, ...]
    issued_at_ms: int


class PairedDevice(Struct, frozen=True, kw_only=True, rename="camel"):
    device_id: str
    public_key: str
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    platform: str
    device_family: str
    display_name: str
    client_id: str
    client_mode: str
    approved_via: str
    created_at_ms: int
    approved_at_ms: int
    last_seen_at_ms: int
    tokens: tuple[TokenInfo, ...] = ()


_DEVICES = """
SELECT device_id, public_key, roles, scopes, platform, device_family, display_name, client_id, client_mode,
    approved_via, created_at AS created_at_ms, approved_at AS approved_at_ms, last_seen_at AS last_seen_at_ms
FROM devices"""


class DevicePairing:
    """Stores pairing requests, devices and tokens. It makes no access decisions."""

    def __init__(self, db: Database, codes: SetupCodes | None = None) -> None:
        self._db = db
        self.codes = codes or SetupCodes()

    async def find(self, claim: DeviceClaim, token: Secret | None) -> DeviceState | None:
        """The device's grants, and the scopes of the token it presents."""
        rows = await self._db.read("SELECT * FROM devices WHERE device_id = :id", {"id": claim.device_id})
        if not rows:
            return None
        row = rows[0]
        return DeviceState(
            roles=_words(row["roles"]),
            scopes=_words(row["scopes"]),
            platform=row["platform"],
            device_family=row["device_family"],
            token_scopes=None if token is None else await self._token_scopes(claim, token),
        )

    async def _token_scopes(self, claim: DeviceClaim, token: Secret) -> tuple[str, ...] | None:
        held = await self._db.read(
            "SELECT token_hash, scopes FROM device_tokens WHERE device_id = :id AND role = :role",
            {"id": claim.device_id, "role": claim.role},
        )
        good = [row for row in held if matches(token, row["token_hash"])]
        return _words(good[0]["scopes"]) if good else None

    async def admit(self, claim: DeviceClaim, *, approve: bool, issue: bool, now: int) -> DeviceToken | None:
        """Records a connection; with `approve` grants what the device asks for, with `issue` creates a token."""

        async def record(tx: Transaction) -> DeviceToken | None:
            if approve:
                await _approve(tx, claim, "silent", now)
                await tx.write("DELETE FROM device_requests WHERE device_id = :id", {"id": claim.device_id})
            seen = await tx.write(
                "UPDATE devices SET last_seen_at = :now WHERE device_id = :id", {"now": now, "id": claim.device_id}
            )
            if not seen:
                raise NotFound("this device is no longer paired; connect again to ask for approval")
            return await _issue(tx, claim.device_id, claim.role, claim.scopes, now) if issue else None

        return await transact(self._db, record, "devices")

    async def request(self, claim: DeviceClaim, reason: str, *, now: int) -> str:
        """Records a request and returns its id. An equal request keeps its id, a different one gets a new id, so that a
        person approves exactly what they were shown."""

        async def record(tx: Transaction) -> tuple[str, bool]:
            await tx.write("DELETE FROM device_requests WHERE seen_at < :old", {"old": now - PENDING_FOR_MS})
            rows = await tx.read(
                "SELECT * FROM device_requests WHERE device_id = :id AND role = :role",
                {"id": claim.device_id, "role": claim.role},
            )
            # The address may differ.
            if rows and replace(_pending(rows[0]).claim, remote_ip="") == replace(claim, remote_ip=""):
                request_id = str(rows[0]["request_id"])
                await tx.write(
                    "UPDATE device_requests SET seen_at = :now WHERE request_id = :id", {"now": now, "id": request_id}
                )
                return request_id, False
            for row in rows:
                await tx.write("DELETE FROM device_requests WHERE request_id = :id", {"id": row["request_id"]})
            return await _ask(tx, claim, reason, now), True

        request_id, new = await transact(self._db, record, "devices")
        if new:
            await self._db.notify(REQUESTED, request_id)
        return request_id

    async def set_up(self, claim: DeviceClaim, code: Secret, *, now: int) -> SetupTokens | None:
        """Pairs a device that presents a setup code, with all grants of the code, and invalidates the code.

        No tokens when the device asks for more; None when the code is invalid.
        """
        grants = self.codes.grants(code, now)
        if grants is None:
            return None
        if not any(grant.role == claim.role and covers(grant.scopes, claim.scopes) for grant in grants):
            return SetupTokens(())
        setup_id = self.codes.use(code, claim.device_id)  # before the first await: only one device can use it

        async def pair(tx: Transaction) -> tuple[tuple[DeviceGrant, DeviceToken], ...]:
            for grant in grants:
                await _approve(tx, replace(claim, role=grant.role, scopes=grant.scopes), "setup-code", now)
            await tx.write("DELETE FROM device_requests WHERE device_id = :id", {"id": claim.device_id})
            issued = [(grant, await _issue(tx, claim.device_id, grant.role, grant.scopes, now)) for grant in grants]
            return tuple(issued)

        held = await transact(self._db, pair, "devices")
        await self._db.notify(SET_UP, f"{setup_id} {claim.device_id}")
        return SetupTokens(held)

    async def pending(self, now: int) -> tuple[PendingRequest, ...]:
        rows = await self._db.read(
            "SELECT * FROM device_requests WHERE seen_at >= :old ORDER BY created_at, request_id",
            {"old": now - PENDING_FOR_MS},
        )
        return tuple(_pending(row) for row in rows)

    async def waiting(self, request_id: str, now: int) -> PendingRequest:
        """One pending request, to see what approving it grants. The request of an id never changes."""
        for request in await self.pending(now):
            if request.request_id == request_id:
                return request
        raise _no_request(request_id)

    async def approve(self, request_id: str, now: int) -> PairedDevice:
        """Approves a request: adds its roles and scopes to the device."""

        async def grant(tx: Transaction) -> PendingRequest:
            request = await _take(tx, request_id, now)
            await _approve(tx, request.claim, "owner", now)
            return request

        request = await transact(self._db, grant, "devices")
        return await self.device(request.claim.device_id)

    async def reject(self, request_id: str, now: int) -> PendingRequest:
        return await transact(self._db, partial(_take, request_id=request_id, now=now), "devices")

    async def device(self, device_id: str) -> PairedDevice:
        for device in await self._paired("WHERE device_id = :id", {"id": device_id}):
            return device
        raise _unknown(device_id)

    async def paired(self) -> tuple[PairedDevice, ...]:
        return await self._paired("", {})

    async def _paired(self, where: str, params: dict[str, str]) -> tuple[PairedDevice, ...]:
        rows = await self._db.read(f"{_DEVICES} {where} ORDER BY created_at, device_id", params)
        held = await self._db.read(
            f"SELECT device_id, role, scopes, issued_at FROM device_tokens {where} ORDER BY issued_at",  # noqa: S608
            params,
        )
        return tuple(_device(row, [one for one in held if one["device_id"] == row["device_id"]]) for row in rows)

    async def remove(self, device_id: str) -> None:
        """Deletes the device and its tokens; the caller must close its live connections."""

        async def delete(tx: Transaction) -> None:
            await tx.write("DELETE FROM device_tokens WHERE device_id = :id", {"id": device_id})
            await tx.write("DELETE FROM device_requests WHERE device_id = :id", {"id": device_id})
            if not await tx.write("DELETE FROM devices WHERE device_id = :id", {"id": device_id}):
                raise _unknown(device_id)

        await transact(self._db, delete, "devices")

    async def rename(self, device_id: str, label: str) -> PairedDevice:
        changed = await self._db.write(
            "UPDATE devices SET display_name = :label WHERE device_id = :id", {"label": label, "id": device_id}
        )
        if not changed:
            raise _unknown(device_id)
        return await self.device(device_id)

    async def rotate(self, device_id: str, role: str, scopes: Iterable[str] | None, now: int) -> DeviceToken:
        """Issues a new token for the role and revokes the old ones."""
        device = await self.device(device_id)
        wanted = device.scopes if scopes is None else tuple(scopes)
        if role not in device.roles:
            raise InvalidRequest(f"device {device_id} is not approved as {role}; it has: {', '.join(device.roles)}")
        if extra := [scope for scope in wanted if scope not in device.scopes]:
            raise InvalidRequest(f"device {device_id} is not approved for {', '.join(extra)}; approve a request first")

        async def replace_token(tx: Transaction) -> DeviceToken:
            await _forget_tokens(tx, device_id, role)
            return await _issue(tx, device_id, role, wanted, now)

        return await transact(self._db, replace_token, "devices")

    async def revoke(self, device_id: str, role: str) -> None:
        await self.device(device_id)
        await transact(self._db, partial(_forget_tokens, device_id=device_id, role=role), "devices")


async def _approve(tx: Transaction, claim: DeviceClaim, via: str, now: int) -> None:
    rows = await tx.read("SELECT roles, scopes FROM devices WHERE device_id = :id", {"id": claim.device_id})
    before = rows[0] if rows else {"roles": "", "scopes": ""}
    await tx.write(
        """INSERT INTO devices (device_id, public_key, roles, scopes, platform, device_family, display_name, client_id,
            client_mode, approved_via, created_at, approved_at, last_seen_at)
        VALUES (:device_id, :public_key, :role, :scopes, :platform, :device_family, :display_name, :client_id,
            :client_mode, :via, :now, :now, :now)
        ON CONFLICT (device_id) DO UPDATE SET roles = excluded.roles, scopes = excluded.scopes,
            platform = excluded.platform, device_family = excluded.device_family, client_id = excluded.client_id,
            client_mode = excluded.client_mode, approved_via = excluded.approved_via,
            approved_at = excluded.approved_at""",
        {
            **_columns(claim),
            "role": _joined((*_words(before["roles"]), claim.role)),
            "scopes": _joined((*_words(before["scopes"]), *claim.scopes)),
            "via": via,
            "now": now,
        },
    )


async def _ask(tx: Transaction, claim: DeviceClaim, reason: str, now: int) -> str:
    request_id = str(uuid.uuid4())
    await tx.write(
        """INSERT INTO device_requests (request_id, device_id, public_key, role, scopes, platform, device_family,
            display_name, client_id, client_mode, remote_ip, reason, created_at, seen_at)
        VALUES (:request, :device_id, :public_key, :role, :scopes, :platform, :device_family, :display_name,
            :client_id, :client_mode, :remote_ip, :reason, :now, :now)""",
        {**_columns(claim), "request": request_id, "reason": reason, "now": now},
    )
    await tx.write(
        """DELETE FROM device_requests WHERE request_id <> :request AND request_id NOT IN
            (SELECT request_id FROM device_requests WHERE request_id <> :request
                ORDER BY seen_at DESC, request_id LIMIT :others)""",
        {"request": request_id, "others": MAX_PENDING - 1},
    )
    return request_id


async def _issue(tx: Transaction, device_id: str, role: str, scopes: tuple[str, ...], now: int) -> DeviceToken:
    token = issue()
    await tx.write(
        """INSERT INTO device_tokens (token_hash, device_id, role, scopes, issued_at)
        VALUES (:hash, :id, :role, :scopes, :now)""",
        {"hash": hash_token(token), "id": device_id, "role": role, "scopes": _joined(scopes), "now": now},
    )
    await tx.write(
        """DELETE FROM device_tokens WHERE device_id = :id AND role = :role AND token_hash <> :hash
            AND token_hash NOT IN (SELECT token_hash FROM device_tokens WHERE device_id = :id AND role = :role
                AND token_hash <> :hash ORDER BY issued_at DESC, token_hash LIMIT :others)""",
        {"id": device_id, "role": role, "hash": hash_token(token), "others": TOKENS_PER_ROLE - 1},
    )
    return DeviceToken(token, now)


async def _forget_tokens(tx: Transaction, device_id: str, role: str) -> None:
    await tx.write("DELETE FROM device_tokens WHERE device_id = :id AND role = :role", {"id": device_id, "role": role})


async def _take(tx: Transaction, request_id: str, now: int) -> PendingRequest:
    rows = await tx.read(
        "SELECT * FROM device_requests WHERE request_id = :id AND seen_at >= :old",
        {"id": request_id, "old": now - PENDING_FOR_MS},
    )
    if not rows:
        raise _no_request(request_id)
    await tx.write("DELETE FROM device_requests WHERE request_id = :id", {"id": request_id})
    return _pending(rows[0])


def _columns(claim: DeviceClaim) -> dict[str, str]:
    return {**asdict(claim), "scopes": _joined(claim.scopes)}


def _pending(row: Row) -> PendingRequest:
    fields = {name: row[name] for name in DeviceClaim.__struct_fields__} | {"scopes": _words(row["scopes"])}
    return PendingRequest(
        request_id=row["request_id"], claim=DeviceClaim(**fields), reason=row["reason"], created_at_ms=row["created_at"]
    )


def _device(row: Row, held: list[Row]) -> PairedDevice:
    tokens = tuple(
        TokenInfo(role=one["role"], scopes=_words(one["scopes"]), issued_at_ms=one["issued_at"]) for one in held
    )
    lists = {"roles": _words(row["roles"]), "scopes": _words(row["scopes"]), "tokens": tokens}
    return PairedDevice(**{**row, **lists})


def _no_request(request_id: str) -> NotFound:
    return NotFound(f"no pairing request {request_id}; it may have expired: connect the device again")


def _unknown(device_id: str) -> NotFound:
    return NotFound(f"no paired device {device_id}; see openclaw devices list")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _joined(words: Iterable[str]) -> str:
    """Joins distinct words into one column value."""
    return " ".join(dict.fromkeys(words))
