"""Questions about commands on channels: who is asked, whose press counts, what remains of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from openclaw.channels.approvals import ELSEWHERE, GONE, NOT_OWNER, ChannelApprovals
from openclaw.channels.delivery import Sender
from openclaw.channels.settings import DeliverySettings
from openclaw.config.schema import Config
from openclaw.core.channel import Address, Inbound
from openclaw.core.events import Trigger
from openclaw.core.keys import SessionKey
from openclaw.core.messages import ToolCall
from openclaw.core.settings import Fixed
from openclaw.core.text import make_origin
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest
from openclaw.protocol.events import EventBus
from openclaw.runs.inbox import Inbox
from openclaw.runs.outbox import Outbox
from openclaw.runs.request import RunRequest
from openclaw.security.pending import PendingApprovals, tell_asked, tell_resolved
from openclaw.security.settings import CommandsSettings
from openclaw.storage.database import Database
from openclaw.testing import FakeClock
from tests.channels.fake_platform import Slate
from tests.databases import open_database

pytestmark = pytest.mark.anyio

KEY = SessionKey("main", "main")
OWNER = Address(channel="slate", to="ada")
GROUP = Address(channel="slate", to="club")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    found = await open_database(tmp_path / "state.sqlite")
    yield found
    await found.close()


class Desk:
    """A gateway's approvals, with one account on a slate."""

    def __init__(
        self, db: Database, clock: FakeClock, slate: Slate, *owners: str, client: bool = False, lasts: float = 1_800.0
    ) -> None:
        self.clock, self.slate = clock, slate
        self.bus, self.inbox, self.outbox = EventBus(), Inbox(db, clock), Outbox(db, clock)
        told = partial(tell_asked, self.bus), partial(tell_resolved, self.bus)
        self.questions = PendingApprovals(db, clock, *told, lasts)
        platforms = {("slate", "default"): slate}
        config = Config(commands=CommandsSettings(owner_allow_from=owners or ("slate:ada",)))
        variables = {"MAIL_PASSWORD": "hunter2hunter2"}
        live: Any = SimpleNamespace(config=config, current=SimpleNamespace(variables=variables))
        self.approvals = ChannelApprovals(
            self.questions, self.inbox, self.outbox, platforms, self.bus, live, clock, lambda: client
        )
        self.sender = Sender(self.outbox, platforms, clock, Fixed(DeliverySettings()))

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work()) for work in (self.approvals.keep, self.sender.keep)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def run(self, reply_to: Address | None = OWNER, trigger: Trigger = "user") -> None:
        run = RunRequest(run_id="run", key=KEY, text="?", reply_to=reply_to, trigger=trigger)
        await self.inbox.accept("run", str(KEY), msgspec.json.encode(run).decode())

    def ask(
        self, name: str = "0a1b2c3d", *, standing: bool = True, call: ToolCall | None = None
    ) -> "asyncio.Task[ApprovalAnswer]":
        request = ApprovalRequest(
            id=name,
            tool="exec",
            command="rm -rf `pwd`/old --password hunter2hunter2",
            cwd="/home/ada",
            agent_id="main",
            session_key=str(KEY),
            why="it deletes files",
            origins=(make_origin("external", "https://example.com"),),
            standing=standing,
            run_id="run",
            call=call,
        )
        return asyncio.create_task(self.questions.decide(request))

    async def sees(self, count: int, to: str = "ada") -> list[str]:
        async def wait() -> list[str]:
            while len(self.slate.texts(to)) < count:
                await self.clock.sleep(0.5)
            return self.slate.texts(to)

        return await self.clock.drive(wait())

    async def sees_edit(self, words: str) -> str:
        async def wait() -> str:
            while words not in (text := self.slate.texts()[0]):
                await self.clock.sleep(0.5)
            return text

        return await self.clock.drive(wait())

    async def press(self, label: str, sender: str = "ada", data: str = "") -> str:
        asked = next(each for each in self.slate.calls if each.buttons)
        found = {button.label: button.data for row in asked.buttons for button in row}
        event = Inbound(
            id="p", channel="slate", sender=sender, text="", kind="press", button=data or found[label], press="x"
        )
        await self.approvals.press(event)
        return self.slate.answers[-1][1]


