"""The inbox: every input is on record before anyone hears that it was accepted.

Its run id is the caller's idempotency key, so the same request is one run, now and after a restart. It belongs to the
process that accepted it, until that is gone or puts it down. Where a person was heard last is remembered as well: what
the assistant says by itself goes there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from openclaw.core.channel import Address
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest
from openclaw.core.events import CompactionEnded, Trigger
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.messages import Usage
from openclaw.sessions.reply_text import ReplyPayload
from openclaw.sessions.send_policy import SendPolicy
from openclaw.storage.database import Database, Row
from openclaw.storage.owners import OwnedRows, Owner

Statement = tuple[str, Mapping[str, Any]]
State = Literal["queued", "running", "done", "failed", "aborted", "steered", "dropped"]
KEPT_MS = 7 * 86_400_000
"""How long a finished input answers a repeated request."""


class RunOutcome(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How an input ended: what a repeated request is told."""

    status: Literal["ok", "error"]
    stop_reason: str
    texts: tuple[str, ...] = ()
    """The answers as people see them."""
    payloads: tuple[ReplyPayload, ...] = ()
    """All that is delivered, in its order."""
    silent: bool = False
    """The model chose to say nothing."""
    acknowledged: bool = False
    """The last answer said HEARTBEAT_OK, which `texts` leaves out."""
    error: str | None = None
    error_kind: str | None = None
    provider: str = ""
    model: str = ""
    thinking: str = ""
    """How hard it thought."""
    requested: str = ""
    """The model that was chosen for it, as a reference; another one may have answered."""
    usage: Usage = Usage()
    last_usage: Usage = Usage()
    session_id: str = ""
    window: int = 0
    """The context window of the chosen model, in tokens."""
    started_at: int = 0
    ended_at: int = 0
    turns: int = 0
    yielded: bool = False
    """It waits for something that starts the next run."""
    tools: tuple[str, ...] = ()
    """The tools that worked at least once."""
    delivered: bool = False
    """A messaging tool has spoken to the conversation that asked."""
    steered_into: str | None = None
    notices: tuple[str, ...] = ()
    """What the person should know beside the answer."""
    compaction: CompactionEnded | None = None
    """What became of a compaction, when that was all that was asked for."""


def failed_outcome(why: str, kind: str, stop_reason: str = "error", started: int = 0, ended: int = 0) -> RunOutcome:
    return RunOutcome(
        status="error", stop_reason=stop_reason, error=why, error_kind=kind, started_at=started, ended_at=ended
    )


class InboxEntry(Struct, frozen=True, kw_only=True):
    """One accepted input."""

    run_id: str
    session_key: str
    state: State
    request: str
    """The turn as JSON."""
    accepted_at: int
    attempts: int = 0
    outcome: RunOutcome | None = None
    owner: str = ""
    """The process that works on it."""


def _entry(row: Row) -> InboxEntry:
    outcome = row["outcome"]
    return InboxEntry(
        run_id=row["run_id"],
        session_key=row["session_key"],
        state=row["state"],
        request=row["request"],
        accepted_at=row["accepted_at"],
        attempts=row["attempts"],
        outcome=msgspec.json.decode(outcome, type=RunOutcome) if outcome else None,
        owner=row["owner"],
    )


