"""Nonsense at every tool of the machine: an answer that says what is wrong, and nothing is touched."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.tool import Output, ToolContext
from openclaw.process.tasks import SystemClock
from openclaw.tools.build import ToolState, build_tools

pytestmark = pytest.mark.anyio

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("read", {"path": ""}, "empty"),
    ("read", {"path": "a\0b"}, "NUL"),
    ("read", {"path": "none.txt"}, "File not found"),
    ("read", {"path": "."}, "use ls"),
    ("read", {"path": "pipe"}, "named pipe"),
    ("read", {"path": "binary"}, "binary file"),
    ("read", {"path": "a.txt", "offset": 0}, "start at 1"),
    ("read", {"path": "a.txt", "offset": "many"}, "Invalid arguments"),
    ("read", {"path": 7.5}, "Invalid arguments"),
    ("read", {"path": "x" * 5000}, "x"),
    ("write", {"path": " ", "content": "x"}, "empty"),
    ("write", {"path": ".", "content": "x"}, "a directory"),
    ("write", {"path": "a.txt/b", "content": "x"}, "Could not write"),
    ("write", {"path": "new", "content": "\ud800"}, "surrogate"),
    ("write", {"path": "pipe", "content": "x"}, "named pipe"),
    ("edit", {"path": "a.txt", "edits": []}, "edit"),
    ("edit", {"path": "a.txt", "edits": [{"oldText": "nowhere", "newText": "x"}]}, "Could not find"),
    ("edit", {"path": "a.txt", "edits": [{"oldText": "one", "newText": "one"}]}, ""),
    ("edit", {"path": "binary", "edits": [{"oldText": "a", "newText": "b"}]}, "binary"),
    ("apply_patch", {"input": "nonsense"}, "*** Begin Patch"),
    ("apply_patch", {"input": "*** Begin Patch\n*** Update File: none\n@@\n-a\n+b\n*** End Patch"}, "none"),
    ("apply_patch", {"input": "*** Begin Patch\n*** Add File: ../../out\n+x\n*** End Patch"}, "outside the workspace"),
    ("ls", {"path": "none"}, "Directory not found"),
    ("ls", {"path": "a.txt"}, "not a directory"),
    ("ls", {"limit": 0}, "limit starts at 1"),
    ("grep", {"pattern": ""}, "empty"),
    ("grep", {"pattern": "("}, "Search failed"),
    ("grep", {"pattern": "x", "path": "none"}, "Path not found"),
    ("grep", {"pattern": "x", "context": -1}, "context"),
    ("find", {"pattern": "*", "limit": 0}, "limit starts at 1"),
    ("find", {"pattern": "*", "path": "a.txt"}, "is a file"),
    ("exec", {"command": " "}, "empty"),
    ("exec", {"command": "echo \0"}, "NUL"),
    ("exec", {"command": "x" * 200_000}, "128 KB"),
    ("exec", {"command": "true", "workdir": "none"}, "Directory not found"),
    ("exec", {"command": "true", "workdir": "a.txt"}, "not a directory"),
    ("exec", {"command": "true", "env": {"LD_PRELOAD": "x"}}, "Security violation"),
    ("exec", {"command": "true", "env": {"a b": "x"}}, "not a variable name"),
    ("exec", {"command": "true", "timeoutSeconds": -1}, "0 (never) or more"),
    ("exec", {"command": "true", "host": "node"}, "not available"),
    ("exec", {"command": "true", "host": "sandbox"}, "no sandbox"),
    ("exec", {"command": "/approve x allow-once"}, "given by a person"),
    ("process", {"action": "poll", "sessionId": "none"}, "No session found"),
    ("process", {"action": "dance", "sessionId": "x"}, "Invalid arguments"),
    ("process", {"action": "write"}, ""),
    ("image", {}, "No image is named"),
    ("image", {"image": "a.txt"}, "not an image"),
    ("image", {"image": "https://example.com/a.png"}, "not a file"),
    ("image", {"images": ["a"] * 3 + [str(n) for n in range(30)]}, "too many"),
]


@pytest.fixture
async def standing() -> AsyncIterator[ToolState]:
    kept = ToolState(SystemClock())
    yield kept
    await kept.close()


async def look(agent: str, prompt: str, images: Any) -> str:
    raise AssertionError("nothing there is to be looked at")


@pytest.mark.parametrize(("name", "args", "says"), BAD, ids=[f"{name}-{n}" for n, (name, _, _) in enumerate(BAD)])
async def test_bad_input_is_answered_with_what_is_wrong(
    tmp_path: Path, standing: ToolState, name: str, args: dict[str, Any], says: str
) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n")
    (workspace / "binary").write_bytes(bytes(range(256)))
    os.mkfifo(workspace / "pipe")
    before = sorted(path.name for path in workspace.iterdir())
    tools = build_tools(shell="/bin/sh", env={"PATH": os.environ["PATH"]}, background=standing.background, look=look)
    tool = next(tool for tool in tools if tool.spec.name == name)
    context = ToolContext(call_id="c", workspace=workspace, session_key="agent:main:main")
    answer = await tool.call(args, context)
    assert isinstance(answer, Output)
    assert answer.is_error
    assert says in answer.text
    assert len(answer.text) < 10_000
    assert sorted(path.name for path in workspace.iterdir()) == before
    assert (workspace / "a.txt").read_text() == "one\n"
