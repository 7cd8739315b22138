"""Helper processes that do not answer: whoever waits can always stop waiting."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.sandbox import BoundSandbox, SandboxLaunch, SandboxSpec
from openclaw.process.child import PipedProcess, wait_for_child
from openclaw.process.group import members
from openclaw.process.worker import Worker, WorkerSpec
from openclaw.tools.sandboxed import SandboxWorker
from openclaw.tools.sandboxed_worker import SandboxRequest as Asked
from tests.tools.conftest import ENV

pytestmark = pytest.mark.anyio

ROOT = str(Path(__file__).parents[2])
STUCK = WorkerSpec(name="the stuck one", module="tests.tools.stuck_helper")
LARGE = "x" * 1_000_000
"""More than any pipe holds."""


async def test_a_question_that_cannot_even_be_asked_can_be_taken_back() -> None:
    helper = Worker(STUCK, lambda: "", idle=0, environ={**os.environ, "PYTHONPATH": ROOT})
    try:
        asking = asyncio.create_task(helper.ask({"do": LARGE}, 600))
        async with asyncio.timeout(60):
            while not helper.alive or not helper.starts:
                await asyncio.sleep(0.01)
        for _ in range(20):
            await asyncio.sleep(0)
        asking.cancel()
        async with asyncio.timeout(120):
            await asyncio.wait({asking})
        assert asking.cancelled()
    finally:
        await helper.stop(patient=False)


class Deaf:
    """A sandbox in which nobody reads what is sent."""

    name = "deaf"

    async def python(self, box: SandboxSpec) -> str:
        return "python3"

    async def launch(
        self, box: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], **_: Any
    ) -> SandboxLaunch:
        return SandboxLaunch(argv=("/bin/sleep", "600"), cwd=box.root, env=ENV)


async def test_a_file_call_into_a_sandbox_that_hears_nothing_can_be_cancelled(tmp_path: Path) -> None:
    worker = SandboxWorker(BoundSandbox(Deaf(), SandboxSpec(name="b", root=str(tmp_path))))  # type: ignore[arg-type]
    try:
        asking = asyncio.create_task(worker.call(Asked(tool="write", args={"content": LARGE}, workspace="/")))
        async with asyncio.timeout(120):
            while worker.pid is None:
                await asyncio.sleep(0.01)
        for _ in range(20):
            await asyncio.sleep(0)
        asking.cancel()
        async with asyncio.timeout(120):
            await asyncio.wait({asking})
        assert asking.cancelled()
    finally:
        await worker.close()


async def test_what_is_to_be_run_afterwards_is_run_however_often_the_call_is_cancelled(tmp_path: Path) -> None:
    mark = tmp_path / "cleared"
    child = PipedProcess(["/bin/sleep", "600"], cwd=tmp_path, env=ENV, after=("/usr/bin/touch", str(mark)))
    attending = asyncio.create_task(wait_for_child(child, [lambda chunk: None], timeout=None, most=1000))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        while not attending.done():
            attending.cancel()
            await asyncio.sleep(0)
    assert attending.cancelled()
    assert mark.exists()
    assert not members(child.pid)
