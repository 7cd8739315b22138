"""System events: lines queued in the database for a session's next turn, each delivered exactly once."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from openclaw.core.clock import Clock, millis
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.text import Origin, merge_origins, sanitize_line
from openclaw.storage.database import Database, Transaction, transact

MOST = 20


def to_line(text: str) -> str:
    """An event as the one line that a session is told."""
    return " ".join(sanitize_line(part).strip() for part in text.splitlines()).strip()


def insert_event(
    key: SessionKey, text: str, event_id: str, now: int, origins: Sequence[Origin] = (), wakes: str = ""
) -> tuple[str, dict[str, Any]]:
    """The write that queues a line, for a transaction of somebody else's; the same id is the same event."""
    return (
        "INSERT INTO system_events (event_id, session_key, text, created_at, origins, wakes) "
        "VALUES (:id, :key, :text, :now, :origins, :wakes) ON CONFLICT (event_id) DO NOTHING",
        {
            "id": event_id,
            "key": str(key),
            "text": to_line(text),
            "now": now,
            "origins": msgspec.json.encode(merge_origins(origins)).decode() if origins else "",
            "wakes": wakes,
        },
    )


class SystemEvents:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def add(
        self, key: SessionKey, text: str, event_id: str, origins: Sequence[Origin] = (), wakes: str = ""
    ) -> bool:
        """Queues a line, with its origins when it came from outside; `wakes` says why it is to be told at once.

        False when it equals the last one or is queued already.
        """
        line = to_line(text)
        if not line:
            return False

        async def queue(tx: Transaction) -> bool:
            waiting = await tx.read(
                "SELECT event_id, text FROM system_events WHERE session_key = :key AND taken_by = '' "
                "ORDER BY created_at, event_id",
                {"key": str(key)},
            )
            if waiting and waiting[-1]["text"] == line:
                if wakes:
                    woken = {"id": waiting[-1]["event_id"], "wakes": wakes}
                    await tx.write("UPDATE system_events SET wakes = :wakes WHERE event_id = :id", woken)
                return False
            made = await tx.write(*insert_event(key, line, event_id, millis(self._clock), origins, wakes))
            for old in waiting[: max(0, len(waiting) + made - MOST)]:
                await tx.write("DELETE FROM system_events WHERE event_id = :id", {"id": old["event_id"]})
            return bool(made)

        return await transact(self._db, queue, f"events:{key}")

    async def waiting(self, key: SessionKey) -> list[str]:
        rows = await self._db.read(
            "SELECT text FROM system_events WHERE session_key = :key AND taken_by = '' ORDER BY created_at, event_id",
            {"key": str(key)},
        )
        return [row["text"] for row in rows]

    async def waking(self) -> dict[SessionKey, str]:
        """The sessions with lines that are to be told at once, and why; also those that a killed process left."""
        rows = await self._db.look(
            "SELECT session_key, wakes FROM system_events WHERE taken_by = '' AND wakes <> '' ORDER BY created_at"
        )
        return {parse_session_key(row["session_key"]): row["wakes"] for row in rows}

    async def forget(self, key: SessionKey) -> None:
        """Drops the queued lines: the conversation they were for is over."""
        await self._db.write("DELETE FROM system_events WHERE session_key = :key AND taken_by = ''", {"key": str(key)})

    async def take(self, key: SessionKey, run_id: str) -> tuple[str, tuple[Origin, ...]]:
        """Takes the lines for a run, formatted to precede its message, and their origins.

        The same run gets the same lines again.
        """
        # Usually there is nothing, and a read is cheaper than a write.
        named = {"key": str(key), "run": run_id}
        find = (
            "SELECT text, created_at, origins, taken_by FROM system_events "
            "WHERE session_key = :key AND taken_by IN ('', :run) ORDER BY created_at, event_id"
        )
        rows = await self._db.look(find, named)
        if any(not row["taken_by"] for row in rows):
            await self._db.write(
                "UPDATE system_events SET taken_by = :run WHERE session_key = :key AND taken_by = ''", named
            )
            rows = [row for row in await self._db.look(find, named) if row["taken_by"]]
        times = [datetime.fromtimestamp(row["created_at"] / 1000, UTC) for row in rows]
        said = zip(times, rows, strict=True)
        text = "\n".join(f"System: [{at:%Y-%m-%d %H:%M:%S UTC}] {row['text']}" for at, row in said)
        found = [msgspec.json.decode(row["origins"], type=tuple[Origin, ...]) for row in rows if row["origins"]]
        return text, merge_origins(*found)
