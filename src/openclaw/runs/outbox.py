"""The outbox: what is said to people on channels, on record until the platform has confirmed it.

What a run says is written in the transaction that ends the run. Rows are kept in order within a conversation; a row
belongs to the process that sends it, and what was being sent when that process was killed is found as `sending`.
"""

import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct

from openclaw.core.channel import Address, Outbound, Receipt
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import NotFound, Unavailable
from openclaw.process.tasks import with_timeout
from openclaw.runs.inbox import RunOutcome, Statement
from openclaw.runs.request import RunRequest
from openclaw.storage.database import Database, Row
from openclaw.storage.owners import OwnedRows, Owner

TOPIC = "outbox"
SENT_KEPT_MS = 7 * 86_400_000
FAILURE_REPLY = "Sorry, that did not work."
"""What others than the owner are told of a failure; the reason is for the owner only."""
State = Literal["pending", "sending", "unsure", "sent", "refused", "held"]
_INSERT = (
    "INSERT INTO outbox (message_id, channel, account, chat, thread, position, run_id, session_key, body, state, "
    "next_at, created_at, updated_at, owner) VALUES (:id, :channel, :account, :chat, :thread, "
    "(SELECT COALESCE(MAX(position), 0) + 1 FROM outbox), :run, :key, :body, 'pending', :now, :now, :now, '') "
    "ON CONFLICT (message_id) DO NOTHING"
)


class OutboxEntry(Struct, frozen=True, kw_only=True):
    """One message on its way."""

    id: str
    message: Outbound
    state: State
    position: int
    run_id: str = ""
    session_key: str = ""
    pieces: tuple[str, ...] | None = None
    """Its text as it was cut for the platform, from the first attempt on."""
    receipts: tuple[Receipt, ...] = ()
    """Of the pieces that arrived."""
    attempts: int = 0
    doubled: int = 0
    """How often a piece was sent again although the first may have arrived."""
    next_at: int = 0
    error: str = ""
    owner: str = ""
    updated_at: int = 0


def _entry(row: Row) -> OutboxEntry:
    return OutboxEntry(
        id=row["message_id"],
        message=msgspec.json.decode(row["body"], type=Outbound),
        state=row["state"],
        position=row["position"],
        run_id=row["run_id"],
        session_key=row["session_key"],
        pieces=msgspec.json.decode(row["pieces"], type=tuple[str, ...]) if row["pieces"] else None,
        receipts=msgspec.json.decode(row["receipts"], type=tuple[Receipt, ...]),
        attempts=row["attempts"],
        doubled=row["doubled"],
        next_at=row["next_at"],
        error=row["error"],
        owner=row["owner"],
        updated_at=row["updated_at"],
    )


def replies(requests: Sequence[RunRequest], outcome: RunOutcome) -> list[tuple[str, Outbound]]:
    """What the end of a run says to whom, each with its id: every address that asked gets the answer once."""
    found: dict[Address, RunRequest] = {}
    for request in requests:
        if request.reply_to is not None:
            found.setdefault(request.reply_to, request)
    messages = []
    for address, request in found.items():
        for part, said in enumerate(_said(request, outcome)):
            place = f"{address.channel}:{address.account}:{address.to}:{address.thread or ''}"
            messages.append((f"{requests[0].run_id}:{place}:{part}", said))
    return messages


def _said(request: RunRequest, outcome: RunOutcome) -> list[Outbound]:
    address = request.reply_to
    assert address is not None
    if outcome.steered_into or outcome.stop_reason == "aborted":
        return []  # the run it went into answers, or a person has stopped it
    if outcome.status == "error" and not outcome.texts:
        text = FAILURE_REPLY if request.origins else f"That did not work: {outcome.error}"
        return [Outbound(to=address, text=text, reply_to=request.reply_to_id or None)]
    return [
        Outbound(
            to=address,
            text=payload.text,
            media=payload.media,
            reply_to=payload.reply_to or request.reply_to_id or None,
            voice=payload.voice,
        )
        for payload in outcome.payloads
        if payload.text.strip() or payload.media
    ]


