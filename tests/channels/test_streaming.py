"""Answers while they are written: previews that are finished in place, and blocks, over kills and flood waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from openclaw.agent.settings import BlockChunkSettings
from openclaw.channels.blocks import BlockStream, cut_blocks
from openclaw.channels.delivery import Sender
from openclaw.channels.settings import ChannelSettings, DeliverySettings
from openclaw.channels.streaming import ReplyStreams
from openclaw.channels.typing import STUCK_AFTER, TypingNotices
from openclaw.config.schema import Config
from openclaw.core.channel import Address, MessageRefused, Outbound, Platform, TryLater, Unsure
from openclaw.core.events import AttemptFailed, ModelCalled, ToolStarted
from openclaw.core.keys import SessionKey
from openclaw.core.messages import ToolCall
from openclaw.core.settings import Fixed
from openclaw.runs.events import RunAccepted, RunEvent, RunPublisher, RunResumed, RunSettled
from openclaw.runs.inbox import Inbox, RunOutcome
from openclaw.runs.outbox import Outbox
from openclaw.runs.reply import ReplyShaped, TextShaped
from openclaw.runs.request import RunRequest
from openclaw.sessions.reply_text import ReplyPayload
from openclaw.storage.database import Database
from openclaw.testing import FakeClock
from tests.channels.fake_platform import Slate
from tests.databases import open_database

pytestmark = pytest.mark.anyio

KEY = SessionKey("main", "main")
WORDS = "The weather will be fine tomorrow, with some clouds. "


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    found = await open_database(tmp_path / "state.sqlite")
    yield found
    await found.close()


class _Live:
    """The configuration of a test."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.config = msgspec.convert(settings, Config)
        sections = {name: msgspec.convert(each, ChannelSettings) for name, each in settings.get("channels", {}).items()}
        self.config = structs.replace(self.config, channels=sections)


class Talk:
    """Runs that people on a slate asked for, as the worker would tell of them."""

    def __init__(self, db: Database, clock: FakeClock, slate: Slate, **settings: Any) -> None:
        self.clock = clock
        self.slate = slate
        live: Any = _Live(settings)
        self.inbox, self.outbox = Inbox(db, clock), Outbox(db, clock, live=live)
        self.publisher = RunPublisher()
        platforms: dict[tuple[str, str], Platform] = {("slate", "default"): slate}
        self.platforms = platforms
        self.typing = TypingNotices(platforms, self.publisher, clock, Fixed(live.config.agents))
        self.streams = ReplyStreams(self.outbox, platforms, self.publisher, clock, live, jitter=lambda: 0.5)
        channels = Fixed(live.config.channels)
        delivery = Fixed(DeliverySettings())
        self.sender = Sender(self.outbox, platforms, clock, delivery, previews=self.streams, channels=channels)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work()) for work in (self.streams.keep, self.sender.keep, self.typing.keep)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def say(self, run: RunRequest, event: Any) -> None:
        self.publisher(RunEvent(run_id=run.run_id, key=KEY, seq=1, at=0, event=event))

    async def ask(self, name: str = "run", to: str = "ada", *, again: bool = False) -> RunRequest:
        address = Address(channel="slate", to=to)
        run = RunRequest(run_id=name, key=KEY, text="?", reply_to=address, reply_to_id="q1")
        await self.inbox.accept(name, str(KEY), "{}")
        await self.inbox.began(name)
        self.say(run, RunResumed(run) if again else RunAccepted(False, run))
        self.say(run, ModelCalled("mock", "mock-1-20260101", "low"))
        return run

    def write(self, run: RunRequest, text: str) -> None:
        for start in range(0, len(text), 7):
            self.say(run, TextShaped(text[start : start + 7]))

    def finish(self, run: RunRequest, text: str) -> ReplyPayload:
        payload = ReplyPayload(text=text.strip())
        self.say(run, ReplyShaped(text=text, payload=payload))
        return payload

    async def end(self, run: RunRequest, *payloads: ReplyPayload, **more: Any) -> None:
        texts = tuple(each.text for each in payloads)
        outcome = RunOutcome(
            **{
                "status": "ok",
                "stop_reason": "stop",
                "payloads": payloads,
                "texts": texts,
                "provider": "mock",
                "model": "mock-1-20260101",
                "thinking": "low",
                **more,
            }
        )
        writes = self.outbox.end_of_run([run], outcome, run.run_id, str(KEY))
        await self.inbox.ended([run.run_id], "done", outcome, writes)
        await self.outbox.wake()
        self.say(run, RunSettled(outcome))

    async def until(self, seen: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not seen():
                await self.clock.sleep(0.5)

        await self.clock.drive(wait())

    async def quiet(self) -> None:
        """Everything that was to be sent is sent."""

        async def wait() -> None:
            while await self.outbox.first_waiting(list(self.platforms)) or await self.outbox.left_previews():
                await self.clock.sleep(0.5)
            await self.clock.sleep(3.0)

        await self.clock.drive(wait())


async def test_one_message_grows_and_is_finished_in_place(db: Database, fake_clock: FakeClock) -> None:
    talk = Talk(db, fake_clock, Slate())
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: talk.slate.texts() == [WORDS.strip()])
        assert await talk.outbox.preview("run", run.reply_to) == "m1"  # type: ignore[arg-type]
        talk.write(run, WORDS)
        await talk.until(lambda: talk.slate.texts() == [(WORDS * 2).strip()])
        talk.write(run, "End.")
        await talk.end(run, talk.finish(run, WORDS * 2 + "End."))
        await talk.quiet()
    assert talk.slate.texts() == [WORDS * 2 + "End."]
    assert (
        talk.slate.calls[0].reply_to == "q1" and [each.action for each in talk.slate.calls] == ["send"] + ["edit"] * 2
    )
    assert await talk.outbox.preview("run", run.reply_to) is None  # type: ignore[arg-type]


