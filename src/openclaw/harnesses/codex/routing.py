"""Which text of the prompt travels by which carrier to Codex; only decides.

`developerInstructions` are read once, when a thread begins. The text of the collaboration mode is read whenever it has
changed, so what people edit goes there. `additionalContext` is for the facts of one turn.
"""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from openclaw.core.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, User
from openclaw.core.provider import ThinkingLevel
from openclaw.core.tool import ToolSpec
from openclaw.harnesses.codex.binding import ThreadBinding, digest
from openclaw.models.settings import Posture
from openclaw.prompt.facts import Section, trust_level

NAMESPACE = "openclaw"
PROJECT_DOC_BYTES = 131_072
EFFORTS: dict[str, str] = {"off": "none", "max": "xhigh", "adaptive": "medium"}
PERSONA = ("soul.md", "identity.md", "user.md")
OWN_TOOLS = "Act through the tools of the namespace `openclaw`: they are the ones that may read and change things here."
NATIVE_TOOLS = (
    "Run commands and change files with your own tools: where this text names `exec`, `process`, `write`, `edit` or "
    "`apply_patch`, those are meant. The owner's policy judges each command and each change, and a declined one is not "
    "to be tried another way. Everything else is in the namespace `openclaw`."
)
HEARTBEAT = "This is a heartbeat turn. Read HEARTBEAT.md in the workspace and follow it."
MEMORY = (
    "MEMORY.md holds what is to be remembered here. It is not part of this text: use memory_search and memory_get when "
    "something of it may matter."
)
THREAD, DEVELOPER, PROJECT = "thread/start", "developerInstructions", "AGENTS.md as Codex reads it"
COLLABORATION, CONTEXT, INPUT = "collaborationMode", "additionalContext", "turn input"
CARRIERS = (THREAD, DEVELOPER, PROJECT, COLLABORATION, CONTEXT, INPUT)
GO_ON = "The work above was interrupted before it was finished. Check what took effect, and go on."


NATIVE_INSTEAD = ("exec", "process", "write", "edit", "apply_patch")
"""Tools of ours that Codex has its own of in the posture `native`."""


class CodexLayers(Struct, frozen=True, kw_only=True):
    """The text of one turn, by carrier."""

    developer: str
    collaboration: str | None
    """None leaves it to Codex."""
    context: str
    turn: str = ""
    """Put before what is asked."""
    agents_file: bool = True
    """Whether Codex reads AGENTS.md itself."""
    files: bool = True
    """Whether Codex may look at files, which it does without asking (AGENTS.md, `view_image`)."""


class CodexSession(Struct, frozen=True, kw_only=True):
    """Whose turn it is, and how Codex may work in it."""

    agent_id: str
    session_id: str
    workspace: str
    layers: CodexLayers
    posture: Posture = "own"
    """`own`: only our tools act; `native`: Codex's shell and patches too, each judged by our gates."""
    may_type: bool = False
    """Whether anything may be typed to running programs."""
    visits: bool = False
    """Not a person's own turn: it takes the thread as it is, rather than begin another with its fewer tools."""
    light: bool = False
    """A job that is its message alone: nothing of our prompt goes with it, and its thread is not kept."""


def binding_for(session: CodexSession, tools: Sequence[ToolSpec], version: str) -> ThreadBinding:
    """What a thread that begins now is begun with."""
    layers = session.layers
    return ThreadBinding(
        thread_id="",
        tools=digest(tools_to_json(tools)),
        instructions=digest(layers.developer),
        access=digest([layers.agents_file, layers.files, session.posture]),
        names=tuple(sorted(tool.name for tool in tools)),
        version=version,
    )


