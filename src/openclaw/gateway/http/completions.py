"""`/v1/chat/completions`: chat with an agent through OpenAI's chat API."""

import uuid
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from openclaw.core.messages import ToolCall, Usage
from openclaw.gateway.http import requests
from openclaw.gateway.http.endpoint import HttpCall
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.requests import HttpBackend, HttpRun, RequestedAnswer, RequestText, resolve_target
from openclaw.gateway.http.stream import outcome_text
from openclaw.runs.request import ClientTool

BODY_BYTES = 20_000_000


class _Text(Struct, tag_field="type", tag="text"):
    text: str


class _InputText(Struct, tag_field="type", tag="input_text"):
    text: str


class _Refusal(Struct, tag_field="type", tag="refusal"):
    refusal: str


class _Url(Struct):
    url: str


class _Image(Struct, tag_field="type", tag="image_url"):
    image_url: _Url | str


_Part = _Text | _InputText | _Refusal | _Image


class _Function(Struct):
    name: str
    arguments: str = "{}"


class _Call(Struct):
    id: str
    function: _Function


class _Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _FunctionSpec(Struct):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(Struct):
    type: Literal["function"]
    function: _FunctionSpec


class _StreamOptions(Struct):
    include_usage: bool = False


class ChatRequest(Struct, kw_only=True):
    """The fields we read of a request; OpenAI's others are decided by the agent's settings."""

    model: str
    messages: Annotated[list[_Message], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    user: str | None = None
    n: int | None = None
    tools: list[_Tool] | None = field(default=None)
    tool_choice: Any = None


async def chat_completions(backend: HttpBackend, call: HttpCall) -> None:
    """Handles an authorised request."""
    request = call.read(ChatRequest)
    if request.n not in (None, 1):
        raise HttpProblem(400, "there is one answer to a request: leave out `n`", param="n")
    run_id = f"chatcmpl_{uuid.uuid4()}"
    where = resolve_target(call, backend.key_of, model=request.model, user=request.user, run_id=run_id, family="openai")
    specs = (tool.function for tool in request.tools or ())
    given = [ClientTool(name=s.name, description=s.description or "", parameters=s.parameters or {}) for s in specs]
    tools = requests.validate_functions(given, backend.tool_names())
    choice = requests.choose(tools, request.tool_choice)
    fresh = not (where.stable and await backend.has_history(where.key))
    asked = requests.compose_turn([_said(message) for message in request.messages], fresh=fresh)
    head = {"id": run_id, "created": int(backend.clock.now()), "model": request.model}
    async with backend.asking(requests.build_request(run_id, where, asked, choice)) as run:
        if request.stream:
            await call.while_there(_stream(call, run, head, request.stream_options or _StreamOptions()))
        else:
            await call.while_there(_whole(call, run, head))


async def _whole(call: HttpCall, run: HttpRun, head: dict[str, Any]) -> None:
    outcome = await run.end()
    calls = run.speech.calls
    message: dict[str, Any] = {"role": "assistant", "content": outcome_text(outcome) or (None if calls else "")}
    if calls:
        message["tool_calls"] = [_call_shape(each) for each in calls]
    choice = {"index": 0, "message": message, "finish_reason": requests.finish(outcome.stop_reason, bool(calls))}
    usage = usage_shape(outcome.usage)
    await call.answer({**head, "object": "chat.completion", "choices": [choice], "usage": usage})


async def _stream(call: HttpCall, run: HttpRun, head: dict[str, Any], options: _StreamOptions) -> None:
    head = {**head, "object": "chat.completion.chunk"}
    empty: dict[str, Any] = {"usage": None} if options.include_usage else {}

    async def chunk(delta: dict[str, Any], finish: str | None = None) -> None:
        await call.event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **empty})

    first = await run.beginning()
    await call.open_stream()
    await chunk({"role": "assistant", "content": first})
    async for text in run.pieces():
        await (chunk({"content": text}) if text else call.keep_alive())
    outcome = run.check()
    calls = run.speech.calls
    for number, each in enumerate(calls):
        await chunk({"tool_calls": [{"index": number, **_call_shape(each)}]})
    await chunk({}, requests.finish(outcome.stop_reason, bool(calls)))
    if options.include_usage:
        await call.event({**head, "choices": [], "usage": usage_shape(outcome.usage)})
    await call.close_stream()


def _said(message: _Message) -> RequestText:
    texts: list[str] = []
    pictures: list[str] = []
    for part in [_Text(message.content)] if isinstance(message.content, str) else message.content or ():
        match part:
            case _Text(text=text) | _InputText(text=text) | _Refusal(refusal=text):
                texts.append(text)
            case _Image(image_url=_Url(url=url)) | _Image(image_url=str(url)):
                pictures.append(url)
    role: Literal["system", "user", "assistant", "tool"] = "system" if message.role == "developer" else message.role
    return RequestText(
        role=role,
        text="\n".join(texts),
        images=tuple(requests.image(url) for url in pictures),
        calls=tuple(
            RequestedAnswer(each.id, each.function.name, each.function.arguments) for each in message.tool_calls or ()
        ),
        call_id=message.tool_call_id or "",
    )


def _call_shape(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def usage_shape(usage: Usage) -> dict[str, int]:
    prompt = usage.prompt_tokens
    return {"prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": prompt + usage.output}


OFF = "/v1/chat/completions is off: set gateway.http.endpoints.chatCompletions.enabled to true"
