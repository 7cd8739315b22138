"""Conversations that are held between turns: always what the file says, and nothing that nobody needs."""

import gc
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from openclaw.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from openclaw.sessions.files import TranscriptFile, load
from openclaw.sessions.history import Conversation, ConversationCache, build_conversation, extend_conversation
from openclaw.sessions.transcript import AnyEntry, Compaction, Custom, MessageEntry, ResetEntry, TranscriptHeader

IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.one_of(
    st.builds(User, content=st.text(max_size=3)),
    st.builds(lambda text: Assistant(content=(Text(text),)), st.text(max_size=3)),
    st.builds(lambda ids: Assistant(content=tuple(ToolCall(id=each, name="t") for each in ids)), st.lists(IDS)),
    st.builds(lambda call: ToolResult(tool_call_id=call, tool_name="t", content=(Text("r"),)), IDS),
)
ENTRIES = st.one_of(
    MESSAGES.map(lambda message: MessageEntry(message=message)),
    MESSAGES.map(lambda message: MessageEntry(message=message)),
    st.just(Custom(custom_type="x")),
    st.just(Compaction(summary="s", first_kept_entry_id="1", tokens_before=1)),
    st.just(ResetEntry()),
)


def chained(entries: list[AnyEntry]) -> list[AnyEntry]:
    return [
        structs.replace(entry, id=str(place), parent_id=str(place - 1) if place else None)
        for place, entry in enumerate(entries)
    ]


@given(st.lists(ENTRIES, max_size=12), st.integers(0, 12))
def test_what_is_added_gives_what_reading_all_of_it_gives(entries: list[AnyEntry], at: int) -> None:
    entries = chained(entries)
    before = build_conversation(entries[:at])
    after = extend_conversation(before, entries[at:])
    if after is None:
        return
    whole = build_conversation(entries)
    assert after.leaf == whole.leaf and after.said == whole.said and after.marks == whole.marks
    assert after.context.messages == whole.context.messages
    assert after.context.summary == whole.context.summary
    assert after.context.unanswered == whole.context.unanswered == ()
    assert after.total == whole.total


def test_a_question_and_its_answer_are_simply_added() -> None:
    entries = chained([MessageEntry(message=User(content="?")), MessageEntry(message=Assistant(content=(Text("!"),)))])
    assert extend_conversation(Conversation(), entries) == build_conversation(entries)
    assert (
        extend_conversation(Conversation(), chained([Compaction(summary="", first_kept_entry_id="", tokens_before=1)]))
        is None
    )


def written(path: Path, *messages: Message) -> TranscriptFile:
    transcript = TranscriptFile.create(path, TranscriptHeader(id="s", timestamp="", cwd=""))
    for message in messages:
        transcript.say(message, 0.0)
    return transcript


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    written(path, User(content="hello")).close()
    return path


def held(file: Path, most: int = 1 << 20) -> ConversationCache:
    holding = ConversationCache(most)
    loaded = load(file)
    holding.keep(file, build_conversation(loaded.entries), {entry.id for entry in loaded.entries})
    return holding


def test_what_was_left_is_there_once(file: Path) -> None:
    holding = held(file)
    found = holding.take(file)
    assert found is not None and found.conversation == build_conversation(load(file).entries)
    assert holding.take(file) is None


def test_a_file_that_somebody_else_wrote_to_is_read_again(file: Path) -> None:
    holding = held(file)
    other, _ = TranscriptFile.reopen(file, TranscriptHeader(id="s", timestamp="", cwd=""))
    other.say(User(content="me too"), 0.0)
    other.close()
    assert holding.take(file) is None


def test_a_file_that_was_exchanged_is_read_again(file: Path) -> None:
    holding = held(file)
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    assert holding.take(file) is None


def test_a_file_that_is_gone_is_not_held(file: Path) -> None:
    holding = held(file)
    file.unlink()
    assert holding.take(file) is None


def test_the_longest_unasked_goes_when_there_is_too_much(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for path in paths:
        written(path, User(content="x" * 1000)).close()
    holding = ConversationCache(12_000)
    for path in paths:
        holding.keep(path, build_conversation(load(path).entries), set())
    assert [holding.take(path) is not None for path in paths] == [False, True, True]
    assert holding.memory == 0
    large = tmp_path / "large.jsonl"
    written(large, User(content="x" * 13_000)).close()
    holding.keep(large, build_conversation(load(large).entries), set())
    assert holding.take(large) is None


def test_the_last_conversation_is_held_alone_when_it_is_long(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("short.jsonl", "long.jsonl")]
    holding = ConversationCache(12_000)
    for path, size in zip(paths, (100, 9000), strict=True):
        written(path, User(content="x" * size)).close()
        holding.keep(path, build_conversation(load(path).entries), set())
    assert [holding.take(path) is not None for path in paths] == [False, True]


def test_many_conversations_take_no_more_memory_than_a_few(tmp_path: Path) -> None:
    holding = ConversationCache(100_000)
    tracemalloc.start()
    try:
        taken = []
        for number in range(400):
            path = tmp_path / f"{number}.jsonl"
            written(path, *[User(content=f"message {at} of {number}") for at in range(20)]).close()
            loaded = load(path)
            holding.keep(path, build_conversation(loaded.entries), {entry.id for entry in loaded.entries})
            if number in (99, 399):
                del loaded
                gc.collect()
                taken.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert 50_000 < holding.memory <= 100_000
    assert taken[1] - taken[0] < 50_000, "three hundred conversations later"


def test_going_on_writes_what_reopening_would(file: Path) -> None:
    found = held(file).take(file)
    assert found is not None
    transcript = TranscriptFile(file, found.conversation.leaf, found.ids)
    said = transcript.say(Assistant(content=(Text("yes"),)), 0.0)
    transcript.close()
    assert transcript.added == [said]
    assert [message.text for message in build_conversation(load(file).entries).context.messages] == ["hello", "yes"]