def dynamic_tools(session: CodexSession, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools that are ours to offer."""
    instead = NATIVE_INSTEAD if session.posture == "native" else ()
    return tuple(tool for tool in tools if tool.name not in instead)


def carry_sections(
    sections: Sequence[Section], *, files: bool = True, heartbeat: bool = False, posture: Posture = "own"
) -> tuple[Section, ...]:
    """The sections of our prompt as they travel, each with its carrier, in the order of the carriers.

    Without `files` Codex reads none itself, AGENTS.md included.
    """
    ours = Section(id="codex_tools", heading="", text=OWN_TOOLS if posture == "own" else NATIVE_TOOLS)
    found = [structs.replace(ours, carrier=DEVELOPER)]
    recalls = any(section.id == "memory" for section in sections)  # there is one where notes can be looked up
    for section in sections:
        name = section.id.rpartition("/")[2].lower() if section.id.startswith("file:") else ""
        carrier = DEVELOPER if section.stable else CONTEXT
        if name == "agents.md" and files and trust_level(section.label) != "untrusted":
            carrier = PROJECT
        elif name == "heartbeat.md":
            if not (heartbeat and section.text.strip()):
                continue
            section, carrier = structs.replace(section, heading="", text=HEARTBEAT), CONTEXT
        elif name == "memory.md" and recalls:
            section, carrier = structs.replace(section, heading="", text=MEMORY), COLLABORATION
        elif name in ("memory.md", "bootstrap.md"):
            carrier = INPUT
        elif name in (*PERSONA, "agents.md") or section.id in ("skills", "skills_catalog", "memory"):
            carrier = COLLABORATION
        found.append(structs.replace(section, carrier=carrier))
    return tuple(sorted(found, key=_carrier_order))


def _carrier_order(section: Section) -> int:
    return CARRIERS.index(section.carrier)


def make_layers(carried: Sequence[Section], *, files: bool = True) -> CodexLayers:
    """The text of each carrier."""
    texts = {
        name: "\n".join(each.rendered for each in carried if each.carrier == name)
        for name in (DEVELOPER, COLLABORATION, CONTEXT, INPUT)
    }
    return CodexLayers(
        developer=texts[DEVELOPER],
        collaboration=texts[COLLABORATION],
        context=texts[CONTEXT],
        turn=texts[INPUT],
        agents_file=any(each.carrier == PROJECT for each in carried),
        files=files,
    )


def light_layers(*, files: bool = True) -> CodexLayers:
    """No text of ours at all."""
    return CodexLayers(developer="", collaboration=None, context="", agents_file=False, files=files)


def parameters_section(session: CodexSession, tools: Sequence[ToolSpec], *, model: str) -> Section:
    """What a thread is begun with, beside the text and the schemas of its tools."""
    params = thread_params(session, (), model=model)
    params.pop("developerInstructions", None)
    del params["dynamicTools"]
    params["tools"] = sorted(tool.name for tool in dynamic_tools(session, tools))
    text = json.dumps(params, indent=1, ensure_ascii=False)
    return Section(id="codex_parameters", heading="", text=text, carrier=THREAD)


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


def thread_params(session: CodexSession, tools: Sequence[ToolSpec], *, model: str) -> dict[str, Any]:
    """The parameters of `thread/start`."""
    layers = session.layers
    alone = {"include_environment_context": False} if session.light else {}
    return {
        **({} if layers.files else {"environments": []}),
        **({"ephemeral": True} if session.light else {"developerInstructions": layers.developer}),
        "cwd": session.workspace,
        "model": model,
        "modelProvider": "openclaw",
        "approvalPolicy": "untrusted",
        # What our gates have admitted is not held back once more.
        "sandbox": "danger-full-access" if session.posture == "native" else "workspace-write",
        "personality": "none",
        "config": {
            **alone,
            "skills.include_instructions": False,
            "include_permissions_instructions": False,
            "project_doc_max_bytes": PROJECT_DOC_BYTES if layers.agents_file else 0,
        },
        "dynamicTools": tools_to_json(tools),
    }


def given_before(layers: CodexLayers, given: str) -> CodexLayers:
    """The text of a turn without the files that its thread has been given as they are."""
    return structs.replace(layers, turn="") if layers.turn and digest(layers.turn) == given else layers


def turn_params(
    layers: CodexLayers, thread_id: str, asked: Sequence[User] | None, *, model: str, thinking: ThinkingLevel
) -> dict[str, Any]:
    """The parameters of `turn/start`; nothing is `asked` of a thread that only has to be answered again."""
    effort = EFFORTS.get(thinking, thinking)
    before = [{"type": "text", "text": layers.turn}] if layers.turn else []
    said = [] if asked is None else [*before, *(part for each in asked for part in input_of(each))]
    params: dict[str, Any] = {
        "threadId": thread_id,
        "input": said or ([] if asked is None else [{"type": "text", "text": GO_ON}]),
    }
    if layers.collaboration is None:
        return {**params, "model": model, "effort": effort}
    settings = {"model": model, "reasoning_effort": effort, "developer_instructions": layers.collaboration}
    params["collaborationMode"] = {"mode": "default", "settings": settings}
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
