"""python-telegram-bot as a judge: it reads our recorded updates, and understands the answers of our fault server."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.channels.telegram.payloads import UPDATES
from tests.channels.telegram.server import FORUM, TOKEN, TelegramServer

telegram = pytest.importorskip("telegram", reason="python-telegram-bot is not installed")
pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Iterator[TelegramServer]:
    with TelegramServer() as running:
        yield running


@pytest.fixture
async def bot(server: TelegramServer) -> AsyncIterator[Any]:
    made = telegram.Bot(TOKEN, base_url=f"{server.url}/bot", base_file_url=f"{server.url}/file/bot")
    async with made:
        yield made


@pytest.mark.parametrize("name", UPDATES)
async def test_it_reads_our_updates(bot: Any, name: str) -> None:
    update = telegram.Update.de_json(UPDATES[name], bot)
    (kind,) = UPDATES[name].keys() - {"update_id"}
    read = getattr(update, kind)
    assert read is not None
    # What we wrote down under a name that it does not know is no field of the Bot API.
    assert not dict(read.api_kwargs)


async def test_it_understands_our_server(server: TelegramServer, bot: Any) -> None:
    assert bot.username == "claw_bot"
    server.says("hello")
    (update,) = await bot.get_updates(timeout=1)
    assert update.message.text == "hello" and await bot.get_updates(offset=update.update_id + 1, timeout=0) == ()
    keyboard = telegram.InlineKeyboardMarkup([[telegram.InlineKeyboardButton("Yes", callback_data="ok:1")]])
    sent = await bot.send_message(7, "May I?", reply_markup=keyboard)
    assert (await bot.edit_message_text("Yes.", 7, sent.message_id)).text == "Yes."
    with pytest.raises(telegram.error.BadRequest, match="not modified"):
        await bot.edit_message_text("Yes.", 7, sent.message_id)
    assert await bot.set_message_reaction(7, sent.message_id, "👍")
    assert await bot.delete_message(7, sent.message_id)
    with pytest.raises(telegram.error.BadRequest, match="too long"):
        await bot.send_message(7, "x" * 4_097)
    assert await bot.answer_callback_query("p1") and await bot.send_chat_action(7, "typing")


async def test_it_opens_topics_on_our_server(bot: Any) -> None:
    topic = await bot.create_forum_topic(FORUM, "Marinas")
    assert (topic.name, topic.message_thread_id) == ("Marinas", 44)
    with pytest.raises(telegram.error.BadRequest, match="not a forum"):
        await bot.create_forum_topic(-5, "Marinas")


async def test_it_understands_the_files_of_our_server(server: TelegramServer, bot: Any) -> None:
    assert (await bot.send_document(7, b"%PDF", filename="a.pdf", caption="look")).document.file_id
    assert (await bot.send_photo(7, b"png")).photo[0].file_id
    for send, kind in ((bot.send_voice, "voice"), (bot.send_audio, "audio"), (bot.send_video, "video")):
        assert getattr(await send(7, b"sound"), kind).file_id
    assert (await bot.send_animation(7, b"gif")).animation.file_id
    server.files["f1"] = b"content"
    assert await (await bot.get_file("f1")).download_as_bytearray() == b"content"


async def test_it_understands_menus_and_webhooks_of_our_server(server: TelegramServer, bot: Any) -> None:
    assert await bot.set_my_commands([("help", "what can be typed")])
    (command,) = await bot.get_my_commands()
    assert command.command == "help"
    assert await bot.set_webhook("http://127.0.0.1:9/x", secret_token="s")
    assert (await bot.get_webhook_info()).url == "http://127.0.0.1:9/x"
    with pytest.raises(telegram.error.Conflict):
        await bot.get_updates()
    assert await bot.delete_webhook()
    server.token = "43:other"
    with pytest.raises(telegram.error.InvalidToken):
        await bot.get_me()
