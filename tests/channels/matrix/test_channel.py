"""An account against the scripted server: what it does to messages, files, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.channels.accounts import configured_accounts
from openclaw.channels.matrix.channel import Matrix, decode_cursor
from openclaw.channels.matrix.client import MatrixSession
from openclaw.channels.matrix.settings import MatrixSettings
from openclaw.core.channel import AccountClosed, Address, InboundFile, MessageRefused, Outbound, TryLater, Unsure
from openclaw.core.secret import Secret
from openclaw.storage.atomic import JsonFile
from tests.channels.matrix.server import ADA, BOT, PASSWORD, TOKEN, Fault, MatrixServer

pytestmark = pytest.mark.anyio


def account(server: MatrixServer, path: Path, **more: Any) -> Matrix:
    given = {"homeserver": server.url, "access_token": Secret(TOKEN), **more}
    settings = MatrixSettings(**given)
    return Matrix(settings, JsonFile(path / "session.json", MatrixSession, ""), lambda _: True, "default")


@pytest.fixture
async def server() -> AsyncIterator[MatrixServer]:
    with MatrixServer() as server:
        yield server


async def test_edits_reactions_and_deletions(server: MatrixServer, tmp_path: Path) -> None:
    room = server.room(ADA)
    hello = server.says("hello", room=room)
    to, matrix = Address(channel="matrix", to=room), account(server, tmp_path)
    sent = await matrix.send(Outbound(to=to, text="one", key="1"))
    await matrix.send(Outbound(to=to, text="two", action="edit", about=sent.id, key="2"))
    await matrix.send(Outbound(to=to, text="👍", action="react", about=hello, key="3"))
    await matrix.send(Outbound(to=to, text="👍", action="react", about=hello, key="4"))
    await matrix.send(Outbound(to=to, text="", action="react", about=hello, key="5"))
    await matrix.send(Outbound(to=to, text="", action="delete", about=sent.id, key="6"))
    edit, reaction, taken_back, deleted = server.other
    assert edit["m.new_content"]["body"] == "two" and edit["m.relates_to"]["event_id"] == sent.id
    assert (reaction["type"], reaction["m.relates_to"]["key"]) == ("m.reaction", "👍")
    assert (taken_back["redacts"], deleted["redacts"]) == (reaction["event_id"], sent.id)
    await matrix.close()


async def test_a_thread_hangs_on_its_first_message(server: MatrixServer, tmp_path: Path) -> None:
    to, matrix = Address(channel="matrix", to=server.room(ADA)), account(server, tmp_path)
    opened = await matrix.open_thread(to, "Marinas")
    await matrix.send(Outbound(to=opened, text="found one", key="1"))
    root, child = server.sent
    assert (root["text"], opened.to, opened.thread) == ("Marinas", to.to, root["event_id"])
    assert child["m.relates_to"]["rel_type"] == "m.thread" and child["m.relates_to"]["event_id"] == opened.thread
    await matrix.close()
    off = account(server, tmp_path, thread_replies="off")
    with pytest.raises(MessageRefused, match="threadReplies"):
        await off.open_thread(to, "Marinas")
    await off.close()


async def test_a_person_gets_one_room_and_an_alias_is_looked_up(server: MatrixServer, tmp_path: Path) -> None:
    matrix = account(server, tmp_path)
    for key in ("1", "2"):
        await matrix.send(Outbound(to=Address(channel="matrix", to="@bob:test"), text="hi", key=key))
    assert len(server.rooms) == 1 and len(server.sent) == 2
    await matrix.send(Outbound(to=Address(channel="matrix", to="#club:test"), text="hi", key="3"))
    for nowhere in ("bob", "@bob", "!gone:test"):
        with pytest.raises(MessageRefused):
            await matrix.send(Outbound(to=Address(channel="matrix", to=nowhere), text="hi", key="4"))
    await matrix.close()


async def test_a_request_that_was_cut_off_in_the_middle_is_none(server: MatrixServer, tmp_path: Path) -> None:
    """A process that is killed between the head of a request and its body has said nothing under its name."""
    room = server.room(ADA)
    reader, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
    path = f"/_matrix/client/v3/rooms/{room}/send/m.room.message/1"
    head = f"PUT {path} HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: 40\r\n\r\n".encode())
    writer.write_eof()
    assert await reader.read() == b"" and server.rooms[room].events[-1][1]["type"] == "m.room.member"
    writer.close()
    matrix = account(server, tmp_path)
    await matrix.send(Outbound(to=Address(channel="matrix", to=room), text="hi", key="1"))
    assert [each["text"] for each in server.sent] == ["hi"]
    await matrix.close()


async def test_what_faults_mean(server: MatrixServer, tmp_path: Path) -> None:
    said = Outbound(to=Address(channel="matrix", to=server.room(ADA)), text="hi", key="1")
    matrix = account(server, tmp_path)
    server.faults = [Fault("send", 429, retry_after=7)]
    with pytest.raises(TryLater) as caught:
        await matrix.send(said)
    assert caught.value.after == 7
    server.faults = [Fault("send", 503)]
    with pytest.raises(TryLater):
        await matrix.send(said)
    server.faults = [Fault("send", cut="after")]
    with pytest.raises(Unsure):
        await matrix.send(said)
    receipt = await matrix.send(said)
    assert len(server.sent) == 1 and receipt.id == server.sent[0]["event_id"]
    server.tokens.clear()
    with pytest.raises(AccountClosed, match="signed out"):
        await matrix.send(said)
    await matrix.close()
    nobody = account(server, tmp_path, homeserver="http://127.0.0.1:9")
    with pytest.raises(TryLater, match="could not be reached"):
        await nobody.probe()
    await nobody.close()


async def test_a_file_is_fetched_under_its_limit(server: MatrixServer, tmp_path: Path) -> None:
    server.files["small"], server.files["large"] = ("text/plain", b"inside"), ("text/plain", b"x" * 1_000_001)
    server.files["empty"] = ("text/plain", b"")
    matrix = account(server, tmp_path, media_max_mb=1)

    async def fetched(name: str) -> bytes:
        return b"".join([piece async for piece in matrix.fetch(InboundFile(ref=f"mxc://test/{name}"))])

    assert (await fetched("small"), await fetched("empty")) == (b"inside", b"")
    for name in ("large", "nothing", "../../login"):
        with pytest.raises(MessageRefused):
            await fetched(name)
    await matrix.close()


async def test_a_password_is_asked_for_once_and_logging_out_forgets_the_device(
    server: MatrixServer, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"access_token": None, "user_id": "claw", "password": Secret(PASSWORD)}
    for _ in range(2):
        matrix = account(server, tmp_path, **asked)
        assert (await matrix.probe()).id == BOT
        await matrix.close()
    assert len(server.logins) == 1
    # Somebody ended the device: it is said, and the next start makes a new one.
    server.tokens.clear()
    matrix = account(server, tmp_path, **asked)
    with pytest.raises(AccountClosed):
        await matrix.probe()
    assert (await matrix.probe()).id == BOT and len(server.logins) == 2
    await matrix.logout()
    assert not server.tokens and not (tmp_path / "session.json").exists()
    await matrix.close()
    wrong = account(server, tmp_path, **{**asked, "password": Secret("wrong-password")})
    with pytest.raises(AccountClosed, match="not right") as caught:
        await wrong.probe()
    assert "wrong-password" not in str(caught.value)
    await wrong.close()


def test_another_accounts_place_is_of_no_use() -> None:
    assert decode_cursor(None, BOT).since == ""
    assert decode_cursor("not a cursor", BOT).since == ""
    assert decode_cursor('{"user":"@other:test","since":"s1"}', BOT).since == ""
    assert decode_cursor(f'{{"user":"{BOT}","since":"s1"}}', BOT).since == "s1"


def test_variables_connect_the_default_account() -> None:
    variables = {"MATRIX_HOMESERVER": "https://x", "MATRIX_ACCESS_TOKEN": "token"}
    [config] = configured_accounts({}, variables).values()
    assert isinstance(config.settings, MatrixSettings)
    assert (config.settings.homeserver, config.credential) == ("https://x", Secret("token"))
    by_password = {"MATRIX_HOMESERVER": "https://x", "MATRIX_USER_ID": "@a:x", "MATRIX_PASSWORD": "p"}
    assert [each.credential for each in configured_accounts({}, by_password).values()] == [Secret("p")]
    assert configured_accounts({}, {"MATRIX_HOMESERVER": "https://x"}) == {}
    other = MatrixSettings(accounts={"work": MatrixSettings(homeserver="https://y")})
    assert configured_accounts({"matrix": other}, variables).keys() == {("matrix", "default")}


async def test_typing_ends_with_the_answer(server: MatrixServer, tmp_path: Path) -> None:
    to, matrix = Address(channel="matrix", to=server.room(ADA)), account(server, tmp_path)
    await matrix.typing(to)
    await matrix.send(Outbound(to=to, text="hi", key="1"))
    assert [params["typing"] for name, params in server.calls if name == "typing"] == [True, False]
    await asyncio.wait_for(matrix.close(), 10)
