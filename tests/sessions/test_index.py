"""The list of sessions: kept in the database, derived from the transcripts."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import parse_session_key
from openclaw.core.messages import Assistant, Cost, Text, Usage, User
from openclaw.sessions.files import TranscriptFile, WriteLocks, iso, load, lock_path
from openclaw.sessions.index import Rebuilt, SessionIndex, SessionRow, with_totals
from openclaw.sessions.transcript import SessionInfo, TranscriptHeader, tally
from openclaw.storage.database import Database
from openclaw.testing import FakeClock
from tests.databases import open_database

pytestmark = pytest.mark.anyio


class Home:
    """A state directory, its index, and a hand that writes transcripts as runs do."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.clock = FakeClock()
        self.db: Database
        self.index: SessionIndex

    async def open(self) -> None:
        self.db = await open_database(self.state / "state" / "openclaw-py.sqlite")
        self.index = SessionIndex(self.db, self.state, self.clock)

    async def forget(self) -> None:
        """Loses the database."""
        await self.db.close()
        (self.state / "state" / "openclaw-py.sqlite").unlink()
        await self.open()

    async def run(self, key: str, question: str, answer: str = "fine", *, end: bool = True) -> SessionRow:
        """One turn, recorded the way `turns` records it."""
        row = await self.index.resolve(parse_session_key(key))
        path = self.index.path(row.agent_id, row.session_id)
        header = TranscriptHeader(id=row.session_id, timestamp=iso(row.created_at / 1000), session_key=row.session_key)
        transcript = TranscriptFile.reopen(path, header)[0] if path.exists() else TranscriptFile.create(path, header)
        run_id = f"run-{self.clock.now()}"
        transcript.say(User(content=question, timestamp=await self._tick()), self.clock.now())
        await self.index.started(row, run_id, question)
        if end:
            usage = Usage(input=10, output=2, cache_read=3, total_tokens=15, cost=Cost(total=0.25))
            said = Assistant(
                content=(Text(answer),), usage=usage, provider="p", model="m", timestamp=await self._tick(), api="a"
            )
            transcript.say(said, self.clock.now())
            await self._tick()
            row = with_totals(row, tally(load(path).entries))
            size = path.stat().st_size
            await self.index.ended(row, run_id, status="done", stop_reason="stop", error="", usage=usage, size=size)
        transcript.close()
        return row

    def write(self, agent: str, name: str, *lines: dict[str, Any] | bytes) -> Path:
        """A file in an agent's sessions directory, as another program might have left it."""
        path = self.state / "agents" / agent / "sessions" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        )
        return path

    async def _tick(self) -> int:
        await self.clock.advance(1.5)
        return round(self.clock.now() * 1000)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    made = Home(tmp_path)
    await made.open()
    yield made
    await made.db.close()


def old(session_id: str, text: str, at: int = 1000) -> tuple[dict[str, Any], ...]:
    """A transcript without a key in its header."""
    message = {"role": "user", "content": text, "timestamp": at}
    return (
        {"type": "session", "version": 3, "id": session_id, "timestamp": "2025-01-01T00:00:00.000Z", "cwd": "/"},
        {"type": "message", "id": "a", "parentId": None, "timestamp": "t", "message": message},
    )


async def keys(home: Home) -> list[str]:
    return [row.session_key for row in await home.index.list()]


# Derived


@pytest.mark.sqlite
async def test_losing_the_database_loses_nothing(home: Home) -> None:
    await home.run("main", "first\nquestion, " + "long " * 30)
    await home.run("agent:ops:telegram:direct:5", "hello")
    await home.run("main", "second question")
    await home.run("matrix:channel:!Room:Server", "in a room")
    before = await home.index.list()
    assert len(before) == 3
    await home.forget()
    rebuilt = await home.index.rebuild()
    assert (rebuilt.read, rebuilt.problems) == (3, ())
    assert await home.index.list() == before
    assert (await home.index.rebuild()).read == 0


async def test_the_list_says_what_the_transcripts_say(home: Home) -> None:
    row = await home.run("main", "question")
    (listed,) = await home.index.list()
    assert listed == SessionRow(
        session_key="agent:main:main",
        agent_id="main",
        session_id=row.session_id,
        title="question",
        status="done",
        created_at=listed.created_at,
        updated_at=listed.updated_at,
        model="m",
        provider="p",
        messages=2,
        input_tokens=10,
        output_tokens=2,
        cache_read_tokens=3,
        context_tokens=13,
        cost_usd=0.25,
    )
    assert listed.total_tokens == 15
    assert listed.created_at < listed.updated_at <= round(home.clock.now() * 1000)


@pytest.mark.sqlite
async def test_a_copied_home_keeps_its_order(home: Home) -> None:
    await home.run("one", "1")
    await home.run("two", "2")
    await home.run("one", "again")
    for path in home.state.glob("agents/*/sessions/*.jsonl"):
        os.utime(path, (5, 5))
    await home.forget()
    await home.index.rebuild()
    assert await keys(home) == ["agent:main:one", "agent:main:two"]


