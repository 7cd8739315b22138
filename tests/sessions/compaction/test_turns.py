"""Conversations that outgrow their model: what people notice, what the model sees, what stays on disk."""

import asyncio
import json

import pytest

from openclaw.core.errors import ConfigError, ContextTooLong, ServerFailed
from openclaw.core.events import AttemptFailed, CompactionEnded, CompactionStarted, MessageEnded
from openclaw.core.messages import User
from openclaw.gateway.app import App
from openclaw.runs.request import RunRequest
from openclaw.sessions.compaction.plan import compactions as count
from openclaw.sessions.compaction.summary import sections_of
from openclaw.sessions.transcript import MessageEntry, pair
from openclaw.testing import Fails, FakeClock, Heard, TemporaryHome, ask, calls, fails, says, stalls
from tests.sessions.compaction.support import Model, compactions, configure, entries, prompt, transcript

pytestmark = pytest.mark.anyio
LONG = "word " * 12_000  # 15,000 tokens
TOO_LONG = "prompt is too long"


def passes(heard: Heard) -> list[CompactionEnded]:
    return [event for event in heard.events if isinstance(event, CompactionEnded)]


async def test_a_conversation_is_compacted_before_the_turn_that_would_not_fit(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), says("two"), says("three"))
        await ask(app, f"first {LONG}")
        assert not passes(await ask(app, f"second {LONG[:30_000]}"))
        heard = await ask(app, f"third {LONG}")
    (done,) = passes(heard)
    assert done.ok and done.reason == "threshold" and done.tokens_after < done.tokens_before
    assert isinstance(heard.events[0], CompactionStarted)
    assert heard.text == "three"
    seen = prompt(model.talk.requests[-1])
    assert seen.startswith("<summary>") and "third word" in seen
    assert len(seen) < len(LONG) + 10_000


async def test_everything_stays_on_disk(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), says("two"))
        await ask(app, f"first {LONG}{LONG}")
        before = transcript(openclaw_home).read_bytes()
        await ask(app, f"second {LONG}")
    assert compactions(openclaw_home)
    assert transcript(openclaw_home).read_bytes().startswith(before)


async def test_a_rule_of_the_first_turn_is_in_the_prompt_after_fifty_compactions(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, keepRecentTokens=500)
    model = Model()
    rule = "Never send anything to my landlord without asking me."
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("Noted."))
        await ask(app, f"Hello. {rule} What is new?")
        for turn in range(50):
            model.talk.script(fails(ContextTooLong(TOO_LONG)), says(f"answer {turn}"))
            heard = await ask(app, f"turn {turn} " + "word " * 1_000)
            assert passes(heard)[0].ok and heard.text == f"answer {turn}"
        model.talk.script(says("bye"))
        await ask(app, "the last")
    assert count(entries(openclaw_home)) >= 50
    assert prompt(model.talk.requests[-1]).count(rule) == 1


