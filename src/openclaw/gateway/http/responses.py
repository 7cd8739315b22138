"""`/v1/responses`: OpenAI's responses API, whole or streamed."""

import uuid
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from openclaw.core.messages import ToolCall, Usage
from openclaw.gateway.http import requests
from openclaw.gateway.http.endpoint import HttpCall
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.requests import HttpBackend, HttpRun, RequestedAnswer, RequestTarget, RequestText
from openclaw.gateway.http.stream import outcome_text
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.request import ClientTool

# The request.


class _Part(Struct):
    """A part of a message; which fields count depends on its type."""

    type: Literal["input_text", "output_text", "text", "refusal", "input_image"]
    text: str = ""
    refusal: str = ""
    image_url: str | None = None


class _Item(Struct):
    """An item of the input: a message, a call the model made, or the result of one."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[_Part] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: str | list[_Part] = ""


class _Tool(Struct):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ResponsesRequest(Struct, kw_only=True):
    """The fields we read of a request."""

    model: str
    input: str | Annotated[list[_Item], Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    user: str | None = None
    previous_response_id: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: Any = None


def client_tools(request: ResponsesRequest) -> list[ClientTool]:
    for tool in request.tools or ():
        if tool.type != "function":
            raise HttpProblem(400, f"tools of type {tool.type} are not supported: use function", param="tools")
    return [
        ClientTool(name=tool.name, description=tool.description or "", parameters=tool.parameters or {})
        for tool in request.tools or ()
    ]


def conversation(request: ResponsesRequest) -> list[RequestText]:
    """The messages of a request, its instructions first."""
    said = [RequestText(role="system", text=request.instructions)] if request.instructions else []
    if isinstance(request.input, str):
        return [*said, RequestText(role="user", text=request.input)]
    for item in request.input:
        match item.type:
            case "message":
                said.append(_message(item))
            case "function_call":
                answer = RequestedAnswer(item.call_id, item.name, item.arguments)
                said.append(RequestText(role="assistant", calls=(answer,)))
            case "function_call_output":
                text, pictures = _content(item.output)
                images = tuple(requests.image(url) for url in pictures)
                said.append(RequestText(role="tool", text=text, images=images, call_id=item.call_id))
            case "reasoning" | "item_reference":
                pass  # the session has its own record of these
            case other:
                raise HttpProblem(400, f"input items of type {other} are not supported", param="input")
    return said


def _message(item: _Item) -> RequestText:
    if item.role is None:
        raise HttpProblem(400, "an input message has no role: use user, assistant, system or developer", param="input")
    text, pictures = _content(item.content)
    role: Literal["system", "user", "assistant"] = "system" if item.role == "developer" else item.role
    return RequestText(role=role, text=text, images=tuple(requests.image(url) for url in pictures))


def _content(content: str | list[_Part] | None) -> tuple[str, list[str]]:
    if content is None or isinstance(content, str):
        return content or "", []
    texts = [part.text or part.refusal for part in content if part.type != "input_image"]
    pictures = [part.image_url or "" for part in content if part.type == "input_image"]
    return "\n".join(texts), pictures


# The response.

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class ResponseItems(Struct, frozen=True, kw_only=True):
    """Builds every state of one response."""

    id: str
    created_at: int
    model: str
    previous_response_id: str | None = None

    def response(self, status: Status, output: list[dict[str, Any]], usage: Usage | None = None) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "model": self.model,
            "output": output,
            "usage": None if usage is None else _usage(usage),
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "previous_response_id": self.previous_response_id,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    @property
    def message_id(self) -> str:
        return f"msg_{self.id.partition('_')[2]}"

    def message(self, text: str | None, status: Status, *, final: bool = True) -> dict[str, Any]:
        """The one message of a response; without text it has no content yet."""
        return {
            "type": "message",
            "id": self.message_id,
            "role": "assistant",
            "content": [] if text is None else [text_part(text)],
            "phase": "final_answer" if final else "commentary",
            "status": status,
        }


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def call_item(call: ToolCall, status: Status = "completed") -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call.id}",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments(call) if status == "completed" else "",
        "status": status,
    }


def arguments(call: ToolCall) -> str:
    return msgspec.json.encode(call.arguments).decode()


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.output,
    }


# The handler.

BODY_BYTES = 20_000_000
OFF = "/v1/responses is off: set gateway.http.endpoints.responses.enabled to true"
PREFIX = "resp_"


async def responses(backend: HttpBackend, call: HttpCall) -> None:
    """Handles an authorised request."""
    request = call.read(ResponsesRequest)
    run_id = f"{PREFIX}{uuid.uuid4()}"
    where = await _target(backend, call, request, run_id)
    tools = requests.validate_functions(client_tools(request), backend.tool_names())
    choice = requests.choose(tools, request.tool_choice)
    fresh = not (where.stable and await backend.has_history(where.key))
    asked = requests.compose_turn(conversation(request), fresh=fresh)
    sheet = ResponseItems(
        id=run_id,
        created_at=int(backend.clock.now()),
        model=request.model,
        previous_response_id=request.previous_response_id,
    )
    async with backend.asking(requests.build_request(run_id, where, asked, choice)) as run:
        work = _Stream(call, sheet).follow(run) if request.stream else _whole(call, run, sheet)
        await call.while_there(work)


async def _target(backend: HttpBackend, call: HttpCall, request: ResponsesRequest, run_id: str) -> RequestTarget:
    where = requests.resolve_target(
        call, backend.key_of, model=request.model, user=request.user, run_id=run_id, family="openresponses"
    )
    before = request.previous_response_id
    if not before:
        return where
    key = await backend.session_of(before) if before.startswith(PREFIX) else None
    if key is None:
        why = f"there is no response {before[:100]!r} any more: send the conversation instead"
        raise HttpProblem(400, why, param="previous_response_id", code="previous_response_not_found")
    if key.agent != where.key.agent:
        why = f"{before} was an answer of the agent {key.agent}: ask that one"
        raise HttpProblem(400, why, param="previous_response_id")
    return structs.replace(where, key=key, stable=True)


def _output(sheet: ResponseItems, text: str, calls: tuple[ToolCall, ...], status: Status) -> list[dict[str, Any]]:
    """The items of a finished response: the text, then the client's calls."""
    message = [sheet.message(text, status, final=not calls)] if text or not calls else []
    return [*message, *(call_item(call) for call in calls)]