class Inbox:
    """The inputs of this installation."""

    def __init__(self, db: Database, clock: Clock, me: Owner | None = None) -> None:
        self._db = db
        self._clock = clock
        self._owned = OwnedRows(db, "inputs", key="run_id", in_work="state IN ('queued', 'running')", me=me)

    async def accept(self, run_id: str, session_key: str, request: str) -> tuple[InboxEntry, bool]:
        """Writes an input down; gives what is on record and whether it is new."""
        now, me = millis(self._clock), self._owned.me
        new = await self._db.write(
            "INSERT INTO inputs (run_id, session_key, state, request, accepted_at, updated_at, owner) "
            "VALUES (:run, :key, 'queued', :request, :now, :now, :me) ON CONFLICT (run_id) DO NOTHING",
            {"run": run_id, "key": session_key, "request": request, "now": now, "me": me},
        )
        if new:
            return InboxEntry(
                run_id=run_id, session_key=session_key, state="queued", request=request, accepted_at=now, owner=me
            ), True
        entry = await self.get(run_id)
        assert entry is not None
        return entry, False

    async def get(self, run_id: str) -> InboxEntry | None:
        rows = await self._db.look("SELECT * FROM inputs WHERE run_id = :run", {"run": run_id})
        return _entry(rows[0]) if rows else None

    async def began(self, run_id: str) -> None:
        await self._db.soon(
            (
                "UPDATE inputs SET state = 'running', attempts = attempts + 1, updated_at = :now WHERE run_id = :run",
                {"run": run_id, "now": millis(self._clock)},
            )
        )

    async def forgive(self, entry: InboxEntry) -> InboxEntry:
        """Does not count an attempt that ended with an orderly stop, or with the machine."""
        if not entry.attempts or not self._owned.owners.ended_in_order(entry.owner):
            return entry
        await self._db.write(
            "UPDATE inputs SET attempts = attempts - 1 WHERE run_id = :run AND attempts > 0", {"run": entry.run_id}
        )
        return structs.replace(entry, attempts=entry.attempts - 1)

    async def ended(
        self, run_ids: Sequence[str], state: State, outcome: RunOutcome, also: Sequence[Statement] = ()
    ) -> None:
        """The end of one input, or of several answered together; `also` is written in the same transaction."""
        text = msgspec.json.encode(outcome).decode()
        now = millis(self._clock)
        await self._db.write_all(
            *(
                (
                    "UPDATE inputs SET state = :state, outcome = :outcome, updated_at = :now, owner = '' "
                    "WHERE run_id = :run",
                    {"run": run_id, "state": state, "outcome": text, "now": now},
                )
                for run_id in run_ids
            ),
            *also,
        )

    def change_request(self, run_id: str, request: str) -> Statement:
        """The write that changes what a run is taken up with after a restart, for a transaction of somebody else's."""
        return ("UPDATE inputs SET request = :request WHERE run_id = :run", {"run": run_id, "request": request})

    async def take_over(self, run_id: str | None = None) -> list[InboxEntry]:
        """What processes that are gone accepted and did not end, ours from now on, oldest first.

        With `run_id` that one alone, if it is such an input.
        """
        found = [_entry(row) for row in await self._owned.take(run_id)]
        return sorted(found, key=lambda entry: (entry.accepted_at, entry.run_id))

    async def release(self, run_ids: Sequence[str]) -> None:
        """Puts down what we have not ended: the next start takes it up."""
        await self._owned.release(run_ids)

    def is_elsewhere(self, entry: InboxEntry) -> bool:
        """Whether another process works on an input now."""
        return entry.outcome is None and entry.owner != self._owned.me and self._owned.owners.is_alive(entry.owner)

    async def forget_old(self) -> int:
        """Drops what ended long ago."""
        return await self._db.write(
            "DELETE FROM inputs WHERE state NOT IN ('queued', 'running') AND updated_at < :before",
            {"before": millis(self._clock) - KEPT_MS},
        )


# Where people were last heard.

ROUTES = "last_routes"
"""Tells other gateways that a person was heard elsewhere."""
NOWHERE = ("none", "webchat", "main")
"""Targets that are no channel: what is said stays in the conversation."""


class LastRoute(Struct, frozen=True):
    """The channel a conversation was last heard on; `current` is false when its person went on elsewhere since."""

    address: Address
    current: bool


