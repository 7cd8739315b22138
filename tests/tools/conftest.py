"""A workspace to work in, and a way to call a tool as the loop does."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.tool import Output, Tool, ToolContext

Call = Callable[..., Awaitable[Output]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def context(workspace: Path) -> ToolContext:
    return ToolContext(call_id="call-1", workspace=workspace)


@pytest.fixture
def call(context: ToolContext) -> Call:
    async def run(tool: Tool, **args: Any) -> Output:
        return await tool.call(args, context)

    return run
