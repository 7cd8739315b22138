"""The inbox: every input is on record before anyone hears that it was accepted.

Its run id is the caller's idempotency key, so the same request is one run, now and after a restart. It belongs to the
process that accepted it, until that is gone or puts it down.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.events import CompactionEnded
from openclaw.core.messages import Usage
from openclaw.sessions.reply_text import ReplyPayload
from openclaw.storage.database import Database, Row
from openclaw.storage.owners import OwnedRows, Owner, is_alive

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
    error: str | None = None
    error_kind: str | None = None
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    last_usage: Usage = Usage()
    session_id: str = ""
    started_at: int = 0
    ended_at: int = 0
    turns: int = 0
    steered_into: str | None = None
    notices: tuple[str, ...] = ()
    compaction: CompactionEnded | None = None
    """What became of a compaction, when that was all that was asked for."""
    """What the person should know beside the answer."""


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
        await self._db.write(
            "UPDATE inputs SET state = 'running', attempts = attempts + 1, updated_at = :now WHERE run_id = :run",
            {"run": run_id, "now": millis(self._clock)},
        )

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
        return entry.outcome is None and entry.owner != self._owned.me and is_alive(Owner.parse(entry.owner))

    async def forget_old(self) -> int:
        """Drops what ended long ago."""
        return await self._db.write(
            "DELETE FROM inputs WHERE state NOT IN ('queued', 'running') AND updated_at < :before",
            {"before": millis(self._clock) - KEPT_MS},
        )
