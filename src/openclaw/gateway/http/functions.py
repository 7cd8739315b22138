"""Functions the client offers, and whether they may or must be called. Pure."""

import re
from collections.abc import Collection, Sequence
from typing import Any, Literal

from msgspec import Struct

from openclaw.gateway.http.problems import HttpProblem
from openclaw.turns.turn import ClientTool

MOST = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


class FunctionChoice(Struct, frozen=True):
    """Which functions the model gets to see, and what it is told about them."""

    tools: tuple[ClientTool, ...] = ()
    order: str = ""


def offered(tools: Sequence[ClientTool], taken: Collection[str]) -> tuple[ClientTool, ...]:
    """`tools`, when each has a usable name and a usable schema; `taken` are the assistant's own."""
    if len(tools) > MOST:
        raise HttpProblem(400, f"more than {MOST} functions: send fewer", param="tools")
    seen: set[str] = set()
    for tool in tools:
        if not _NAME.match(tool.name):
            raise HttpProblem(
                400, f"{tool.name!r} cannot be a function name: use letters, digits, - and _", param="tools"
            )
        if tool.name in seen:
            raise HttpProblem(400, f"there are two functions called {tool.name}: rename one", param="tools")
        if tool.name.lower() in taken:
            raise HttpProblem(400, f"{tool.name} is the name of one of the agent's own tools: rename it", param="tools")
        if tool.parameters and tool.parameters.get("type", "object") != "object":
            raise HttpProblem(400, f"the parameters of {tool.name} must be a JSON Schema of an object", param="tools")
        seen.add(tool.name)
    return tuple(tools)


def choose(tools: tuple[ClientTool, ...], choice: Any) -> FunctionChoice:
    """What `tool_choice` makes of them. The agent keeps its own tools whatever the client chooses."""
    match choice:
        case None | "auto":
            return FunctionChoice(tools)
        case "none":
            return FunctionChoice()
        case "required":
            if not tools:
                raise HttpProblem(400, "tool_choice is required, but there are no tools", param="tool_choice")
            names = ", ".join(tool.name for tool in tools)
            return FunctionChoice(tools, f"Call one of these functions before you answer: {names}.")
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            chosen = tuple(tool for tool in tools if tool.name == name)
            if not chosen:
                raise HttpProblem(400, f"tool_choice names {name}, which is not among the tools", param="tool_choice")
            return FunctionChoice(chosen, f"Call the function {name} before you answer.")
        case _:
            raise HttpProblem(400, "tool_choice must be none, auto, required or one function", param="tool_choice")


Finish = Literal["stop", "length", "tool_calls"]


def finish(stop_reason: str, handed_over: bool) -> Finish:
    if handed_over:
        return "tool_calls"
    return "length" if stop_reason == "length" else "stop"
