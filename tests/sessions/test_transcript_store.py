"""Transcripts in the database: the copies of several gateways, and what each does with them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openclaw.core.errors import StateError
from openclaw.sessions.transcript_store import DatabaseTranscripts, decode_stored, encode_stored
from openclaw.storage.database import Database
from tests.databases import open_database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    found = await open_database(tmp_path / "state.sqlite")
    yield found
    await found.close()


class Gateway:
    """One gateway's copies."""

    def __init__(self, db: Database, state: Path) -> None:
        self.store = DatabaseTranscripts(db, state)
        self.path = state / "agents" / "main" / "sessions" / "s1.jsonl"
        self.path.parent.mkdir(parents=True)

    def append(self, *lines: str) -> None:
        with self.path.open("ab") as file:
            file.writelines(line.encode() + b"\n" for line in lines)

    async def write(self, *lines: str) -> None:
        await self.store.begin(self.path)
        self.append(*lines)
        await self.store.save(self.path)

    async def read(self) -> str:
        await self.store.fetch(self.path)
        return self.path.read_text()


@pytest.fixture
def gateways(db: Database, tmp_path: Path) -> tuple[Gateway, Gateway]:
    return Gateway(db, tmp_path / "one"), Gateway(db, tmp_path / "other")


async def test_what_one_has_written_the_other_reads_and_continues(gateways: tuple[Gateway, Gateway]) -> None:
    one, other = gateways
    await one.write('{"a": 1}', '{"b": "ä"}')
    assert await other.read() == '{"a": 1}\n{"b": "ä"}\n'
    await other.write('{"c": 3}')
    assert await one.read() == '{"a": 1}\n{"b": "ä"}\n{"c": 3}\n'
    assert await one.store.sizes() == {one.path: one.path.stat().st_size}


async def test_lines_that_were_not_kept_are_gone_with_the_process_that_wrote_them(
    gateways: tuple[Gateway, Gateway], db: Database
) -> None:
    one, other = gateways
    await one.write('{"a": 1}')
    await one.store.begin(one.path)
    one.append('{"never": "seen"}')  # and the process is killed
    await other.write('{"b": 2}')
    again = Gateway.__new__(Gateway)
    again.store, again.path = DatabaseTranscripts(db, one.path.parents[3]), one.path
    await again.write('{"c": 3}')
    assert await other.read() == await again.read() == '{"a": 1}\n{"b": 2}\n{"c": 3}\n'


async def test_of_two_that_write_one_is_refused_and_nothing_forks(gateways: tuple[Gateway, Gateway]) -> None:
    one, other = gateways
    await one.write('{"a": 1}')
    await one.store.begin(one.path)
    await other.store.begin(other.path)
    one.append('{"one": 2}')
    other.append('{"other": 2}')
    await one.store.save(one.path)
    with pytest.raises(StateError, match="another gateway has written to s1"):
        await other.store.save(other.path)
    await other.write('{"then": 3}')
    assert await one.read() == '{"a": 1}\n{"one": 2}\n{"then": 3}\n'


async def test_a_copy_that_was_changed_by_hand_is_made_anew(gateways: tuple[Gateway, Gateway]) -> None:
    one, _ = gateways
    await one.write('{"a": 1}', '{"b": 2}')
    one.path.write_text('{"a": 1}\n{"b": 3}\n')
    one.store = DatabaseTranscripts(one.store._db, one.path.parents[3])
    assert await one.read() == '{"a": 1}\n{"b": 2}\n'


async def test_a_damaged_transcript_says_so(gateways: tuple[Gateway, Gateway], db: Database) -> None:
    one, other = gateways
    await one.write('{"a": 1}', '{"b": 2}')
    await db.write("UPDATE transcript_lines SET line = '{\"b\": 9}' WHERE seq = 2")
    with pytest.raises(StateError, match="not what was written there"):
        await other.read()


async def test_one_that_was_set_aside_or_removed_is_so_everywhere(gateways: tuple[Gateway, Gateway]) -> None:
    one, other = gateways
    await one.write('{"a": 1}')
    aside = one.path.with_name("s1.jsonl.reset.7")
    await one.store.rename(one.path, aside)
    there = other.path.with_name(aside.name)
    await other.store.fetch(there)
    assert there.read_text() == '{"a": 1}\n'
    await other.store.begin(other.path)
    assert not other.path.exists()
    await other.store.remove(there)
    assert await one.store.sizes() == {}


@pytest.mark.parametrize("line", [b'{"a": 1}\n', b'{"torn', b"\xff\xfe\n", b"no json\n", b'{"nul": "\0"}\n', b"\n"])
def test_a_line_comes_back_byte_for_byte(line: bytes) -> None:
    assert decode_stored(encode_stored(line)) == line
