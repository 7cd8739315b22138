"""Matrix against Synapse: the message flow of a gateway, and the account's own calls."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from openclaw.channels.matrix.channel import Matrix
from openclaw.channels.matrix.client import MatrixSession
from openclaw.channels.matrix.settings import MatrixSettings
from openclaw.core.channel import Address, Inbound, InboundFile, MessageRefused, Outbound
from openclaw.core.secret import Secret
from openclaw.storage.atomic import JsonFile
from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.e2e.gateway_process import GatewayProcess
from tests.servers.synapse import Person, synapse

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with synapse(tmp_path_factory.mktemp("synapse")) as url:
        yield url


class Heard:
    """An inbox that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[Inbound] = []
        self.cursor: str | None = None
        self.changed = asyncio.Condition()

    def connected(self) -> None:
        pass

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None:
        async with self.changed:
            self.events += events
            self.cursor = cursor
            self.changed.notify_all()

    async def next(self, count: int) -> list[Inbound]:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.events) >= count)
            return self.events


@asynccontextmanager
async def account(url: str, bot: Person, path: Path, **more: Any) -> AsyncIterator[tuple[Matrix, Heard]]:
    """The bot, listening."""
    settings = MatrixSettings(homeserver=url, user_id=bot.id, password=Secret(bot.password), **more)
    stored = JsonFile(path / "session.json", MatrixSession, "")
    platform, heard = Matrix(settings, stored, lambda _: True, "default"), Heard()
    running = asyncio.create_task(platform.run(None, heard))
    try:
        async with asyncio.timeout(60), heard.changed:
            await heard.changed.wait_for(lambda: heard.cursor is not None or running.done())
        yield platform, heard
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await platform.close()


def text_is(text: str) -> Any:
    return lambda event: event["content"].get("body") == text


def joined(event: dict[str, Any], person: Person) -> bool:
    mine = event["type"] == "m.room.member" and event["state_key"] == person.id
    return bool(mine and event["content"]["membership"] == "join")


async def test_a_conversation_over_a_kill_and_a_restart(server: str, openclaw_home: TemporaryHome) -> None:
    ada, bot = Person(server, "ada"), Person(server, "claw")
    after = says("After the kill."), says("In the thread.")
    with MockModelServer([says("**Good** day."), Hangs(), *after]) as model:
        openclaw_home.configure(
            {
                **model.settings(),
                "channels": {"matrix": {"homeserver": server, "userId": bot.id, "password": bot.password}},
                "commands": {"ownerAllowFrom": [f"matrix:{ada.id}"]},
            }
        )
        room = ada.room(bot.id, is_direct=True)
        told = ada.says(room, "hello")
        with GatewayProcess(openclaw_home) as gateway:
            answer = await asyncio.to_thread(ada.until, room, text_is("Good day."))
            assert answer["content"]["formatted_body"] == "<p><strong>Good</strong> day.</p>"
            assert answer["content"]["m.relates_to"]["m.in_reply_to"]["event_id"] == told
            ada.says(room, "think")
            async with asyncio.timeout(60):
                while len(model.requests) < 2:
                    await asyncio.sleep(0.05)
            gateway.kill()
        with GatewayProcess(openclaw_home):
            await asyncio.to_thread(ada.until, room, text_is("After the kill."))
            relation = {"m.relates_to": {"rel_type": "m.thread", "event_id": told}}
            ada.says(room, "and here?", **relation)
            answer = await asyncio.to_thread(ada.until, room, text_is("In the thread."))
            assert answer["content"]["m.relates_to"]["event_id"] == told
    said = [each["content"].get("body") for each in ada.events(room) if each["sender"] == bot.id]
    assert [each for each in said if each] == ["Good day.", "After the kill.", "In the thread."]


async def test_a_message_is_sent_once_edited_answered_with_an_emoji_and_taken_back(server: str, tmp_path: Path) -> None:
    ada, bot = Person(server, "ada"), Person(server, "claw")
    async with account(server, bot, tmp_path) as (matrix, heard):
        room = ada.room(bot.id)
        hello = ada.says(room, "hello")
        [event] = await heard.next(1)
        assert (event.text, event.sender, event.group, event.origin.to) == ("hello", ada.id, None, room)

        to = event.origin
        first = await matrix.send(Outbound(to=to, text="*one*", key="key-1"))
        again = await matrix.send(Outbound(to=to, text="*one*", key="key-1"))
        assert first.id == again.id
        await matrix.send(Outbound(to=to, text="**two**", action="edit", about=first.id, key="key-2"))
        edited = ada.until(room, lambda each: each["event_id"] == first.id and "m.relations" in each["unsigned"])
        assert edited["unsigned"]["m.relations"]["m.replace"]["content"]["m.new_content"]["body"] == "two"

        for key in ("key-3", "key-4"):  # the second time it is there already
            await matrix.send(Outbound(to=to, text="👍", action="react", about=hello, key=key))
        await matrix.send(Outbound(to=to, text="", action="react", about=hello, key="key-5"))
        reactions = [each for each in ada.events(room) if each["type"] == "m.reaction"]
        assert len(reactions) == 1 and "redacted_because" in reactions[0]["unsigned"]
        await matrix.send(Outbound(to=to, text="", action="delete", about=first.id, key="key-6"))
        ada.until(room, lambda each: each["event_id"] == first.id and "redacted_because" in each["unsigned"])
        await matrix.typing(to)
        found = await matrix.probe()
        assert found.id == bot.id