class LastRoutes:
    """The last route of every conversation."""

    def __init__(self, db: Database, clock: Clock, policy: SendPolicy | None = None) -> None:
        self._db = db
        self._clock = clock
        self._policy = policy
        self._routes: dict[str, LastRoute] | None = None
        self._loading = asyncio.Lock()
        self._changes = 0
        """How often other gateways have changed them."""

    async def of(self, key: SessionKey) -> Address | None:
        """The channel where the person of a conversation was last heard."""
        found = (await self._all()).get(str(key))
        return found.address if found else None

    async def is_group(self, address: Address) -> bool:
        """Whether a group was heard there."""
        there = (address.channel, address.account, address.to)
        return any(
            (route.address.channel, route.address.account, route.address.to) == there
            for key, route in (await self._all()).items()
            if parse_session_key(key).is_group
        )

    async def follow(self, key: str, trigger: Trigger, address: Address | None, message_id: str) -> Address | None:
        """Where an input is answered. A person's own place is remembered; what the system starts goes there."""
        found = (await self._all()).get(key)
        if trigger == "user" and (address is None or message_id):
            route = LastRoute(address, True) if address else found and LastRoute(found.address, False)
            if route is not None and route != found:
                await self._remember(key, route)
        elif trigger == "system" and address is None and found is not None and found.current:
            address = found.address
        if address is not None and self._policy is not None:
            allowed = await self._policy.allows(parse_session_key(key), address.channel)
            return address if allowed else None
        return address

    async def resolve(
        self,
        key: SessionKey,
        channel: str | None,
        to: str | None = None,
        account: str | None = None,
        thread: str | None = None,
        owners: Sequence[str] = (),
    ) -> Address | None:
        """The address that `channel` and `to` mean: `last`, `owner`, a channel, or `to` with the channel before it.

        None when the conversation was never heard on a channel, or nothing shall leave it.
        """
        if channel in NOWHERE:
            return None
        last = await self.of(key)
        if to and channel in (None, "", "last") and ":" in to and not to.startswith(("!", "@", "#")):
            channel, _, to = to.partition(":")
        if channel in (None, "", "last"):
            if to and last is None:
                raise InvalidRequest(f"{to!r} does not say on which channel: give the channel too, or channel:{to}")
            return structs.replace(last, to=to, thread=thread) if last and to else last
        if not to:
            owner = [name.split(":", 1) for name in owners if ":" in name and channel in ("owner", name.split(":")[0])]
            if channel == "owner" and owner:
                channel = owner[0][0]
            if last is not None and last.channel == channel:
                return last
            if not owner:
                raise InvalidRequest(f"to is missing: nobody is known on {channel}")
            to = owner[0][1]
        return Address(channel=str(channel), to=to, account=account or "default", thread=thread)

    async def bind(self, key: SessionKey, address: Address) -> None:
        """From now on what `key` says by itself goes there."""
        await self._remember(str(key), LastRoute(address, True))

    async def forget(self, key: SessionKey) -> None:
        await self._db.write("DELETE FROM last_routes WHERE session_key = :key", {"key": str(key)})
        (await self._all()).pop(str(key), None)
        await self._db.notify(ROUTES, str(key))

    async def heard_at(self, address: Address) -> list[SessionKey]:
        """The conversations that were last heard at an address."""
        return [parse_session_key(key) for key, route in (await self._all()).items() if route.address == address]

    async def _all(self) -> dict[str, LastRoute]:
        if self._routes is None:
            # One reader at a time: what it has read must not replace what was remembered meanwhile.
            async with self._loading:
                while self._routes is None:
                    changes = self._changes
                    rows = await self._db.read("SELECT session_key, address, current FROM last_routes")
                    if changes == self._changes:
                        self._routes = {row["session_key"]: _route(row) for row in rows}
        return self._routes

    async def _remember(self, key: str, route: LastRoute) -> None:
        await self._db.write(
            "INSERT INTO last_routes (session_key, address, current, at) VALUES (:key, :address, :current, :now) "
            "ON CONFLICT (session_key) DO UPDATE SET address = excluded.address, current = excluded.current, "
            "at = excluded.at",
            {
                "key": key,
                "address": msgspec.json.encode(route.address).decode(),
                "current": int(route.current),
                "now": millis(self._clock),
            },
        )
        (await self._all())[key] = route
        await self._db.notify(ROUTES, key)

    def reload(self) -> None:
        """Another gateway has heard somebody: what we know, or are reading, may be old."""
        self._changes += 1
        self._routes = None


def _route(row: Row) -> LastRoute:
    return LastRoute(msgspec.json.decode(row["address"], type=Address), bool(row["current"]))
