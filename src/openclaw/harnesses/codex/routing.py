"""Which text of the prompt travels by which carrier to Codex; only decides.

`developerInstructions` are read once, when a thread begins. The text of the collaboration mode is read whenever it has
changed, so what people edit goes there. `additionalContext` is for the facts of one turn.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from openclaw.core.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, User
from openclaw.core.provider import ThinkingLevel
from openclaw.core.tool import ToolSpec
from openclaw.prompt.facts import Section, trust_level

NAMESPACE = "openclaw"
PROJECT_DOC_BYTES = 131_072
EFFORTS: dict[str, str] = {"off": "none", "max": "xhigh", "adaptive": "medium"}
PERSONA = ("soul.md", "identity.md", "user.md")
OWN_TOOLS = (
    "Act through the tools of the namespace `openclaw`: they are the ones that may read and change things here. Native "
    "file changes are declined."
)
HEARTBEAT = "This is a heartbeat turn. Read HEARTBEAT.md in the workspace and follow it."
MEMORY = (
    "MEMORY.md holds what is to be remembered here. It is not part of this text: use memory_search and memory_get when "
    "something of it may matter."
)
GO_ON = "The work above was interrupted before it was finished. Check what took effect, and go on."


class CodexLayers(Struct, frozen=True, kw_only=True):
    """The text of one turn, by carrier."""

    developer: str
    collaboration: str
    context: str
    turn: str = ""
    """Put before what is asked."""
    agents_file: bool = True
    """Whether Codex reads AGENTS.md itself."""
    native: bool = True
    """Whether Codex may look at files, which it does without asking (AGENTS.md, `view_image`)."""


def route_layers(sections: Sequence[Section], *, native: bool = True, heartbeat: bool = False) -> CodexLayers:
    """Distributes the sections of our prompt; a Codex that is not `native` reads no file itself, AGENTS.md included."""
    developer, context = [OWN_TOOLS], list[str]()
    collaboration, turn = list[str](), list[str]()
    agents_file = False
    recalls = any(section.id == "memory" for section in sections)  # there is one where notes can be looked up
    for section in sections:
        name = section.id.rpartition("/")[2].lower() if section.id.startswith("file:") else ""
        text = section.rendered
        if name == "agents.md" and native and trust_level(section.label) != "untrusted":
            agents_file = True
        elif name == "heartbeat.md":
            if heartbeat and section.text.strip():
                context.append(HEARTBEAT)
        elif name == "memory.md":
            (collaboration if recalls else turn).append(MEMORY if recalls else text)
        elif name == "bootstrap.md":
            turn.append(text)
        elif name in (*PERSONA, "agents.md") or section.id in ("skills", "memory"):
            collaboration.append(text)
        elif section.stable:
            developer.append(text)
        else:
            context.append(text)
    return CodexLayers(
        developer="\n".join(developer),
        collaboration="\n".join(collaboration),
        context="\n".join(context),
        turn="\n".join(turn),
        agents_file=agents_file,
        native=native,
    )


def tools_to_json(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Our tools as one namespace, whose names cannot collide with those of Codex."""
    listed = [
        {"type": "function", "name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
        for tool in sorted(tools, key=_name)
    ]
    about = "The tools of OpenClaw on this machine."
    return [{"type": "namespace", "name": NAMESPACE, "description": about, "tools": listed}] if listed else []


def _name(tool: ToolSpec) -> str:
    return tool.name


def thread_params(layers: CodexLayers, tools: Sequence[ToolSpec], *, model: str, workspace: str) -> dict[str, Any]:
    """The parameters of `thread/start`."""
    return {
        **({} if layers.native else {"environments": []}),
        "cwd": workspace,
        "model": model,
        "modelProvider": "openclaw",
        "approvalPolicy": "untrusted",
        "sandbox": "read-only",
        "personality": "none",
        "developerInstructions": layers.developer,
        "config": {
            "skills.include_instructions": False,
            "include_permissions_instructions": False,
            "project_doc_max_bytes": PROJECT_DOC_BYTES if layers.agents_file else 0,
        },
        "dynamicTools": tools_to_json(tools),
    }


def turn_params(
    layers: CodexLayers, thread_id: str, asked: Sequence[User], *, model: str, thinking: ThinkingLevel
) -> dict[str, Any]:
    """The parameters of `turn/start`."""
    effort = EFFORTS.get(thinking, thinking)
    settings = {"model": model, "reasoning_effort": effort, "developer_instructions": layers.collaboration}
    before = [{"type": "text", "text": layers.turn}] if layers.turn else []
    params: dict[str, Any] = {
        "threadId": thread_id,
        "input": [*before, *(part for each in asked for part in input_of(each))] or [{"type": "text", "text": GO_ON}],
        "collaborationMode": {"mode": "default", "settings": settings},
    }
    if layers.context:
        params["additionalContext"] = {"openclaw_turn": {"kind": "application", "value": layers.context}}
    return params


def input_of(message: User) -> list[dict[str, Any]]:
    """What a person said, as input of a turn."""
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}]
    return [
        {"type": "image", "url": f"data:{part.mime_type};base64,{part.data}"}
        if isinstance(part, Image)
        else {"type": "text", "text": part.text}
        for part in message.content
    ]


def history_items(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """A history as items of the Responses API, for a thread that begins with it."""
    items: list[dict[str, Any]] = []
    open_calls: set[str] = set()
    for message in messages:
        if isinstance(message, User):
            if message.text:
                items.append(_said("user", "input_text", message.text))
        elif isinstance(message, ToolResult):
            if message.tool_call_id in open_calls:
                open_calls.discard(message.tool_call_id)
                items.append(
                    {"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text or "done"}
                )
        else:
            items += _assistant_items(message)
            open_calls |= {call.id for call in message.calls}
    answered = {each["call_id"] for each in items if each["type"] == "function_call_output"}
    return [each for each in items if each["type"] != "function_call" or each["call_id"] in answered]


def _assistant_items(message: Assistant) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, Text) and block.text:
            items.append(_said("assistant", "output_text", block.text))
        elif isinstance(block, ToolCall):
            items.append(call_item(block))
    return items


def _said(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def call_item(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "namespace": NAMESPACE,
        "name": call.name,
        "call_id": call.id,
        "arguments": json.dumps(call.arguments, ensure_ascii=False),
    }
