"""A workspace, a place for commands in the background, and a way to call a tool as the loop does."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.tool import Output, Tool, ToolContext
from openclaw.process.tasks import SystemClock
from openclaw.tools.background import Background
from openclaw.tools.exec import ExecTool
from openclaw.tools.process import ProcessTool

Call = Callable[..., Awaitable[Output]]
ENV = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def context(workspace: Path) -> ToolContext:
    return ToolContext(call_id="call-1", workspace=workspace, session_key="agent:main:main")


@pytest.fixture
def call(context: ToolContext) -> Call:
    async def run(tool: Tool, **args: Any) -> Output:
        return await tool.call(args, context)

    return run


@pytest.fixture
async def background() -> AsyncIterator[Background]:
    kept = Background(SystemClock())
    yield kept
    await kept.close()


@pytest.fixture
def run(background: Background) -> ExecTool:
    return ExecTool(shell="/bin/bash", env=ENV, background=background)


@pytest.fixture
def process(background: Background) -> ProcessTool:
    return ProcessTool(background)
