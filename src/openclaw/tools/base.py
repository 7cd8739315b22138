"""What tools share: parsing arguments, JSON output, a base class, specs, and turning errors into outputs."""

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec

from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec

T = TypeVar("T")

OWN_GATEWAY = "this tool works in the gateway it belongs to; leave it out"
UNSUPPORTED_PARAMETERS = {
    "gatewayUrl": OWN_GATEWAY,
    "gatewayToken": OWN_GATEWAY,
    "timeoutMs": "nothing here waits on a network",
}
"""Parameters for reaching other gateways, which these tools refuse."""


def json_output(result: Mapping[str, Any], *, failed: bool = False, ends_run: bool = False) -> Output:
    """`result` as the JSON a model reads."""
    text = json.dumps(result, indent=2, ensure_ascii=False)
    output = Output.failed(text) if failed else Output.of(text)
    return msgspec.structs.replace(output, ends_run=ends_run)


class SimpleTool:
    """A tool without exclusive resources and without effects that policy watches, unless overridden."""

    spec: ToolSpec

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()


def tool_spec(
    name: str,
    label: str,
    summary: str,
    description: str,
    properties: Mapping[str, Any],
    *required: str,
    aliases: Mapping[str, str] | None = None,
    absent: Mapping[str, str] | None = None,
) -> ToolSpec:
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = list(required)
    return ToolSpec(
        name=name,
        label=label,
        summary=summary,
        description=description,
        parameters=parameters,
        aliases=aliases or {},
        absent=absent or {},
    )


def _takes_part(agents: Sequence[str], patterns: Sequence[str]) -> bool:
    return not patterns or all(any(fnmatchcase(agent, pattern) for pattern in patterns) for agent in agents)


P = ParamSpec("P")


def parse_args(args: Mapping[str, Any], wanted: type[T]) -> T:
    """Parses `args` as the frozen type `wanted`."""
    try:
        return msgspec.convert(dict(args), wanted, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"Invalid arguments: {error}") from error


def errors_to_output(call: Callable[P, Coroutine[Any, Any, Output]]) -> Callable[P, Coroutine[Any, Any, Output]]:
    """Decorates a call: expected errors become failed outputs; anything else is a bug and rises."""

    @wraps(call)
    async def answered(*args: P.args, **kwargs: P.kwargs) -> Output:
        try:
            return await call(*args, **kwargs)
        except OpenClawError as error:
            return Output.failed(error.message)

    return answered
