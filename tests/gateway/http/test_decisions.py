"""The small decisions behind the HTTP surface, without a server."""

import asyncio
import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import Unavailable
from openclaw.core.events import AttemptFailed, ModelCalled, ToolEnded, ToolUpdated
from openclaw.core.keys import SessionKey
from openclaw.core.messages import ToolCall, ToolResult
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.requests import RequestText as SaidBefore
from openclaw.gateway.http.requests import agent_in, compose_turn, image
from openclaw.gateway.http.stream import MOST_WAITING, RunFanout, StreamedText
from openclaw.runs.events import RunAccepted, RunEvent, RunPublisher, RunSettled
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.reply import ReplyShaped, ShapedEvent, TextShaped

CALLED = ModelCalled("p", "m")
FAILED = AttemptFailed("p", "m", "server_error", "oops")


def told(event: ShapedEvent | RunSettled | RunAccepted, run_id: str = "r") -> RunEvent:
    return RunEvent(run_id=run_id, key=SessionKey("main", "main"), seq=1, at=1, event=event)


def ended(text: str, *calls: ToolCall) -> ReplyShaped:
    return ReplyShaped(text=text, calls=calls)


def heard(*events: ShapedEvent | RunSettled) -> str:
    speech = StreamedText()
    return "".join(speech.take(told(event)) for event in events)


def test_two_messages_of_a_run_are_set_apart() -> None:
    assert heard(CALLED, TextShaped("a"), ended("a"), CALLED, TextShaped("b"), ended("b")) == "a\n\nb"


def test_text_that_was_not_streamed_is_not_lost() -> None:
    assert heard(CALLED, ended("whole")) == "whole"
    assert heard(CALLED, TextShaped("wh"), ended("whole")) == "whole"


@pytest.mark.parametrize(
    ("second", "expected"),
    [("Hello there", "Hello there"), ("Hi", "Hello\n\nHi"), ("He", "Hello\n\nHe"), ("Hello", "Hello")],
)
def test_a_second_attempt_continues_the_first_or_starts_anew(second: str, expected: str) -> None:
    deltas = [TextShaped(letter) for letter in second]
    assert heard(CALLED, TextShaped("Hello"), FAILED, CALLED, *deltas, ended(second)) == expected


def test_a_run_that_was_answered_with_another_says_what_that_one_said() -> None:
    assert heard(RunSettled(RunOutcome(status="ok", stop_reason="stop", texts=("a", "b")))) == "a\n\nb"


def test_only_calls_that_were_handed_over_are_the_clients() -> None:
    good, bad, own = (ToolCall(id=name, name=name) for name in ("good", "bad", "own"))
    speech = StreamedText(["good", "bad"])
    speech.take(told(ended("", bad, own, good)))
    for call in (own, good, bad):
        speech.take(told(ToolEnded(call, ToolResult(call.id, call.name, is_error=call is bad))))
    assert speech.calls == (good,)
    speech.take(told(ended("never mind")))
    assert not speech.calls


@pytest.mark.anyio
async def test_a_listener_hears_its_own_run_and_leaves_nothing_behind() -> None:
    publish = RunPublisher()
    fanout = RunFanout(publish)
    with fanout.listening("r") as one, fanout.listening("r") as two:
        publish(told(TextShaped("a")))
        publish(told(TextShaped("other"), "another"))
        publish(told(TextShaped("b")))
        for listener in (one, two):
            event = await listener.next(1)
            assert event is not None and event.event == TextShaped("ab")
        assert await one.next(0.01) is None
        assert len(fanout) == 2
    assert len(fanout) == 0
    publish(told(TextShaped("late")))


@pytest.mark.anyio
async def test_a_reader_that_sleeps_is_given_up_and_does_not_fill_the_memory() -> None:
    publish = RunPublisher()
    fanout = RunFanout(publish)
    with fanout.listening("r") as listener:
        for _ in range(MOST_WAITING * 2):
            publish(told(TextShaped("x")))
            publish(told(ToolUpdated(ToolCall(id="1", name="n"), "progress")))
        assert await listener.next(1) is not None and await listener.next(0.01) is None
        for _ in range(MOST_WAITING + 1):
            publish(told(CALLED))
        for _ in range(MOST_WAITING):
            await listener.next(1)
        with pytest.raises(Unavailable, match="too slowly"):
            await listener.next(1)


@pytest.mark.anyio
async def test_closing_wakes_who_waits() -> None:
    publish = RunPublisher()
    fanout = RunFanout(publish)
    with fanout.listening("r") as listener:
        waiting = asyncio.create_task(listener.next(10))
        await asyncio.sleep(0)
        fanout.close()
        with pytest.raises(Unavailable):
            await waiting
    with fanout.listening("later") as listener, pytest.raises(Unavailable):
        await listener.next(10)


SAID = st.lists(
    st.builds(
        SaidBefore, role=st.sampled_from(["system", "user", "assistant", "tool"]), text=st.text("ab ", max_size=5)
    ),
    max_size=8,
)


@given(SAID, st.booleans())
def test_a_turn_never_loses_what_is_new_and_never_repeats_what_is_known(said: list[SaidBefore], fresh: bool) -> None:
    marked = [
        SaidBefore(role=each.role, text=f"<{place}>" if each.text.strip() else each.text)
        for place, each in enumerate(said)
    ]
    try:
        asked = compose_turn(marked, fresh=fresh)
    except HttpProblem as problem:
        assert problem.status == 400
        return
    for place, each in enumerate(marked):
        if not each.text.strip():
            continue
        if each.role == "system":
            assert each.text in asked.extra and each.text not in asked.text
        elif fresh:
            assert asked.text.count(f"<{place}>") == 1
        elif each.role == "assistant":
            assert each.text not in asked.text
    users = [each for each in marked if each.role == "user" and each.text.strip()]
    if not fresh:
        assert sum(each.text in asked.text for each in users) <= 1


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("openclaw", None),
        ("openclaw/default", None),
        ("openclaw/ops", "ops"),
        ("openclaw:Ops", "ops"),
        ("agent:ops", "ops"),
    ],
)
def test_model_names_mean_agents(name: str, agent: str | None) -> None:
    assert agent_in(name) == agent


@pytest.mark.parametrize("name", ["", "gpt-5", "openclaw/", "openclaw/a b", "openclaw/../x", "agent:", "openclaw/a/b"])
def test_other_model_names_are_refused(name: str) -> None:
    with pytest.raises(HttpProblem):
        agent_in(name)


def test_an_image_is_checked_before_it_goes_anywhere() -> None:
    data = base64.b64encode(b"abc").decode()
    assert image(f"data:image/JPG;charset=x;base64,{data}").mime_type == "image/jpeg"
    for url in (
        "data:image/png;base64,",
        "data:image/png;base64,@@@",
        f"data:image/svg+xml;base64,{data}",
        "data:,x",
        f"data:text/html;base64,{data}",
    ):
        with pytest.raises(HttpProblem):
            image(url)
