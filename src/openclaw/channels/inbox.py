"""What platforms handed over: events and the place to go on from, committed together before anything is acknowledged.

An event stays on record until it was dealt with, so that a restart goes on with it; its id is remembered longer,
because platforms deliver again.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from openclaw.core.channel import Inbound
from openclaw.core.clock import Clock, millis
from openclaw.storage.database import Database, Row, Transaction, transact
from openclaw.storage.owners import OwnedRows, Owner

HEARD_FOR_MS = 30 * 86_400_000
MOST_TOGETHER = 50
"""So many messages are looked at for what belongs together."""

Conversation = tuple[str, str, str]
"""A channel, an account, and the chat and thread there; see `chat_of`."""


class RecordedChannelEvent(Struct, frozen=True, kw_only=True):
    """An event that waits to be dealt with."""

    id: str
    event: Inbound
    position: int
    due_at: int


def event_id(message: Inbound) -> str:
    """Names a message of an account: the same one delivered again has the same name."""
    return f"message:{message.group or message.sender}:{message.id}"


def chat_of(message: Inbound) -> str:
    """The conversation a message belongs to: what happens in one is dealt with in order."""
    return f"{message.group or message.sender}:{message.thread or ''}"


class ChannelInbox:
    """The events of every account."""

    def __init__(self, db: Database, clock: Clock, me: Owner | None = None) -> None:
        self._db = db
        self._clock = clock
        self._leases = OwnedRows(db, "channel_leases", key="name", in_work="1 = 1", me=me)

    async def take(
        self, channel: str, account: str, events: Sequence[tuple[Inbound, float]], cursor: str | None
    ) -> int:
        """Puts events on record, each with the seconds to wait for what belongs to it; gives how many are new."""
        now, name = millis(self._clock), {"channel": channel, "account": account}

        async def record(transaction: Transaction) -> int:
            new = 0
            for event, wait in events:
                heard = {**name, "id": event_id(event), "now": now}
                if not await transaction.write(
                    "INSERT INTO heard (channel, account, event_id, at) VALUES (:channel, :account, :id, :now) "
                    "ON CONFLICT (channel, account, event_id) DO NOTHING",
                    heard,
                ):
                    continue
                new += 1
                await transaction.write(
                    "INSERT INTO channel_events (channel, account, event_id, chat, position, body, due_at) VALUES "
                    "(:channel, :account, :id, :chat, (SELECT COALESCE(MAX(position), 0) + 1 FROM channel_events), "
                    ":body, :due)",
                    {
                        **name,
                        "id": event_id(event),
                        "chat": chat_of(event),
                        "body": msgspec.json.encode(event).decode(),
                        "due": now + round(wait * 1000),
                    },
                )
            if cursor is not None:
                await transaction.write(
                    "INSERT INTO channel_cursors (channel, account, cursor, updated_at) VALUES (:channel, :account, "
                    ":cursor, :now) ON CONFLICT (channel, account) DO UPDATE SET cursor = excluded.cursor, "
                    "updated_at = excluded.updated_at",
                    {**name, "cursor": cursor, "now": now},
                )
            return new

        new = await transact(self._db, record, f"heard:{channel}:{account}")
        # The platform forgets what is acknowledged, so that must not depend on a power cut.
        await self._db.sync()
        return new

    async def cursor(self, channel: str, account: str) -> str | None:
        rows = await self._db.read(
            "SELECT cursor FROM channel_cursors WHERE channel = :channel AND account = :account",
            {"channel": channel, "account": account},
        )
        return str(rows[0]["cursor"]) if rows else None

    async def lease(self, channel: str, account: str) -> bool:
        """Takes the right to speak for an account; false while another process that lives has it."""
        now = millis(self._clock)
        await self._db.write(
            "INSERT INTO channel_leases (name, owner, taken_at) VALUES (:name, '', :now) ON CONFLICT DO NOTHING",
            {"name": f"{channel}:{account}", "now": now},
        )
        await self._leases.take(f"{channel}:{account}")
        rows = await self._db.read(
            "SELECT owner FROM channel_leases WHERE name = :name", {"name": f"{channel}:{account}"}
        )
        return bool(rows) and rows[0]["owner"] == self._leases.me

    async def release(self, channel: str, account: str) -> None:
        await self._leases.release([f"{channel}:{account}"])

    async def conversations(self, accounts: Sequence[tuple[str, str]]) -> list[Conversation]:
        """The conversations of these accounts in which something was not dealt with."""
        found: list[Conversation] = []
        for channel, account in accounts:
            rows = await self._db.look(
                "SELECT DISTINCT chat FROM channel_events WHERE channel = :channel AND account = :account",
                {"channel": channel, "account": account},
            )
            found += [(channel, account, row["chat"]) for row in rows]
        return found

    async def first_waiting(self, conversation: Conversation) -> list[RecordedChannelEvent]:
        """The events of a conversation that are to be dealt with next, in order; not all, when there are very many."""
        channel, account, chat = conversation
        rows = await self._db.look(
            "SELECT * FROM channel_events WHERE channel = :channel AND account = :account AND chat = :chat "
            "ORDER BY position LIMIT :most",
            {"channel": channel, "account": account, "chat": chat, "most": MOST_TOGETHER},
        )
        return [_recorded(row) for row in rows]

    async def done(self, events: Sequence[RecordedChannelEvent]) -> None:
        await self._db.write_all(
            *(
                (
                    "DELETE FROM channel_events WHERE channel = :channel AND account = :account AND event_id = :id",
                    {"channel": each.event.channel, "account": each.event.account, "id": each.id},
                )
                for each in events
            )
        )

    async def forget_old(self) -> int:
        """Forgets ids so old that no platform delivers them again."""
        return await self._db.write(
            "DELETE FROM heard WHERE at < :before", {"before": millis(self._clock) - HEARD_FOR_MS}
        )


def _recorded(row: Row) -> RecordedChannelEvent:
    event = msgspec.json.decode(row["body"], type=Inbound)
    return RecordedChannelEvent(id=row["event_id"], event=event, position=row["position"], due_at=row["due_at"])
