"""Messages that come while a run is active, in a chat window: merged ones are answered once, dropped ones told once."""

import asyncio

import pytest

from openclaw.runs.queue import QueueOptions, parse_queue, rules_of
from openclaw.runs.settings import QueueSettings
from openclaw.testing import ScriptedModel, TemporaryHome, says, stalls
from tests.runs.commands.house import chat_window, text_of

pytestmark = pytest.mark.anyio


def test_the_options_of_a_queue() -> None:
    assert parse_queue("collect debounce:2s cap:3 drop:oldest") == QueueOptions(
        mode="collect", debounce_ms=2000, cap=3, drop="old"
    )
    assert parse_queue("debounce:0.5s") == QueueOptions(debounce_ms=500)
    assert parse_queue("debounce:250").debounce_ms == 250
    settings = QueueSettings(mode="followup", by_channel={"telegram": "collect"}, cap=7)
    assert (rules_of(settings, "telegram").mode, rules_of(settings, "matrix").mode) == ("collect", "followup")
    assert rules_of(settings, "telegram", QueueOptions(mode="steer")).mode == "steer"
    assert rules_of(settings, "telegram").cap == 7


async def test_collected_messages_are_answered_once(openclaw_home: TemporaryHome) -> None:
    go = asyncio.Event()
    model = ScriptedModel([stalls(go), says("First.")], says("Both."))
    queue = {"queue": {"mode": "collect", "debounceMs": 20}}
    async with chat_window(openclaw_home, model, messages=queue) as chat:
        assert "Queue: collect, debounce 20 ms" in await chat.asks("/queue")
        runs = [await chat.sends("one")]
        await chat.until_asked(1)
        runs += [await chat.sends("two"), await chat.sends("three")]
        go.set()
        ends = [await chat.end_of(run_id) for run_id in runs]
    assert [text_of(end) for end in ends] == ["First.", "Both.", ""]
    assert [end["state"] for end in ends] == ["final"] * 3
    assert "two" in chat.said() and "three" in chat.said() and len(model.requests) == 2


async def test_dropped_messages_are_told_to_the_model_and_are_no_errors(openclaw_home: TemporaryHome) -> None:
    go = asyncio.Event()
    model = ScriptedModel([stalls(go), says("First.")], says("Rest."))
    async with chat_window(openclaw_home, model) as chat:
        assert "cap 1, drop summarize" in await chat.asks("/queue followup cap:1 drop:summarize")
        runs = [await chat.sends("one")]
        await chat.until_asked(1)
        runs += [await chat.sends("two"), await chat.sends("three")]
        go.set()
        ends = [await chat.end_of(run_id) for run_id in runs]
        assert [end["state"] for end in ends] == ["final"] * 3
        assert "[Queue overflow] Dropped 1 message(s)" in chat.said() and "- two" in chat.said()
        assert "Queue: steer" in await chat.asks("/queue default")


async def test_a_mode_inside_a_message_holds_for_it(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel([stalls()], says("Left."))
    async with chat_window(openclaw_home, model) as chat:
        first = await chat.sends("go right")
        await chat.until_asked(1)
        assert await chat.asks("/queue interrupt no, go left") == "Left."
        assert (await chat.end_of(first))["state"] == "aborted"
        assert "Queue: steer" in await chat.asks("/queue")
