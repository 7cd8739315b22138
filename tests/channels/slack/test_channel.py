"""A Slack app against the fault server: what it hears over lost connections, and what it does to messages."""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.channels.slack.channel import Slack
from openclaw.channels.slack.settings import SlackSettings
from openclaw.core.channel import (
    AccountClosed,
    Address,
    Button,
    ChannelWebhook,
    InboundFile,
    MessageRefused,
    Outbound,
    TryLater,
    Unsure,
)
from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.process.tasks import SystemClock
from tests.channels.scripted import Heard, listening, there
from tests.channels.slack.server import ADA, APP_TOKEN, BOT, CHANNEL, EVE, SIGNING, TOKEN, Fault, SlackServer
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio

HER = Address(channel="slack", to=ADA)
ROOM = Address(channel="slack", to=CHANNEL)


@pytest.fixture
def server() -> Iterator[SlackServer]:
    with SlackServer() as running:
        yield running


def make(server: SlackServer, token: str = TOKEN, silent: float = 20.0, **more: Any) -> Slack:
    settings = SlackSettings(api_root=server.url, app_token=Secret(APP_TOKEN), **more)
    menu = (("status", "how things are"),)
    return Slack(Secret(token), SystemClock(), settings=settings, menu=menu, silent=silent)


@pytest.fixture
async def app(server: SlackServer) -> AsyncIterator[Slack]:
    made = make(server)
    yield made
    await made.close()


async def test_messages_threads_files_and_reactions_are_heard(server: SlackServer, app: Slack) -> None:
    inbox = Heard()
    root = server.says("what about plans?", sender=EVE, channel=CHANNEL)
    async with listening(app, inbox):
        await there(server, lambda: server.connections)
        server.says("hello")
        image = {
            "id": "F1",
            "name": "a.png",
            "mimetype": "image/png",
            "size": 3,
            "url_private": f"{server.root}/files/a",
        }
        server.says(f"<@{BOT}> look, <@{EVE}>", channel=CHANNEL, subtype="file_share", files=[image])
        server.says("in it", channel=CHANNEL, thread_ts=root)
        server.says("again", channel=CHANNEL, thread_ts=root)
        server.says("beep", channel=CHANNEL, bot_id="B1")
        item = {"type": "message", "channel": CHANNEL, "ts": "1.000001"}
        server.happens({"type": "reaction_added", "user": ADA, "reaction": "tada", "item": item, "item_user": BOT})
        early, direct, named, first, second, mark = await inbox.until(6)
        await there(server, lambda: len(server.acks) == 7)
    assert (early.text, early.mentioned) == ("what about plans?", False)
    assert (direct.text, direct.sender_name, direct.group, direct.origin.to) == ("hello", "Ada", None, ADA)
    assert (named.text, named.group, named.group_name, named.mentioned) == ("look, @Eve", CHANNEL, "general", True)
    assert named.files[0].kind == "image"
    assert (first.thread, first.group, first.origin.thread) == (root, CHANNEL, root)
    assert first.quote is not None and first.quote.text == "what about plans?" and second.quote is None
    assert (mark.kind, mark.emoji, mark.about) == ("reaction", "🎉", "1.000001")


async def test_a_mention_that_comes_as_two_events_is_heard_once(server: SlackServer, app: Slack) -> None:
    inbox = Heard()
    async with listening(app, inbox):
        await there(server, lambda: server.connections)
        server.says(f"<@{BOT}> hello", channel=CHANNEL)
        server.happens({**server.messages[-1], "type": "app_mention"})
        server.says("next")
        assert [each.text for each in await inbox.until(2)] == ["hello", "next"]


async def test_nothing_is_acknowledged_before_it_is_on_record(server: SlackServer, app: Slack) -> None:
    inbox = Heard()
    async with listening(app, inbox):
        await there(server, lambda: server.connections)
        server.says("one")
        await inbox.until(1)
        await there(server, lambda: len(server.acks) == 1)
    inbox.failures = 1
    server.says("two")
    async with listening(app, inbox) as task:
        with pytest.raises(StateError):
            await task
    assert len(server.acks) == 1
    async with listening(app, inbox):
        assert [each.text for each in await inbox.until(2)] == ["one", "two"]
        await there(server, lambda: len(server.acks) == 2)


async def test_what_slack_gave_up_on_is_read_back(server: SlackServer, app: Slack) -> None:
    inbox = Heard()
    async with listening(app, inbox) as task:
        await there(server, lambda: server.connections)
        root = server.says("one", channel=CHANNEL)
        known = server.says("a thread", channel=CHANNEL)
        server.says("we know of", channel=CHANNEL, thread_ts=known)
        await inbox.until(3)
        await there(server, lambda: len(server.acks) == 3)
        server.drop()
        with pytest.raises(TryLater):
            await task
    server.says("to you")
    server.says("to all", channel=CHANNEL)
    server.says("in a new thread", channel=CHANNEL, thread_ts=root)
    server.says("in the old one", channel=CHANNEL, thread_ts=known)
    for number in range(250):
        server.says(f"number {number}", sender=EVE)
    server.drop(forget=True)
    server.faults = [Fault("conversations.history", 429, retry_after=1)]
    again = make(server)
    async with listening(again, inbox):
        texts = [each.text for each in await inbox.until(257)]
        server.says("live")
        await inbox.until(258)
    await again.close()
    assert texts[:7] == [
        *("one", "a thread", "we know of", "to you", "to all"),
        *("in a new thread", "in the old one"),
    ]
    assert texts[7:] == [f"number {number}" for number in range(250)]
    assert len(inbox.events) == 258


