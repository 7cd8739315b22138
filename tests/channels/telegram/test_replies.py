"""What people on Telegram see while a run works and after: a message that grows, questions with buttons, a stop."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer, Pauses
from tests.channels.telegram.server import Fault, TelegramServer
from tests.channels.telegram.test_gateway import configure
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio

WORDS = "The weather will be fine tomorrow, with some clouds. "


async def until(telegram: TelegramServer, true: Callable[[], Any]) -> None:
    await asyncio.to_thread(telegram.until, true, DEADLINE)


def chat(telegram: TelegramServer, chat_id: int = 7) -> list[str]:
    """The bot's messages that are there, as they look now."""
    return [each["text"] for each in telegram.sent if not each.get("deleted") and each["chat_id"] == chat_id]


async def test_an_answer_grows_over_a_kill_and_a_flood_wait_and_stays_one_message(openclaw_home: TemporaryHome) -> None:
    whole = WORDS * 4
    begun: list[Any] = [says(WORDS), Pauses(), says(WORDS), Pauses()]
    again: list[Any] = [says(WORDS * 3), Pauses(), says(WORDS)]
    with MockModelServer([begun, again]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("how is the weather?")
            await until(telegram, lambda: chat(telegram) == [WORDS.strip()])
            model.go_on()  # what is edited is on record
            await until(telegram, lambda: chat(telegram) == [(WORDS * 2).strip()])
            gateway.kill()
        telegram.faults = [Fault("editMessageText", 429, retry_after=2)]
        with GatewayProcess(openclaw_home):
            await until(telegram, lambda: chat(telegram) == [(WORDS * 3).strip()])
            telegram.faults = [Fault("editMessageText", 429, retry_after=1)]
            model.go_on()
            model.go_on()
            await until(telegram, lambda: chat(telegram) == [whole.strip()])
    assert [name for name, _ in telegram.calls].count("sendMessage") == 1


async def test_a_long_answer_overflows_at_its_end(openclaw_home: TemporaryHome) -> None:
    text = ("\n\n".join(f"{number} {WORDS * 4}" for number in range(50)))[:10_000].strip()
    with (
        MockModelServer([[says(text[:6_000], 500), Pauses(), says(text[6_000:], 500)], says("ok")]) as model,
        TelegramServer() as telegram,
    ):
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home):
            telegram.says("tell me everything")
            await until(telegram, lambda: len(telegram.sent) == 1 and len(telegram.sent[0]["text"]) > 3_000)
            model.go_on()
            await until(telegram, lambda: len(telegram.sent) == 3)
            assert "\n".join(chat(telegram)).split() == text.split()


async def test_stopping_an_answer_leaves_what_was_there(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([[says(WORDS), Pauses()], says("Ready.")]) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home):
            telegram.says("how is the weather?")
            await until(telegram, lambda: chat(telegram) == [WORDS.strip()])
            telegram.says("/stop")
            await until(telegram, lambda: len(telegram.sent) == 2 and "(stopped)" in chat(telegram)[0])
            assert chat(telegram)[0] == f"{WORDS.strip()}\n\n(stopped)" and "Stopped" in chat(telegram)[1]
            telegram.says("and now?")
            await until(telegram, lambda: chat(telegram)[2:] == ["Ready."])


async def test_the_owner_allows_a_command_with_a_button(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer([calls("exec", command="install /dev/null clicked"), says("Made it.")]) as model,
        TelegramServer() as telegram,
    ):
        configure(openclaw_home, model, telegram, dmPolicy="open", allowFrom=["*"])
        with GatewayProcess(openclaw_home):
            telegram.says("make it")
            await until(telegram, lambda: len(telegram.sent) == 1)
            asked = telegram.sent[0]
            assert "install /dev/null clicked" in asked["text"] and asked["chat_id"] == 7
            (row,) = asked["reply_markup"]["inline_keyboard"]
            assert [button["text"] for button in row] == ["Allow once", "Always", "Deny"]
            number, data = asked["message_id"], row[0]["callback_data"]

            telegram.presses(number, data, sender=8, press="p1")
            answer = await asyncio.to_thread(telegram.called, "answerCallbackQuery", 1, DEADLINE)
            assert answer["text"] == "Only my owner can answer this." and len(telegram.sent) == 1
            telegram.presses(number, data, press="p2")
            await until(telegram, lambda: "Allowed once by telegram:7." in telegram.sent[0]["text"])
            assert not telegram.sent[0].get("reply_markup")
            await until(telegram, lambda: chat(telegram)[1:] == ["Made it."])
            telegram.presses(number, row[2]["callback_data"], press="p3")
            await asyncio.to_thread(telegram.called, "answerCallbackQuery", 3, DEADLINE)
            answered = [params for name, params in telegram.calls if name == "answerCallbackQuery"]
            answers = {params["callback_query_id"]: params["text"] for params in answered}
            assert answers["p2"] == "Allowed once." and answers["p3"] == "Already answered: Allowed once."
    assert (openclaw_home.workspace / "clicked").exists()


async def test_a_button_works_after_a_kill(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer(
            [calls("exec", command="install /dev/null clicked"), says("It waits."), says("Made it.")]
        ) as model,
        TelegramServer() as telegram,
    ):
        configure(openclaw_home, model, telegram)
        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("make it")
            # The run goes on without an answer, and the kill comes behind it.
            await until(telegram, lambda: chat(telegram)[1:] == ["It waits."])
            gateway.kill()
        data = telegram.sent[0]["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
        with GatewayProcess(openclaw_home):
            telegram.presses(telegram.sent[0]["message_id"], data)
            await until(telegram, lambda: "Allowed once by telegram:7." in telegram.sent[0]["text"])
            await until(telegram, lambda: chat(telegram)[-1] == "Made it.")
    assert (openclaw_home.workspace / "clicked").exists()
