"""Transcripts on disk: every version, every kind of damage, and appending that never rewrites."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest, NotFound, StateError
from openclaw.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User
from openclaw.sessions.files import MAX_LINE_BYTES, TranscriptFile, decode_line, iso, load
from openclaw.sessions.transcript import (
    Compaction,
    CustomMessage,
    Leaf,
    MessageEntry,
    SessionInfo,
    TranscriptHeader,
    UnknownEntry,
    build_context,
)

HEADER = TranscriptHeader(id="s1", timestamp="2026-01-02T03:04:05.000Z", cwd="/w", session_key="agent:main:main")
NOW = 1_800_000_000.0


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def texts(path: Path) -> list[str]:
    return [message.text for message in build_context(load(path).entries).messages]


def kinds(path: Path) -> list[str]:
    return [problem.kind for problem in load(path).problems]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "s1.jsonl"


@pytest.fixture
def written(path: Path) -> Path:
    """A file with two messages."""
    transcript = TranscriptFile.create(path, HEADER)
    transcript.say(User(content="one"), NOW)
    transcript.say(Assistant(content=(Text("two"),)), NOW)
    transcript.close()
    return path


def again(path: Path, *messages: str) -> None:
    transcript, _ = TranscriptFile.reopen(path, HEADER)
    for message in messages:
        transcript.say(User(content=message), NOW)
    transcript.close()


# What is written


def test_the_file_says_what_the_format_asks_for(path: Path) -> None:
    transcript = TranscriptFile.create(path, HEADER)
    transcript.say(User(content="hi", timestamp=5), NOW)
    transcript.say(Assistant(content=(ToolCall(id="c", name="t", arguments={"x": 1}),), stop_reason="toolUse"), NOW)
    transcript.say(ToolResult(tool_call_id="c", tool_name="t", content=(Text("ok"),)), NOW)
    transcript.say(Assistant(content=(Text("done"),)), NOW)
    transcript.close()
    header, *entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert header == {
        "type": "session",
        "version": 3,
        "id": "s1",
        "timestamp": "2026-01-02T03:04:05.000Z",
        "cwd": "/w",
        "sessionKey": "agent:main:main",
    }
    assert [entry["type"] for entry in entries] == ["message"] * 4
    assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]
    assert all(len(entry["id"]) == 8 and entry["timestamp"] == iso(NOW) for entry in entries)
    user, call, result, answer = [entry["message"] for entry in entries]
    assert user == {"role": "user", "content": "hi", "timestamp": 5}
    assert (call["stopReason"], answer["stopReason"], result["isError"]) == ("toolUse", "stop", False)
    assert {"api", "provider", "model", "usage", "timestamp", "content"} <= answer.keys()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


MESSAGES: list[Message] = [
    User(content="plain"),
    User(content=(Text("ä😀\u2028"), Image(data="QUJD", mime_type="image/png")), timestamp=7, idempotency_key="k"),
    Assistant(content=(Thinking("hm", "sig"), Text("a", "ts"), ToolCall(id="c", name="t", arguments={"a": [1, None]}))),
    Assistant(stop_reason="error", error_message="boom", provider="p", model="m"),
    ToolResult(tool_call_id="c", tool_name="t", content=(Text(""),), details={"k": 1}, is_error=True, timestamp=9),
]


def test_what_was_said_comes_back_as_it_was(path: Path) -> None:
    transcript = TranscriptFile.create(path, HEADER)
    placed = [transcript.say(message, NOW) for message in MESSAGES]
    transcript.sync()
    transcript.close()
    loaded = load(path)
    assert loaded.entries == tuple(placed)
    assert [entry.message for entry in placed] == MESSAGES
    assert loaded.problems == ()
    assert loaded.good_bytes == path.stat().st_size
    assert (loaded.header.version, loaded.header.id) == (3, "s1") if loaded.header else False


@pytest.mark.parametrize(
    ("lines_there", "broken", "said"),
    [
        (b"{%b\n\n{%b\n", 0, ["one", "two"]),
        (b"{%b{%b\n", 1, []),
        (b"{%b\n{\n%b\n", 2, ["one"]),
    ],
)
def test_a_line_is_an_entry_also_where_the_whole_would_be_well_formed(
    written: Path, lines_there: bytes, broken: int, said: list[str]
) -> None:
    header, one, two = written.read_bytes().splitlines()
    written.write_bytes(header + b"\n" + lines_there % (one[1:], two[1:]))
    assert kinds(written) == ["unreadable"] * broken
    assert texts(written) == said


def test_appending_never_rewrites_earlier_bytes(written: Path) -> None:
    for number in range(5):
        before = written.read_bytes()
        again(written, f"more {number}")
        assert written.read_bytes().startswith(before)
    assert texts(written) == ["one", "two", *(f"more {number}" for number in range(5))]


def test_an_existing_file_is_not_created_again(written: Path) -> None:
    before = written.read_bytes()
    with pytest.raises(StateError, match="cannot open"):
        TranscriptFile.create(written, HEADER)
    assert written.read_bytes() == before


def test_a_closed_transcript_refuses_and_closing_twice_is_harmless(written: Path) -> None:
    transcript, _ = TranscriptFile.reopen(written, HEADER)
    transcript.close()
    transcript.close()
    with pytest.raises(RuntimeError):
        transcript.say(User(content="late"), NOW)


def test_half_a_character_is_refused_and_nothing_written(written: Path) -> None:
    before = written.read_bytes()
    transcript, _ = TranscriptFile.reopen(written, HEADER)
    with pytest.raises(InvalidRequest, match="UTF-8"):
        transcript.say(User(content="\udcff"), NOW)
    transcript.close()
    assert written.read_bytes() == before


def test_rewinding_lasts_over_a_restart(written: Path) -> None:
    first = load(written).entries[0].id
    transcript, _ = TranscriptFile.reopen(written, HEADER)
    transcript.append(Leaf(target_id=first), NOW)
    assert transcript.say(User(content="first try"), NOW).parent_id == first
    transcript.append(Leaf(target_id=first), NOW)
    transcript.close()
    assert texts(written) == ["one"]
    again(written, "instead")
    assert texts(written) == ["one", "instead"]
    transcript, _ = TranscriptFile.reopen(written, HEADER)
    transcript.append(Leaf(target_id=None), NOW)
    transcript.say(User(content="from the start"), NOW)
    transcript.close()
    assert texts(written) == ["from the start"]


# Every version


def message(role: str, text: str, **more: Any) -> dict[str, Any]:
    content: Any = text if role == "user" else [{"type": "text", "text": text}]
    return {"role": role, "content": content, "timestamp": 1, **more}


V1 = lines(
    {"type": "session", "id": "old", "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/w", "provider": "p"},
    {"type": "message", "timestamp": "2025-01-01T00:00:01.000Z", "message": message("user", "first")},
    {"type": "message", "timestamp": "2025-01-01T00:00:02.000Z", "message": message("assistant", "second")},
    {"type": "model_change", "timestamp": "2025-01-01T00:00:03.000Z", "provider": "p", "modelId": "m"},
    {"type": "message", "timestamp": "2025-01-01T00:00:04.000Z", "message": message("user", "third")},
)


def test_a_linear_file_is_read_and_continued(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(V1)
    assert load(path).problems == ()
    assert texts(path) == ["first", "second", "third"]
    again(path, "fourth")
    again(path, "fifth")
    assert texts(path) == ["first", "second", "third", "fourth", "fifth"]
    assert path.read_bytes().startswith(V1)
    context = build_context(load(path).entries)
    assert context.problems == ()


def test_a_linear_compaction_names_its_first_entry_by_place(path: Path) -> None:
    path.parent.mkdir()
    compaction = {"type": "compaction", "timestamp": "x", "summary": "sum", "firstKeptEntryIndex": 2, "tokensBefore": 9}
    path.write_bytes(V1 + lines(compaction, {"type": "message", "message": message("user", "fourth")}))
    context = build_context(load(path).entries)
    assert context.summary == "sum"
    assert [each.text for each in context.messages] == ["second", "third", "fourth"]


def test_version_two_is_a_tree(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(
        lines(
            {"type": "session", "version": 2, "id": "s", "timestamp": "t", "cwd": "/"},
            {"type": "message", "id": "a", "parentId": None, "timestamp": 5, "message": message("user", "q")},
            {"type": "message", "id": "b", "parentId": "a", "timestamp": 5.5, "message": message("assistant", "left")},
            {
                "type": "message",
                "id": "h",
                "parentId": "a",
                "timestamp": "t",
                "message": message("hookMessage", "hook"),
            },
            {"type": "message", "id": "c", "parentId": "h", "timestamp": "t", "message": message("assistant", "right")},
        )
    )
    assert texts(path) == ["q", "right"]
    assert load(path).problems == ()


def test_version_three_with_everything_in_it(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(
        lines(
            {"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/", "parentSession": "p"},
            {"type": "thinking_level_change", "id": "1", "parentId": None, "timestamp": "t", "thinkingLevel": "high"},
            {
                "type": "message",
                "id": "2",
                "parentId": "1",
                "timestamp": "t",
                "message": message("user", "hidden", __openclaw={"senderIsOwner": True}),
            },
            {"type": "message", "id": "3", "parentId": "2", "timestamp": "t", "message": message("assistant", "kept")},
            {
                "type": "compaction",
                "id": "4",
                "parentId": "3",
                "timestamp": "t",
                "summary": "sum",
                "firstKeptEntryId": "3",
                "tokensBefore": 100,
                "details": {"readFiles": [], "modifiedFiles": []},
                "fromHook": False,
            },
            {
                "type": "custom_message",
                "id": "5",
                "parentId": "4",
                "timestamp": "t",
                "customType": "x",
                "content": [{"type": "text", "text": "note"}],
                "display": True,
                "details": {"a": 1},
            },
            {
                "type": "branch_summary",
                "id": "6",
                "parentId": "5",
                "timestamp": "t",
                "fromId": "3",
                "summary": "branch",
            },
            {"type": "label", "id": "7", "parentId": "6", "timestamp": "t", "targetId": "3", "label": None},
            {"type": "session_info", "id": "8", "parentId": "7", "timestamp": "t", "name": "Name"},
            {"type": "custom", "id": "9", "parentId": "8", "timestamp": "t", "customType": "y", "data": [1]},
        )
    )
    context = build_context(load(path).entries)
    assert (context.summary, context.problems) == ("sum", ())
    assert [each.text.splitlines()[-1] for each in context.messages] == ["kept", "note", "branch"]


def test_version_four_has_long_ids_resets_and_leaves(path: Path) -> None:
    one, two, three = "0190a0a0-0000-7000-8000-000000000001", "0190-2", "0190-3"
    path.parent.mkdir()
    path.write_bytes(
        lines(
            {"type": "session", "version": 4, "id": "s", "timestamp": "t", "cwd": "/"},
            {
                "type": "custom",
                "id": "c",
                "parentId": None,
                "timestamp": "t",
                "customType": "model-snapshot",
                "data": {},
            },
            {"type": "message", "id": one, "parentId": "c", "timestamp": "t", "message": message("user", "old")},
            {"type": "reset", "id": "r", "parentId": one, "timestamp": "t"},
            {"type": "message", "id": two, "parentId": "r", "timestamp": "t", "message": message("user", "new")},
            {"type": "message", "id": three, "parentId": two, "timestamp": "t", "message": message("user", "undone")},
            {"type": "leaf", "id": "l", "parentId": three, "timestamp": "t", "targetId": two},
        )
    )
    assert load(path).problems == ()
    assert texts(path) == ["new"]
    again(path, "next")
    assert texts(path) == ["new", "next"]


# What other programs wrote


def entry(**fields: Any) -> bytes:
    return json.dumps({"id": "e", "parentId": None, "timestamp": "t", **fields}).encode()


def test_an_unknown_kind_keeps_its_place_without_a_word(path: Path) -> None:
    value, trouble = decode_line(entry(type="from_the_future", payload={"a": [1]}))
    assert (value, trouble) == (UnknownEntry(type="from_the_future", id="e", parent_id=None), "")
    value, trouble = decode_line(entry(type="message", message={"role": "bashExecution", "command": "ls"}))
    assert (type(value), trouble) == (UnknownEntry, "")


def test_unknown_blocks_are_left_out(path: Path) -> None:
    content = [{"type": "hologram", "x": 1}, {"type": "text", "text": "here"}, 7]
    for role, more in (("user", {}), ("assistant", {}), ("toolResult", {"toolCallId": "c", "toolName": "t"})):
        value, trouble = decode_line(entry(type="message", message={"role": role, "content": content, **more}))
        assert isinstance(value, MessageEntry)
        assert (value.message.text, trouble) == ("here", "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"stopReason": "tired"},
        {"usage": {"input": "many"}},
        {"timestamp": "yesterday"},
        {"content": [{"type": "toolCall", "id": 5, "name": "t"}, {"type": "text", "text": "said"}]},
        {"content": "said"},
        {"responseId": 5},
    ],
)
def test_a_message_with_a_strange_field_still_speaks_and_is_reported(wrong: dict[str, Any]) -> None:
    told = {"role": "assistant", "content": [{"type": "text", "text": "said"}], "timestamp": 1, "model": "m", **wrong}
    value, trouble = decode_line(entry(type="message", message=told))
    assert isinstance(value, MessageEntry)
    assert (value.id, value.message.text) == ("e", "said")
    assert "message" in trouble


def test_a_known_kind_that_cannot_be_read_keeps_its_place_and_is_reported(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(
        lines({"type": "session", "version": 3, "id": "s", "timestamp": "t"})
        + entry(type="message", message=message("user", "before"))
        + b"\n"
        + json.dumps({"type": "compaction", "id": "k", "parentId": "e", "summary": 5}).encode()
        + b"\n"
        + json.dumps({"type": "message", "id": "f", "parentId": "k", "message": message("user", "after")}).encode()
        + b"\n"
    )
    assert texts(path) == ["before", "after"]
    assert [(problem.kind, problem.detail[:7]) for problem in load(path).problems] == [("unreadable", "line 3:")]


def test_half_an_emoji_does_not_cost_the_message() -> None:
    raw = entry(type="message", message={"role": "user", "content": "cut \ud83d", "timestamp": 1})
    assert b"\\ud83d" in raw
    value, _ = decode_line(raw)
    assert isinstance(value, MessageEntry)
    assert value.message.text == "cut ?"


def test_bytes_that_are_no_text_do_not_cost_the_message() -> None:
    value, _ = decode_line(entry(type="message", message=message("user", "a?b")).replace(b"a?b", b"a\xffb"))
    assert isinstance(value, MessageEntry)
    assert value.message.text == "a\ufffdb"


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode()))
def test_no_line_makes_the_reader_fall_over(line: bytes) -> None:
    value, _ = decode_line(line)
    assert value is None


def test_a_deeply_nested_line_is_unreadable_and_no_crash() -> None:
    assert decode_line(b'{"type":"custom","customType":"x","data":' + b"[" * 100_000) == (None, "")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
field_names = st.sampled_from(
    "id parentId timestamp message summary firstKeptEntryId firstKeptEntryIndex targetId content customType".split()
)
entry_kinds = st.sampled_from("session message compaction custom_message leaf reset label session_info other".split())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(entry_kinds, st.dictionaries(field_names, json_values)), max_size=6))
def test_any_objects_make_a_conversation_or_a_report(tmp_path: Path, values: list[tuple[str, dict[str, Any]]]) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(lines(*({**fields, "type": kind} for kind, fields in values)))
    loaded = load(path)
    build_context(loaded.entries)
    assert loaded.good_bytes == path.stat().st_size


# After a crash


def test_a_torn_last_line_is_set_aside_at_every_byte(written: Path) -> None:
    whole = written.read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    for cut in range(start + 1, len(whole) - 1):
        written.write_bytes(whole[:cut])
        assert (texts(written), kinds(written)) == (["one"], ["torn"])
        assert written.read_bytes() == whole[:cut], "reading repairs nothing"
        again(written, "next")
        assert (texts(written), kinds(written)) == (["one", "next"], [])
        aside = written.with_name(written.name + ".torn-1")
        assert aside.read_bytes() == whole[start:cut]
        assert written.read_bytes().startswith(whole[:start])
        aside.unlink()


def test_a_last_line_that_only_lacks_its_end_is_kept(written: Path) -> None:
    whole = written.read_bytes()
    written.write_bytes(whole[:-1])
    assert (texts(written), kinds(written)) == (["one", "two"], [])
    again(written, "three")
    assert written.read_bytes().startswith(whole)
    assert (texts(written), kinds(written)) == (["one", "two", "three"], [])
    assert list(written.parent.iterdir()) == [written]


def test_each_torn_piece_has_a_file_of_its_own(written: Path) -> None:
    for piece in (b'{"type":"mess', b"\x00\x00\x00", b"\xff"):
        with written.open("ab") as file:
            file.write(piece)
        again(written)
    assert sorted(file.name for file in written.parent.iterdir()) == [
        "s1.jsonl",
        "s1.jsonl.torn-1",
        "s1.jsonl.torn-2",
        "s1.jsonl.torn-3",
    ]
    assert texts(written) == ["one", "two"]


@pytest.mark.parametrize("left", [b"", b'{"type":"sess'])
def test_a_file_whose_writer_died_before_the_header_gets_one(path: Path, left: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(left)
    again(path, "hello")
    loaded = load(path)
    assert loaded.header is not None
    assert loaded.header.session_key == "agent:main:main"
    assert texts(path) == ["hello"]


def test_an_unreadable_line_in_the_middle_is_reported_and_hides_nothing(written: Path) -> None:
    rows = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(rows[0] + b"\x00garbage{\n\n" + rows[1] + b'{"type":"message","id":"x","me\n' + rows[2])
    assert texts(written) == ["one", "two"]
    assert [problem.detail[:6] for problem in load(written).problems] == ["line 2", "line 5"]
    again(written, "three")
    assert texts(written) == ["one", "two", "three"]


def test_a_lost_line_in_the_middle_hides_nothing_before_it(written: Path) -> None:
    again(written, "three")
    rows = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(rows[0] + rows[1] + b"XX" + rows[2] + rows[3])
    assert texts(written) == ["one", "three"]
    context = build_context(load(written).entries)
    assert [problem.kind for problem in (*load(written).problems, *context.problems)] == ["unreadable", "missing"]


def test_a_line_too_long_to_read_is_not_written_and_is_skipped(path: Path) -> None:
    transcript = TranscriptFile.create(path, HEADER)
    transcript.say(User(content="one"), NOW)
    with pytest.raises(InvalidRequest, match="too large"):
        transcript.say(User(content="x" * MAX_LINE_BYTES), NOW)
    transcript.close()
    with path.open("r+b") as file:
        file.seek(MAX_LINE_BYTES + 5, os.SEEK_END)
        file.write(b"\n")
    again(path, "two")
    loaded = load(path)
    assert [problem.kind for problem in loaded.problems] == ["unreadable"]
    assert [message.text for message in build_context(loaded.entries).messages] == ["one", "two"]


def test_a_missing_transcript_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no transcript at"):
        load(tmp_path / "none.jsonl")
    (tmp_path / "dir.jsonl").mkdir()
    with pytest.raises(StateError, match="cannot read"):
        load(tmp_path / "dir.jsonl")


# A full disk

FULL = """
import resource, sys
from pathlib import Path
from openclaw.core.errors import StateError
from openclaw.core.messages import User
from openclaw.sessions.files import TranscriptFile as Transcript
from openclaw.sessions.transcript import TranscriptHeader as Header
path, room = Path(sys.argv[1]), int(sys.argv[2])
header = Header(id="s1", timestamp="t")
resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
try:
    transcript = Transcript.reopen(path, header)[0] if path.exists() else Transcript.create(path, header)
    transcript.say(User(content="x" * 2000), 1.0)
