"""What goes in and out of `/v1/responses`: items, their parts, and the events of a stream. Pure."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from openclaw.core.messages import ToolCall, Usage
from openclaw.gateway.http.conversation import RequestedAnswer, RequestText
from openclaw.gateway.http.images import image
from openclaw.gateway.http.problems import HttpProblem
from openclaw.turns.turn import ClientTool


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
    """What we read of a request."""

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
                said.append(
                    RequestText(role="assistant", calls=(RequestedAnswer(item.call_id, item.name, item.arguments),))
                )
            case "function_call_output":
                text, pictures = _content(item.output)
                images = tuple(image(url) for url in pictures)
                said.append(RequestText(role="tool", text=text, images=images, call_id=item.call_id))
            case "reasoning" | "item_reference":
                pass  # the session has its own
            case other:
                raise HttpProblem(400, f"input items of type {other} are not supported", param="input")
    return said


def _message(item: _Item) -> RequestText:
    if item.role is None:
        raise HttpProblem(400, "an input message has no role: use user, assistant, system or developer", param="input")
    text, pictures = _content(item.content)
    role: Literal["system", "user", "assistant"] = "system" if item.role == "developer" else item.role
    return RequestText(role=role, text=text, images=tuple(image(url) for url in pictures))


def _content(content: str | list[_Part] | None) -> tuple[str, list[str]]:
    if content is None or isinstance(content, str):
        return content or "", []
    texts = [part.text or part.refusal for part in content if part.type != "input_image"]
    pictures = [part.image_url or "" for part in content if part.type == "input_image"]
    return "\n".join(texts), pictures


Status = Literal["in_progress", "completed", "incomplete", "failed"]


class ResponseItems(Struct, frozen=True, kw_only=True):
    """What every state of one response has in common."""

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
        """The one message of a response; no text yet gives it no content yet."""
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
