"""System events: lines a conversation is told with its next turn. On record: none is lost, none is told twice."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from openclaw.core.clock import Clock, millis
from openclaw.core.keys import SessionKey
from openclaw.core.text import Origin, literal, merge_origins
from openclaw.storage.database import Database

MOST = 20


class SystemEvents:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def add(self, key: SessionKey, text: str, event_id: str, origins: Sequence[Origin] = ()) -> bool:
        """Puts a line up, with where it came from if that is elsewhere.

        False when it says the same as the last one, or is there already.
        """
        line = " ".join(literal(part).strip() for part in text.splitlines()).strip()
        if not line:
            return False
        async with self._db.transaction() as tx:
            waiting = await tx.read(
                "SELECT event_id, text FROM system_events WHERE session_key = :key AND taken_by = '' "
                "ORDER BY created_at, event_id",
                {"key": str(key)},
            )
            if waiting and waiting[-1]["text"] == line:
                return False
            made = await tx.write(
                "INSERT INTO system_events (event_id, session_key, text, created_at, origins) "
                "VALUES (:id, :key, :text, :now, :origins) ON CONFLICT (event_id) DO NOTHING",
                {
                    "id": event_id,
                    "key": str(key),
                    "text": line,
                    "now": millis(self._clock),
                    "origins": msgspec.json.encode(merge_origins(origins)).decode() if origins else "",
                },
            )
            for old in waiting[: max(0, len(waiting) + made - MOST)]:
                await tx.write("DELETE FROM system_events WHERE event_id = :id", {"id": old["event_id"]})
            return bool(made)

    async def waiting(self, key: SessionKey) -> list[str]:
        rows = await self._db.read(
            "SELECT text FROM system_events WHERE session_key = :key AND taken_by = '' ORDER BY created_at, event_id",
            {"key": str(key)},
        )
        return [row["text"] for row in rows]

    async def forget(self, key: SessionKey) -> None:
        """Drops what nobody has been told yet: the conversation it was for is over."""
        await self._db.write("DELETE FROM system_events WHERE session_key = :key AND taken_by = ''", {"key": str(key)})

    async def take(self, key: SessionKey, run_id: str) -> tuple[str, tuple[Origin, ...]]:
        """The lines for a run, ready to stand before what it was asked, and their origins.

        The same run gets the same lines again.
        """
        # Nearly always there is nothing, and looking is cheaper than writing.
        if await self._db.look(
            "SELECT 1 FROM system_events WHERE session_key = :key AND taken_by = '' LIMIT 1", {"key": str(key)}
        ):
            await self._db.write(
                "UPDATE system_events SET taken_by = :run WHERE session_key = :key AND taken_by = ''",
                {"key": str(key), "run": run_id},
            )
        rows = await self._db.look(
            "SELECT text, created_at, origins FROM system_events WHERE taken_by = :run ORDER BY created_at, event_id",
            {"run": run_id},
        )
        text = "\n".join(f"System: [{_stamp(row['created_at'])}] {row['text']}" for row in rows)
        found = [msgspec.json.decode(row["origins"], type=tuple[Origin, ...]) for row in rows if row["origins"]]
        return text, merge_origins(*found)


def _stamp(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