async def test_an_answer_that_is_quick_or_short_has_no_preview(db: Database, fake_clock: FakeClock) -> None:
    talk = Talk(db, fake_clock, Slate())
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.end(run, talk.finish(run, WORDS))
        other = await talk.ask("short")
        talk.write(other, "Hm")
        await talk.quiet()
        await talk.end(other, talk.finish(other, "Hm."))
        await talk.quiet()
    assert [each.action for each in talk.slate.calls] == ["send", "send"]


async def test_a_flood_wait_delays_and_never_drops_or_doubles(db: Database, fake_clock: FakeClock) -> None:
    slate = Slate()
    talk = Talk(db, fake_clock, slate)
    slate.faults = {"edit": [TryLater("flood", after=9.0), TryLater("flood", after=8.0)]}
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: bool(slate.chat))
        talk.write(run, WORDS)
        await talk.until(lambda: len(slate.calls) == 2)
        await talk.end(run, talk.finish(run, WORDS * 3))
        await talk.quiet()
    assert slate.texts() == [(WORDS * 3).strip()]
    assert [each.action for each in slate.calls].count("send") == 1


@pytest.mark.parametrize("actions", [("send", "edit", "delete"), ("send", "edit")])
@pytest.mark.parametrize("how", ["silent", "aborted"])
async def test_a_run_without_an_answer_takes_its_preview_back(
    db: Database, fake_clock: FakeClock, actions: tuple[str, ...], how: str
) -> None:
    talk = Talk(db, fake_clock, Slate(actions=actions))
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: bool(talk.slate.chat))
        if how == "silent":
            talk.say(run, ReplyShaped(silent=True))
            await talk.end(run, silent=True)
        else:
            await talk.end(run, status="error", stop_reason="aborted", error="stopped")
        await talk.quiet()
    stopped = [f"{WORDS.strip()}\n\n(stopped)"]
    assert talk.slate.texts() == (stopped if how == "aborted" else [] if "delete" in actions else ["(no answer)"])
    assert await talk.outbox.left_previews() == []