async def test_a_title_stays_until_the_session_is_renamed(home: Home) -> None:
    await home.run("main", "first")
    row = await home.run("main", "second")
    assert [each.title for each in await home.index.list()] == ["first"]
    path = home.index.path("main", row.session_id)
    transcript, _ = TranscriptFile.reopen(path, TranscriptHeader(id="x", timestamp=""))
    transcript.append(SessionInfo(name="Plans"), home.clock.now())
    transcript.close()
    await home.index.rebuild()
    assert [each.title for each in await home.index.list()] == ["Plans"]


async def test_a_key_keeps_its_session_and_a_new_key_gets_one(home: Home) -> None:
    first = await home.index.resolve(parse_session_key("main"))
    assert await home.index.resolve(parse_session_key("main")) == first
    other = await home.index.resolve(parse_session_key("other"))
    assert other.session_id != first.session_id
    assert await home.index.get(parse_session_key("main")) == first
    assert await home.index.get(parse_session_key("nowhere")) is None
    assert await home.index.list() == []  # nothing was said yet


async def test_a_transcript_that_is_gone_leaves_the_list(home: Home) -> None:
    row = await home.run("main", "gone soon")
    await home.run("other", "stays")
    home.index.path("main", row.session_id).unlink()
    await home.index.rebuild()
    assert await keys(home) == ["agent:main:other"]


async def test_what_was_chosen_for_a_session_outlives_its_transcript(home: Home) -> None:
    row = await home.run("main", "gone soon")
    await home.db.write("UPDATE sessions SET settings = :chosen", {"chosen": '{"model":"x"}'})
    await home.run("main", "more")
    home.index.path("main", row.session_id).unlink()
    await home.index.rebuild()
    assert await keys(home) == []
    assert [each["settings"] for each in await home.db.read("SELECT settings FROM sessions")] == ['{"model":"x"}']


@pytest.mark.sqlite
async def test_of_two_transcripts_of_one_key_the_newer_counts_and_the_older_takes_over(home: Home) -> None:
    for name, at in (("bbb", 1000), ("aaa", 2000)):
        header, message = old(name, f"said {name}", at)
        home.write("main", f"{name}.jsonl", {**header, "sessionKey": "agent:main:main"}, message)
    await home.index.rebuild()
    assert [row.session_id for row in await home.index.list()] == ["aaa"]
    home.index.path("main", "aaa").unlink()
    await home.index.rebuild()
    assert [(row.session_id, row.title) for row in await home.index.list()] == [("bbb", "said bbb")]
    await home.forget()
    await home.index.rebuild()
    assert [row.session_id for row in await home.index.list()] == ["bbb"]


# After a crash


async def test_a_run_that_died_is_not_running(home: Home) -> None:
    await home.run("main", "never answered", end=False)
    assert [row.status for row in await home.index.list()] == ["running"]
    await home.index.rebuild()
    assert [(row.status, row.messages) for row in await home.index.list()] == [("killed", 1)]
    assert [row["status"] for row in await home.db.read("SELECT status FROM runs")] == ["killed"]
    assert list(home.state.glob("agents/*/sessions/*.lock")) == []


async def test_a_run_that_lives_is_left_alone(home: Home) -> None:
    row = await home.run("main", "being answered", end=False)
    path = home.index.path("main", row.session_id)
    async with WriteLocks(home.clock).writing(path, "the run"):
        await home.index.rebuild()
        assert [row.status for row in await home.index.list()] == ["running"]
        assert lock_path(path).exists()
    await home.index.rebuild()
    assert [row.status for row in await home.index.list()] == ["killed"]


@pytest.mark.sqlite
async def test_a_torn_transcript_is_listed_with_what_is_whole(home: Home) -> None:
    row = await home.run("main", "whole")
    with home.index.path("main", row.session_id).open("ab") as file:
        file.write(b'{"type":"mess')
    await home.forget()
    await home.index.rebuild()
    assert [(row.title, row.messages) for row in await home.index.list()] == [("whole", 2)]


# An existing home


async def test_the_keys_of_an_existing_home_are_honoured(home: Home) -> None:
    home.write("main", "id-1.jsonl", *old("id-1", "main talk"))
    home.write("main", "id-2.jsonl", *old("id-2", "signal talk"))
    home.write("main", "id-3-topic-7.jsonl", *old("id-3", "topic talk"))
    home.write("main", "id-4.jsonl", *old("id-4", "unknown to it"))
    home.write("main", "custom name.jsonl", *old("id-5", "by its file"))
    home.write("ops", "id-6.jsonl", *old("id-6", "bare key"))
    home.write(
        "main",
        "sessions.json",
        {
            "agent:main:main": {"sessionId": "id-1", "updatedAt": 5, "skillsSnapshot": {"prompt": "…"}},
            "agent:main:signal:group:AbC=": {"sessionId": "id-2"},
            "agent:main:telegram:group:-1:topic:7": {"sessionId": "id-3"},
            "agent:main:telegram:direct:5": {"sessionId": "id-5", "sessionFile": "/old/place/custom name.jsonl"},
            "agent:main:broken": {"sessionId": 5},
            "agent:main:": {"sessionId": "id-4"},
        },
    )
    home.write("ops", "sessions.json", {"main": {"sessionId": "id-6"}})
    rebuilt = await home.index.rebuild()
    assert {row.session_id: row.session_key for row in await home.index.list()} == {
        "id-1": "agent:main:main",
        "id-2": "agent:main:signal:group:AbC=",
        "id-3-topic-7": "agent:main:telegram:group:-1:topic:7",
        "id-4": "agent:main:explicit:id-4",
        "custom name": "agent:main:telegram:direct:5",
        "id-6": "agent:ops:main",
    }
    assert len(rebuilt.problems) == 2
    row = await home.index.resolve(parse_session_key("main"))
    assert row.session_id == "id-1"  # and the conversation goes on where it was


