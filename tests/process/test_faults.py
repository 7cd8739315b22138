"""A child process that goes wrong, for everybody who starts any: it is told, it ends, and nothing is left behind."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL

import pytest

from openclaw.process.child import ask_program
from tests.process.users import FAULTS, ROOT, USERS, recorded
from tests.processes import is_alive

pytestmark = pytest.mark.anyio
DEADLINE = 300.0


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if is_alive(pid)}


async def until_gone(pids: set[int]) -> None:
    async with asyncio.timeout(DEADLINE):
        while alive(pids):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("user", USERS)
async def test_a_child_that_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, fault: str) -> None:
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))  # put back afterwards
    async with asyncio.timeout(DEADLINE):
        assert await USERS[user](tmp_path, fault)
    pids = recorded(tmp_path)
    assert len(pids) >= (3 if fault == "forks" else 1)
    await until_gone(pids)


@pytest.mark.parametrize("user", USERS)
async def test_a_child_ends_with_the_one_who_started_it_however_that_dies(tmp_path: Path, user: str) -> None:
    argv = [sys.executable, "-m", "tests.process.users", user, str(tmp_path), "survives SIGTERM"]
    parent = subprocess.Popen(argv, cwd=ROOT, stdout=DEVNULL, stderr=DEVNULL)  # noqa: ASYNC220 (asyncio would own it)
    try:
        async with asyncio.timeout(DEADLINE):
            while not recorded(tmp_path):
                assert parent.poll() is None
                await asyncio.sleep(0.02)
    finally:
        parent.kill()
        parent.wait()
    await until_gone(recorded(tmp_path))


DIES_AT_A_START = """
import os, signal, subprocess
from openclaw.process import group

reading, writing = os.pipe()
with group.starting(writing):
    child = subprocess.Popen(["sh", "-c", "sleep 3600 & wait"], stdout=writing, start_new_session=True)
    print(child.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_a_child_ends_with_the_one_who_was_just_starting_it() -> None:
    said = await ask_program([sys.executable, "-c", DIES_AT_A_START], env=dict(os.environ), seconds=DEADLINE)
    assert said.code == -9
    await until_gone({int(said.out)})
