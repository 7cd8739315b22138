"""The vendors' own libraries as judges: they hear what we hear, and take what we send.

They are slow to import, so this is the only module that does.
"""

import warnings
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import cache
from typing import Any

import pytest

with warnings.catch_warnings():
    # What their imports complain of is theirs; everything after this block still counts.
    warnings.simplefilter("ignore")
    import anthropic
    import ollama
    import openai
    from anthropic.types import message_create_params
    from google import genai
    from google.genai import types as gemini
    from ollama._types import ChatRequest  # their request type has no public name
    from openai.types.chat import completion_create_params
    from openai.types.responses import response_create_params
    from pydantic import TypeAdapter
    from pydantic_core import SchemaValidator

import msgspec

from openclaw.core.events import Done
from openclaw.core.messages import Assistant, Image, Message, Text, ToolResult, User
from openclaw.core.provider import ModelRequest, System, ThinkingLevel
from openclaw.core.tool import ToolSpec
from openclaw.models.providers.anthropic import encode as encode_messages
from openclaw.models.providers.encode import to_bytes
from openclaw.models.providers.google import encode as encode_gemini
from openclaw.models.providers.ollama import encode as encode_ollama
from openclaw.models.providers.openai_chat import encode as encode_chat
from openclaw.models.providers.openai_responses import encode as encode_responses
from tests.models.providers.loopback import Answer, Loopback, loopback, pieces
from tests.models.providers.recorded import CHAT, DIALECTS, GEMINI, KEY, MESSAGES, OLLAMA, RESPONSES, Dialect

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")]

