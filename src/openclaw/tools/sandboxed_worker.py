"""The worker inside a sandbox: runs file tools. One JSON line per request and answer, answers in any order."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.messages import Image, Text
from openclaw.core.sandbox import RUNTIME
from openclaw.core.tool import Output, Tool, ToolContext
from openclaw.tools.edit import EditTool
from openclaw.tools.files import LsTool, ReadTool, WriteTool
from openclaw.tools.image import ImageTool
from openclaw.tools.patch import ApplyPatch
from openclaw.tools.search import FindTool, GrepTool

LONGEST_LINE = 64 * 1024 * 1024
START = f"import sys; sys.path.insert(0, '{RUNTIME}/lib'); from openclaw.tools.sandboxed_worker import main; main()"
"""The program for the interpreter inside; it needs only itself, msgspec and these modules."""


class SandboxRequest(Struct, frozen=True, kw_only=True):
    """One call, or the cancellation of one."""

    id: int
    tool: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    workspace: str = ""
    images: bool = True
    confined: bool = False
    patch_confined: bool = True
    cancel: bool = False


class SandboxAnswer(Struct, frozen=True, kw_only=True):
    """The answer to the call of the same id."""

    id: int
    output: Output


def file_tools(env: Mapping[str, str], *, confined: bool, patch_confined: bool) -> list[Tool]:
    """The tools over files, in the order of the prompt; confined ones stay in the workspace."""
    return [
        ReadTool(workspace_only=confined),
        WriteTool(workspace_only=confined),
        EditTool(workspace_only=confined),
        ApplyPatch(workspace_only=confined or patch_confined),
        GrepTool(env=env, workspace_only=confined),
        FindTool(env=env, workspace_only=confined),
        LsTool(workspace_only=confined),
    ]


async def _unseen(agent: str, prompt: str, images: Sequence[Image]) -> str:
    raise AssertionError("outside the box it is decided who looks")


async def serve(reader: asyncio.StreamReader, write: Any) -> None:
    """Answers requests until the input ends."""
    running: dict[int, asyncio.Task[None]] = {}

    async def answer(ask: SandboxRequest) -> None:
        tools = file_tools(dict(os.environ), confined=ask.confined, patch_confined=ask.patch_confined)
        tools.append(ImageTool(_unseen, workspace_only=ask.confined))
        context = ToolContext(call_id=str(ask.id), workspace=Path(ask.workspace), accepts_images=ask.images)
        try:
            output = await next(tool for tool in tools if tool.spec.name == ask.tool).call(ask.args, context)
        except Exception as error:  # a bug in a tool fails this call only
            output = Output.failed(f"{type(error).__name__}: {error}")
        write(_line(SandboxAnswer(id=ask.id, output=output)))

    async with asyncio.TaskGroup() as group:
        while line := await reader.readline():
            ask = msgspec.json.decode(line, type=SandboxRequest)
            if ask.cancel:
                if ask.id in running:
                    running[ask.id].cancel()
                continue
            task = group.create_task(answer(ask), name=f"{ask.tool}:{ask.id}")
            running[ask.id] = task
            task.add_done_callback(partial(_forget, running, ask.id))
        for task in running.values():
            task.cancel()


def _forget(running: dict[int, asyncio.Task[None]], number: int, done: asyncio.Task[None]) -> None:
    running.pop(number, None)


def _line(told: SandboxAnswer) -> bytes:
    try:
        return msgspec.json.encode(told) + b"\n"
    except UnicodeEncodeError:  # file names may contain bytes that are not text
        content = tuple(
            Text(block.text.encode("utf-8", "replace").decode()) if isinstance(block, Text) else block
            for block in told.output.content
        )
        return _line(SandboxAnswer(id=told.id, output=structs.replace(told.output, content=content, details=None)))


def main() -> None:
    """Serves on standard input and output."""

    async def run() -> None:
        reader = asyncio.StreamReader(limit=LONGEST_LINE)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), sys.stdin)
        await serve(reader, _send)

    asyncio.run(run())


def _send(line: bytes) -> None:
    """Writes all of `line`, blocking: the reader never stops reading."""
    left = memoryview(line)
    while left:
        left = left[os.write(1, left) :]
