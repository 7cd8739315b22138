"""Tool search: everyday tools go with every request, schema and all; the others are named, and reached on demand.

A call of `tool_call` is planned as the call it carries: arguments, gates, approvals, hooks and repeats see the tool
that is meant, and nobody needs to know that it came this way.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Struct, structs

from openclaw.core.messages import ToolCall
from openclaw.core.tool import Output, Tool, ToolContext, ToolSpec, param, tool_spec
from openclaw.tools.base import ArgsTool, json_output

DIRECT = frozenset(
    "read write edit exec process grep find ls web_search web_fetch memory_search memory_get cron message "
    "session_status sessions_spawn sessions_yield".split()
)
"""What carries its schema in a request."""
CORE = frozenset("read write edit exec".split())
"""What does so for a model with a small window."""
SMALL_WINDOW = 16_384

CALL = "tool_call"
FOUND = 8
_WORD = re.compile(r"[a-z0-9]+")


class SearchArgs(Struct, frozen=True):
    query: Annotated[str, param()]
    limit: Annotated[int, param(f"default {FOUND}")] = FOUND


class DescribeArgs(Struct, frozen=True):
    id: Annotated[str, param("its name")]


class CarriedCall(Struct, frozen=True):
    """Arguments of `tool_call`."""

    id: Annotated[str, param("the tool's name")]
    args: Annotated[dict[str, Any], param("its arguments", additionalProperties=None)] = {}


class ToolSearch(ArgsTool[SearchArgs]):
    """`tool_search`: finds tools by words."""

    args_type = SearchArgs
    spec = tool_spec(
        "tool_search", "Find tools", "find a tool by words", "Find tools that carry no schema here.", SearchArgs
    )

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools

    async def run(self, wanted: SearchArgs, context: ToolContext) -> Output:
        found = search([tool.spec for tool in self._tools.values()], wanted.query)[: max(1, wanted.limit)]
        if not found:
            return Output.of(f"No tool matches. All there are: {', '.join(sorted(self._tools))}.")
        return json_output({"tools": [{"id": spec.name, "summary": spec.summary} for spec in found]})


class ToolDescribe(ArgsTool[DescribeArgs]):
    """`tool_describe`: the whole schema of a tool."""

    args_type = DescribeArgs
    spec = tool_spec(
        "tool_describe",
        "Describe a tool",
        "all parameters of a tool",
        "All parameters of a tool; of those sent here, too, the rarer ones.",
        DescribeArgs,
    )

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools

    async def run(self, wanted: DescribeArgs, context: ToolContext) -> Output:
        tool = self._tools.get(wanted.id)
        if tool is None:
            return Output.failed(f"Tool {wanted.id} not found. Available: {', '.join(sorted(self._tools))}.")
        return json_output(describe(tool.spec))


class ToolCallTool(ArgsTool[CarriedCall]):
    """`tool_call`: its spec alone; the runner carries out the call inside."""

    args_type = CarriedCall
    spec = tool_spec(CALL, "Call a tool", "call it", "Call a tool that carries no schema here.", CarriedCall)

    async def run(self, wanted: CarriedCall, context: ToolContext) -> Output:
        return Output.failed(f"Tool {wanted.id} not found: look for it with tool_search.")


def describe(spec: ToolSpec) -> dict[str, Any]:
    """A tool as `tool_describe` shows it."""
    return {"id": spec.name, "description": spec.description, "parameters": spec.parameters}


def search(specs: Sequence[ToolSpec], query: str) -> list[ToolSpec]:
    """The tools that have most of the words of `query`: in the name, then in the summary, then anywhere."""
    words = set(_WORD.findall(query.lower()))

    def score(spec: ToolSpec) -> int:
        rest = f"{spec.description} {' '.join(spec.parameters.get('properties', ()))}"
        weights = ((5, spec.name), (2, spec.summary), (1, rest))
        return sum(weight for weight, text in weights for word in words if _has(word, text.lower()))

    scored = sorted(((score(spec), spec) for spec in specs), key=lambda pair: (-pair[0], pair[1].name))
    return [spec for points, spec in scored if points]


def _has(word: str, text: str) -> bool:
    stem = word.removesuffix("s") if len(word) > 3 else word
    return any(each.startswith(stem) for each in _WORD.findall(text))


def split_tools(tools: Mapping[str, Tool], *, window: int, always: frozenset[str]) -> frozenset[str]:
    """The names of the tools whose schema is left out; none where searching would cost more than it saves.

    `always` are tools that only their caller knows, and that no search would find.
    """
    direct = (CORE if window <= SMALL_WINDOW else DIRECT) | always
    left_out = [tool.spec for name, tool in tools.items() if name not in direct]
    cost = sum(spec.chars for spec in SEARCH_SPECS)
    rare = sum(tool.spec.chars - tool.spec.lean.chars for tool in tools.values())
    if sum(spec.chars for spec in left_out) + rare <= cost:
        return frozenset()
    return frozenset(spec.name for spec in left_out)


SEARCH_SPECS = (ToolCallTool.spec, ToolDescribe.spec, ToolSearch.spec)


class DeferredTools:
    """The tools of a run, of which some are only named."""

    def __init__(self, tools: Mapping[str, Tool], names: frozenset[str]) -> None:
        self.names = names
        sent = [tool.spec.lean for name, tool in tools.items() if name not in names]
        self.specs = tuple(sorted((*sent, *SEARCH_SPECS), key=lambda spec: spec.name))
        self._tools = tools

    @cached_property
    def own(self) -> dict[str, Tool]:
        """The tools that search, made when one is called."""
        left_out = {name: tool for name, tool in self._tools.items() if name in self.names}
        found = (ToolSearch(left_out), ToolDescribe(self._tools), ToolCallTool())
        return {tool.spec.name: tool for tool in found}

    def carried(self, call: ToolCall) -> ToolCall:
        """The call inside a `tool_call`; the call itself when there is none."""
        if call.broken is not None:
            return call
        name, args = call.arguments.get("id"), call.arguments.get("args", {})
        if isinstance(args, str):  # some models write the arguments as text
            with suppress(msgspec.DecodeError):
                args = msgspec.json.decode(args)
        if not isinstance(name, str) or name not in self._tools or not isinstance(args, dict):
            return call
        return structs.replace(call, name=name, arguments=args)
