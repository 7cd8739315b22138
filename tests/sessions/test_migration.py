"""Moving the state of an installation: interrupted, repeated, and refused."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openclaw.core.errors import Conflict, StateError
from openclaw.sessions.migration import ELSEWHERE, StoreMigration, table_shapes
from openclaw.storage.database import Database
from openclaw.storage.migrations import STATE_MIGRATIONS
from tests.databases import open_database

pytestmark = pytest.mark.anyio
HEARD = "INSERT INTO heard (channel, account, event_id, at) VALUES ('irc', 'default', :id, 1)"


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    opened = [await open_database(tmp_path / f"{name}.sqlite") for name in ("source", "target")]
    yield opened[0], opened[1]
    for db in opened:
        await db.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (folder / "one.jsonl").write_bytes(b'{"a": 1}\n' * 450 + b'{"torn')
    (folder / "two.jsonl.reset.7").write_bytes(b"\xff\n")
    (tmp_path / "state" / "exec-approvals.json").write_text("{}")
    return tmp_path / "state"


def test_every_table_has_a_key_and_is_moved() -> None:
    shapes = {shape.name: shape for shape in table_shapes()}
    assert all(shape.key for shape in shapes.values())
    made = "".join(statement for migration in STATE_MIGRATIONS for statement in migration.statements)
    assert len(shapes) + len(ELSEWHERE) == made.count("CREATE TABLE")


async def test_an_interrupted_move_goes_on_and_is_the_same_in_the_end(
    pair: tuple[Database, Database], state: Path
) -> None:
    source, target = pair
    await source.write_all(*((HEARD, {"id": f"é{number}"}) for number in range(1_000)))
    move = StoreMigration(state, source, target, to_server=True)

    class Cut(Exception):
        pass

    def cut(what: str, done: int, total: int) -> None:
        if what == "copying transcripts" and done == 1:
            raise Cut

    with pytest.raises(Cut):
        await move.run(cut)
    parts = {part.name: part for part in await move.compare()}
    assert parts["heard"].same and not parts["transcripts"].same
    again = StoreMigration(state, source, target, to_server=True)
    assert all(part.same for part in await again.run())
    back = StoreMigration(state, target, source, to_server=False)
    assert {part.name: part.same for part in await back.compare()}["heard"]


async def test_another_installation_is_not_written_over(pair: tuple[Database, Database], state: Path) -> None:
    source, target = pair
    await source.write(HEARD, {"id": "mine"})
    for name in ("theirs", "and more"):
        await target.write(HEARD, {"id": name})
    with pytest.raises(Conflict, match="another installation"):
        await StoreMigration(state, source, target, to_server=True).run()
    await target.write("DELETE FROM heard WHERE event_id = 'and more'")
    await source.write(HEARD, {"id": "mine too"})
    with pytest.raises(StateError, match="copy of heard is not the same"):
        await StoreMigration(state, source, target, to_server=True).run()