def _status(outcome: RunOutcome) -> Status:
    return "incomplete" if outcome.stop_reason == "length" else "completed"


async def _whole(call: HttpCall, run: HttpRun, sheet: ResponseItems) -> None:
    outcome = await run.end()
    status = _status(outcome)
    output = _output(sheet, outcome_text(outcome), run.speech.calls, status)
    await call.answer(sheet.response(status, output, outcome.usage))


class _Stream:
    """The numbered events of one response."""

    def __init__(self, call: HttpCall, sheet: ResponseItems) -> None:
        self._call = call
        self._sheet = sheet
        self._number = 0
        self._text = ""
        self._open = False

    async def follow(self, run: HttpRun) -> None:
        first = await run.beginning()
        await self._call.open_stream()
        started = self._sheet.response("in_progress", [])
        await self._say("response.created", response=started)
        await self._say("response.in_progress", response=started)
        await self._add(first)
        async for text in run.pieces():
            await (self._add(text) if text else self._call.keep_alive())
        outcome = run.speech.outcome
        if outcome is None or outcome.status == "error":
            await self._fail(outcome)
        else:
            await self._finish(outcome, run.speech.calls)
        await self._call.close_stream()

    async def _add(self, text: str) -> None:
        if not text:
            return
        await self._begin_message()
        self._text += text
        await self._say("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    async def _begin_message(self) -> None:
        if self._open:
            return
        self._open = True
        item = self._sheet.message(None, "in_progress")
        await self._say("response.output_item.added", output_index=0, item=item)
        await self._say("response.content_part.added", **self._place(), part=text_part(""))

    async def _finish(self, outcome: RunOutcome, calls: tuple[ToolCall, ...]) -> None:
        if not calls:
            await self._begin_message()  # an empty answer is still a message
        status = _status(outcome)
        output = _output(self._sheet, self._text, calls, status)
        if self._open:
            await self._say("response.output_text.done", **self._place(), text=self._text, logprobs=[])
            await self._say("response.content_part.done", **self._place(), part=text_part(self._text))
            await self._say("response.output_item.done", output_index=0, item=output[0])
        for index, call in enumerate(calls, start=int(self._open)):
            await self._hand_over(index, call)
        name = "response.incomplete" if status == "incomplete" else "response.completed"
        await self._say(name, response=self._sheet.response(status, output, outcome.usage))

    async def _hand_over(self, index: int, call: ToolCall) -> None:
        item = call_item(call)
        about = {"output_index": index, "item_id": item["id"]}
        await self._say("response.output_item.added", output_index=index, item=call_item(call, "in_progress"))
        await self._say("response.function_call_arguments.delta", **about, delta=arguments(call))
        await self._say("response.function_call_arguments.done", **about, name=call.name, arguments=arguments(call))
        await self._say("response.output_item.done", output_index=index, item=item)

    async def _fail(self, outcome: RunOutcome | None) -> None:
        message = (outcome.error if outcome else None) or "the run failed"
        said = [self._sheet.message(self._text, "incomplete")] if self._open else []
        failed = self._sheet.response("failed", said, outcome.usage if outcome else None)
        kind = (outcome.error_kind if outcome else None) or "server_error"
        failed["error"] = {"code": kind, "message": message}
        await self._say("response.failed", response=failed)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._sheet.message_id, "output_index": 0, "content_index": 0}

    async def _say(self, event: str, **more: Any) -> None:
        await self._call.event({"type": event, "sequence_number": self._number, **more}, event)
        self._number += 1
