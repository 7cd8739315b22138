"""What people on Telegram do beside writing: files, quotes, edits, reactions, buttons, long texts, talk in groups."""

import asyncio
import json
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.telegram.server import BOT, TelegramServer
from tests.channels.telegram.test_gateway import configure
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
CLUB = {"id": -5, "type": "group", "title": "Club"}


def last_user(model: MockModelServer) -> str:
    """The last message of the person in the last request."""
    said = [each for each in model.requests[-1]["messages"] if each["role"] == "user"]
    return json.dumps(said[-1], ensure_ascii=False)


async def until(telegram: TelegramServer, what: Any) -> None:
    await asyncio.to_thread(telegram.until, what, DEADLINE)


async def test_files_quotes_edits_reactions_presses_and_long_texts(openclaw_home: TemporaryHome) -> None:
    buttons = [[{"text": "Yes", "callback_data": "yes"}]]
    script: list[Any] = [
        *(says("Nice."), says("Read."), says("Too big."), says("Quoted.")),
        calls("message", action="send", message="Sure?", buttons=buttons),
        *(says("Asked."), says("Pressed."), says("Long."), says("Noted.")),
    ]
    with MockModelServer(script) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram, mediaMaxMb=1)
        config = json.loads(openclaw_home.config_path.read_text())
        messages = {"ackReaction": "👀", "ackReactionScope": "all", "removeAckAfterReply": True}
        model_settings = config["models"]["providers"]["mock"]["models"][0]
        openclaw_home.configure({**config, "messages": messages})
        model_settings["input"] = ["text", "image"]
        openclaw_home.configure({**config, "messages": messages})
        telegram.files |= {"pic": PNG, "doc": b"%PDF-1.7 plan", "none": b"", "big": b"x" * 1_000_001}
        with GatewayProcess(openclaw_home):
            sizes = [{"file_id": "pic", "file_unique_id": "u", "width": 9, "height": 9}]
            first = telegram.says(None, photo=sizes, caption="look")
            await until(telegram, lambda: len(telegram.sent) == 1)
            content = last_user(model)
            assert "data:image/png;base64" in content and "<media:image> [attached: " in content and "look" in content
            reactions = [params for name, params in telegram.calls if name == "setMessageReaction"]
            assert reactions[0]["message_id"] == first and reactions[0]["reaction"][0]["emoji"] == "👀"
            await asyncio.to_thread(telegram.called, "setMessageReaction", 2, DEADLINE)

            telegram.says(None, document={"file_id": "doc", "file_name": "../pl an.pdf"}, caption="read")
            await until(telegram, lambda: len(telegram.sent) == 2)
            (path,) = openclaw_home.workspace.glob(".openclaw/attachments/*/1-pl an.pdf")
            assert path.read_bytes() == b"%PDF-1.7 plan"
            assert f"{path.relative_to(openclaw_home.workspace)} (application/pdf, 13 bytes)" in last_user(model)

            album: dict[str, Any] = {"media_group_id": "a"}
            telegram.says(None, document={"file_id": "none"}, caption="two", **album)
            telegram.says(None, document={"file_id": "big", "file_size": 1_000_001}, **album)
            await until(telegram, lambda: len(telegram.sent) == 3)
            told = last_user(model)
            assert "media unavailable: it is empty" in told and "1,000,000 is the most" in told

            mine = telegram.sent[2]["message_id"]
            quoted = {"message_id": mine, "from": BOT, "text": "Too big.", "chat": {"id": 7, "type": "private"}}
            telegram.says("how big?", reply_to_message=quoted)
            await until(telegram, lambda: len(telegram.sent) == 4)
            assert f"[Replying to you id:{mine}]\\nToo big.\\n[/Replying]\\nhow big?" in last_user(model)

            question = telegram.says("ask me")
            await until(telegram, lambda: len(telegram.sent) == 6)
            number = next(each["message_id"] for each in telegram.sent if each.get("reply_markup"))
            telegram.presses(number, "yes", press="p1")
            telegram.presses(number, "yes", press="p2")
            await until(telegram, lambda: len(telegram.sent) == 7)
            await asyncio.to_thread(telegram.called, "answerCallbackQuery", 2, DEADLINE)
            assert "callback_data: yes" in last_user(model) and len(model.requests) == 7

            # Noted for the next turn, and no reason to speak.
            telegram.edits(question, "ask me nicely")
            telegram.reacts(telegram.sent[0]["message_id"], "👍")
            telegram.reacts(first, "👎")  # their own message: none of our business
            telegram.says("a" * 4_000)
            telegram.says("b" * 10)
            await until(telegram, lambda: len(telegram.sent) == 8)
            long = last_user(model)
            assert "a\\n" + "b" * 10 in long and len(model.requests) == 8
            assert "edited the message" in long and "ask me nicely" in long
            assert "reacted with 👍" in long and "👎" not in long


async def test_a_group_is_told_what_was_said_and_a_guest_has_a_budget(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("Herons are blue.")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram, groupPolicy="open")
        mention = {"entities": [{"type": "mention", "offset": 0, "length": 9}], "chat": CLUB}
        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("the heron is blue", sender=8, chat=CLUB)
            telegram.says("@claw_bot is it?", sender=9, **mention)
            await until(telegram, lambda: len(telegram.sent) == 1)
            content = last_user(model)
            assert "[Group Club -5 on telegram; heard: Person 8 8, Person 9 9]" in content
            assert "[telegram Person 8 8] the heron is blue\\n[Current message - respond to this]" in content
            gateway.stop()
        config = {**json.loads(openclaw_home.config_path.read_text()), "budget": {"day": 1_000.0, "guestDay": 0.01}}
        price = {"input": 10.0, "output": 10.0, "cacheRead": 0.0, "cacheWrite": 0.0}
        config["models"]["providers"]["mock"]["models"][0] |= {"cost": price, "maxTokens": 10}
        openclaw_home.configure(config)
        with GatewayProcess(openclaw_home):
            telegram.says("@claw_bot and now?", sender=9, **mention)
            await until(telegram, lambda: len(telegram.sent) == 2)
            assert telegram.sent[1]["text"] == "Sorry, that did not work." and len(model.requests) == 1
            telegram.says("and me?")  # the owner has the rest of the day's
            await until(telegram, lambda: len(telegram.sent) == 3)
            assert telegram.sent[2]["text"] == "Herons are blue." and len(model.requests) == 2
