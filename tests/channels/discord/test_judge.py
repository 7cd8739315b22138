"""discord.py as a judge of our fault server: its gateway with resuming, its REST API, and its interactions."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.discord.server import CHANNEL, TOKEN, DiscordServer, Fault
from tests.plugins.support import DEADLINE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it loads a module for voice that Python is about to drop
    discord = pytest.importorskip("discord", reason="discord.py is not installed")
pytestmark = pytest.mark.anyio


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[DiscordServer]:
    with DiscordServer() as running:
        monkeypatch.setattr(discord.http.Route, "BASE", f"{running.url}/v10")
        gateway = discord.gateway.yarl.URL(running.address)
        monkeypatch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", gateway)
        yield running


class Judge:
    """A client that remembers what it was told."""

    def __init__(self) -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        self.client: Any = discord.Client(intents=intents)
        self.told: asyncio.Queue[Any] = asyncio.Queue()

        async def on_ready() -> None:
            self.told.put_nowait("ready")

        async def on_message(message: Any) -> None:
            self.told.put_nowait(message)

        async def on_interaction(interaction: Any) -> None:
            self.told.put_nowait(interaction)

        async def on_raw_reaction_add(reaction: Any) -> None:
            self.told.put_nowait(reaction)

        for listener in (on_ready, on_message, on_interaction, on_raw_reaction_add):
            self.client.event(listener)

    async def next(self) -> Any:
        return await asyncio.wait_for(self.told.get(), DEADLINE)


@pytest.fixture
async def judge(server: DiscordServer) -> AsyncIterator[Judge]:
    made = Judge()
    running = asyncio.create_task(made.client.start(TOKEN))
    try:
        assert await made.next() == "ready"
        yield made
    finally:
        await made.client.close()
        await asyncio.gather(running, return_exceptions=True)


async def test_it_listens_to_our_gateway_and_resumes(server: DiscordServer, judge: Judge) -> None:
    (guild,) = judge.client.guilds
    assert guild.name == "Club" and guild.text_channels[0].name == "general"
    assert guild.threads[0].parent == guild.text_channels[0]
    server.says("hello", channel=CHANNEL)
    said = await judge.next()
    assert (said.content, said.channel.name, said.author.name) == ("hello", "general", "user7")
    server.says("to you alone")
    assert isinstance((await judge.next()).channel, discord.DMChannel)
    mark = {"user_id": "7", "channel_id": CHANNEL, "message_id": str(said.id), "emoji": {"id": None, "name": "👍"}}
    server.happens("MESSAGE_REACTION_ADD", {**mark, "guild_id": "100", "burst": False, "type": 0})
    assert (await judge.next()).emoji.name == "👍"
    server.drop()
    server.says("said meanwhile", channel=CHANNEL)
    assert (await judge.next()).content == "said meanwhile"
    assert len(server.identified) == 1 and len(server.resumed) == 1


async def test_it_understands_our_interactions(server: DiscordServer, judge: Judge) -> None:
    server.presses("123", "ok:1")
    press = await judge.next()
    assert press.type is discord.InteractionType.component and press.data["custom_id"] == "ok:1"
    await press.response.send_message("Allowed once.", ephemeral=True)
    server.chooses("status", "all")
    command = await judge.next()
    assert command.type is discord.InteractionType.application_command and command.data["name"] == "status"
    await command.response.defer()
    assert server.responses[0]["data"]["flags"] == 64 and len(server.responses) == 2


async def test_it_understands_our_rest_api(server: DiscordServer, judge: Judge, tmp_path: Path) -> None:
    room = judge.client.get_channel(int(CHANNEL))
    view = discord.ui.View()
    view.add_item(discord.ui.Button(label="Yes", custom_id="ok:1"))
    sent = await room.send("May I?", view=view)
    view.stop()
    assert sent.components[0].children[0].custom_id == "ok:1"
    assert (await sent.edit(content="Yes.", view=None)).content == "Yes."
    await sent.add_reaction("👍")
    assert server.reactions[str(sent.id)] == ["👍"]
    await sent.remove_reaction("👍", judge.client.user)
    await sent.delete()
    with pytest.raises(discord.NotFound):
        await sent.delete()
    (tmp_path / "a.txt").write_bytes(b"content")
    file = discord.File(tmp_path / "a.txt")
    assert (await room.send("look", file=file)).attachments[0].filename == "a.txt"
    assert [each.content async for each in room.history(after=discord.Object(1))] == ["look"]
    assert (await judge.client.create_dm(discord.Object(7))).id == 57
    with pytest.raises(discord.HTTPException, match="Invalid Form Body"):
        await room.send("x" * 2_001)
    server.faults = [Fault("POST", "messages", 403)]
    with pytest.raises(discord.Forbidden):
        await room.send("x")


async def test_it_registers_the_menu_at_our_server(server: DiscordServer, judge: Judge) -> None:
    words = {"type": 3, "name": "text", "description": "what to say behind it", "required": False}
    status = {"type": 1, "name": "status", "description": "how things are", "options": [words]}
    await judge.client.http.bulk_upsert_global_commands(901, [status])
    (found,) = await judge.client.http.get_global_commands(901)
    assert found["name"] == "status" and server.commands == [status]


async def test_a_wrong_token_is_refused_in_its_words(server: DiscordServer) -> None:
    other = Judge()
    try:
        with pytest.raises(discord.LoginFailure):
            await other.client.login("wrong")
    finally:
        await other.client.close()


async def test_it_opens_threads_on_our_server(server: DiscordServer, judge: Judge) -> None:
    channel = judge.client.get_channel(int(CHANNEL))
    made = await channel.create_thread(name="Marinas", type=discord.ChannelType.public_thread)
    assert (made.name, made.parent, str(made.id)) == ("Marinas", channel, server.made_threads[0]["id"])
    ((_, path, body),) = [call for call in server.calls if call[1].endswith("/threads")]
    assert path.endswith(f"channels/{CHANNEL}/threads") and body["type"] == 11
    with pytest.raises(discord.HTTPException, match="50024"):
        await judge.client.http.start_thread_without_message(
            57, name="Marinas", auto_archive_duration=1440, type=11, invitable=True, rate_limit_per_user=None
        )
