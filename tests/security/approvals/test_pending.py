"""Approvals that wait for a person."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.tool import ApprovalRequest
from openclaw.security.pending import PendingApprovals, unattended
from openclaw.storage.database import Database
from openclaw.testing import FakeClock
from tests.databases import open_database

pytestmark = pytest.mark.anyio


def request(name: str) -> ApprovalRequest:
    return ApprovalRequest(id=name, tool="exec", command="ls", cwd="/", agent_id="main", session_key="agent:main:main")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    found = await open_database(tmp_path / "state.sqlite")
    yield found
    await found.close()


class Desk:
    def __init__(self, db: Database) -> None:
        self.clock = FakeClock()
        self.told: list[Any] = []
        self.approvals = PendingApprovals(
            db,
            self.clock,
            self.told.append,
            lambda question, end: self.told.append((question.request.id, end.decision)),
        )


async def asking(desk: Desk, name: str) -> "asyncio.Task[Any]":
    task = asyncio.create_task(desk.approvals.decide(request(name)))
    while name not in [question.request.id for question in desk.approvals.list()]:
        await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("decision", ["allow-once", "allow-always", "deny"])
async def test_an_answer_reaches_the_one_who_asked(db: Database, decision: str) -> None:
    desk = Desk(db)
    task = await asking(desk, "abcdef12")
    assert desk.approvals.get("abc").request.command == "ls"
    assert (await desk.approvals.resolve("abcd", decision, by="ada")).decision == decision
    answer = await task
    assert (answer.decision, answer.by) == (decision, "ada")
    assert desk.approvals.list() == [] and desk.told[-1] == ("abcdef12", decision)
    with pytest.raises(NotFound, match="already answered"):
        await desk.approvals.resolve("abcdef12", "deny")


async def test_nobody_answering_means_no(db: Database) -> None:
    desk = Desk(db)
    task = await asking(desk, "abcdef12")
    await desk.clock.advance(1801)
    answer = await task
    assert answer.decision == "deny" and "in time" in answer.why
    assert desk.told[-1] == ("abcdef12", "expired")


async def test_a_run_that_ends_takes_its_question_along(db: Database) -> None:
    desk = Desk(db)
    task = await asking(desk, "abcdef12")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert desk.approvals.list() == [] and desk.told[-1] == ("abcdef12", "expired")


async def test_mistakes_are_named(db: Database) -> None:
    desk = Desk(db)
    tasks = [await asking(desk, "aa11"), await asking(desk, "aa22")]
    for wanted, decision, error in (
        ("aa", "deny", InvalidRequest),
        ("zz", "deny", NotFound),
        ("", "deny", NotFound),
        ("aa11", "maybe", InvalidRequest),
    ):
        with pytest.raises(error):
            await desk.approvals.resolve(wanted, decision)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_client_that_has_nobody_to_ask_says_so(db: Database) -> None:
    desk = Desk(db)
    task = await asking(desk, "abcdef12")
    await desk.approvals.decline("abcd", "nobody is at a terminal", by="cli")
    answer = await task
    assert (answer.decision, answer.why, answer.nobody) == ("deny", "nobody is at a terminal", True)
    assert desk.approvals.list() == [] and desk.told[-1] == ("abcdef12", "deny")


async def test_where_nobody_is_nobody_is_asked(db: Database) -> None:
    desk = Desk(db)
    with unattended("nobody can be asked here"):
        answer = await asyncio.create_task(desk.approvals.decide(request("abcdef12")))
    assert answer.decision == "deny" and answer.why.endswith(", and nobody can be asked here")
    assert desk.told == []