async def test_a_prompt_the_model_finds_too_long_is_compacted_and_asked_again(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"))
        await ask(app, f"first {LONG}")
        model.talk.script([says("I beg"), Fails(ContextTooLong(TOO_LONG))], says("two"))
        heard = await ask(app, "second")
    (done,) = passes(heard)
    assert done.ok and done.will_retry and done.reason == "overflow"
    assert heard.text == "two" and heard.end.error is None
    assert [event.reason for event in heard.events if isinstance(event, AttemptFailed)] == ["context_overflow"]
    assert prompt(model.talk.requests[-1]).count("second") == 1
    said = [entry.message.text for entry in entries(openclaw_home) if isinstance(entry, MessageEntry)]
    assert said[2:] == ["second", "two"]


async def test_an_overflow_after_tools_goes_on_without_running_them_again(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    (openclaw_home.workspace / "a.txt").write_text("the file says blue")
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"))
        await ask(app, f"first {LONG}")
        model.talk.script(
            [says("Looking."), calls("read", path="a.txt")], fails(ContextTooLong(TOO_LONG)), says("blue")
        )
        heard = await ask(app, "what does it say?")
    assert heard.text == "blue"
    assert len(heard.results) == 1
    assert [event.message.text for event in heard.events if isinstance(event, MessageEnded)] == ["Looking.", "blue"]
    retried = model.talk.requests[-1].messages
    assert pair(retried).messages == retried
    assert "the file says blue" in prompt(model.talk.requests[-1])
    assert heard.end.turns == 2 and heard.end.usage.output > 0


async def test_the_same_prompt_is_asked_again_only_once(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"))
        await ask(app, f"first {LONG}")
        model.talk.script(fails(ContextTooLong(TOO_LONG)), fails(ContextTooLong(TOO_LONG)))
        heard = await ask(app, "second")
    assert heard.end.error_code == "context_overflow"
    assert len(passes(heard)) == 1 and model.talk.left == 0


async def test_a_message_too_long_for_the_model_alone_is_an_error_that_says_so(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.notes.script(fails(ServerFailed("down")))
        model.talk.script(fails(ContextTooLong(TOO_LONG)))
        heard = await ask(app, "short, but the model says no")
    assert heard.end.error_code == "context_overflow" and TOO_LONG in (heard.end.error or "")


async def test_a_model_that_cannot_summarise_does_not_keep_the_conversation_from_going_on(
    openclaw_home: TemporaryHome,
) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), says("two"))
        await ask(app, f"see /srv/plan.md and never sleep. {LONG}")
        await ask(app, "second")
        model.usual_notes = "I would rather not."
        model.talk.script(fails(ContextTooLong(TOO_LONG)), says("three"))
        heard = await ask(app, "third")
    assert heard.text == "three"
    (entry,) = compactions(openclaw_home)
    assert "could not be summarised" in entry.summary
    assert "/srv/plan.md" in entry.summary and "see /srv/plan.md and never sleep." in entry.summary


async def test_a_poor_summary_is_asked_for_again_with_what_is_missing(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        for number in range(8):
            model.talk.script(says("go on"))
            await ask(app, f"the order is OPS-4711-{number}. {LONG[:4_000]}")
        model.talk.script(fails(ContextTooLong(TOO_LONG)), says("ok"))
        model.notes.script(says("## Decisions\n- some"))
        heard = await ask(app, "second")
    assert passes(heard)[0].ok
    correction = prompt(model.notes.requests[1])
    assert "Exact identifiers" in correction and "OPS-4711" in correction and "not accepted" in correction


async def test_a_summary_that_stays_poor_is_not_written(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), says("two"))
        await ask(app, f"first {LONG}{LONG}")
        model.usual_notes = "no"
        heard = await ask(app, "second")
    (done,) = passes(heard)
    assert not done.ok and "not good enough" in done.error
    assert not compactions(openclaw_home)
    assert heard.text == "two" and "first word" in prompt(model.talk.requests[-1])


async def test_identifiers_the_notes_forget_are_put_beside_them(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), says("two"))
        await ask(app, f"the order is OPS-4711. {LONG}{LONG}")
        await ask(app, f"second {LONG}")
    assert "OPS-4711" in compactions(openclaw_home)[0].summary


async def test_files_worked_on_are_listed(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, keepRecentTokens=0)
    (openclaw_home.workspace / "in.txt").write_text("in")
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script([calls("read", path="in.txt"), calls("write", path="out.txt", content="x")], says("one"))
        await ask(app, f"first {LONG}{LONG}")
        model.talk.script(says("two"))
        await ask(app, f"second {LONG}")
    (entry,) = compactions(openclaw_home)
    assert entry.details["readFiles"] == ["in.txt"] and entry.details["modifiedFiles"] == ["out.txt"]
    assert "<modified-files>\nout.txt" in entry.summary


async def test_a_long_past_is_summarised_piece_by_piece_in_few_calls(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, window=24_000)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        for number in range(3):
            model.talk.script(says(f"answer {number}"))
            await ask(app, f"part {number} {LONG[:55_000] if number < 1 else ''}")
        model.talk.script(fails(ContextTooLong(TOO_LONG)), says("fine"))
        assert (await ask(app, "and now?")).text == "fine"
    asked = [prompt(request) for request in model.notes.requests]
    assert 2 <= len(asked) <= 3
    assert "<notes-so-far>" not in asked[0] and "<notes-so-far>" in asked[1]


async def test_stopping_in_the_middle_of_a_compaction_leaves_everything_as_it_was(
    openclaw_home: TemporaryHome,
) -> None:
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), says("two"))
        await ask(app, f"first {LONG}{LONG}")
        model.notes.script(stalls())
        heard = Heard()
        task = asyncio.create_task(ask(app, "second", into=heard))
        async with asyncio.timeout(120):
            while not model.notes.requests:
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() and not compactions(openclaw_home)
        assert (await ask(app, "again")).text == "two"
    assert compactions(openclaw_home)


async def test_notes_are_written_once_before_a_compaction_and_only_to_the_day(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, memoryFlush={"enabled": True})
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), says("two"), says("three"))
        await ask(app, f"first {LONG}{LONG}")
        model.flush.script(
            [
                calls("append", text="She prefers tea."),
                calls("write", path="SOUL.md", content="mine"),
                calls("exec", command="id"),
            ],
            says("NO_REPLY"),
        )
        heard = await ask(app, "second")
        tools = {spec.name for spec in model.flush.requests[0].tools}
        asked = len(model.flush.requests)
        await ask(app, "third")
    assert heard.text == "two"
    assert tools == {"read", "append"}
    (note,) = (openclaw_home.workspace / "memory").glob("*.md")
    assert note.read_text() == "She prefers tea.\n"
    assert "mine" not in (openclaw_home.workspace / "SOUL.md").read_text()
    assert len(model.flush.requests) == asked
    assert not any("about to be shortened" in json.dumps(str(event)) for event in heard.events)
    assert "about to be shortened" not in transcript(openclaw_home).read_text()