PIXEL = Image("aGVsbG8=", "image/png")
TOOLS = (
    ToolSpec(
        name="read",
        label="Read",
        description="Reads.",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
    ToolSpec(name="search", label="Search", description="Searches.", parameters={"type": "object", "properties": {}}),
)


class Heard(msgspec.Struct, kw_only=True):
    """What one of the libraries made of a stream."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, str, Any]] = []
    prompt: int = 0
    cached: int = 0
    output: int = 0


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with loopback() as served:
        yield served


async def ours(dialect: Dialect, server: Loopback, *messages: Message) -> Assistant:
    provider = dialect.build(dialect.endpoint(server.url))
    request = ModelRequest(model=dialect.model(), messages=messages or (User(content="hi"),), tools=TOOLS)
    async with aclosing(provider.stream(request)) as events:  # type: ignore[type-var]
        last = [event async for event in events][-1]
    await provider.close()
    assert isinstance(last, Done)
    return last.message


async def chat_sdk(server: Loopback) -> Heard:
    async with (
        openai.AsyncOpenAI(api_key=KEY, base_url=server.url + "/v1", max_retries=0) as client,
        client.chat.completions.stream(
            model=CHAT.model_id, messages=[{"role": "user", "content": "hi"}], stream_options={"include_usage": True}
        ) as stream,
    ):
        final = await stream.get_final_completion()
    message, usage = final.choices[0].message, final.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    return Heard(
        text=message.content or "",
        thinking=getattr(message, "reasoning_content", "") or "",
        calls=[
            (call.id, call.function.name, msgspec.json.decode(call.function.arguments))
            for call in message.tool_calls or ()
        ],
        prompt=usage.prompt_tokens,
        cached=usage.prompt_tokens_details.cached_tokens or 0,
        output=usage.completion_tokens,
    )


async def responses_sdk(server: Loopback) -> Heard:
    final = None
    async with openai.AsyncOpenAI(api_key=KEY, base_url=server.url + "/v1", max_retries=0) as client:
        stream = await client.responses.create(model=RESPONSES.model_id, input="hi", stream=True)
        async for event in stream:
            if event.type == "response.completed":
                final = event.response
    assert final is not None
    assert final.usage is not None
    return Heard(
        text=final.output_text,
        thinking="".join(part.text for item in final.output if item.type == "reasoning" for part in item.summary),
        calls=[
            (item.call_id, item.name, msgspec.json.decode(item.arguments))
            for item in final.output
            if item.type == "function_call"
        ],
        prompt=final.usage.input_tokens,
        cached=final.usage.input_tokens_details.cached_tokens,
        output=final.usage.output_tokens,
    )


async def messages_sdk(server: Loopback) -> Heard:
    async with (
        anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, max_retries=0) as client,
        client.messages.stream(
            model=MESSAGES.model_id, max_tokens=100, messages=[{"role": "user", "content": "hi"}]
        ) as stream,
    ):
        final = await stream.get_final_message()
    usage = final.usage
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Heard(
        text="".join(block.text for block in final.content if block.type == "text"),
        thinking="".join(block.thinking for block in final.content if block.type == "thinking"),
        calls=[(block.id, block.name, block.input) for block in final.content if block.type == "tool_use"],
        prompt=usage.input_tokens + read + written,
        cached=read,
        output=usage.output_tokens,
    )


async def gemini_sdk(server: Loopback) -> Heard:
    options = gemini.HttpOptions(base_url=server.url, api_version="v1beta")
    client = genai.Client(api_key=KEY, http_options=options)
    heard = Heard(calls=[])
    async for chunk in await client.aio.models.generate_content_stream(model=GEMINI.model_id, contents="hi"):
        usage = chunk.usage_metadata
        if usage:
            heard.prompt, heard.cached = usage.prompt_token_count or 0, usage.cached_content_token_count or 0
            heard.output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        for part in (chunk.candidates and chunk.candidates[0].content and chunk.candidates[0].content.parts) or ():
            if part.function_call:
                heard.calls.append(
                    (part.function_call.id or "", part.function_call.name or "", part.function_call.args)
                )
            elif part.thought:
                heard.thinking += part.text or ""
            else:
                heard.text += part.text or ""
    await client.aio.aclose()
    client.close()
    return heard


async def ollama_sdk(server: Loopback) -> Heard:
    client = ollama.AsyncClient(host=server.url)
    heard = Heard(calls=[])
    async for chunk in await client.chat(
        model=OLLAMA.model_id, messages=[{"role": "user", "content": "hi"}], stream=True
    ):
        heard.text += chunk.message.content or ""
        heard.thinking += chunk.message.thinking or ""
        heard.calls += [
            ("", call.function.name, dict(call.function.arguments)) for call in chunk.message.tool_calls or ()
        ]
        heard.prompt, heard.output = chunk.prompt_eval_count or heard.prompt, chunk.eval_count or heard.output
    await client.close()  # type: ignore[no-untyped-call]
    return heard


SDKS = {
    "openai-completions": chat_sdk,
    "openai-responses": responses_sdk,
    "anthropic-messages": messages_sdk,
    "google-generative-ai": gemini_sdk,
    "ollama": ollama_sdk,
}


@pytest.mark.parametrize("what", ["greeting", "calls", "thought"])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
async def test_we_hear_what_the_vendors_library_hears(dialect: Dialect, what: str, server: Loopback) -> None:
    server.will(Answer(pieces=pieces(getattr(dialect, what), 64), content_type=dialect.content_type))

    message = await ours(dialect, server)
    theirs = await SDKS[dialect.api](server)

    assert message.text == theirs.text
    assert message.thinking == theirs.thinking
    known = [(call.id if dialect.call_ids else "", call.name, call.arguments) for call in message.calls]
    assert known == theirs.calls
    assert (message.usage.prompt_tokens, message.usage.cache_read) == (theirs.prompt, theirs.cached)
    assert message.usage.output == theirs.output
    assert theirs.text or theirs.calls


def closed(node: Any) -> Any:
    """A validation schema that walks every list and knows no other names than its own."""
    if isinstance(node, list):
        return [closed(part) for part in node]
    if not isinstance(node, dict):
        return node
    inner = {name: part if name in ("metadata", "serialization") else closed(part) for name, part in node.items()}
    if node.get("type") == "generator":
        return {"type": "list", "items_schema": inner["items_schema"]}
    if node.get("type") == "typed-dict" and (node.get("config") or {}).get("extra_fields_behavior") != "allow":
        return inner | {"extra_behavior": "forbid"}
    return inner


@cache
def judge(shape: Any) -> SchemaValidator:
    return SchemaValidator(closed(TypeAdapter(shape).core_schema))


def strictly(dialect: Dialect, body: dict[str, Any]) -> None:
    """Fails when the vendor's own types do not know what we send."""
    match dialect.api:
        case "openai-completions":
            judge(completion_create_params.CompletionCreateParamsStreaming).validate_python(body)
        case "openai-responses":
            judge(response_create_params.ResponseCreateParamsStreaming).validate_python(body)
        case "anthropic-messages":
            # The current types have dropped what older models still take.
            known = {name: value for name, value in body.items() if name != "temperature"}
            judge(message_create_params.MessageCreateParamsStreaming).validate_python(known)
        case "google-generative-ai":
            assert set(body) <= {"contents", "systemInstruction", "tools", "generationConfig"}
            for content in (*body["contents"], body.get("systemInstruction", {})):
                gemini.Content.model_validate(content)
            for tool in body.get("tools", ()):
                gemini.Tool.model_validate(tool)
            gemini.GenerationConfig.model_validate(body.get("generationConfig", {}))
        case "ollama":
            ChatRequest.model_validate(body)
            for message in body["messages"]:
                images = {"images": [{"value": image} for image in message["images"]]} if "images" in message else {}
                theirs = ollama.Message.model_validate(message | images)
                assert theirs.model_dump(exclude_none=True) == message


ENCODERS = {
    "openai-completions": encode_chat,
    "openai-responses": encode_responses,
    "anthropic-messages": encode_messages,
    "google-generative-ai": encode_gemini,
    "ollama": encode_ollama,
}


@pytest.mark.parametrize("level", ["off", "low", "xhigh", "adaptive"])
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.api)
async def test_the_vendors_types_take_what_we_send(dialect: Dialect, level: ThinkingLevel, server: Loopback) -> None:
    """The recorded answers go back in with results, an image and everything a request can carry."""
    hello = User(content=(Text("look"), PIXEL))
    server.will(
        *(
            Answer(pieces=pieces(body), content_type=dialect.content_type)
            for body in (dialect.thought, dialect.calls, dialect.calls)
        )
    )
    thought, asked = await ours(dialect, server), await ours(dialect, server)
    results = [
        ToolResult(
            tool_call_id=call.id, tool_name=call.name, content=(Text("found"), PIXEL), is_error=call is asked.calls[0]
        )
        for call in asked.calls
    ]
    request = ModelRequest(
        model=dialect.model(),
        system=System("stable", "dynamic"),
        messages=(hello, thought, User(content="go on"), asked, *results),
        tools=TOOLS,
        thinking=level,
        max_tokens=9_000,
        temperature=0.5,
        cache_key="agent:main:main",
        cache_retention="long",
    )

    for extra in ((), (User(content="thanks"),)):
        encoded = ENCODERS[dialect.api](msgspec.structs.replace(request, messages=(*request.messages, *extra)))
        strictly(dialect, msgspec.json.decode(to_bytes(encoded)))


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, MESSAGES, GEMINI], ids=lambda one: one.api)
def test_the_judge_can_say_no(dialect: Dialect) -> None:
    wrong = {"contents": [{"role": "user", "pieces": []}]} if dialect is GEMINI else {"model": 3, "stream": True}

    with pytest.raises(ValueError, match="validation error"):
        strictly(dialect, wrong)