async def test_files_in_both_directions(server: str, tmp_path: Path) -> None:
    ada, bot = Person(server, "ada"), Person(server, "claw")
    async with account(server, bot, tmp_path) as (matrix, heard):
        room = ada.room(bot.id)
        ada.says(room, "hello")
        await heard.next(1)
        note = tmp_path / "note.txt"
        note.write_bytes(b"read me")
        empty = tmp_path / "empty.ogg"
        empty.touch()
        to = Address(channel="matrix", to=room)
        await matrix.send(Outbound(to=to, text="a *note*", media=(str(note),), key="a"))
        await matrix.send(Outbound(to=to, text="", media=(str(empty),), voice=True, key="b"))
        sent = ada.until(room, lambda each: each["content"].get("msgtype") == "m.file")["content"]
        assert (sent["body"], sent["filename"], sent["info"]["size"]) == ("a note", "note.txt", 7)
        voice = ada.until(room, lambda each: each["content"].get("msgtype") == "m.audio")["content"]
        assert "org.matrix.msc3245.voice" in voice

        ada.says(room, "note.txt", msgtype="m.file", url=sent["url"], info={"size": 7, "mimetype": "text/plain"})
        [_, event] = await heard.next(2)
        assert event.files == (InboundFile(name="note.txt", ref=sent["url"], mime="text/plain", size=7),)
        assert b"".join([piece async for piece in matrix.fetch(event.files[0])]) == b"read me"
        with pytest.raises(MessageRefused):
            _ = [piece async for piece in matrix.fetch(InboundFile(ref="mxc://localhost/nothing"))]
        large = tmp_path / "large.bin"
        large.write_bytes(b"x" * 2_000_000)
        with pytest.raises(MessageRefused, match="larger than"):  # as the server said itself
            await matrix.send(Outbound(to=to, text="", media=(str(large),), key="c"))


async def test_what_people_do_is_heard_in_a_group(server: str, tmp_path: Path) -> None:
    ada, bob, bot = Person(server, "ada"), Person(server, "bob"), Person(server, "claw")
    async with account(server, bot, tmp_path) as (matrix, heard):
        room = ada.room(bot.id, bob.id, name="Club")
        bob.call("POST", f"join/{room}")
        await asyncio.to_thread(ada.until, room, lambda each: joined(each, bot))
        said = await matrix.send(Outbound(to=Address(channel="matrix", to=room), text="I am here", key="k"))
        first = bob.says(room, "hi", **{"m.mentions": {"user_ids": [bot.id]}})
        quoting = bob.says(room, "why?", **{"m.relates_to": {"m.in_reply_to": {"event_id": said.id}}})
        new = {"msgtype": "m.text", "body": "hello"}
        bob.says(
            room, "* hello", **{"m.new_content": new, "m.relates_to": {"rel_type": "m.replace", "event_id": first}}
        )
        reaction = {"m.relates_to": {"rel_type": "m.annotation", "event_id": said.id, "key": "👍"}}
        shown = bob.does(room, "m.reaction", reaction)
        await heard.next(4)
        bob.call("PUT", f"rooms/{room}/redact/{shown}/t1")
        # Nobody changes what another person said.
        ada.says(room, "* x", **{"m.new_content": new, "m.relates_to": {"rel_type": "m.replace", "event_id": first}})
        ada.says(room, "last")
        events = await heard.next(6)
        assert [(each.kind, each.text, each.emoji, each.about) for each in events] == [
            ("message", "hi", "", None),
            ("message", "why?", "", None),
            ("edit", "hello", "", first),
            ("reaction", "", "👍", said.id),
            ("reaction", "", "", said.id),
            ("message", "last", "", None),
        ]
        assert [each.mentioned for each in events[:2]] == [True, True] and not events[5].mentioned
        assert all((each.group, each.group_name) == (room, "Club") for each in events)
        assert events[1].id == quoting and events[1].quote is not None
        assert (events[1].quote.text, events[1].quote.ours) == ("I am here", True)


async def test_what_a_busy_room_said_while_we_were_away_is_read_back(server: str, tmp_path: Path) -> None:
    ada, bot = Person(server, "ada"), Person(server, "claw")
    async with account(server, bot, tmp_path) as (_, heard):
        room = ada.room(bot.id)
        ada.says(room, "hello")
        await heard.next(1)
        cursor = heard.cursor
    for number in range(130):
        ada.says(room, f"number {number}")
    settings = MatrixSettings(homeserver=server, access_token=Secret(bot.token))
    again, later = (
        Matrix(settings, JsonFile(tmp_path / "no.json", MatrixSession, ""), lambda _: True, "default"),
        Heard(),
    )
    running = asyncio.create_task(again.run(cursor, later))
    texts = [each.text for each in await later.next(130)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert texts == [f"number {number}" for number in range(130)]
    await again.close()


async def test_logging_out_makes_the_token_worthless_and_forgets_it(server: str, tmp_path: Path) -> None:
    bot = Person(server, "claw")
    async with account(server, bot, tmp_path) as (matrix, _):
        stored = json.loads((tmp_path / "session.json").read_text())
        assert stored["userId"] == bot.id
        await matrix.logout()
        assert not (tmp_path / "session.json").exists()
    bot.token = stored["accessToken"]
    with pytest.raises(AssertionError, match="M_UNKNOWN_TOKEN"):
        bot.call("GET", "account/whoami")