async def test_a_failing_flush_does_not_keep_the_answer_away(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, memoryFlush={"enabled": True})
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), says("two"))
        await ask(app, f"first {LONG}{LONG}")
        model.flush.script(fails(ContextTooLong(TOO_LONG)))
        heard = await ask(app, "second")
    assert heard.text == "two" and passes(heard)[0].ok


async def test_a_window_too_small_for_a_turn_is_refused_with_what_to_do(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, window=3_000)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        with pytest.raises(ConfigError, match=r"window of 3000 tokens.*contextWindow"):
            await ask(app, "hello")
    assert not model.talk.requests


async def test_switched_off_nothing_is_compacted(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, enabled=False)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"), fails(ContextTooLong(TOO_LONG)))
        await ask(app, f"first {LONG}{LONG}")
        heard = await ask(app, "second")
    assert heard.end.error_code == "context_overflow" and not passes(heard)


async def test_between_steps_when_asked_to(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, midTurnPrecheck={"enabled": True})
    (openclaw_home.workspace / "a.txt").write_text("line\n" * 2_000)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"))
        await ask(app, f"first {LONG}{'word ' * 3_000}")
        model.talk.script(*([calls("read", path="a.txt", offset=n + 1)] for n in range(4)), says("read it all"))
        heard = await ask(app, "read it")
    assert heard.text == "read it all" and len(heard.results) == 4
    assert passes(heard) and all(each.ok and each.reason == "threshold" for each in passes(heard))


async def test_old_results_are_shown_shortened_when_the_cache_is_cold(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, window=20_000, pruning={"mode": "cache-ttl", "ttl": "5m"})
    (openclaw_home.workspace / "a.txt").write_text("x" * 79 + "\n" + "line\n" * 1_500)
    clock = FakeClock()
    model = Model()
    async with openclaw_home.assistant(model, clock=clock) as app:
        model.talk.script(*([calls("read", path="a.txt")] for _ in range(4)), says("one"), says("two"), says("three"))
        await ask(app, "read it four times")
        await ask(app, "warm")
        warm = prompt(model.talk.requests[-1])
        await clock.advance(301)
        await ask(app, "cold")
        cold = prompt(model.talk.requests[-1])
    assert "Tool result shortened" not in warm and "Tool result shortened" in cold
    assert transcript(openclaw_home).read_text().count("Tool result shortened") == 0


async def test_a_question_that_was_compacted_away_is_not_asked_twice(openclaw_home: TemporaryHome) -> None:
    """A run that an earlier process began goes on, although its question is out of sight."""
    configure(openclaw_home)
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"))
        await ask(app, f"first {LONG}")
        turn = RunRequest(run_id="r1", key=app.key("main", None), text=f"second {LONG}")
        model.talk.script(fails(ContextTooLong(TOO_LONG)), [stalls()])
        task = asyncio.create_task(_run(app, turn))
        async with asyncio.timeout(120):
            while len(model.talk.requests) < 3:
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        model.talk.script(says("done"))
        await _run(app, turn)
    asked = [entry.message for entry in entries(openclaw_home) if isinstance(entry, MessageEntry)]
    assert sum(isinstance(each, User) and each.text.startswith("second") for each in asked) == 1
    assert asked[-1].text == "done"


async def _run(app: App, turn: RunRequest) -> None:
    async for _ in app.turns.run(turn, app.toolset()):
        pass


async def test_named_sections_of_the_rules_stand_behind_every_summary(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, postCompactionSections=["safety", "Nothing"])
    rules = openclaw_home.workspace / "AGENTS.md"
    rules.write_text("# Rules\n\n## Safety\n\nAsk Ada.\n\n### Doors\n\nLocked.\n\n## Other\n\nSing.\n")
    model = Model()
    async with openclaw_home.assistant(model) as app:
        model.talk.script(says("one"))
        await ask(app, f"first {LONG}")
        assert "Ask Ada." not in prompt(model.talk.requests[-1])
        model.talk.script(fails(ContextTooLong(TOO_LONG)), says("two"))
        await ask(app, "second")
        rules.write_text("## Safety\n\nAsk Bob.\n")
        model.talk.script(says("three"))
        await ask(app, "third")
    after, later = (prompt(request) for request in model.talk.requests[-2:])
    assert "## Safety\n\nAsk Ada.\n\n### Doors\n\nLocked." in after and "Sing." not in after
    assert "Ask Bob." in later and "Ask Ada." not in later


def test_sections_are_found_outside_of_code_and_cut_to_their_limit() -> None:
    text = "## A\n\none\n\n```\n## B\n```\n\n## B #\ntwo\n"
    assert sections_of(text, ["b"], 100) == "## B #\ntwo"
    assert sections_of(text, ["A"], 100) == "## A\n\none\n\n```\n## B\n```"
    assert sections_of(text, ["a", "b"], 9).startswith("## A\n\none\n[…")
