"""A Discord bot against the fault server: what it hears over lost connections, and what it does to messages."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.channels.discord.channel import Discord
from openclaw.channels.discord.settings import DiscordSettings
from openclaw.core.channel import (
    AccountClosed,
    Address,
    Button,
    InboundFile,
    MessageRefused,
    Outbound,
    TryLater,
    Unsure,
)
from openclaw.core.secret import Secret
from openclaw.process.tasks import SystemClock
from tests.channels.discord.server import ADA, BOT, CHANNEL, GUILD, THREAD, TOKEN, DiscordServer, Fault
from tests.channels.scripted import Heard, listening, there

pytestmark = pytest.mark.anyio

HER = Address(channel="discord", to=ADA)
ROOM = Address(channel="discord", to=CHANNEL)


@pytest.fixture
def server() -> Iterator[DiscordServer]:
    with DiscordServer() as running:
        yield running


def make(server: DiscordServer, token: str = TOKEN) -> Discord:
    settings = DiscordSettings(api_root=server.url)
    menu = (("status", "how things are"), ("Not A Name", "left out"))
    return Discord(Secret(token), SystemClock(), settings=settings, menu=menu, jitter=lambda: 0.5)


@pytest.fixture
async def bot(server: DiscordServer) -> AsyncIterator[Discord]:
    made = make(server)
    yield made
    await made.close()


async def test_messages_threads_replies_and_files_are_heard(server: DiscordServer, bot: Discord) -> None:
    inbox = Heard()
    async with listening(bot, inbox):
        await there(server, lambda: server.identified)
        server.says("hello")
        image = {"url": f"{server.url}/files/a", "filename": "a.png", "content_type": "image/png", "size": 3}
        ours = {"id": "1", "channel_id": CHANNEL, "author": BOT, "content": "before"}
        mention: dict[str, Any] = {"mentions": [BOT], "attachments": [image]}
        server.says("<@900> look at <@8> :wave: <:cat:55>", channel=CHANNEL, **mention)
        server.says("and this", channel=THREAD, type=19, referenced_message=ours)
        server.says("beep", sender="11", author={"id": "11", "bot": True})
        server.says("the last")
        direct, named, threaded, _ = await inbox.until(4)
    assert (direct.text, direct.sender, direct.group, direct.origin.to) == ("hello", ADA, None, ADA)
    assert (named.text, named.group, named.group_name) == ("look at @8 :wave: :cat:", CHANNEL, "general")
    assert named.mentioned and named.space == GUILD and named.files[0].kind == "image"
    assert (threaded.group, threaded.thread, threaded.mentioned) == (CHANNEL, THREAD, True)
    assert threaded.quote is not None and threaded.quote.ours


async def test_a_cut_connection_is_resumed_where_it_was(server: DiscordServer, bot: Discord) -> None:
    inbox = Heard()
    async with listening(bot, inbox) as task:
        await there(server, lambda: server.identified)
        server.says("one")
        await inbox.until(1)
        server.drop()
        with pytest.raises(TryLater):
            await task
    server.says("two, said meanwhile")
    async with listening(bot, inbox):
        assert [each.text for each in await inbox.until(2)] == ["one", "two, said meanwhile"]
    assert len(server.identified) == 1 and len(server.resumed) == 1


async def test_after_a_forgotten_session_what_was_missed_is_read_back(server: DiscordServer, bot: Discord) -> None:
    inbox = Heard()
    async with listening(bot, inbox) as task:
        await there(server, lambda: server.identified)
        server.says("one")
        await inbox.until(1)
        server.drop(forget=True)
        with pytest.raises(TryLater):
            await task
    server.says("to you")
    server.says("to all", channel=CHANNEL)
    server.says("in the thread", channel=THREAD)
    again = make(server)
    async with listening(again, inbox) as task:
        texts = {each.text for each in await inbox.until(4)}
    await again.close()
    assert texts == {"one", "to you", "to all", "in the thread"}
    assert next(each for each in inbox.events if each.text == "to all").group == CHANNEL


async def test_an_address_that_is_gone_begins_a_new_session(server: DiscordServer, bot: Discord) -> None:
    inbox = Heard('{"session":"other","url":"ws://127.0.0.1:9","seq":4,"newest":"1"}')
    with pytest.raises(TryLater, match="could not be reached"):
        await bot.run(inbox.cursor, inbox)
    async with listening(bot, inbox):
        await there(server, lambda: server.identified)


async def test_silence_counts_as_a_lost_connection() -> None:
    with DiscordServer(heartbeat_ms=50) as quiet:
        quiet.deaf = True
        silent = make(quiet)
        with pytest.raises(TryLater, match="silent"):
            await silent.run(None, Heard())
        await silent.close()


@pytest.mark.parametrize(("code", "says"), [(4004, "token"), (4014, "MESSAGE CONTENT INTENT")])
async def test_what_only_a_person_can_mend_is_final(server: DiscordServer, bot: Discord, code: int, says: str) -> None:
    server.close_with = code
    with pytest.raises(AccountClosed, match=says):
        await bot.run(None, Heard())


async def test_a_wrong_token_is_final_and_not_repeated(server: DiscordServer) -> None:
    wrong = make(server, "wr0ng")
    with pytest.raises(AccountClosed, match=r"channels\.discord\.token") as told:
        await wrong.probe()
    assert "wr0ng" not in str(told.value)
    await wrong.close()


async def test_a_message_is_sent_edited_reacted_to_and_deleted(server: DiscordServer, bot: Discord) -> None:
    yes = ((Button("Yes", "ok:1"),),)
    asks = Outbound(to=HER, text="May I?\n\n| a | b |\n|---|---|\n| 1 | 2 |", buttons=yes, key="k" * 32, reply_to="77")
    sent = await bot.send(asks)
    assert (await bot.send(asks)).id == sent.id, "the same name is the same message"
    (message,) = server.sent
    assert message["content"].endswith("```\na  b\n-  -\n1  2\n```") and message["channel_id"] == f"5{ADA}"
    assert message["components"][0]["components"][0]["custom_id"] == "ok:1"
    assert message["allowed_mentions"] == {"parse": ["users"], "replied_user": True}
    await bot.send(Outbound(to=HER, text="Done", action="edit", about=sent.id))
    assert (message["content"], message["components"]) == ("Done", [])
    await bot.send(Outbound(to=HER, text="👍", action="react", about=sent.id))
    assert server.reactions[sent.id] == ["👍"]
    await bot.send(Outbound(to=HER, text="", action="react", about=sent.id))
    assert server.reactions[sent.id] == []
    delete = Outbound(to=HER, text="", action="delete", about=sent.id)
    await bot.send(delete)
    await bot.send(delete)
    assert not server.sent


async def test_addresses_name_people_channels_and_threads(server: DiscordServer, bot: Discord) -> None:
    for to in ("200", "channel:200", "7", "user:7"):
        await bot.send(Outbound(to=Address(channel="discord", to=to), text=to))
    await bot.send(Outbound(to=Address(channel="discord", to=CHANNEL, thread=THREAD), text="t"))
    assert [each["channel_id"] for each in server.sent] == ["200", "200", "57", "57", "300"]
    for wrong in ("room:1", "../../users", "999"):
        with pytest.raises(MessageRefused):
            await bot.send(Outbound(to=Address(channel="discord", to=wrong), text="x"))


async def test_a_file_goes_out_and_comes_in(server: DiscordServer, bot: Discord, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    await bot.send(Outbound(to=ROOM, text="look", media=(str(tmp_path / "a.txt"),)))
    assert server.sent[0]["files"] == [("a.txt", b"content")] and server.sent[0]["content"] == "look"
    server.files["b"] = b"bytes" * 1000
    pieces = [piece async for piece in bot.fetch(InboundFile(ref=f"{server.url}/files/b"))]
    assert b"".join(pieces) == b"bytes" * 1000
    for ref in ("http://169.254.169.254/latest", "https://example.org/a", "file:///etc/passwd"):
        with pytest.raises(MessageRefused, match="not on a server of Discord"):
            [piece async for piece in bot.fetch(InboundFile(ref=ref))]


async def test_faults_are_told_apart(server: DiscordServer, bot: Discord) -> None:
    await bot.send(Outbound(to=ROOM, text="first"))
    server.faults = [Fault("POST", "messages", 429, retry_after=35.5), Fault("POST", "messages", 502)]
    with pytest.raises(TryLater) as wait:
        await bot.send(Outbound(to=ROOM, text="x"))
    assert wait.value.after == 35.5
    with pytest.raises(TryLater):
        await bot.send(Outbound(to=ROOM, text="x"))
    server.faults = [Fault("POST", "messages", cut="after")]
    cut = Outbound(to=ROOM, text="twice?", key="one")
    with pytest.raises(Unsure):
        await bot.send(cut)
    await bot.send(cut)
    assert [each["content"] for each in server.sent] == ["first", "twice?"]


async def test_buttons_and_the_menu_are_heard_and_answered(server: DiscordServer, bot: Discord) -> None:
    inbox = Heard()
    async with listening(bot, inbox):
        await there(server, lambda: server.commands)
        assert [each["name"] for each in server.commands] == ["status"]
        server.presses("123", "ok:1")
        server.chooses("status", "all")
        press, command = await inbox.until(2)
        await there(server, lambda: server.responses)
        await bot.answer_press(press, "Allowed once.")
    assert (press.kind, press.button, press.about) == ("press", "ok:1", "123")
    assert (command.kind, command.text) == ("message", "/status all")
    assert [each["data"]["flags"] for each in server.responses] == [64, 64]