async def test_what_does_not_fit_comes_at_the_end(db: Database, fake_clock: FakeClock) -> None:
    text = "\n\n".join(f"{number} " + WORDS * 10 for number in range(20))[:10_000].strip()
    talk = Talk(db, fake_clock, Slate())
    async with talk.alive():
        run = await talk.ask()
        for start in range(0, len(text), 2_000):
            talk.write(run, text[start : start + 2_000])
            await fake_clock.drive(fake_clock.sleep(2.0))
        assert len(talk.slate.chat) == 1 and len(talk.slate.texts()[0]) <= 4_000
        await talk.end(run, talk.finish(run, text))
        await talk.quiet()
    assert len(talk.slate.chat) == 3 and "".join(talk.slate.texts()).split() == text.split()


async def test_the_answer_waits_for_a_preview_on_its_way(db: Database, fake_clock: FakeClock) -> None:
    slate = Slate()
    slate.gate = asyncio.Event()
    talk = Talk(db, fake_clock, slate)
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: len(slate.calls) == 1)
        await talk.end(run, talk.finish(run, WORDS + "End."))
        await fake_clock.drive(fake_clock.sleep(5.0))
        assert len(slate.calls) == 1
        slate.gate.set()
        await talk.quiet()
    assert slate.texts() == [WORDS + "End."] and [each.action for each in slate.calls] == ["send", "edit"]


async def test_a_preview_that_somebody_deleted_does_not_take_the_answer_with_it(
    db: Database, fake_clock: FakeClock
) -> None:
    talk = Talk(db, fake_clock, Slate())
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: bool(talk.slate.chat))
        talk.slate.faults = {"edit": [MessageRefused("message to edit not found")]}
        await talk.end(run, talk.finish(run, "Good day."))
        await talk.quiet()
    assert talk.slate.texts()[-1] == "Good day."


@pytest.mark.parametrize("recorded", [True, False])
async def test_a_run_taken_up_after_a_kill_goes_on_in_the_same_message(
    db: Database, fake_clock: FakeClock, recorded: bool
) -> None:
    slate = Slate(idempotent=not recorded)
    killed = Talk(db, fake_clock, slate)
    async with killed.alive():
        run = await killed.ask()
        killed.write(run, WORDS)
        await killed.until(lambda: bool(slate.chat))
    if not recorded:  # it was killed just after the message had left
        await killed.outbox.forget_preview("run", Address(channel="slate", to="ada"))
    talk = Talk(db, fake_clock, slate)
    async with talk.alive():
        run = await talk.ask(again=True)
        talk.write(run, WORDS * 3)
        await talk.until(lambda: slate.texts() == [(WORDS * 3).strip()])
        await talk.end(run, talk.finish(run, WORDS * 4))
        await talk.quiet()
    assert slate.texts() == [(WORDS * 4).strip()]


async def test_an_account_taken_over_goes_on_in_the_message_that_another_node_has_just_sent(
    db: Database, fake_clock: FakeClock
) -> None:
    slate = Slate(idempotent=True)
    killed, talk = Talk(db, fake_clock, slate), Talk(db, fake_clock, slate)
    talk.platforms.clear()
    async with talk.alive():
        async with killed.alive():
            for each in (talk, killed):
                run = await each.ask()
                each.write(run, WORDS)
            await killed.until(lambda: bool(slate.chat))
        await killed.outbox.forget_preview("run", Address(channel="slate", to="ada"))
        talk.platforms["slate", "default"] = slate
        talk.streams.wake()
        talk.write(run, WORDS)
        await talk.until(lambda: slate.texts() == [(WORDS * 2).strip()])
        await talk.end(run, talk.finish(run, WORDS * 3))
        await talk.quiet()
    assert slate.texts() == [(WORDS * 3).strip()]