except StateError as error:
    print(error)
"""


def on_a_full_disk(path: Path, room: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(room)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_leaves_the_file_as_it_was(written: Path) -> None:
    before = written.read_bytes()
    for room in (len(before), len(before) + 100):
        assert "Nothing was changed; free some space" in on_a_full_disk(written, room)
        assert written.read_bytes() == before


def test_a_full_disk_leaves_no_new_file_without_a_header(path: Path) -> None:
    assert "Nothing was changed" in on_a_full_disk(path, 10)
    assert not path.exists()


def test_a_full_disk_keeps_a_torn_end_where_it_is(written: Path) -> None:
    with written.open("ab") as file:
        file.write(b'{"torn')
    before = written.read_bytes()
    assert "Nothing was changed" in on_a_full_disk(written, 3)
    assert written.read_bytes() == before
    assert list(written.parent.iterdir()) == [written]


# Killed


def test_killed_at_any_moment_every_finished_line_is_there(path: Path) -> None:
    code = """
import sys
from pathlib import Path
from openclaw.core.messages import User
from openclaw.sessions.files import TranscriptFile as Transcript
from openclaw.sessions.transcript import TranscriptHeader as Header
transcript = Transcript.create(Path(sys.argv[1]), Header(id="s1", timestamp="t"))
for number in range(100_000):
    transcript.say(User(content=f"{number} " + "x" * 3000), 1.0)
    if number % 50 == 0:
        print(number, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reached = 0
        while reached < 150:
            reached = int(process.stdout.readline())
        process.kill()
    again(path, "after")
    said = texts(path)
    assert [text.split()[0] for text in said[:-1]] == [str(number) for number in range(len(said) - 1)]
    assert (len(said) - 1 > reached, said[-1]) == (True, "after")


# Size


def test_loading_ten_thousand_entries_takes_ten_times_as_long_as_a_thousand(tmp_path: Path) -> None:
    def cost(count: int) -> float:
        path = tmp_path / f"{count}.jsonl"
        transcript = TranscriptFile.create(path, HEADER)
        for number in range(count):
            transcript.say(User(content=f"message {number}"), NOW)
        transcript.close()
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            assert len(build_context(load(path).entries).messages) == count
            best = min(best, time.process_time() - start)
        return best / count

    assert cost(10_000) < 3 * cost(1_000)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_descriptor_is_left_open(written: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        again(written, "x")
        with pytest.raises(StateError):
            TranscriptFile.create(written, HEADER)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_other_kinds_of_entries_are_written_too(written: Path) -> None:
    transcript, _ = TranscriptFile.reopen(written, HEADER)
    kept = transcript.append(CustomMessage(custom_type="note", content="n"), NOW)
    transcript.append(SessionInfo(name="Name"), NOW)
    compaction = transcript.append(Compaction(summary="s", first_kept_entry_id=kept.id, tokens_before=5), NOW)
    transcript.close()
    assert load(written).entries[-1] == compaction
    assert b"firstKeptEntryIndex" not in written.read_bytes()
    assert texts(written) == ["n"]