async def test_a_damaged_sessions_json_is_reported(home: Home) -> None:
    home.write("main", "id-1.jsonl", *old("id-1", "talk"))
    home.write("main", "sessions.json", b"{torn")
    rebuilt = await home.index.rebuild()
    assert await keys(home) == ["agent:main:explicit:id-1"]
    (problem,) = rebuilt.problems
    assert "sessions.json cannot be read" in problem


async def test_foreign_files_are_ignored(home: Home) -> None:
    home.write("main", "real.jsonl", *old("real", "talk"))
    home.write("main", "real.jsonl.reset.2025", *old("real", "talk"))
    home.write("main", "real.jsonl.deleted.2025", *old("real", "talk"))
    home.write("main", "real.jsonl.torn-1", b"{")
    home.write("main", "real.trajectory.jsonl", {"event": "x"}, {"type": "span", "id": "1"})
    home.write("main", "notes.txt", b"hello")
    home.write("main", "empty.jsonl")
    home.write("Main Agent!", "x.jsonl", *old("x", "talk"))
    home.write("UPPER", "x.jsonl", *old("x", "talk"))
    (home.state / "agents" / "main" / "sessions" / "directory.jsonl").mkdir()
    (home.state / "agents" / "main" / "sessions" / "dangling.jsonl").symlink_to("nowhere")
    rebuilt = await home.index.rebuild()
    assert await keys(home) == ["agent:main:explicit:real"]
    assert len(rebuilt.problems) == 2  # the directory and the link: they look like transcripts and cannot be read
    assert (await home.index.rebuild()).read == 0


async def test_a_transcript_with_a_hostile_key_stays_out_and_is_reported(home: Home) -> None:
    header, message = old("x", "talk")
    home.write("main", "x.jsonl", {**header, "sessionKey": "agent:../..:main"}, message)
    rebuilt = await home.index.rebuild()
    assert await keys(home) == []
    assert "x.jsonl is not in the list" in rebuilt.problems[0]


async def test_no_transcripts_no_sessions(home: Home) -> None:
    assert await home.index.rebuild() == Rebuilt(0)
    assert await home.index.list() == []


# Finding


@pytest.fixture
async def found(home: Home) -> SessionIndex:
    for name in ("abc1-0000", "abc2-0000", "abc2-0000-topic-7", "Xyz"):
        home.write("main", f"{name}.jsonl", *old(name, name))
    await home.run("telegram:direct:5", "hi")
    await home.index.rebuild()
    return home.index


async def test_a_session_is_found_by_key_id_or_the_start_of_one(found: SessionIndex) -> None:
    for text in ("agent:main:telegram:direct:5", " Telegram:DM:5 "):
        assert (await found.find(text)).title == "hi"
    for text, session_id in (("abc1", "abc1-0000"), ("ABC1-0", "abc1-0000"), ("abc2-0000", "abc2-0000"), ("x", "Xyz")):
        assert (await found.find(text)).session_id == session_id


async def test_a_start_that_fits_several_asks_for_more(found: SessionIndex) -> None:
    with pytest.raises(InvalidRequest, match="fits 3 sessions: give more of the id"):
        await found.find("abc")


async def test_a_session_that_is_not_there_says_how_to_list_them(found: SessionIndex) -> None:
    with pytest.raises(NotFound, match="openclaw sessions list"):
        await found.find("nothing")
    with pytest.raises(InvalidRequest):
        await found.find("  ")


async def test_the_list_can_be_of_one_agent(home: Home) -> None:
    await home.run("agent:ops:main", "ops")
    await home.run("main", "mine")
    assert [row.agent_id for row in await home.index.list(agent_id="ops")] == ["ops"]
    assert [row.agent_id for row in await home.index.list()] == ["main", "ops"]


async def test_what_a_run_used_is_kept(home: Home) -> None:
    await home.run("main", "question")
    (run,) = await home.db.read("SELECT * FROM runs")
    assert (run["status"], run["stop_reason"], run["input_tokens"], run["cost_usd"]) == ("done", "stop", 10, 0.25)
    assert run["started_at"] < run["ended_at"]
