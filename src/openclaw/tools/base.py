"""What tools share: base classes, argument structs as JSON schemas, parsing them, JSON output, errors as outputs."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar

import msgspec

from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.secret import REDACTED
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools.paths import lock_name, resolve_path

T = TypeVar("T")
A = TypeVar("A")

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


def parse_args(args: Mapping[str, Any], wanted: type[T]) -> T:
    """Parses `args` as the frozen type `wanted`."""
    try:
        return msgspec.convert(dict(args), wanted, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"Invalid arguments: {error}") from error


# Base classes.


class SimpleTool:
    """A tool with the same effects whatever its arguments, and without exclusive resources, unless overridden."""

    spec: ToolSpec
    usual_effects = Effects.NONE

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return self.usual_effects

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()


class ArgsTool(SimpleTool, Generic[A]):
    """A tool with arguments of one type; `run` raises expected errors, which become failed outputs."""

    args_type: type[A]
    errors_quote = False
    """Whether its errors may quote what it read, or name files that others have named."""

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            return await self.run(parse_args(args, self.args_type), context)
        except OpenClawError as error:
            return Output.failed(error.message) if self.errors_quote else Output.refused(error.message)

    async def run(self, wanted: A, context: ToolContext) -> Output:
        raise NotImplementedError


class FileTool(ArgsTool[A]):
    """A tool over files, confined to the workspace on request."""

    errors_quote = True

    usual_effects = Effects.READS_FILES

    def __init__(self, *, workspace_only: bool = False) -> None:
        self.workspace_only = workspace_only


class ChangingFileTool(FileTool[A]):
    """A file tool that changes files: the call needs them for itself."""

    usual_effects = Effects.READS_FILES | Effects.WRITES_FILES

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        if REDACTED in json.dumps(dict(args), default=str):
            # Written back, the mark would destroy the credential it stands for.
            return Output.refused(
                f"{REDACTED} stands for a credential that was not shown to you: leave its line alone, and change the"
                " others with edit."
            )
        return await super().call(args, context)

    def changed(self, wanted: A) -> Sequence[str]:
        """The paths of the files that a call may change."""
        raise NotImplementedError

    def resources(self, args: Mapping[str, Any], context: ToolContext, *, creating: bool = True) -> frozenset[str]:
        with suppress(OpenClawError):  # the call itself reports the error
            paths = self.changed(parse_args(args, self.args_type))
            return frozenset(lock_name(resolve_path(path, context.workspace, creating=creating)) for path in paths)
        return frozenset()


def _takes_part(agents: Sequence[str], patterns: Sequence[str]) -> bool:
    return not patterns or all(any(fnmatchcase(agent, pattern) for pattern in patterns) for agent in agents)