class Outbox:
    """Messages to people on channels."""

    def __init__(self, db: Database, clock: Clock, me: Owner | None = None) -> None:
        self._db = db
        self._clock = clock
        self._owned = OwnedRows(db, "outbox", key="message_id", in_work="state = 'sending'", me=me)

    def statements(self, messages: Sequence[tuple[str, Outbound]], run_id: str = "", key: str = "") -> list[Statement]:
        """The writes that put `messages` on record, for a transaction of somebody else's."""
        now = millis(self._clock)
        return [
            (
                _INSERT,
                {
                    "id": name,
                    "channel": message.to.channel,
                    "account": message.to.account,
                    "chat": message.to.to,
                    "thread": message.to.thread or "",
                    "run": run_id,
                    "key": key,
                    "body": msgspec.json.encode(message).decode(),
                    "now": now,
                },
            )
            for name, message in messages
        ]

    async def put(self, message: Outbound, name: str = "", run_id: str = "", key: str = "") -> str:
        """Puts a message on record; the same name a second time is the same message."""
        name = name or str(uuid.uuid4())
        await self._db.write_all(*self.statements([(name, message)], run_id, key))
        await self.wake()
        return name

    async def wake(self) -> None:
        """Tells the sender that there is something to send."""
        await self._db.notify(TOPIC)

    def changes(self) -> Any:
        """Hears when a message was put in, or its state changed."""
        return self._db.listen(TOPIC)

    async def get(self, name: str) -> OutboxEntry:
        rows = await self._db.read("SELECT * FROM outbox WHERE message_id = :id", {"id": name})
        if not rows:
            raise NotFound(f"no message {name} in the outbox")
        return _entry(rows[0])

    async def settled(self, name: str, seconds: float) -> OutboxEntry:
        """A message once it was sent or refused, or as it is after so many seconds."""
        deadline = self._clock.now() + seconds
        async with self.changes() as changes:
            entry = await self.get(name)
            while entry.state in ("pending", "sending") and self._clock.now() < deadline:
                with suppress(Unavailable):
                    await with_timeout(anext(changes), deadline - self._clock.now(), self._clock, "delivery")
                entry = await self.get(name)
            return entry

    async def waiting(self) -> list[OutboxEntry]:
        """Every message that is not settled, in order."""
        rows = await self._db.read(
            "SELECT * FROM outbox WHERE state IN ('pending', 'sending', 'unsure') ORDER BY position"
        )
        return [_entry(row) for row in rows]

    async def held(self) -> list[OutboxEntry]:
        rows = await self._db.read("SELECT * FROM outbox WHERE state = 'held' ORDER BY position")
        return [_entry(row) for row in rows]

    async def take_over(self) -> int:
        """Marks what processes that are gone were sending as unsure; gives how many there were."""
        found = [_entry(row) for row in await self._owned.take()]
        for entry in found:
            await self.doubt(entry, "the gateway ended while it was sent")
        return len(found)

    async def begin(self, entry: OutboxEntry, pieces: Sequence[str]) -> bool:
        """Claims a message before its next piece leaves; false when somebody else has it."""
        return bool(
            await self._db.write(
                "UPDATE outbox SET state = 'sending', owner = :me, attempts = attempts + 1, pieces = :pieces, "
                "updated_at = :now WHERE message_id = :id AND state IN ('pending', 'unsure')",
                {
                    "id": entry.id,
                    "me": self._owned.me,
                    "pieces": msgspec.json.encode(list(pieces)).decode(),
                    "now": millis(self._clock),
                },
            )
        )

    async def arrived(self, entry: OutboxEntry, receipts: Sequence[Receipt], *, last: bool) -> None:
        await self._change(
            entry, state="sent" if last else "sending", receipts=receipts, owner="" if last else self._owned.me
        )

    async def postpone(self, entry: OutboxEntry, until: int, why: str) -> None:
        await self._change(entry, state="pending", next_at=until, error=why)

    async def doubt(self, entry: OutboxEntry, why: str) -> None:
        """It left, and nobody knows whether it arrived."""
        await self._change(entry, state="unsure", next_at=millis(self._clock), error=why)

    async def count_doubled(self, entry: OutboxEntry) -> None:
        """A piece is sent again that may have arrived."""
        await self._change(entry, state="pending", doubled=entry.doubled + 1)

    async def refuse(self, entry: OutboxEntry, why: str) -> None:
        await self._change(entry, state="refused", error=why)

    async def hold(self, entry: OutboxEntry, why: str) -> None:
        """Keeps a message whose fate is unknown until an operator sends or drops it."""
        await self._change(entry, state="held", error=why)

    async def release(self, name: str) -> None:
        """An operator's word: a held message is sent after all."""
        entry = await self.get(name)
        await self._change(entry, state="pending", next_at=millis(self._clock))
        await self.wake()

    async def drop(self, name: str) -> None:
        """An operator's word: a message is not sent."""
        await self._change(await self.get(name), state="refused", error="dropped by the operator")

    async def counts(self) -> dict[tuple[str, str], dict[str, int]]:
        """How many messages of each account are in which state, and how many may have arrived twice."""
        rows = await self._db.read(
            "SELECT channel, account, state, COUNT(*) AS count, SUM(doubled) AS doubled FROM outbox "
            "GROUP BY channel, account, state"
        )
        found: dict[tuple[str, str], dict[str, int]] = {}
        for row in rows:
            counted = found.setdefault((row["channel"], row["account"]), {"doubled": 0})
            counted[row["state"]] = row["count"]
            counted["doubled"] += row["doubled"] or 0
        return found

    async def forget_old(self) -> int:
        """Drops what arrived long ago; what is held stays until somebody decides."""
        return await self._db.write(
            "DELETE FROM outbox WHERE state IN ('sent', 'refused') AND updated_at < :before",
            {"before": millis(self._clock) - SENT_KEPT_MS},
        )

    async def _change(self, entry: OutboxEntry, **fields: Any) -> None:
        if "receipts" in fields:
            fields["receipts"] = msgspec.json.encode(list(fields["receipts"])).decode()
        fields = {"owner": "", "updated_at": millis(self._clock), **fields}
        sets = ", ".join(f"{name} = :{name}" for name in fields)
        await self._db.write(
            f"UPDATE outbox SET {sets} WHERE message_id = :id",  # noqa: S608
            {"id": entry.id, **fields},
        )
        await self._db.notify(TOPIC, entry.id)
