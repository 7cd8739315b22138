"""The worker inside a sandbox: runs file tools."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.messages import Image, Text
from openclaw.core.sandbox import RUNTIME
from openclaw.core.tool import Output, Tool, ToolContext
from openclaw.process.stdio_rpc import RequestLoop, WorkerMessage, WorkerOutput, WorkerRequest, run_worker
from openclaw.tools.edit import EditTool
from openclaw.tools.files import LsTool, ReadTool, WriteTool
from openclaw.tools.image import ImageTool
from openclaw.tools.patch import ApplyPatch
from openclaw.tools.search import FindTool, GrepTool

START = f"import sys; sys.path.insert(0, '{RUNTIME}/lib'); from openclaw.tools.sandboxed_worker import main; main()"
"""The program for the interpreter inside; it needs only itself, msgspec and these modules."""


class SandboxRequest(Struct, frozen=True, kw_only=True):
    """One call."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    workspace: str = ""
    images: bool = True
    confined: bool = False
    patch_confined: bool = True


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


async def _answer(request: WorkerRequest) -> WorkerMessage:
    ask = msgspec.convert(request.body, SandboxRequest)
    tools = file_tools(dict(os.environ), confined=ask.confined, patch_confined=ask.patch_confined)
    tools.append(ImageTool(_unseen, workspace_only=ask.confined))
    context = ToolContext(call_id=str(request.id), workspace=Path(ask.workspace), accepts_images=ask.images)
    try:
        output = await next(tool for tool in tools if tool.spec.name == ask.tool).call(ask.args, context)
    except Exception as error:  # a bug in a tool fails this call only
        output = Output.failed(f"{type(error).__name__}: {error}")
    return WorkerMessage(id=request.id, body=msgspec.Raw(_encode(output)))


def _encode(output: Output) -> bytes:
    try:
        return msgspec.json.encode(output)
    except UnicodeEncodeError:  # file names may contain bytes that are not text
        content = tuple(
            Text(block.text.encode("utf-8", "replace").decode()) if isinstance(block, Text) else block
            for block in output.content
        )
        return msgspec.json.encode(structs.replace(output, content=content, details=None))


async def serve(body: Any, questions: "asyncio.Queue[WorkerRequest | None]", output: WorkerOutput) -> None:
    """Answers requests until the input ends."""
    output.say(WorkerMessage(ready=True))
    await RequestLoop(output, _answer).serve(questions)


def main() -> None:
    """Serves on standard input and output; the sandbox limits the memory."""
    run_worker(serve, bounded=False)
