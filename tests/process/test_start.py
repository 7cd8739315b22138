"""A program whose start is cancelled leaves neither a process nor open pipes behind."""

import asyncio
import gc
import os
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path

import pytest

from openclaw.core.errors import Unavailable
from openclaw.core.sandbox import BoundSandbox, SandboxLaunch, SandboxSpec
from openclaw.process.child import start_subprocess
from openclaw.tools.sandboxed import SandboxWorker
from openclaw.tools.sandboxed_worker import SandboxRequest

pytestmark = pytest.mark.anyio


class Unconfined:
    """An engine that starts programs as they are."""

    name = "unconfined"

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._argv = argv

    async def problem(self, box: SandboxSpec) -> str:
        return ""

    async def launch(self, box, argv, *, cwd, env, terminal=False) -> SandboxLaunch:
        return SandboxLaunch(argv=self._argv, cwd=box.root, env={"PATH": os.environ["PATH"]})

    async def python(self, box: SandboxSpec) -> str:
        return "python3"

    async def standing(self, prefix: str) -> tuple[()]:
        return ()

    async def discard(self, name: str) -> None:
        return None


def children() -> set[str]:
    """Our child processes, those not yet waited for included."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread of an earlier test has ended meanwhile
            found.update((task / "children").read_text().split())
    return found


def open_files() -> set[str]:
    gc.collect()  # a lost transport reports itself, and fails the test
    return {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}


async def cancelled_after(steps: int, task: "asyncio.Task[object]") -> None:
    """Cancels it twice, as a run does that is stopped while it is already ending."""
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("steps", range(12))
async def test_a_sandboxed_call_that_is_cancelled_while_its_helper_starts(tmp_path: Path, steps: int) -> None:
    before, files = children(), open_files()
    box = SandboxSpec(name="x", root=str(tmp_path))
    worker = SandboxWorker(BoundSandbox(Unconfined(("sleep", "60")), box))
    await cancelled_after(steps, asyncio.create_task(worker.call(SandboxRequest(tool="read"))))
    await worker.close()
    assert children() == before
    assert open_files() <= files


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("steps", range(10))
async def test_a_start_that_is_cancelled(steps: int, leads: bool) -> None:
    before, files = children(), open_files()
    start = start_subprocess("sleep", "60", stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=leads)
    await cancelled_after(steps, asyncio.create_task(start))
    assert children() == before
    assert open_files() <= files


async def test_a_program_that_is_not_there_is_told_even_so(tmp_path: Path) -> None:
    worker = SandboxWorker(BoundSandbox(Unconfined(("/no/such/program",)), SandboxSpec(name="x", root=str(tmp_path))))
    with pytest.raises(Unavailable, match="could not be started"):
        await worker.call(SandboxRequest(tool="read"))