async def test_what_was_written_while_a_preview_was_in_doubt_is_seen(db: Database, fake_clock: FakeClock) -> None:
    talk = Talk(db, fake_clock, Slate(idempotent=True))
    talk.slate.cuts, talk.slate.gate = 1, asyncio.Event()
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: bool(talk.slate.calls))
        talk.write(run, WORDS)
        talk.slate.gate.set()
        await talk.until(lambda: talk.slate.texts() == [(WORDS * 2).strip()])


async def test_what_a_kill_left_of_a_run_that_had_ended_is_taken_back_at_the_start(
    db: Database, fake_clock: FakeClock
) -> None:
    slate = Slate()
    killed = Talk(db, fake_clock, slate)
    async with killed.alive():
        run = await killed.ask()
        killed.write(run, WORDS)
        await killed.until(lambda: bool(slate.chat))
    await killed.inbox.ended(["run"], "aborted", RunOutcome(status="error", stop_reason="aborted"))
    async with Talk(db, fake_clock, slate).alive():
        await killed.until(lambda: not slate.chat)
    assert slate.texts() == []


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_preview_that_left_without_an_answer_is_not_sent_twice(
    db: Database, fake_clock: FakeClock, idempotent: bool
) -> None:
    talk = Talk(db, fake_clock, Slate(idempotent=idempotent))
    talk.slate.faults = {"send": [Unsure("cut")]}
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: len(talk.slate.calls) == (3 if idempotent else 1))
        await talk.end(run, talk.finish(run, WORDS + "End."))
        await talk.quiet()
    sends = [each for each in talk.slate.calls if each.action == "send"]
    assert talk.slate.texts() == [WORDS + "End."] and len(sends) == 2
    assert (sends[0].key == sends[1].key) == idempotent


async def test_words_before_a_tool_are_a_message_and_the_next_ones_another(db: Database, fake_clock: FakeClock) -> None:
    talk = Talk(db, fake_clock, Slate())
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: bool(talk.slate.chat))
        first = talk.finish(run, WORDS + "Let me look.")
        talk.say(run, ToolStarted(ToolCall(id="1", name="exec", arguments={})))
        await talk.until(lambda: talk.slate.texts() == [WORDS + "Let me look."])
        talk.say(run, ModelCalled("mock", "mock"))
        talk.write(run, "It is sunny there, as far as I can see.")
        await talk.until(lambda: len(talk.slate.chat) == 2)
        await talk.end(run, first, talk.finish(run, "It is sunny there, as far as I can see."))
        await talk.quiet()
    assert talk.slate.texts() == [WORDS + "Let me look.", "It is sunny there, as far as I can see."]


async def test_two_conversations_at_once_see_their_own(db: Database, fake_clock: FakeClock) -> None:
    talk = Talk(db, fake_clock, Slate())
    async with talk.alive():
        ada, bob = await talk.ask("a", "ada"), await talk.ask("b", "bob")
        talk.write(ada, "For Ada: " + WORDS)
        talk.write(bob, "For Bob: " + WORDS)
        await talk.until(lambda: len(talk.slate.chat) == 2)
        await talk.end(bob, talk.finish(bob, "For Bob: done."))
        await talk.end(ada, talk.finish(ada, "For Ada: done."))
        await talk.quiet()
    assert (talk.slate.texts("ada"), talk.slate.texts("bob")) == (["For Ada: done."], ["For Bob: done."])
    assert not [each for each in talk.slate.calls if ("Bob" in each.text) != (each.to.to == "bob")]


async def test_progress_shows_the_tools_and_not_the_words(db: Database, fake_clock: FakeClock) -> None:
    talk = Talk(db, fake_clock, Slate(), channels={"slate": {"streaming": {"mode": "progress"}}})
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        said = talk.finish(run, WORDS)
        talk.say(run, ToolStarted(ToolCall(id="1", name="exec", arguments={"command": "cat secret"})))
        await talk.until(lambda: talk.slate.texts() == ["… exec"])
        await talk.end(run, said)
        await talk.quiet()
    assert talk.slate.texts() == [WORDS.strip()]


