"""A question of the assistant on channels: buttons or a list, whose press counts, and how often."""

from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.telegram.server import TelegramServer
from tests.channels.telegram.test_gateway import configure
from tests.channels.telegram.test_replies import chat, until
from tests.channels.test_gateway import Post
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio

ASKS = calls("ask_user", questions=[{"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}])
GROUP: dict[str, Any] = {"chat": {"id": -100, "type": "supergroup", "title": "Club"}}


def last_words(model: MockModelServer) -> str:
    """What was said last to the model."""
    return str(model.requests[-1]["messages"][-1])


def buttons(message: dict[str, Any]) -> dict[str, str]:
    return {row[0]["text"]: row[0]["callback_data"] for row in message["reply_markup"]["inline_keyboard"]}


async def test_a_press_is_the_answer_also_after_a_kill_and_only_once(openclaw_home: TemporaryHome) -> None:
    script: list[Any] = [ASKS, says("Blue it is."), ASKS, says("Green, then.")]
    with MockModelServer(script) as model, TelegramServer() as telegram:
        configure(openclaw_home, model, telegram, dmPolicy="allowlist", allowFrom=["8"])

        async def told(press: str) -> str:
            def answers() -> dict[str, str]:
                said = [params for name, params in telegram.calls if name == "answerCallbackQuery"]
                return {params["callback_query_id"]: params["text"] for params in said}

            await until(telegram, lambda: press in answers())
            return answers()[press]

        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("paint the door")
            await until(telegram, lambda: chat(telegram) == ["Which colour?"])
            asked = telegram.sent[0]
            number, choices = asked["message_id"], buttons(asked)
            assert list(choices) == ["Red", "Blue"]
            telegram.presses(number, choices["Red"], sender=9, press="stranger")
            telegram.presses(number, choices["Red"], sender=8, press="elsewhere")
            assert await told("stranger") == "You cannot answer this here."
            assert await told("elsewhere") == "No longer waiting."
            gateway.kill()
        with GatewayProcess(openclaw_home):
            telegram.presses(number, choices["Blue"], press="p1")
            telegram.presses(number, choices["Red"], press="p2")
            await until(telegram, lambda: chat(telegram) == ["Which colour?\n\n→ Blue", "Blue it is."])
            assert not telegram.sent[0].get("reply_markup")
            assert (await told("p1"), await told("p2")) == ("Blue", "No longer waiting.")
            assert "Blue" in last_words(model) and len(model.requests) == 2

            telegram.says("and the gate")
            await until(telegram, lambda: chat(telegram)[2:] == ["Which colour?"])
            again = telegram.sent[2]
            telegram.says("green")
            await until(telegram, lambda: chat(telegram)[3:] == ["Green, then."])
            telegram.presses(again["message_id"], buttons(again)["Red"], press="p3")
            assert await told("p3") == "No longer waiting."
            assert len(model.requests) == 4


async def test_in_a_group_whoever_may_speak_there_answers(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([ASKS, says("Red it is.")]) as model, TelegramServer() as telegram:
        configure(
            openclaw_home, model, telegram, groups={"-100": {"requireMention": True}}, groupAllowFrom=["telegram:8"]
        )
        with GatewayProcess(openclaw_home):
            entity = {"type": "mention", "offset": 0, "length": 9}
            telegram.says("@claw_bot paint the door", entities=[entity], **GROUP)
            await until(telegram, lambda: chat(telegram, -100) == ["Which colour?"])
            number, choices = telegram.sent[0]["message_id"], buttons(telegram.sent[0])
            telegram.presses(number, choices["Blue"], sender=9, press="p1", **GROUP)
            telegram.presses(number, choices["Red"], sender=8, press="p2", **GROUP)
            await until(telegram, lambda: chat(telegram, -100)[1:] == ["Red it is."])
            assert "[telegram Person 8 8] Red" in last_words(model)


async def test_without_buttons_the_options_are_a_list(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([ASKS, says("Red it is.")]) as model:
        post = Post(openclaw_home, model, {}, "mailbox:ada")
        with GatewayProcess(openclaw_home):
            post.writes("ada", "paint the door")
            assert await post.hears("ada") == "Which colour?\n\n1. Red\n2. Blue"
            post.writes("ada", "1")
            assert await post.hears("ada") == "Red it is."