@pytest.mark.parametrize("reason", ["refresh_requested", "warning"])
async def test_slack_may_ask_to_connect_anew(server: SlackServer, app: Slack, reason: str) -> None:
    async with listening(app, Heard()) as task:
        await there(server, lambda: server.connections)
        server.disconnect(reason)
        with pytest.raises(TryLater, match="anew"):
            await task


async def test_what_only_a_person_can_mend_is_final(server: SlackServer, app: Slack) -> None:
    async with listening(app, Heard()) as task:
        await there(server, lambda: server.connections)
        server.disconnect("link_disabled")
        with pytest.raises(AccountClosed, match="Socket Mode"):
            await task
    wrong = make(server, "xoxb-wr0ng")
    with pytest.raises(AccountClosed, match=r"channels\.slack\.botToken") as told:
        await wrong.probe()
    await wrong.close()
    assert "wr0ng" not in str(told.value)
    server.app_token = "xapp-other"
    with pytest.raises(AccountClosed, match=r"channels\.slack\.appToken"):
        await app.probe()


async def test_silence_counts_as_a_lost_connection(server: SlackServer) -> None:
    """A socket that stays open and says nothing, not even to a ping."""

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = re.search(r"(?i)sec-websocket-key: (\S+)", asked)
        assert key is not None
        made = base64.b64encode(hashlib.sha1(f"{key[1]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest())
        hello = b'{"type":"hello"}'
        upgrade = (
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n" % made
        )
        writer.write(upgrade + bytes((0x81, len(hello))) + hello)
        await reader.read(-1)
        writer.close()

    async with await asyncio.start_server(deaf, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]

        class Elsewhere(SlackServer):
            @property
            def socket_url(self) -> str:
                return f"ws://127.0.0.1:{port}/link"

        with Elsewhere() as quiet:
            made = make(quiet, silent=0.1)
            with pytest.raises(TryLater, match="closed"):
                await made.run(None, Heard())
            await made.close()


async def test_a_message_is_sent_edited_reacted_to_and_deleted(server: SlackServer, app: Slack) -> None:
    sent = await app.send(Outbound(to=HER, text="**May** I?", buttons=((Button("Yes", "ok:1"),),)))
    (message,) = server.sent
    assert (message["text"], message["channel"]) == ("*May* I?", "D007")
    assert message["blocks"][1]["elements"][0]["value"] == "ok:1"
    assert server.called("chat.postMessage")[0]["unfurl_links"] == "false"
    await app.send(Outbound(to=HER, text="Done", action="edit", about=sent.id))
    assert (message["text"], message["blocks"]) == ("Done", [])
    for _ in range(2):
        await app.send(Outbound(to=HER, text="👀", action="react", about=sent.id))
    assert server.reactions[sent.id] == ["eyes"]
    for _ in range(2):
        await app.send(Outbound(to=HER, text="", action="react", about=sent.id))
    assert server.reactions[sent.id] == []
    delete = Outbound(to=HER, text="", action="delete", about=sent.id)
    await app.send(delete)
    await app.send(delete)
    assert not server.sent


async def test_addresses_name_people_channels_and_threads(server: SlackServer, app: Slack) -> None:
    for to in (CHANNEL, f"channel:{CHANNEL}", ADA, f"user:{ADA}", "D008"):
        await app.send(Outbound(to=Address(channel="slack", to=to), text=to))
    await app.send(Outbound(to=Address(channel="slack", to=CHANNEL, thread="1.000001"), text="t"))
    assert [each["channel"] for each in server.sent] == [CHANNEL, CHANNEL, "D007", "D007", "D008", CHANNEL]
    assert server.sent[-1]["thread_ts"] == "1.000001"
    for wrong in ("room:C1", "../users", "C999", "U999", "#general"):
        with pytest.raises(MessageRefused):
            await app.send(Outbound(to=Address(channel="slack", to=wrong), text="x"))


async def test_a_file_goes_out_and_comes_in(server: SlackServer, app: Slack, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    to = Address(channel="slack", to=CHANNEL, thread="1.000001")
    await app.send(Outbound(to=to, text="**look**", media=(str(tmp_path / "a.txt"),)))
    (sent,) = server.sent
    assert (sent["text"], sent["thread_ts"], sent["files"][0]["title"]) == ("*look*", "1.000001", "a.txt")
    assert b"content" in server.uploads[sent["files"][0]["id"]]
    server.files |= {"b": b"bytes" * 1000, "F9": b"shared"}
    pieces = [piece async for piece in app.fetch(InboundFile(ref=f"{server.root}/files/b"))]
    assert b"".join(pieces) == b"bytes" * 1000
    assert [piece async for piece in app.fetch(InboundFile(ref="file:F9"))] == [b"shared"]
    for ref in ("http://169.254.169.254/latest", "https://example.org/a", "https://evilslack.com/a", "/etc/passwd"):
        with pytest.raises(MessageRefused, match="not on a server of Slack"):
            [piece async for piece in app.fetch(InboundFile(ref=ref))]


async def test_faults_are_told_apart(server: SlackServer, app: Slack) -> None:
    server.faults = [
        Fault("chat.postMessage", 429, retry_after=35),
        Fault("chat.postMessage", 502),
        Fault("chat.postMessage", 200, error="fatal_error"),
    ]
    with pytest.raises(TryLater) as wait:
        await app.send(Outbound(to=ROOM, text="x"))
    assert wait.value.after == 35.0
    for _ in range(2):
        with pytest.raises(TryLater):
            await app.send(Outbound(to=ROOM, text="x"))
    server.faults = [Fault("chat.postMessage", cut="after"), Fault("chat.postMessage", 200, error="missing_scope")]
    with pytest.raises(Unsure):
        await app.send(Outbound(to=ROOM, text="there?"))
    with pytest.raises(MessageRefused, match="add the scope"):
        await app.send(Outbound(to=ROOM, text="x"))


async def test_buttons_and_commands_are_heard_and_answered(server: SlackServer, app: Slack) -> None:
    inbox = Heard()
    async with listening(app, inbox):
        await there(server, lambda: server.connections)
        server.presses("1.000001", "ok:1")
        server.chooses("/openclaw", "status all")
        press, command = await inbox.until(2)
        await there(server, lambda: len(server.acks) == 2)
        await app.answer_press(press, "Allowed **once**.")
        await app.typing(Address(channel="slack", to=ADA, thread="1.000001"))
    assert (press.kind, press.button, press.about, press.group) == ("press", "ok:1", "1.000001", None)
    assert (command.kind, command.text) == ("message", "/status all")
    assert "payload" not in server.acks[0] and server.acks[1]["payload"] == {"text": "/status all"}
    assert server.ephemeral == [{"channel": "D007", "user": ADA, "text": "Allowed *once*."}]
    assert server.statuses[0]["thread_ts"] == "1.000001"


async def test_with_threads_everything_in_a_channel_is_answered_in_one(server: SlackServer) -> None:
    app, inbox = make(server, reply_to_mode="all"), Heard()
    async with listening(app, inbox):
        await there(server, lambda: server.connections)
        asked = server.says("a question", channel=CHANNEL)
        server.says("to you")
        room, direct = await inbox.until(2)
    await app.close()
    assert (room.thread, direct.thread) == (asked, None)


async def test_slack_may_call_instead(server: SlackServer) -> None:
    settings = SlackSettings(api_root=server.url, signing_secret=Secret(SIGNING))
    app, inbox = Slack(Secret(TOKEN), SystemClock(), settings=settings), Heard()

    async def call(body: bytes, headers: dict[str, str], kind: str = "application/json") -> tuple[int, str]:
        answer = await app.take_webhook(ChannelWebhook(body=body, headers={"content-type": kind, **headers}), inbox)
        return answer.status, answer.text

    hello = json.dumps({"type": "url_verification", "challenge": "c-1", "token": "x"}).encode()
    assert await call(hello, server.sign(hello)) == (200, "c-1")
    event = json.dumps({"type": "event_callback", "team_id": "T01", "event": {"type": "message"}}).encode()
    assert (await call(event, server.sign(event)))[0] == 503, "nobody knows yet who we are"
    async with listening(app, inbox):
        async with asyncio.timeout(DEADLINE):
            while inbox.cursor is None:
                inbox.changed.clear()
                await inbox.changed.wait()
        said = {"type": "message", "user": ADA, "channel": "D007", "text": "hello", "ts": "1700000000.000100"}
        event = json.dumps({"type": "event_callback", "team_id": "T01", "event": said}).encode()
        for headers in ({}, server.sign(event, secret="other"), server.sign(event, at=1.0)):
            assert (await call(event, headers))[0] == 401
        assert (await call(b"{", server.sign(b"{")))[0] == 400
        other = event.replace(b"T01", b"T02")
        assert (await call(other, server.sign(other)))[0] == 401, "it is for another workspace"
        assert not inbox.events
        assert await call(event, server.sign(event)) == (200, "")
        inbox.failures = 1
        again = event.replace(b"000100", b"000200")
        with pytest.raises(StateError):
            await call(again, server.sign(again))
        assert await call(again, server.sign(again)) == (200, "")
    await app.close()
    assert [each.text for each in inbox.events] == ["hello", "hello"]
