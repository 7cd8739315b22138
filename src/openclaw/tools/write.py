"""Writing: a whole file at once, or nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.core.errors import OpenClawError
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools.answer import answers, parse_args
from openclaw.tools.files import encoded, opened, replace
from openclaw.tools.finishing import offload
from openclaw.tools.paths import exists, lock_name, place, real, shown


class WriteArgs(Struct, frozen=True):
    path: str
    content: str


class Write:
    """The `write` tool."""

    spec = ToolSpec(
        name="write",
        label="Write",
        summary="create or overwrite files",
        description="Create a file or replace all of its content. Missing parent directories are made. "
        "To change part of a file use edit.",
        parameters={
            "type": "object",
            "required": ["path", "content"],
            "properties": {
                "path": {"type": "string", "description": "File path, absolute or from the workspace"},
                "content": {"type": "string", "description": "The complete new content"},
            },
        },
        aliases={"file_path": "path", "filePath": "path"},
    )

    def __init__(self, *, workspace_only: bool = False) -> None:
        self.workspace_only = workspace_only

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.WRITES_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        try:
            return frozenset({lock_name(place(parse_args(args, WriteArgs).path, context.workspace, creating=True))})
        except OpenClawError:
            return frozenset()  # the call itself will say what is wrong

    @answers
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse_args(args, WriteArgs)
        path = place(wanted.path, context.workspace, workspace_only=self.workspace_only, creating=True)
        data = encoded(wanted.content, "content")
        changed = await offload(lambda stop: _write(path, data))
        return Output.of(
            f"Successfully wrote {len(data)} bytes to {shown(wanted.path)}",
            path=str(path),
            bytes=len(data),
            changed=changed,
        )


def _write(path: Path, data: bytes) -> bool:
    """Whether the file had to be changed."""
    if _holds(path, data):
        return False
    replace(path, data)
    return True


def _holds(path: Path, data: bytes) -> bool:
    target = real(path)
    if not exists(target) or not target.is_file() or target.stat().st_size != len(data):
        return False
    try:
        with opened(target) as stream:
            return stream.readall() == data
    except OpenClawError:
        return False  # a file one may write but not read
