"""The sender of the outbox, with a platform that answers as told: order, pace, doubt, and a death at every step."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import structs

from openclaw.channels.chunking import cut_text, measure
from openclaw.channels.delivery import Sender
from openclaw.channels.settings import DeliverySettings
from openclaw.core.channel import (
    Address,
    ChannelFacts,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
    Unsure,
)
from openclaw.core.errors import Conflict
from openclaw.core.settings import Fixed
from openclaw.runs.outbox import Outbox, OutboxEntry
from openclaw.storage.database import Database, Params, Row
from openclaw.storage.owners import Owner
from openclaw.testing import FakeClock
from tests.databases import open_database

pytestmark = pytest.mark.anyio

Unsureness = Literal["resend", "hold"]
ADA = Address(channel="pigeon", to="ada")
BOB = Address(channel="pigeon", to="bob")
DEAD = Owner(2**30, "long ago")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    found = await open_database(tmp_path / "state.sqlite")
    yield found
    await found.close()


class Pigeon:
    """A platform that answers with what is prepared, then with receipts."""

    name, account = "pigeon", "default"

    def __init__(self, *answers: Exception, **facts: object) -> None:
        self.facts = ChannelFacts(**facts)  # type: ignore[arg-type]
        self.answers = list(answers)
        self.sent: list[Outbound] = []
        self.arrived: list[str] = []

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        await asyncio.Event().wait()

    async def send(self, message: Outbound) -> Receipt:
        self.sent.append(message)
        if self.answers:
            raise self.answers.pop(0)
        self.arrived.append(message.text)
        return Receipt(id=f"r{len(self.arrived)}")

    async def close(self) -> None: ...


@asynccontextmanager
async def sending(
    outbox: Outbox, pigeon: Pigeon, clock: FakeClock, unsure: Unsureness = "resend"
) -> AsyncIterator[None]:
    settings = Fixed(DeliverySettings(unsure=unsure))
    sender = Sender(outbox, {("pigeon", "default"): pigeon}, clock, settings, jitter=lambda: 0.5)
    task = asyncio.create_task(sender.keep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settled(outbox: Outbox, clock: FakeClock, *names: str) -> list[OutboxEntry]:
    async def wait() -> list[OutboxEntry]:
        while True:
            entries = [await outbox.get(name) for name in names]
            if not {entry.state for entry in entries} & {"pending", "sending", "unsure"}:
                return entries
            await clock.sleep(5.0)

    return await clock.drive(wait())


async def test_messages_of_a_conversation_leave_in_order_and_others_do_not_wait(
    db: Database, fake_clock: FakeClock
) -> None:
    outbox, pigeon = Outbox(db, fake_clock), Pigeon(TryLater("busy", after=40.0))
    names = [await outbox.put(Outbound(to=ADA, text=text)) for text in ("one", "two", "three")]
    began = fake_clock.now()
    async with sending(outbox, pigeon, fake_clock):
        while not pigeon.sent:
            await asyncio.sleep(0.01)
        names.append(await outbox.put(Outbound(to=BOB, text="other")))
        await settled(outbox, fake_clock, *names)
    assert pigeon.arrived == ["other", "one", "two", "three"]
    assert fake_clock.now() - began >= 40  # the platform's own pause is kept in full


async def test_the_same_name_is_one_message(db: Database, fake_clock: FakeClock) -> None:
    outbox, pigeon = Outbox(db, fake_clock), Pigeon()
    for _ in range(3):
        await outbox.put(Outbound(to=ADA, text="hello"), name="x")
    async with sending(outbox, pigeon, fake_clock):
        await settled(outbox, fake_clock, "x")
    assert pigeon.arrived == ["hello"]


async def test_a_refusal_is_final_and_does_not_hold_up_the_next(db: Database, fake_clock: FakeClock) -> None:
    outbox, pigeon = Outbox(db, fake_clock), Pigeon(MessageRefused("blocked by the user"))
    names = [await outbox.put(Outbound(to=ADA, text=text)) for text in ("one", "two")]
    async with sending(outbox, pigeon, fake_clock):
        first, second = await settled(outbox, fake_clock, *names)
    assert (first.state, first.error, second.state) == ("refused", "blocked by the user", "sent")


@pytest.mark.parametrize(
    ("idempotent", "unsure", "state", "doubled"),
    [(True, "resend", "sent", 0), (False, "resend", "sent", 1), (False, "hold", "held", 0)],
)
async def test_what_left_without_an_answer_is_never_dropped(
    db: Database, fake_clock: FakeClock, idempotent: bool, unsure: Unsureness, state: str, doubled: int
) -> None:
    outbox, pigeon = Outbox(db, fake_clock), Pigeon(Unsure("the connection was cut"), idempotent=idempotent)
    name = await outbox.put(Outbound(to=ADA, text="hello"))
    async with sending(outbox, pigeon, fake_clock, unsure):
        (entry,) = await settled(outbox, fake_clock, name)
    assert (entry.state, entry.doubled) == (state, doubled)
    if idempotent:
        assert pigeon.sent[0].key == pigeon.sent[1].key != ""
    counted = (await outbox.counts())["pigeon", "default"]
    assert (counted.sent, counted.held, counted.doubled) == (state == "sent", state == "held", doubled)
    if state == "sent":
        with pytest.raises(Conflict, match="is not held"):
            await outbox.release(name)
        with pytest.raises(Conflict, match="has left already"):
            await outbox.drop(name)
    else:
        await outbox.release(name)
        async with sending(outbox, pigeon, fake_clock, unsure):
            assert (await settled(outbox, fake_clock, name))[0].state == "sent"


async def test_a_long_text_goes_on_with_the_piece_that_is_missing(db: Database, fake_clock: FakeClock) -> None:
    text = "\n\n".join(f"paragraph {number} " + "word " * 30 for number in range(12))
    outbox, pigeon = Outbox(db, fake_clock), Pigeon(limit=400)
    name = await outbox.put(Outbound(to=ADA, text=text, reply_to="5"))
    async with sending(outbox, pigeon, fake_clock):
        (entry,) = await settled(outbox, fake_clock, name)
    assert len(entry.receipts) == len(pigeon.arrived) > 3 and all(len(each) <= 400 for each in pigeon.arrived)
    assert "".join(pigeon.arrived).split() == text.split()
    assert [each.reply_to for each in pigeon.sent] == ["5", *[None] * (len(pigeon.sent) - 1)]

    other = Pigeon(limit=400)
    again = await outbox.put(Outbound(to=ADA, text=text), name="again")
    other.answers = []
    async with sending(outbox, other, fake_clock):
        await settled(outbox, fake_clock, again)
    assert len({each.key for each in (*pigeon.sent, *other.sent)}) == len(pigeon.sent) + len(other.sent)


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_death_at_any_step_loses_nothing(db: Database, fake_clock: FakeClock, idempotent: bool) -> None:
    text = "\n\n".join("word " * 30 for _ in range(6))
    earlier = Outbox(db, fake_clock, me=DEAD)
    untouched = await earlier.put(Outbound(to=BOB, text="never begun"))
    name = await earlier.put(Outbound(to=ADA, text=text))
    entry = await earlier.get(name)
    pieces = cut_text(text, 400)
    entry = structs.replace(entry, pieces=tuple(pieces))
    assert await earlier.begin(entry)
    await earlier.arrived(entry, [Receipt(id="r0")], last=False)
    assert await earlier.begin(structs.replace(entry, attempts=1))  # then it was killed, while the second left

    outbox, pigeon = Outbox(db, fake_clock), Pigeon(limit=400, idempotent=idempotent)
    async with sending(outbox, pigeon, fake_clock):
        done, other = await settled(outbox, fake_clock, name, untouched)
    assert done.state == other.state == "sent" and other.doubled == 0
    assert [text for text in pigeon.arrived if text != "never begun"] == pieces[1:]
    assert done.doubled == (0 if idempotent else 1)


async def test_what_another_living_process_sends_is_left_to_it(db: Database, fake_clock: FakeClock) -> None:
    other = Outbox(db, fake_clock)
    name = await other.put(Outbound(to=ADA, text="mine"))
    assert await other.begin(await other.get(name))
    assert await Outbox(db, fake_clock, me=DEAD).take_over() == 0
    assert (await other.get(name)).state == "sending"


class LateDatabase:
    """A database whose answer to a look at what waits comes late, once: what was being sent has arrived by then."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.seen = asyncio.Event()
        """Set when the look has found a message that is being sent."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def look(self, sql: str, params: Params | None = None) -> Sequence[Row]:
        rows = await self._db.look(sql, params)
        if "MIN(position)" in sql and not self.seen.is_set() and any(row["state"] == "sending" for row in rows):
            self.seen.set()
            while any(task.get_name().startswith("send:") for task in asyncio.all_tasks()):
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # for those who wait for its end
        return rows


async def test_what_arrived_while_the_outbox_was_read_is_not_doubted(db: Database, fake_clock: FakeClock) -> None:
    late = LateDatabase(db)
    outbox, asked, looked_again = Outbox(late, fake_clock), asyncio.Event(), asyncio.Event()

    class Slow(Pigeon):
        async def send(self, message: Outbound) -> Receipt:
            (asked if message.to == ADA else looked_again).set()
            await late.seen.wait()
            return await super().send(message)

    async with sending(outbox, Slow(), fake_clock):
        first = await outbox.put(Outbound(to=ADA, text="one"))
        await asked.wait()
        await outbox.wake()
        await late.seen.wait()
        await outbox.put(Outbound(to=BOB, text="two"))  # the look that finds it comes after the late one
        await looked_again.wait()
        assert (await outbox.get(first)).state == "sent"


async def test_what_has_all_its_receipts_is_not_sent_again_and_holds_nobody_up(
    db: Database, fake_clock: FakeClock
) -> None:
    outbox, pigeon = Outbox(db, fake_clock), Pigeon(idempotent=True)
    first = await outbox.put(Outbound(to=ADA, text="one"))
    async with sending(outbox, pigeon, fake_clock):
        await settled(outbox, fake_clock, first)
    await outbox.doubt(await outbox.get(first), "an earlier version did so")
    second = await outbox.put(Outbound(to=ADA, text="two"))
    async with sending(outbox, pigeon, fake_clock):
        await settled(outbox, fake_clock, first, second)
    assert pigeon.arrived == ["one", "two"]


async def test_pace_is_kept_in_a_conversation_and_over_all(db: Database, fake_clock: FakeClock) -> None:
    outbox, pigeon = Outbox(db, fake_clock), Pigeon(per_chat=3.0, overall=1.0)
    names = [await outbox.put(Outbound(to=to, text="x")) for to in (ADA, ADA, ADA, BOB)]
    began = fake_clock.now()
    async with sending(outbox, pigeon, fake_clock):
        await settled(outbox, fake_clock, *names)
    assert fake_clock.now() - began >= 6


async def test_what_arrived_is_forgotten_after_a_week_and_what_is_held_never(
    db: Database, fake_clock: FakeClock
) -> None:
    outbox, pigeon = Outbox(db, fake_clock), Pigeon(Unsure("cut"))
    held = await outbox.put(Outbound(to=ADA, text="one"))
    async with sending(outbox, pigeon, fake_clock, "hold"):
        await settled(outbox, fake_clock, held)
        sent = await outbox.put(Outbound(to=ADA, text="two"))
        await settled(outbox, fake_clock, sent)
    await fake_clock.advance(8 * 86_400)
    assert await outbox.forget_old() == 1
    assert [entry.id for entry in await outbox.held()] == [held]


@pytest.mark.parametrize("unit", ["utf16", "bytes", "chars"])
def test_texts_are_cut_in_the_platforms_own_unit(unit: str) -> None:
    text = "👩‍👩‍👧 naïve 漢字 " * 400 + "\n```python\n" + "print('👍🏽')\n" * 200 + "```\nend"
    pieces = cut_text(text, 1000, unit)  # type: ignore[arg-type]
    assert all(0 < measure(piece, unit) <= 1000 for piece in pieces)  # type: ignore[arg-type]
    assert all(piece.count("```") % 2 == 0 for piece in pieces)
    assert not any(piece.startswith(("\u200d", "\ufe0f", "🏽")) for piece in pieces)
    assert "".join(pieces).count("👍🏽") == 200
