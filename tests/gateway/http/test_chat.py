"""Chat completions, as the official client sees them."""

import asyncio
import base64
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from openclaw.core.errors import ContextTooLong, ServerFailed
from openclaw.core.events import ModelCalled
from openclaw.core.messages import Assistant, Image, ToolResult, User
from openclaw.runs.events import RunSettled
from openclaw.testing import ScriptedModel, TemporaryHome, calls, fails, says, stalls
from tests.gateway.http.support import house

pytestmark = pytest.mark.anyio

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\nnot much of a picture").decode()
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


async def test_a_question_gets_an_answer(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    scripted_model.script(says("Hello there."))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        answer = await client.chat.completions.create(model="openclaw", messages=HELLO)
    assert answer.id.startswith("chatcmpl_") and answer.model == "openclaw" and answer.object == "chat.completion"
    assert answer.choices[0].message.content == "Hello there."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None and answer.usage.prompt_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def test_a_stream_begins_with_the_role_and_ends_with_the_usage(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("One two three four five."))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        stream = await client.chat.completions.create(
            model="openclaw/main", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "One two three four five."
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert not chunks[-1].choices and chunks[-1].usage is not None and chunks[-1].usage.completion_tokens > 0
    assert all(chunk.object == "chat.completion.chunk" and chunk.model == "openclaw/main" for chunk in chunks)


async def test_words_arrive_while_the_model_still_speaks(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go = asyncio.Event()
    scripted_model.script([says("first "), stalls(go), says("second")])
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        stream = await client.chat.completions.create(model="openclaw", messages=HELLO, stream=True)
        heard = ""
        async for chunk in stream:
            heard += chunk.choices[0].delta.content or ""
            if heard == "first ":
                go.set()
    assert heard == "first second"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_function_of_the_client_is_called_and_its_result_understood(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, stream: bool
) -> None:
    scripted_model.script([says("Let me see."), calls("get_weather", city="Oslo")], says("It rains in Oslo."))
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "weather in Oslo?"}]
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        call, text, reason = await _asked(client, messages, stream)
        assert (call["name"], call["arguments"], reason) == ("get_weather", '{"city":"Oslo"}', "tool_calls")
        assert text == "Let me see."
        assert scripted_model.left == 1  # the model was not asked again without the result
        messages += [
            {
                "role": "assistant",
                "content": text,
                "tool_calls": [
                    {
                        "id": call["id"],
                        "type": "function",
                        "function": {"name": call["name"], "arguments": call["arguments"]},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": call["id"], "content": "rain, 8 degrees"},
        ]
        answer = await client.chat.completions.create(model="openclaw", messages=messages, tools=[WEATHER])
    assert answer.choices[0].message.content == "It rains in Oslo."
    last = scripted_model.requests[-1].messages[-1]
    assert isinstance(last, User) and last.text.endswith("Result of get_weather (call_1):\nrain, 8 degrees")
    assert "User: weather in Oslo?" in last.text and 'Called get_weather (call_1) with {"city":"Oslo"}' in last.text


async def _asked(
    client: openai.AsyncOpenAI, messages: list[ChatCompletionMessageParam], stream: bool
) -> tuple[dict[str, Any], str, str | None]:
    if not stream:
        answer = await client.chat.completions.create(model="openclaw", messages=messages, tools=[WEATHER])
        choice = answer.choices[0]
        assert choice.message.tool_calls is not None
        (call,) = choice.message.tool_calls
        assert call.type == "function"
        shown = {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        return shown, choice.message.content or "", choice.finish_reason
    events = await client.chat.completions.create(model="openclaw", messages=messages, tools=[WEATHER], stream=True)
    text, found, reason = "", {}, None
    async for chunk in events:
        choice_ = chunk.choices[0]
        text += choice_.delta.content or ""
        reason = choice_.finish_reason or reason
        for part in choice_.delta.tool_calls or ():
            assert part.function is not None
            found = {"id": part.id, "name": part.function.name, "arguments": part.function.arguments}
    return found, text, reason


async def test_a_session_that_goes_on_gets_only_what_is_new(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(calls("get_weather", city="Oslo"), says("Rain."))
    first: list[ChatCompletionMessageParam] = [{"role": "user", "content": "weather?"}]
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        asked = await client.chat.completions.create(model="openclaw", messages=first, tools=[WEATHER], user="alice")
        assert asked.choices[0].message.content is None and asked.choices[0].message.tool_calls
        result: ChatCompletionMessageParam = {
            "role": "tool",
            "tool_call_id": asked.choices[0].message.tool_calls[0].id,
            "content": "rain",
        }
        said: Any = asked.choices[0].message.model_dump(exclude_none=True)
        answer = await client.chat.completions.create(
            model="openclaw", messages=[*first, said, result], tools=[WEATHER], user="alice"
        )
        assert answer.choices[0].message.content == "Rain."
        row = await place.app.index.get(place.app.key("openai-user:alice", None))
    assert row is not None and row.messages == 5
    kinds = [type(message) for message in scripted_model.requests[-1].messages]
    assert kinds == [User, Assistant, ToolResult, User]
    last = scripted_model.requests[-1].messages[-1]
    assert isinstance(last, User) and last.text == "Result of get_weather (call_1):\nrain"


async def test_what_the_client_says_was_said_is_context_for_a_new_session(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("Blue."), says("Green."))
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": "Answer in one word."},
        {"role": "user", "content": "my colour is blue"},
        {"role": "assistant", "content": "noted"},
        {"role": "user", "content": "which colour?"},
    ]
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        await client.chat.completions.create(model="openclaw", messages=messages, user="bob")
        again: list[ChatCompletionMessageParam] = [
            *messages,
            {"role": "assistant", "content": "Blue."},
            {"role": "user", "content": "and mixed with yellow?"},
        ]
        await client.chat.completions.create(model="openclaw", messages=again, user="bob")
    first, second = scripted_model.requests
    assert "Answer in one word." in first.system.dynamic and "Answer in one word." not in first.system.stable
    assert "User: my colour is blue" in first.messages[-1].text and "which colour?" in first.messages[-1].text
    assert second.messages[-1].text == "and mixed with yellow?"
    assert first.system.stable == second.system.stable


async def test_an_image_reaches_the_model_and_nine_do_not(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("A dot."))
    picture: Any = {"type": "image_url", "image_url": {"url": PNG}}
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        text: Any = {"type": "text", "text": "what is this?"}
        await client.chat.completions.create(model="openclaw", messages=[{"role": "user", "content": [text, picture]}])
        with pytest.raises(openai.BadRequestError, match="more than 8 images"):
            await client.chat.completions.create(
                model="openclaw", messages=[{"role": "user", "content": [text, *[picture] * 9]}]
            )
        linked: Any = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/x.png"}}
        with pytest.raises(openai.BadRequestError, match="data: URL"):
            await client.chat.completions.create(model="openclaw", messages=[{"role": "user", "content": [linked]}])
    sent = scripted_model.requests[0].messages[-1]
    assert isinstance(sent, User) and not isinstance(sent.content, str)
    assert [block.mime_type for block in sent.content if isinstance(block, Image)] == ["image/png"]


async def test_a_client_that_hangs_up_stops_its_run(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script([says("first "), stalls()], stalls())
    async with house(openclaw_home, scripted_model) as place:
        async with place.client() as client:
            stream = await client.chat.completions.create(model="openclaw", messages=HELLO, stream=True)
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
            await stream.close()
        ended = await place.until(lambda told: isinstance(told.event, RunSettled))
        assert isinstance(ended.event, RunSettled) and ended.event.outcome.stop_reason == "aborted"
        place.events.clear()
        async with place.client() as client:
            waiting = asyncio.create_task(client.chat.completions.create(model="openclaw", messages=HELLO))
            await place.until(lambda told: isinstance(told.event, ModelCalled))
            waiting.cancel()
            await asyncio.wait({waiting})
        ended = await place.until(lambda told: isinstance(told.event, RunSettled))
        assert isinstance(ended.event, RunSettled) and ended.event.outcome.stop_reason == "aborted"
        assert place.runs.busy == 0 or place.runs.is_running(ended.key) is False


async def test_thirty_at_once_each_get_their_own_answer(openclaw_home: TemporaryHome) -> None:
    class Echo(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            self.script(says(f"you said {request.messages[-1].text}"))
            async for event in super().stream(request):
                yield event

    async with house(openclaw_home, Echo()) as place, place.client() as client:
        answers = await asyncio.gather(
            *(
                client.chat.completions.create(model="openclaw", messages=[{"role": "user", "content": f"number {n}"}])
                for n in range(30)
            )
        )
    assert [answer.choices[0].message.content for answer in answers] == [f"you said number {n}" for n in range(30)]


async def test_two_requests_of_one_session_are_answered_one_after_the_other(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    go = asyncio.Event()
    scripted_model.script([stalls(go), says("one")], says("two"))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        first = asyncio.create_task(client.chat.completions.create(model="openclaw", messages=HELLO, user="u"))
        await place.until(lambda told: isinstance(told.event, ModelCalled))
        second = asyncio.create_task(client.chat.completions.create(model="openclaw", messages=HELLO, user="u"))
        await place.until(lambda told: len({each.run_id for each in place.events}) == 2)
        go.set()
        texts = [(await each).choices[0].message.content for each in (first, second)]
    assert texts == ["one", "two"]


async def test_a_run_that_fails_has_a_status_and_a_reason(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(fails(ContextTooLong("too long")), fails(ContextTooLong("too long")))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(model="openclaw", messages=HELLO)
        assert caught.value.code == "context_length_exceeded"
        assert caught.value.response.headers["x-should-retry"] == "false"
        stream = await client.chat.completions.create(model="openclaw", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError):
            _ = [chunk async for chunk in stream]


async def test_an_attempt_that_failed_half_way_is_continued_without_a_stutter(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script([says("One two"), fails(ServerFailed("oops"))], says("One two three."))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        stream = await client.chat.completions.create(model="openclaw", messages=HELLO, stream=True)
        heard = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert heard == "One two three."


async def test_a_bad_model_override_is_refused_before_a_stream_begins(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(
                model="openclaw", messages=HELLO, stream=True, extra_headers={"x-openclaw-model": "nobody/nothing"}
            )
    assert caught.value.status_code in (400, 404)


async def test_headers_choose_agent_and_session(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    scripted_model.script(says("a"), says("b"))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        await client.chat.completions.create(
            model="openclaw", messages=HELLO, extra_headers={"x-openclaw-agent-id": "ops"}
        )
        await client.chat.completions.create(
            model="openclaw", messages=HELLO, extra_headers={"x-openclaw-session-key": "agent:main:desk"}
        )
        rows = await place.app.index.list()
    keys = sorted(row.session_key for row in rows)
    assert keys[0] == "agent:main:desk" and keys[1].startswith("agent:ops:openai:")


@pytest.mark.parametrize(
    ("choice", "offered"),
    [("none", False), ("auto", True), ({"type": "function", "function": {"name": "get_weather"}}, True)],
)
async def test_tool_choice_decides_what_the_model_is_offered(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, choice: Any, offered: bool
) -> None:
    scripted_model.script(says("ok"))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        await client.chat.completions.create(model="openclaw", messages=HELLO, tools=[WEATHER], tool_choice=choice)
    request = scripted_model.requests[0]
    assert ("get_weather" in {tool.name for tool in request.tools}) is offered
    assert ("Call the function get_weather" in request.system.text) is isinstance(choice, dict)


async def test_a_function_may_not_take_the_name_of_a_tool(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    tool: ChatCompletionToolParam = {"type": "function", "function": {"name": "read", "parameters": {}}}
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        with pytest.raises(openai.BadRequestError, match="one of the agent's own tools"):
            await client.chat.completions.create(model="openclaw", messages=HELLO, tools=[tool])
    assert scripted_model.requests == []
