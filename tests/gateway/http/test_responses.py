"""The responses interface, models and embeddings, as the official client sees them."""

import asyncio
from typing import Any

import openai
import pytest
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall, ResponseOutputMessage

from openclaw.core.errors import ContextTooLong
from openclaw.core.messages import User
from openclaw.testing import ScriptedModel, TemporaryHome, calls, fails, says, stalls
from tests.gateway.http.support import house

pytestmark = pytest.mark.anyio

WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


async def test_a_question_gets_a_response(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    scripted_model.script(says("Hello there."))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        answer = await client.responses.create(model="openclaw", input="hello", instructions="Be kind.")
    assert answer.id.startswith("resp_") and answer.status == "completed" and answer.output_text == "Hello there."
    (item,) = answer.output
    assert isinstance(item, ResponseOutputMessage) and item.id.startswith("msg_") and item.status == "completed"
    assert answer.usage is not None and answer.usage.input_tokens > 0
    assert scripted_model.saw("Be kind.")


async def test_a_stream_tells_every_step_in_order(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    go = asyncio.Event()
    scripted_model.script([says("One two "), stalls(go), says("three.")])
    events = []
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        async for event in await client.responses.create(model="openclaw", input="hi", stream=True):
            events.append(event)
            if event.type == "response.output_text.delta":
                go.set()
    names = [event.type for event in events]
    deltas = names.count("response.output_text.delta")
    assert deltas > 1
    assert names == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * deltas,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed" and last.response.output_text == "One two three."
    assert last.response.usage is not None


@pytest.mark.parametrize("resend", [False, True])
async def test_a_function_is_called_and_its_output_understood(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, resend: bool
) -> None:
    scripted_model.script([says("One moment."), calls("get_weather", city="Oslo")], says("Rain."))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        first = await client.responses.create(model="openclaw", input="weather?", tools=[WEATHER])
        assert first.output_text == "One moment."
        call = first.output[-1]
        assert isinstance(call, ResponseFunctionToolCall)
        assert (call.name, call.arguments) == ("get_weather", '{"city":"Oslo"}')
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        if resend:
            before: Any = [{"role": "user", "content": "weather?"}, *[item.model_dump() for item in first.output]]
            second = await client.responses.create(model="openclaw", input=[*before, output], tools=[WEATHER])
        else:
            second = await client.responses.create(
                model="openclaw", input=[output], tools=[WEATHER], previous_response_id=first.id
            )
    assert second.output_text == "Rain."
    said = [message for message in scripted_model.requests[-1].messages if isinstance(message, User)]
    assert said[-1].text.endswith("rain") and any("weather?" in message.text for message in said)
    assert len(said) == (1 if resend else 2)


async def test_a_streamed_call_carries_its_arguments(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(calls("get_weather", city="Oslo"))
    async with (
        house(openclaw_home, scripted_model) as place,
        place.client() as client,
        client.responses.stream(model="openclaw", input="weather?", tools=[WEATHER]) as stream,
    ):
        names = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert "response.function_call_arguments.done" in names and names[-1] == "response.completed"
    (call,) = final.output
    assert isinstance(call, ResponseFunctionToolCall) and call.arguments == '{"city":"Oslo"}'


async def test_a_run_that_fails_ends_the_stream_with_the_reason(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(fails(ContextTooLong("too long")))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        events = [event async for event in await client.responses.create(model="openclaw", input="hi", stream=True)]
    last = events[-1]
    assert last.type == "response.failed" and last.response.error is not None
    assert last.response.status == "failed" and last.response.error.message


async def test_an_unknown_earlier_response_is_refused(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="openclaw", input="hi", previous_response_id="resp_nothing")
        assert caught.value.code == "previous_response_not_found"
        with pytest.raises(openai.BadRequestError, match="web_search"):
            await client.responses.create(model="openclaw", input="hi", tools=[{"type": "web_search"}])


async def test_the_agents_are_listed_as_models(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        names = [model.id async for model in await client.models.list()]
        one = await client.models.retrieve("openclaw/ops")
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-5")
    assert names == ["openclaw", "openclaw/default", "openclaw/main", "openclaw/ops"]
    assert one.id == "openclaw/ops" and one.owned_by == "openclaw" and one.created == 0


async def test_texts_become_vectors_in_both_formats(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async def embed(texts: Any) -> list[list[float]]:
        return [[float(len(text)), 0.5] for text in texts]

    async with house(openclaw_home, scripted_model, embed=embed) as place, place.client() as client:
        packed = await client.embeddings.create(model="openclaw", input=["a", "bcd"])
        plain = await client.embeddings.create(model="openclaw", input="bcd", encoding_format="float")
        with pytest.raises(openai.BadRequestError, match="2 dimensions"):
            await client.embeddings.create(model="openclaw", input="a", dimensions=3)
        with pytest.raises(openai.BadRequestError, match="list of texts"):
            await client.embeddings.create(model="openclaw", input=[[1, 2, 3]])
    assert [row.embedding for row in packed.data] == [[1.0, 0.5], [3.0, 0.5]]
    assert plain.data[0].embedding == [3.0, 0.5] and plain.usage.total_tokens == 1


async def test_without_an_embedder_the_way_to_one_is_named(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        with pytest.raises(openai.APIStatusError, match="no embedder") as caught:
            await client.embeddings.create(model="openclaw", input="a")
    assert caught.value.status_code == 501
