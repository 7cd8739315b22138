"""A mailbox through a real gateway: heard once, answered once and in its thread, over faults and kills."""

import asyncio
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.channels.email.server import ADA, ADDRESS, EVE, PASSWORD, MailboxServer, mail, text_of
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


def configure(home: TemporaryHome, model: MockModelServer, box: MailboxServer, **more: Any) -> None:
    home.configure(
        {
            **model.settings(),
            "channels": {"email": {**box.section, **more}},
            "commands": {"ownerAllowFrom": [f"email:{ADA}"]},
        }
    )


async def hears(box: MailboxServer, count: int) -> list[Any]:
    return await asyncio.to_thread(box.hears, count)


async def logged(gateway: GatewayProcess, text: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while text not in gateway.output():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("idle", [True, False])
async def test_a_mail_is_answered_once_in_its_thread(openclaw_home: TemporaryHome, idle: bool) -> None:
    answers: list[Any] = [(says("Looking."), calls("read", path="missing.txt")), says("**Found** it."), says("Again.")]
    with MockModelServer(answers) as model, MailboxServer(idle=idle) as box:
        box.says("this was there before us")
        configure(openclaw_home, model, box, pollSeconds=15)
        with GatewayProcess(openclaw_home) as gateway:
            if not idle:
                await logged(gateway, "channel email:default: connected")
            else:
                await asyncio.to_thread(box.listened)
            box.says("where is it?", Subject="The key", Message_ID="<one@ada.test>")
            (first,) = await hears(box, 1)
            assert text_of(first) == "Looking.\n\n**Found** it.", "one answer, with all that was said"
            assert (first["To"], first["Subject"], first["In-Reply-To"]) == (ADA, "Re: The key", "<one@ada.test>")
            if not idle:
                return
            reply = mail(
                "thanks", In_Reply_To=str(first["Message-ID"]), References=f"<one@ada.test> {first['Message-ID']}"
            )
            box.receives(reply)
            box.receives(reply)  # the same mail, delivered twice
            second = (await hears(box, 2))[1]
            assert second["References"].split()[0] == "<one@ada.test>"
    assert len(model.requests) == 3 and len(box.sent) == 2


async def test_a_forged_owner_a_program_and_a_stranger_are_not_answered(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("Yes.")]) as model, MailboxServer() as box:
        configure(openclaw_home, model, box)
        with GatewayProcess(openclaw_home) as gateway:
            await asyncio.to_thread(box.listened)
            box.says("I am Ada, honestly", verified=False)
            await logged(gateway, "does not verify the sender")
            box.says("I am away", Auto_Submitted="auto-replied")
            await logged(gateway, "Auto-Submitted: auto-replied")
            box.says("our own", ADDRESS)
            await logged(gateway, "it is our own")
            box.says("let me in", EVE)
            await logged(gateway, f"{EVE} is not in channels.email.allowFrom")
            box.says("the real one")
            (answer,) = await hears(box, 1)
            assert answer["To"] == ADA
    assert len(model.requests) == 1 and len(box.sent) == 1


async def test_who_is_not_verified_is_heard_as_such_where_that_is_wanted(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("Hello.")]) as model, MailboxServer() as box:
        configure(openclaw_home, model, box, senderAuth={"min": "unverified"}, allowFrom=[f"unverified:{ADA}"])
        with GatewayProcess(openclaw_home):
            await asyncio.to_thread(box.listened)
            box.says("/whoami", verified=False)  # no command: nobody knows that it is the owner
            box.says("hello", verified=False)
            (answer,) = await hears(box, 1)
    assert answer["To"] == ADA and "unverified:ada@ada.test" in str(model.requests[0])


async def test_attachments_go_both_ways_and_several_in_one_mail(openclaw_home: TemporaryHome) -> None:
    content = bytes(range(256)) * 8_000
    workspace = openclaw_home.workspace
    with (
        MockModelServer([says(f"See.\nMEDIA:{workspace}/a.txt\nMEDIA: ./b.txt")]) as model,
        MailboxServer() as box,
    ):
        configure(openclaw_home, model, box)
        for name in ("a.txt", "b.txt"):
            (workspace / name).write_text(name)
        with GatewayProcess(openclaw_home):
            await asyncio.to_thread(box.listened)
            box.says("here", files=[("data.bin", "application/octet-stream", content)])
            (answer,) = await hears(box, 1)
    assert sorted(each.get_filename() for each in answer.iter_attachments()) == ["a.txt", "b.txt"]
    (saved,) = workspace.glob(".openclaw/attachments/*/1-data.bin")
    assert saved.read_bytes() == content


async def test_what_is_sent_by_itself_begins_a_thread_of_its_own(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([]) as model, MailboxServer() as box:
        configure(openclaw_home, model, box)
        with GatewayProcess(openclaw_home):
            await asyncio.to_thread(box.listened)
            command = ("message", "send", "--target", f"email:{ADA}", "--message", "**Lunch** at one?")
            done = await asyncio.to_thread(typed(openclaw_home), *command)
            assert not done.code and f"sent to email:{ADA}" in done.out, done.err
    (sent,) = box.sent
    assert (sent["Subject"], sent["Auto-Submitted"], sent["In-Reply-To"]) == ("Lunch at one?", "auto-generated", None)


async def test_a_kill_while_it_is_answered_and_a_new_numbering_lose_and_double_nothing(
    openclaw_home: TemporaryHome,
) -> None:
    with MockModelServer([Hangs(), says("One."), says("Two.")]) as model, MailboxServer() as box:
        configure(openclaw_home, model, box)
        with GatewayProcess(openclaw_home) as gateway:
            await asyncio.to_thread(box.listened)
            box.says("one")
            async with asyncio.timeout(DEADLINE):
                while not model.requests:
                    await asyncio.sleep(0.02)
            gateway.kill()
        box.validity += 1
        box.faults = ["after"]
        with GatewayProcess(openclaw_home):
            await hears(box, 1)
            box.says("two")
            assert [text_of(each) for each in await hears(box, 2)] == ["One.", "Two."]


def test_channels_add_tries_the_mailbox_and_keeps_what_works(openclaw_home: TemporaryHome) -> None:
    with MailboxServer() as box:
        section = box.section
        options = [
            "--address",
            ADDRESS,
            "--imap",
            section["imap"],
            "--smtp",
            section["smtp"],
            "--owner",
            "Ada@ADA.test",
        ]
        command = ["channels", "add", "email", *options, "--password", "-"]
        wrong = typed(openclaw_home)(*command, stdin="wrong\n")
        assert wrong.code and "does not accept the password of claw@claw.test" in wrong.err
        done = typed(openclaw_home)(*command, stdin=f"{PASSWORD}\n")
        assert f"Email: this is {ADDRESS}; tried, and saved." in done.out, done.err
        assert f"email:{ADA}" in openclaw_home.config_path.read_text(), "as the platform writes it"
        assert f"Write a mail to {ADDRESS}. If no answer comes" in done.out and PASSWORD not in done.out + done.err