async def test_the_owner_presses_a_button_and_the_question_says_so(db: Database, fake_clock: FakeClock) -> None:
    desk = Desk(db, fake_clock, Slate())
    async with desk.alive():
        await desk.run()
        answer = desk.ask()
        (text,) = await desk.sees(1)
        assert "rm -rf `pwd`/old" in text and "/home/ada" in text and "it deletes files" in text
        assert "https://example.com" in text and "hunter2" not in text and "/approve" not in text
        row = desk.slate.calls[0].buttons[0]
        assert [button.label for button in row] == ["Allow once", "Always", "Deny"]
        assert all(len(button.data.encode()) <= 64 for button in row)
        assert await desk.press("Allow once", sender="eve") == NOT_OWNER
        assert await desk.press("", data=row[0].data.replace(row[0].data.split(":")[2], "00000000")) == GONE
        assert await desk.press("", data="approve:") == GONE
        assert not answer.done()
        assert await desk.press("Allow once") == "Allowed once."
        assert (await answer).decision == "allow-once"
        assert await desk.press("Deny") == "Already answered: Allowed once."
        ended = await desk.sees_edit("Allowed once by slate:ada.")
        assert "rm -rf" in ended and len(desk.slate.chat) == 1
        assert next(iter(desk.slate.chat.values())).buttons == ()


async def test_without_buttons_and_edits_the_text_says_how_to_answer(db: Database, fake_clock: FakeClock) -> None:
    desk = Desk(db, fake_clock, Slate(buttons=False, actions=("send",)))
    async with desk.alive():
        await desk.run()
        answer = desk.ask(standing=False)
        (text,) = await desk.sees(1)
        assert text.endswith("/approve 0a1b2c3d allow-once\n/approve 0a1b2c3d deny")
        await desk.questions.resolve("0a1b2c3d", "deny", by="chat")
        assert (await answer).decision == "deny"
        assert (await desk.sees(2))[1] == "Approval 0a1b2c3d: Denied."


@pytest.mark.parametrize("how", ["expired", "ended"])
async def test_a_question_nobody_answered_says_so(db: Database, fake_clock: FakeClock, how: str) -> None:
    desk = Desk(db, fake_clock, Slate(), lasts=20.0)
    async with desk.alive():
        await desk.run()
        answer = desk.ask()
        await desk.sees(1)
        if how == "expired":
            assert (await fake_clock.drive(answer)).nobody
            await desk.sees_edit("Not answered in time: denied.")
        else:
            answer.cancel()
            await desk.sees_edit("No longer waiting: the run has ended.")


async def test_a_group_hears_only_that_the_owner_is_asked(db: Database, fake_clock: FakeClock) -> None:
    desk = Desk(db, fake_clock, Slate())
    async with desk.alive():
        await desk.run(GROUP)
        answer = desk.ask()
        await desk.sees(1)
        assert await desk.sees(1, "club") == [ELSEWHERE]
        await desk.press("Deny")
        assert (await answer).decision == "deny"


async def test_after_a_restart_an_old_question_waits_no_longer(db: Database, fake_clock: FakeClock) -> None:
    slate = Slate()
    desk = Desk(db, fake_clock, slate)
    async with desk.alive():
        await desk.run()
        answer = desk.ask()
        await desk.sees(1)
    again = Desk(db, fake_clock, slate)
    async with again.alive():
        await again.sees_edit("No longer waiting: the gateway was restarted.")
        assert await again.press("Allow once") == GONE
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)


@pytest.mark.parametrize(
    ("owner", "client", "asked", "denied"),
    [
        ("slate:ada", False, True, False),
        ("slate:ada", True, True, False),  # shown in the client too: the first answer counts
        ("other:ada", True, False, False),
        ("other:ada", False, False, True),
        ("*", False, False, True),
    ],
)
async def test_who_is_asked_when_no_channel_started_the_run(
    db: Database, fake_clock: FakeClock, owner: str, client: bool, asked: bool, denied: bool
) -> None:
    desk = Desk(db, fake_clock, Slate(), owner, client=client)
    async with desk.alive():
        await desk.run(None)
        answer = desk.ask()
        if asked:
            await desk.sees(1)
        await fake_clock.drive(fake_clock.sleep(2.0))
        assert bool(desk.slate.chat) == asked and answer.done() == denied
        if denied:
            found = await answer
            assert found.nobody and "commands.ownerAllowFrom" in found.why
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
