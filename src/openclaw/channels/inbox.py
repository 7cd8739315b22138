"""What platforms handed over: events and the place to go on from, committed together before anything is acknowledged.

An event stays on record until it was dealt with, so that a restart goes on with it; its id is remembered longer,
because platforms deliver again.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.channel import ButtonPress, ChannelEvent, Inbound, Reaction
from openclaw.core.clock import Clock, millis
from openclaw.storage.database import Database, Row

TOPIC = "channel-events"
HEARD_FOR_MS = 30 * 86_400_000


class RecordedChannelEvent(Struct, frozen=True, kw_only=True):
    """An event that waits to be dealt with."""

    id: str
    event: ChannelEvent
    position: int
    due_at: int


class _Body(Struct, frozen=True, omit_defaults=True):
    message: Inbound | None = None
    press: ButtonPress | None = None
    reaction: Reaction | None = None


def event_id(event: ChannelEvent) -> str:
    """Names an event of an account: the same one delivered again has the same name, an edit has another."""
    match event:
        case Inbound(edited=True):
            return f"edit:{event.group or event.sender}:{event.id}:{event.timestamp}"
        case Inbound():
            return f"message:{event.group or event.sender}:{event.id}"
        case ButtonPress():
            return f"press:{event.id}"
        case Reaction():
            return f"reaction:{event.id}"


def chat_of(event: ChannelEvent) -> str:
    """The conversation an event belongs to: what happens in one is dealt with in order."""
    if isinstance(event, Inbound):
        return f"{event.group or event.sender}:{event.thread or ''}"
    return f"{event.chat.to}:{event.chat.thread or ''}"


class ChannelInbox:
    """The events of every account."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def take(
        self, channel: str, account: str, events: Sequence[tuple[ChannelEvent, float]], cursor: str | None
    ) -> int:
        """Puts events on record, each with the seconds to wait for what belongs to it; gives how many are new."""
        now, name = millis(self._clock), {"channel": channel, "account": account}
        async with self._db.transaction() as transaction:
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
                        "body": msgspec.json.encode(_body(event)).decode(),
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
        if new:
            await self._db.notify(TOPIC)
        return new

    def changes(self) -> Any:
        return self._db.listen(TOPIC)

    async def cursor(self, channel: str, account: str) -> str | None:
        rows = await self._db.read(
            "SELECT cursor FROM channel_cursors WHERE channel = :channel AND account = :account",
            {"channel": channel, "account": account},
        )
        return str(rows[0]["cursor"]) if rows else None

    async def forget_account(self, channel: str, account: str) -> None:
        """Forgets where an account was, for instance because its token now belongs to another bot."""
        name = {"channel": channel, "account": account}
        await self._db.write_all(
            *(
                (f"DELETE FROM {table} WHERE channel = :channel AND account = :account", name)  # noqa: S608
                for table in ("channel_cursors", "heard")
            )
        )

    async def waiting(self) -> list[RecordedChannelEvent]:
        """The events that were not dealt with, in order."""
        rows = await self._db.read("SELECT * FROM channel_events ORDER BY position")
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


def _body(event: ChannelEvent) -> _Body:
    match event:
        case Inbound():
            return _Body(message=event)
        case ButtonPress():
            return _Body(press=event)
        case Reaction():
            return _Body(reaction=event)


def _recorded(row: Row) -> RecordedChannelEvent:
    body = msgspec.json.decode(row["body"], type=_Body)
    event = body.message or body.press or body.reaction
    assert event is not None
    return RecordedChannelEvent(id=row["event_id"], event=event, position=row["position"], due_at=row["due_at"])