BLOCKS = {
    "channels": {"slate": {"streaming": {"block": {"enabled": True}}}},
    "agents": {"defaults": {"blockStreamingChunk": {"minChars": 100, "maxChars": 300}}},
}
LONG = "\n\n".join(f"Paragraph {number}. " + WORDS * 3 for number in range(4)).strip()


async def test_blocks_leave_while_the_rest_is_written_and_the_end_adds_what_is_missing(
    db: Database, fake_clock: FakeClock
) -> None:
    talk = Talk(db, fake_clock, Slate(actions=("send",)), **BLOCKS)
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, LONG[:480])
        await talk.until(lambda: len(talk.slate.chat) == 2)
        talk.write(run, LONG[480:])
        await talk.end(run, talk.finish(run, LONG))
        await talk.quiet()
    assert [text.strip() for text in talk.slate.texts()] == [part.strip() for part in LONG.split("\n\n")]
    assert [each.reply_to for each in talk.slate.calls] == ["q1", None, None, None]


@pytest.mark.parametrize("again", ["killed", "attempt failed"])
async def test_blocks_that_were_sent_are_not_sent_again(db: Database, fake_clock: FakeClock, again: str) -> None:
    slate = Slate(actions=("send",))
    talk = Talk(db, fake_clock, slate, **BLOCKS)
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, LONG[:480])
        await talk.until(lambda: len(slate.chat) == 2)
        if again != "killed":
            talk.say(run, AttemptFailed("mock", "mock", "overloaded", "503"))
            talk.say(run, ModelCalled("mock", "mock"))
            await talk.end(run, talk.finish(run, LONG))
            await talk.quiet()
    if again == "killed":
        talk = Talk(db, fake_clock, slate, **BLOCKS)
        async with talk.alive():
            run = await talk.ask(again=True)
            await talk.end(run, talk.finish(run, LONG))
            await talk.quiet()
    assert [text.strip() for text in slate.texts()] == [part.strip() for part in LONG.split("\n\n")]


async def test_short_texts_wait_for_more_when_set(db: Database, fake_clock: FakeClock) -> None:
    coalesce = {"agents": {"defaults": {"blockStreamingDefault": "on", "blockStreamingCoalesce": {"minChars": 40}}}}
    talk = Talk(db, fake_clock, Slate(actions=("send",)), **coalesce)
    async with talk.alive():
        run = await talk.ask()
        first = talk.finish(run, "Let me look.")
        talk.say(run, ToolStarted(ToolCall(id="1", name="exec", arguments={})))
        talk.say(run, ModelCalled("mock", "mock"))
        await talk.end(run, first, talk.finish(run, "It is sunny."))
        await talk.quiet()
    assert talk.slate.texts() == ["Let me look.\n\nIt is sunny."]


TEXTS = st.lists(
    st.sampled_from(["word ", "A sentence. ", "\n\n", "\n", "```py\n", "```\n", "👩‍👩‍👧", "x" * 70]), max_size=60
)


@given(TEXTS, st.lists(st.integers(1, 200), max_size=30), st.sampled_from(["paragraph", "newline", "sentence"]))
def test_the_same_text_gives_the_same_blocks_however_it_arrives(
    parts: list[str], sizes: list[int], preference: str
) -> None:
    text = "".join(parts)
    chunk = BlockChunkSettings(min_chars=50, max_chars=120, break_preference=preference)  # type: ignore[arg-type]
    blocks, rest = cut_blocks(text, chunk, 4_000, ended=True)
    stream = BlockStream(chunk, 4_000, at_end=False, coalesce=1)
    given, place = [], 0
    for size in sizes:
        given += stream.add(text[place : place + size])
        place += size
    given += stream.end_message(text)
    assert [block for _, block in given] == [*blocks, *([rest] if rest.strip() else [])]
    assert all(len(block) <= 130 for _, block in given)


