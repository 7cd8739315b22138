"""What every provider does, whatever it speaks: the same conversation over five wires."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from openclaw.core.errors import (
    AuthFailed,
    BadResponse,
    ContextTooLong,
    ModelNotFound,
    ModelRefused,
    NetworkFailed,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    ServerFailed,
)
from openclaw.core.events import CallDelta, Done, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.messages import Assistant, Image, Message, Text, Thinking, ToolResult, User
from openclaw.core.provider import ModelRequest, Provider, System
from openclaw.core.tool import ToolSpec
from tests.models.providers.loopback import Answer, Loopback, loopback, pieces
from tests.models.providers.recorded import CALLS, DIALECTS, GREETING, KEY, THOUGHT, Dialect

pytestmark = pytest.mark.anyio

HELLO = User(content="hi")
PIXEL = Image("aGVsbG8=", "image/png")
TOOLS = tuple(
    ToolSpec(name=name, label=name, description=f"{name}s", parameters={"type": "object", "properties": {}})
    for name in ("search", "read")
)


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.api)
def dialect(request: Any) -> Dialect:
    chosen: Dialect = request.param
    return chosen


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with loopback() as served:
        yield served


@pytest.fixture
async def provider(dialect: Dialect, server: Loopback) -> AsyncIterator[Provider]:
    built = dialect.build(dialect.endpoint(server.url))
    yield built
    await built.close()


def says(dialect: Dialect, body: bytes, size: int = 0, **changes: Any) -> Answer:
    return Answer(pieces=pieces(body, size), content_type=dialect.content_type, **changes)


def asks(dialect: Dialect, *messages: Message, **changes: Any) -> ModelRequest:
    model = changes.pop("model", None) or dialect.model()
    return ModelRequest(model=model, messages=messages or (HELLO,), **changes)


async def hear(provider: Provider, request: ModelRequest) -> tuple[list[ModelEvent], Assistant]:
    events: list[ModelEvent] = []
    async with asyncio.timeout(120):
        async with aclosing(provider.stream(request)) as stream:  # type: ignore[type-var]
            async for event in stream:
                events.append(event)
    assert isinstance(events[-1], Done)
    assert not any(isinstance(event, Done) for event in events[:-1])
    return events, events[-1].message


async def fails(provider: Provider, request: ModelRequest) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await hear(provider, request)
    assert KEY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 7])
async def test_an_answer_arrives_in_pieces_and_whole(
    dialect: Dialect, server: Loopback, provider: Provider, size: int
) -> None:
    server.will(says(dialect, dialect.greeting, size))

    events, message = await hear(provider, asks(dialect))

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == GREETING
    assert message.text == GREETING
    assert message.stop_reason == "stop"
    assert (message.api, message.provider, message.model) == (dialect.api, dialect.provider, dialect.model_id)


async def test_the_key_goes_where_the_api_wants_it(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.greeting))

    await hear(provider, asks(dialect))

    asked = server.asked[0]
    name, value = dialect.key_header
    assert (asked.method, asked.path) == ("POST", dialect.path)
    assert asked.headers[name] == value


async def test_usage_and_cost_are_counted_alike(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.greeting))

    _, message = await hear(provider, asks(dialect))

    usage, expected = message.usage, dialect.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (
        expected.input,
        expected.output,
        expected.cache_read,
        expected.cache_write,
    )
    assert usage.total_tokens == expected.prompt_tokens + expected.output
    assert usage.cost is not None
    assert usage.cost.output == pytest.approx(20 * 2 / 1e6)


async def test_two_calls_at_once_come_back_with_their_results(
    dialect: Dialect, server: Loopback, provider: Provider
) -> None:
    server.will(says(dialect, dialect.calls, 5), says(dialect, dialect.greeting))

    events, message = await hear(provider, asks(dialect, tools=TOOLS))

    assert tuple((call.name, call.arguments) for call in message.calls) == CALLS
    assert message.stop_reason == "toolUse"
    assert len({call.id for call in message.calls}) == 2
    assert not dialect.call_ids or tuple(call.id for call in message.calls) == dialect.call_ids
    assert {event.name for event in events if isinstance(event, CallDelta)} == {"read", "search"}

    results = tuple(
        ToolResult(tool_call_id=call.id, tool_name=call.name, content=(Text(f"found {call.name}"),))
        for call in message.calls
    )
    _, answer = await hear(provider, asks(dialect, HELLO, message, *results, tools=TOOLS))

    assert answer.text == GREETING
    sent = server.asked[1].body.decode()
    assert sent.index("found read") < sent.index("found search")
    assert all(sent.count(f'"{call_id}"') == 2 for call_id in dialect.call_ids)


async def test_tools_are_offered_in_a_steady_order(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.greeting))

    await hear(provider, asks(dialect, tools=TOOLS))
    await hear(provider, asks(dialect, tools=TOOLS[::-1]))

    assert server.asked[0].body == server.asked[1].body
    assert b'"reads"' in server.asked[0].body


async def test_thinking_is_heard_and_kept(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.thought, 9))

    events, message = await hear(provider, asks(dialect, thinking="medium"))

    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == THOUGHT
    assert message.thinking == THOUGHT
    assert message.text == GREETING
    (thought,) = (block for block in message.content if isinstance(block, Thinking))
    assert thought.thinking_signature == dialect.signature
    assert isinstance(message.content[0], Thinking)


async def test_a_signed_thought_goes_back_untouched(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.thought), says(dialect, dialect.greeting))
    _, message = await hear(provider, asks(dialect, thinking="medium"))

    await hear(provider, asks(dialect, HELLO, message, User(content="go on"), thinking="medium"))

    sent = server.asked[1].body.decode()
    for sign in ("EqQBsig", "c2VhbGVk", "c2ln"):
        assert (sign in sent) == (sign in dialect.thought.decode())


async def test_an_image_is_shown(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.greeting))

    await hear(provider, asks(dialect, User(content=(Text("what is it?"), PIXEL))))

    assert PIXEL.data in server.asked[0].body.decode()


async def test_a_model_without_eyes_is_told_of_the_image(
    dialect: Dialect, server: Loopback, provider: Provider
) -> None:
    server.will(says(dialect, dialect.greeting))
    blind = dialect.model(input=("text",))

    await hear(provider, asks(dialect, User(content=(PIXEL,)), model=blind))

    assert PIXEL.data not in server.asked[0].body.decode()
    assert "cannot see images" in server.asked[0].body.decode()


async def test_an_image_in_a_tool_result_is_shown(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.calls), says(dialect, dialect.greeting))
    _, message = await hear(provider, asks(dialect, tools=TOOLS))
    results = (ToolResult(tool_call_id=call.id, tool_name=call.name, content=(PIXEL,)) for call in message.calls)

    await hear(provider, asks(dialect, HELLO, message, *results, tools=TOOLS))

    assert server.asked[1].body.decode().count(PIXEL.data) == 2


async def test_the_system_prompt_reaches_the_model(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.greeting))

    await hear(provider, asks(dialect, system=System("be kind", "it is noon")))

    sent = server.asked[0].body.decode()
    assert sent.index("be kind") < sent.index("it is noon")


async def test_configured_headers_are_sent_and_win(dialect: Dialect, server: Loopback) -> None:
    server.will(says(dialect, dialect.greeting))
    provider = dialect.build(dialect.endpoint(server.url, headers={"x-team": "red", "x-who": "endpoint"}))

    await hear(provider, asks(dialect, model=dialect.model(headers={"X-Who": "model"})))
    await provider.close()

    assert server.asked[0].headers["x-team"] == "red"
    assert server.asked[0].headers["x-who"] == "model"


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind", "wait"),
    [
        (401, f'{{"error":{{"message":"bad key {KEY}"}}}}', {}, AuthFailed, None),
        (404, '{"error":{"message":"no such thing"}}', {}, ModelNotFound, None),
        (429, '{"error":{"message":"slow down"}}', {"retry-after": "7"}, RateLimited, 7.0),
        (429, "", {"retry-after-ms": "1500"}, RateLimited, 1.5),
        (503, '{"error":{"message":"temporarily unavailable"}}', {}, Overloaded, None),
        (529, "", {}, Overloaded, None),
        (500, "<html>oops</html>", {}, ServerFailed, None),
        (504, "", {}, ProviderTimeout, None),
    ],
)
async def test_a_failure_status_is_understood(
    dialect: Dialect,
    server: Loopback,
    provider: Provider,
    status: int,
    body: str,
    headers: dict[str, str],
    kind: type[ProviderError],
    wait: float | None,
) -> None:
    server.will(Answer(status=status, pieces=(body.encode(),) if body else (), headers=headers))

    error = await fails(provider, asks(dialect))

    assert type(error) is kind
    assert (error.status, error.retry_after) == (status, wait)
    assert dialect.provider in str(error) or dialect.model_id in str(error)


async def test_a_rejected_key_says_where_to_set_it(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(Answer(status=401))

    error = await fails(provider, asks(dialect))

    assert f"models.providers.{dialect.provider}.apiKey" in str(error)


async def test_a_conversation_that_is_too_long_is_recognised(
    dialect: Dialect, server: Loopback, provider: Provider
) -> None:
    status, body = dialect.overflow
    server.will(Answer(status=status, pieces=(body,), content_type="application/json"))

    assert type(await fails(provider, asks(dialect))) is ContextTooLong


async def test_an_error_inside_the_stream_is_understood(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.broken))

    assert type(await fails(provider, asks(dialect))) is Overloaded


@pytest.mark.parametrize("dialect", [one for one in DIALECTS if one.refusal], ids=lambda one: one.api, indirect=True)
async def test_a_refusal_is_not_an_answer(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.refusal))

    assert type(await fails(provider, asks(dialect))) is ModelRefused


@pytest.mark.parametrize("body", [b"<html><body>Sign in</body></html>", b"data: {not json}\n\n", b"what?\n"])
async def test_garbage_is_named_as_such(dialect: Dialect, server: Loopback, provider: Provider, body: bytes) -> None:
    server.will(Answer(pieces=(body,), content_type="text/html"))

    error = await fails(provider, asks(dialect))

    assert type(error) is BadResponse
    assert f"models.providers.{dialect.provider}.baseUrl" in str(error)


@pytest.mark.parametrize("ending", ["cut", "whole"])
async def test_a_stream_that_stops_early_is_not_an_answer(
    dialect: Dialect, server: Loopback, provider: Provider, ending: str
) -> None:
    server.will(says(dialect, dialect.cut, ending=ending))

    error = await fails(provider, asks(dialect))

    assert type(error) is NetworkFailed
    assert "in the middle of its answer" in str(error)


async def test_a_half_sent_event_is_a_cut_and_not_garbage(
    dialect: Dialect, server: Loopback, provider: Provider
) -> None:
    server.will(says(dialect, dialect.cut[:-9]))

    error = await fails(provider, asks(dialect))

    assert type(error) is NetworkFailed


async def test_a_connection_closed_without_a_word(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(Answer(ending="refuse"))

    assert type(await fails(provider, asks(dialect))) is NetworkFailed


async def test_nobody_listening_is_named_with_its_address(dialect: Dialect) -> None:
    async with loopback() as gone:
        url = gone.url
    provider = dialect.build(dialect.endpoint(url))

    error = await fails(provider, asks(dialect))
    await provider.close()

    assert type(error) is NetworkFailed
    assert url.removeprefix("http://") in str(error)
    assert "running?" in str(error)


async def test_silence_longer_than_allowed_is_a_timeout(dialect: Dialect, server: Loopback) -> None:
    server.will(says(dialect, dialect.cut, ending="hang"))
    provider = dialect.build(dialect.endpoint(server.url, timeout_seconds=0.05))

    error = await fails(provider, asks(dialect))
    await provider.close()

    assert type(error) is ProviderTimeout
    assert "timeoutSeconds" in str(error)


async def test_a_reader_who_stops_hangs_up(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.cut, ending="hang"))

    async with asyncio.timeout(120):
        async with aclosing(provider.stream(asks(dialect))) as stream:  # type: ignore[type-var]
            async for _ in stream:
                break
        await server.hung_up.wait()


async def test_a_cancelled_reader_hangs_up(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.cut, ending="hang"))
    heard = asyncio.Event()

    async def listen() -> None:
        async with aclosing(provider.stream(asks(dialect))) as stream:  # type: ignore[type-var]
            async for _ in stream:
                heard.set()

    task = asyncio.create_task(listen())
    async with asyncio.timeout(120):
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.hung_up.wait()


async def test_the_connection_is_kept_for_the_next_call(dialect: Dialect, server: Loopback, provider: Provider) -> None:
    server.will(says(dialect, dialect.greeting))

    await hear(provider, asks(dialect))
    await hear(provider, asks(dialect))

    assert server.connections == 1


# Where only the end of the stream ends an answer, an open line cannot be told from a long thought.
@pytest.mark.parametrize(
    "dialect",
    [one for one in DIALECTS if one.api != "google-generative-ai"],
    ids=lambda one: one.api,
    indirect=True,
)
async def test_a_server_that_leaves_the_line_open_does_not_hold_the_answer(
    dialect: Dialect, server: Loopback, provider: Provider
) -> None:
    server.will(says(dialect, dialect.greeting, ending="hang"))

    _, message = await hear(provider, asks(dialect))

    assert message.text == GREETING
