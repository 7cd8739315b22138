"""When a model does not answer as it should: what is tried next, what the person hears, what is written down."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from openclaw.core.errors import (
    AuthFailed,
    BadResponse,
    ContextTooLong,
    ModelRefused,
    NetworkFailed,
    ProviderError,
    RateLimited,
)
from openclaw.core.events import AttemptFailed
from openclaw.core.messages import Assistant
from openclaw.gateway.app import open_app
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.testing import (
    FakeClock,
    Heard,
    ScriptedApprover,
    ScriptedModel,
    TemporaryHome,
    ask,
    calls,
    fails,
    hangs_up,
    says,
    stalls,
)
from tests.gateway.support import roles, spoken, written
from tests.models.providers.loopback import Answer, loopback, pieces

pytestmark = pytest.mark.anyio

Models = Mapping[str, ScriptedModel]


async def answer(home: TemporaryHome, model: ScriptedModel | Models, text: str = "go") -> Heard:
    clock = FakeClock()
    async with asyncio.timeout(120), home.assistant(model, clock=clock) as app:
        return await clock.drive(ask(app, text))


def failures(heard: Heard) -> list[tuple[str, str, float]]:
    return [(event.provider, event.reason, event.wait) for event in heard.events if isinstance(event, AttemptFailed)]


async def test_a_stream_that_breaks_off_is_asked_again_and_only_the_whole_answer_stays(
    openclaw_home: TemporaryHome,
) -> None:
    openclaw_home.use_model()
    model = ScriptedModel([says("Half an ans"), hangs_up()], says("A whole answer."))
    heard = await answer(openclaw_home, model)
    assert heard.text == "A whole answer."
    assert [reason for _, reason, _ in failures(heard)] == ["server_error"]
    assert spoken(written(openclaw_home)) == ["A whole answer."]
    assert model.requests[0].messages == model.requests[1].messages


async def test_garbage_is_asked_again(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel([says("Half"), fails(BadResponse("not JSON"))], says("Fine."))
    heard = await answer(openclaw_home, model)
    assert spoken(written(openclaw_home)) == ["Fine."]
    assert heard.end.error is None


async def test_a_rate_limit_is_waited_out_for_as_long_as_the_provider_says(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel([says("Hal"), fails(RateLimited("slow down", retry_after=30.0))], says("Here I am."))
    heard = await answer(openclaw_home, model)
    assert failures(heard) == [("scripted", "rate_limit", 30.0)]
    assert spoken(written(openclaw_home)) == ["Here I am."]


async def test_a_model_that_never_answers_is_given_up_and_the_next_one_asked(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("dead/m", "alive/m")
    model = {"dead": ScriptedModel(*(stalls() for _ in range(20))), "alive": ScriptedModel(says("I am here."))}
    heard = await answer(openclaw_home, model)
    assert heard.text == "I am here."
    assert {reason for _, reason, _ in failures(heard)} == {"timeout"}


async def test_when_the_key_is_wrong_the_next_model_answers(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("a/m", "b/m")
    models = {"a": ScriptedModel(fails(AuthFailed("bad key"))), "b": ScriptedModel(says("I can help."))}
    heard = await answer(openclaw_home, models)
    assert heard.text == "I can help."
    assert failures(heard) == [("a", "auth", 0.0)]
    (reply,) = (message for message in written(openclaw_home) if isinstance(message, Assistant))
    assert (reply.provider, reply.model) == ("b", "m")


async def test_the_next_turn_begins_with_the_first_model_again(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("a/m", "b/m")
    models = {
        "a": ScriptedModel(fails(AuthFailed("bad key")), says("Back again.")),
        "b": ScriptedModel(says("I can help.")),
    }
    async with openclaw_home.assistant(models) as app:
        await ask(app, "one")
        heard = await ask(app, "two")
    assert heard.text == "Back again."


async def test_a_model_that_fails_in_the_middle_of_a_turn_does_not_repeat_the_tools(
    openclaw_home: TemporaryHome,
) -> None:
    openclaw_home.use_model("a/m", "b/m")
    models = {
        "a": ScriptedModel(calls("write", path="x", content="y"), fails(AuthFailed("expired"))),
        "b": ScriptedModel(says("Written.")),
    }
    heard = await answer(openclaw_home, models)
    assert heard.text == "Written."
    assert len(heard.results) == 1
    assert roles(models["b"].requests[0].messages) == ["User", "Assistant", "ToolResult"]


async def test_when_all_fail_the_person_hears_of_each(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("a/m", "b/m")
    models = {"a": ScriptedModel(fails(AuthFailed("bad key"))), "b": ScriptedModel(fails(AuthFailed("expired")))}
    heard = await answer(openclaw_home, models)
    assert heard.end.stop_reason == "error"
    assert heard.end.error == "none of 2 models answered: a/m: bad key (auth); b/m: expired (auth)"
    reply = written(openclaw_home)[-1]
    assert isinstance(reply, Assistant)
    assert (reply.stop_reason, reply.error_message) == ("error", heard.end.error)


async def test_after_a_turn_that_failed_the_next_one_works(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(fails(AuthFailed("bad key")), says("Better now."))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "one")
        heard = await ask(app, "two")
    assert heard.text == "Better now."


@pytest.mark.parametrize("error", [ContextTooLong("too long for the model"), ModelRefused("I will not")])
async def test_a_refusal_or_a_conversation_too_long_never_goes_to_another_model(
    openclaw_home: TemporaryHome, error: ProviderError
) -> None:
    openclaw_home.use_model("a/m", "b/m")
    models = {"a": ScriptedModel(fails(error)), "b": ScriptedModel(says("never asked"))}
    heard = await answer(openclaw_home, models)
    assert heard.end.error == error.message
    assert models["b"].requests == []


async def test_an_empty_answer_is_asked_for_again(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    heard = await answer(openclaw_home, ScriptedModel(says(""), says("Sorry, here.")))
    assert [reason for _, reason, _ in failures(heard)] == ["empty_response"]
    assert spoken(written(openclaw_home)) == ["Sorry, here."]


async def test_a_model_that_is_always_empty_ends_in_an_error(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    heard = await answer(openclaw_home, ScriptedModel(*(says(" ") for _ in range(20))))
    assert heard.end.error == "scripted/scripted gave an empty answer"
    assert heard.end.error_code == "empty_response"


async def test_a_model_server_that_is_not_running_is_said_so_soon(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(*(fails(NetworkFailed("cannot reach 127.0.0.1:9")) for _ in range(20)))
    heard = await answer(openclaw_home, model)
    assert heard.end.error == "cannot reach 127.0.0.1:9"
    assert len(model.requests) == 2


async def test_a_loop_after_a_fallback_is_reported_as_a_loop(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("a/m", "b/m", "c/m")
    models = {
        "a": ScriptedModel(fails(AuthFailed("bad key"))),
        "b": ScriptedModel(fails(AuthFailed("bad key too"))),
        "c": ScriptedModel(*(calls("ls") for _ in range(30))),
    }
    heard = await answer(openclaw_home, models)
    assert heard.end.error == "stopped: the model kept repeating calls that bring nothing new"


# The same over a real connection.


def chunk(**delta: Any) -> bytes:
    body = {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
    return f"data: {json.dumps(body)}\n\n".encode()


WHOLE = chunk(role="assistant", content="A whole answer.") + (
    b'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1000,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":100}}}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.mark.parametrize(
    "bad",
    [
        Answer(pieces=(chunk(role="assistant", content="Half"),), ending="cut"),
        Answer(pieces=(chunk(role="assistant", content="Half"), b"data: {not json\n\n")),
        Answer(pieces=(b"<html>",), content_type="text/html"),
        Answer(status=500, pieces=(b"{}",), content_type="application/json"),
        Answer(status=429, headers={"retry-after": "0"}, pieces=(b"{}",), content_type="application/json"),
        Answer(ending="refuse"),
    ],
    ids=["cut", "garbage", "a web page", "500", "429", "hung up"],
)
async def test_a_bad_connection_is_got_over(openclaw_home: TemporaryHome, bad: Answer) -> None:
    class Hurried(SystemClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(min(seconds, 0.01) if seconds < 100 else seconds)

    async with loopback() as server:
        server.will(bad, Answer(pieces=pieces(WHOLE, 7)))
        settings = {"api": "openai-completions", "baseUrl": f"{server.url}/v1"}
        prices = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0}
        openclaw_home.configure(
            {
                "models": {"providers": {"box": {**settings, "models": [{"id": "m", "cost": prices}]}}},
                "agents": {"defaults": {"model": "box/m"}},
            }
        )
        environment = Environment(
            environ=openclaw_home.environ, home_dir=openclaw_home.root, cwd=openclaw_home.workspace
        )
        async with (
            asyncio.timeout(120),
            open_app(environment, clock=Hurried(), approver=ScriptedApprover()) as app,
        ):
            heard = await ask(app, "go")
    assert heard.text == "A whole answer."
    assert spoken(written(openclaw_home)) == ["A whole answer."]
    usage = heard.end.usage
    assert (usage.input, usage.cache_read, usage.output) == (900, 100, 20)
    assert usage.cost is not None
    assert usage.cost.total == pytest.approx(0.00095)
