"""A mailbox by itself: what the server may do to it, and what it does not do to others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from openclaw.channels.email.channel import MOST_AN_HOUR, MOST_FAILURES, Email
from openclaw.channels.email.settings import EmailSettings, SenderAuthSettings
from openclaw.core.channel import AccountClosed, Address, Inbound, MessageRefused, Outbound, TryLater
from openclaw.core.secret import Secret
from openclaw.process.tasks import SystemClock
from tests.channels.email.server import ADA, ADDRESS, AUTHSERV, PASSWORD, MailboxServer
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


class Heard:
    """What was handed over, and the place to go on from."""

    def __init__(self) -> None:
        self.events: list[Inbound] = []
        self.cursor: str | None = None

    def connected(self) -> None: ...

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None:
        self.events += events
        self.cursor = cursor or self.cursor


def mailbox(box: MailboxServer, password: str = PASSWORD, size: int = 20) -> Email:
    section = box.section
    settings = EmailSettings(
        address=ADDRESS,
        imap=section["imap"],
        smtp=section["smtp"],
        media_max_mb=size,
        sender_auth=SenderAuthSettings(trusted_authserv_ids=(AUTHSERV,)),
    )
    return Email(Secret(password), SystemClock(), settings=settings)


@asynccontextmanager
async def listening(email: Email, heard: Heard) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(email.run(heard.cursor, heard))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def count(heard: Heard, wanted: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while len(heard.events) < wanted:
            await asyncio.sleep(0.01)


async def test_two_programs_that_answer_each_other_come_to_an_end() -> None:
    heard = Heard()
    with MailboxServer() as box:
        async with listening(mailbox(box), heard):
            await asyncio.to_thread(box.listened)
            for number in range(MOST_AN_HOUR + 5):
                box.says(f"you said {number}")
            box.says("somebody else", "bob@bob.test")
            await count(heard, MOST_AN_HOUR + 1)
    assert [each.sender for each in heard.events].count(ADA) == MOST_AN_HOUR
    assert heard.events[-1].sender == "bob@bob.test"


async def test_a_mail_that_the_server_keeps_back_holds_up_the_others_only_so_long() -> None:
    heard = Heard()
    with MailboxServer() as box:
        email = mailbox(box)
        async with listening(email, heard):
            await asyncio.to_thread(box.listened)
        box.withheld.add(box.says("never"))
        box.says("after it")
        for _ in range(MOST_FAILURES - 1):
            with pytest.raises(TryLater, match="not handed out"):
                await asyncio.wait_for(email.run(heard.cursor, heard), DEADLINE)
        async with listening(email, heard):
            await count(heard, 1)
    assert "after it" in heard.events[0].text


async def test_of_a_mail_that_is_too_large_the_beginning_is_read() -> None:
    heard = Heard()
    with MailboxServer() as box:
        async with listening(mailbox(box, size=1), heard):
            await asyncio.to_thread(box.listened)
            box.says("words first", files=[("big.bin", "application/octet-stream", b"x" * 3_000_000)])
            await count(heard, 1)
    (event,) = heard.events
    assert "words first" in event.text and "its attachments were not read" in event.text and not event.files


async def test_a_wrong_password_and_an_address_that_is_not_there_are_told_apart() -> None:
    with MailboxServer() as box:
        with pytest.raises(AccountClosed, match="app password"):
            await mailbox(box, "wrong").run(None, Heard())
        to = Address(channel="email", to="nobody@ada.test")
        with pytest.raises(MessageRefused, match="no such person"):
            await mailbox(box).send(Outbound(to=to, text="hi", key="k"))
        with pytest.raises(MessageRefused, match="is no address"):
            await mailbox(box).send(Outbound(to=Address(channel="email", to="ada"), text="hi", key="k"))
    assert box.sent == []