@pytest.mark.parametrize(("mode", "shown"), [("never", 0), ("instant", 1), ("thinking", 1), ("message", 0)])
async def test_typing_begins_when_it_is_set_to(db: Database, fake_clock: FakeClock, mode: str, shown: int) -> None:
    slate = Slate(typing_every=5.0, actions=("send",))
    talk = Talk(db, fake_clock, slate, agents={"defaults": {"typingMode": mode}})
    async with talk.alive():
        run = RunRequest(run_id="run", key=KEY, text="?", reply_to=Address(channel="slate", to="ada"))
        talk.say(run, RunAccepted(False, run))
        if mode == "instant":
            await talk.until(lambda: bool(slate.calls))
        talk.say(run, ModelCalled("mock", "mock"))
        await fake_clock.advance(1.0)
        assert len(slate.calls) == shown
        talk.say(run, TextShaped("x"))
        await fake_clock.advance(6.0)
        assert (len(slate.calls) > shown) == (mode != "never")
        await fake_clock.advance(STUCK_AFTER + 10)
        before = len(slate.calls)
        await fake_clock.advance(60)
        assert len(slate.calls) == before  # nobody is told that a run which says nothing any more is writing
        talk.say(run, TextShaped("x"))
        await fake_clock.advance(1.0)
        assert (len(slate.calls) > before) == (mode != "never")


class Elsewhere(Talk):
    """The same when another node carries the runs out, and this one has the account."""

    def say(self, run: RunRequest, event: Any) -> None:
        self.publisher.hear_elsewhere(RunEvent(run_id=run.run_id, key=KEY, seq=1, at=0, event=event, node="other"))


async def test_a_run_of_another_node_is_shown_here_and_answered_by_it(db: Database, fake_clock: FakeClock) -> None:
    talk = Elsewhere(db, fake_clock, slate := Slate(typing_every=5.0))
    async with talk.alive():
        run = await talk.ask()
        await talk.until(lambda: bool(slate.calls))
        talk.write(run, WORDS)
        await talk.until(lambda: slate.texts() == [WORDS.strip()])
        await talk.end(run, talk.finish(run, WORDS + "Good night."))
        await talk.quiet()
        assert slate.texts() == [WORDS + "Good night."]


async def test_words_of_a_message_that_has_arrived_are_not_shown_again(db: Database, fake_clock: FakeClock) -> None:
    talk = Elsewhere(db, fake_clock, slate := Slate())
    async with talk.alive():
        run = await talk.ask()
        assert run.reply_to is not None
        # The node of the run has finished a message, and what it says of that is still on its way to us.
        await talk.outbox.put(Outbound(to=run.reply_to, text=WORDS + "So."), "first", run.run_id)
        await talk.until(lambda: slate.texts() == [WORDS + "So."])
        talk.write(run, WORDS)
        await fake_clock.advance(30.0)
        assert slate.texts() == [WORDS + "So."]
        talk.finish(run, WORDS + "So.")
        talk.say(run, ModelCalled("mock", "mock-1-20260101", "low"))
        talk.write(run, "And another one below it, as long.")
        await talk.until(lambda: slate.texts() == [WORDS + "So.", "And another one below it, as long."])


async def test_what_is_left_of_a_run_is_taken_back_although_its_end_was_not_heard(
    db: Database, fake_clock: FakeClock
) -> None:
    talk = Elsewhere(db, fake_clock, slate := Slate(typing_every=5.0))
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: slate.texts() == [WORDS.strip()])
        talk.streams.lose_node("other")
        talk.typing.lose_node("other")
        await fake_clock.advance(1.0)
        told = len(slate.calls)
        talk.write(run, "with a hole in it")
        await fake_clock.advance(30.0)
        assert slate.texts() == [WORDS.strip()]
        await talk.inbox.ended([run.run_id], "aborted", RunOutcome(status="error", stop_reason="aborted"), ())
        await talk.until(lambda: slate.texts() == [])
        assert not any(each.text == "typing" for each in slate.calls[told:])
