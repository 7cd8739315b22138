"""A bot against the fault server: what it does to messages, and the files it fetches."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from openclaw.channels.telegram.channel import Telegram
from openclaw.channels.telegram.settings import TelegramCommand, TelegramSettings
from openclaw.channels.telegram.wire import DOWNLOAD_BYTES, PHOTO_BYTES
from openclaw.core.channel import (
    AccountClosed,
    Address,
    Button,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    TryLater,
)
from openclaw.core.secret import Secret
from tests.channels.telegram.server import TOKEN, Fault, TelegramServer

pytestmark = pytest.mark.anyio

ADA = Address(channel="telegram", to="7")


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    with TelegramServer() as running:
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Telegram]:
    made = Telegram(Secret(TOKEN), settings=TelegramSettings(api_root=server.url))
    yield made
    await made.close()


async def test_a_message_is_edited_reacted_to_and_deleted(server: TelegramServer, bot: Telegram) -> None:
    yes = ((Button("Yes", "ok:1"),),)
    sent = await bot.send(Outbound(to=ADA, text="May I?", buttons=yes))
    edit = Outbound(to=ADA, text="**Done**", action="edit", about=sent.id)
    assert (await bot.send(edit)).id == sent.id
    assert server.sent[0]["text"] == "Done" and server.sent[0]["reply_markup"] is None
    assert (await bot.send(edit)).id == sent.id, "an edit that changes nothing has arrived"
    assert server.sent[0]["edits"] == 1
    assert (await bot.send(Outbound(to=ADA, text="👍", action="react", about=sent.id))).id == sent.id
    delete = Outbound(to=ADA, text="", action="delete", about=sent.id)
    await bot.send(delete)
    await bot.send(delete)
    with pytest.raises(MessageRefused, match="message to edit not found"):
        await bot.send(edit)


async def test_the_edit_of_a_file_changes_its_caption(server: TelegramServer, bot: Telegram, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    sent = await bot.send(Outbound(to=ADA, text="one", media=(str(tmp_path / "a.pdf"),)))
    await bot.send(Outbound(to=ADA, text="*two*", action="edit", about=sent.id))
    assert server.sent[0]["caption"] == "two" and server.sent[0]["caption_entities"]


@pytest.mark.parametrize("why", ["Bad Request: PHOTO_INVALID_DIMENSIONS", "Bad Request: IMAGE_PROCESS_FAILED"])
async def test_a_picture_that_telegram_does_not_show_goes_as_a_document(
    server: TelegramServer, bot: Telegram, tmp_path: Path, why: str
) -> None:
    (tmp_path / "a.png").write_bytes(b"png" * 100_000)
    server.faults = [Fault("sendPhoto", 400, says=why)]
    await bot.send(Outbound(to=ADA, text="look", media=(str(tmp_path / "a.png"),), reply_to="5"))
    (sent,) = server.sent
    assert (sent["method"], sent["file_name"], sent["caption"]) == ("sendDocument", "a.png", "look")
    assert sent["content"] == b"png" * 100_000 and sent["reply_parameters"]["message_id"] == 5


async def test_a_picture_that_is_too_large_for_one_goes_as_a_document(
    server: TelegramServer, bot: Telegram, tmp_path: Path
) -> None:
    with (tmp_path / "a.png").open("wb") as file:
        file.truncate(PHOTO_BYTES + 1)
    await bot.send(Outbound(to=ADA, text="", media=(str(tmp_path / "a.png"),)))
    assert [name for name, _ in server.calls] == ["sendDocument"]


async def test_other_refusals_of_a_file_are_final(server: TelegramServer, bot: Telegram, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"png")
    server.faults = [Fault("sendPhoto", 403, says="Forbidden: bot was blocked by the user")]
    with pytest.raises(MessageRefused, match="blocked"):
        await bot.send(Outbound(to=ADA, text="", media=(str(tmp_path / "a.png"),)))
    assert not server.sent


async def read(bot: Telegram, file: InboundFile) -> bytes:
    return b"".join([piece async for piece in bot.fetch(file)])


async def test_a_file_is_fetched(server: TelegramServer, bot: Telegram) -> None:
    server.files["f1"] = b"content" * 50_000
    assert await read(bot, InboundFile(ref="f1")) == b"content" * 50_000
    with pytest.raises(MessageRefused, match="wrong file_id"):
        await read(bot, InboundFile(ref="f2"))
    server.faults = [Fault("getFile", 502)]
    with pytest.raises(TryLater):
        await read(bot, InboundFile(ref="f1"))


async def test_the_cloud_hands_out_no_large_file() -> None:
    cloud = Telegram(Secret(TOKEN))
    with pytest.raises(MessageRefused, match="20,000,000"):
        await read(cloud, InboundFile(ref="f1", size=DOWNLOAD_BYTES + 1))
    await cloud.close()


async def test_a_press_is_answered_also_when_it_is_too_late(server: TelegramServer, bot: Telegram) -> None:
    press = Inbound(id="press:p1", channel="telegram", sender="7", text="", kind="press", press="p1")
    await bot.answer_press(press, "x" * 300)
    assert server.calls[-1] == ("answerCallbackQuery", {"callback_query_id": "p1", "text": "x" * 200})
    server.faults = [Fault("answerCallbackQuery", 400, says="Bad Request: query is too old and response timeout")]
    await bot.answer_press(press, "")


async def test_a_probe_says_who_we_are_or_that_the_token_is_wrong(server: TelegramServer, bot: Telegram) -> None:
    probe = await bot.probe()
    assert (probe.id, probe.name) == ("42", "@claw_bot")
    server.token = "43:other"
    with pytest.raises(AccountClosed) as raised:
        await bot.probe()
    assert not re.search(TOKEN, str(raised.value))


async def test_typing_is_shown_in_its_topic(server: TelegramServer, bot: Telegram) -> None:
    await bot.typing(Address(channel="telegram", to="-100", thread="1"))
    assert server.calls[-1][1] == {"chat_id": -100, "message_thread_id": 1, "action": "typing"}


async def test_a_topic_is_opened_where_there_are_topics(server: TelegramServer, bot: Telegram) -> None:
    opened = await bot.open_thread(Address(channel="telegram", to="-100"), "Marinas")
    assert opened == Address(channel="telegram", to="-100", thread="44")
    assert server.calls[-1][1] == {"chat_id": -100, "name": "Marinas"}
    with pytest.raises(MessageRefused, match="not a forum"):
        await bot.open_thread(Address(channel="telegram", to="-5"), "Marinas")


def test_groups_take_fewer_messages() -> None:
    bot = Telegram(Secret(TOKEN))
    assert bot.seconds_between(Address(channel="telegram", to="-100")) > bot.seconds_between(ADA)


class _Inbox:
    """Ends the run at the first poll."""

    def __init__(self) -> None:
        self.events: list[Inbound] = []

    def connected(self) -> None: ...

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None:
        self.events += events
        raise TryLater("seen")


async def once(server: TelegramServer, **settings: object) -> None:
    made = Telegram(
        Secret(TOKEN),
        settings=TelegramSettings(api_root=server.url, **settings),  # type: ignore[arg-type]
        menu=[("help", "what can be typed"), ("not-one", "x")],
    )
    server.says("hi")
    with pytest.raises(TryLater, match="seen"):
        await made.run(None, _Inbox())
    await made.close()


async def test_the_menu_is_set_when_it_changes(server: TelegramServer) -> None:
    weather = TelegramCommand(command="weather", description="what it will be")
    for _ in range(2):
        await once(server, custom_commands=(weather,))
    assert [each["command"] for each in server.commands] == ["help", "weather"]
    await once(server)
    assert [each["command"] for each in server.commands] == ["help"]
    assert [name for name, _ in server.calls].count("setMyCommands") == 2


async def test_a_server_without_menus_is_spoken_with_all_the_same(server: TelegramServer) -> None:
    server.faults = [Fault("getMyCommands", 404), Fault("setMyCommands", 400)]
    await once(server)


async def test_a_webhook_of_before_gives_way_to_polling(server: TelegramServer) -> None:
    server.webhook = {"url": "http://127.0.0.1:9/gone"}
    await once(server)
    assert server.webhook is None


async def test_another_program_that_polls_is_named(server: TelegramServer) -> None:
    server.faults = [Fault("getUpdates", 409, says="Conflict: terminated by other getUpdates request")]
    bot = Telegram(Secret(TOKEN), settings=TelegramSettings(api_root=server.url))
    with pytest.raises(TryLater, match="Another program uses this bot"):
        await bot.run(None, _Inbox())
    await bot.close()


async def test_a_proxy_carries_every_call(server: TelegramServer) -> None:
    """The server plays the proxy: it gets the whole address of a server that is not there."""
    settings = TelegramSettings(api_root="http://telegram.invalid", proxy=Secret(server.url))
    bot = Telegram(Secret(TOKEN), settings=settings)
    assert (await bot.probe()).id == "42"
    await bot.close()
