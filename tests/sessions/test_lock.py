"""One writer a session: across tasks, across processes, and never for the dead."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.core.errors import SessionBusy
from openclaw.process.tasks import SystemClock
from openclaw.sessions.files import MOST_PAUSED, WriteLocks, lock_path
from openclaw.testing import FakeClock

pytestmark = pytest.mark.anyio

HOLD = """
import asyncio, sys
from pathlib import Path
from openclaw.process.tasks import SystemClock
from openclaw.sessions.files import WriteLocks
async def main():
    async with WriteLocks(SystemClock()).writing(Path(sys.argv[1]), "run-in-child"):
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""

COUNT = """
import asyncio, sys
from pathlib import Path
from openclaw.process.tasks import SystemClock
from openclaw.sessions.files import WriteLocks
async def main():
    locks, log = WriteLocks(SystemClock(), 30.0), Path(sys.argv[2])
    for turn in range(15):
        async with locks.writing(Path(sys.argv[1]), f"run-{turn}", again=turn % 3 > 0):
            for step in ("in", "out"):
                with log.open("a") as file:
                    file.write(f"{sys.argv[3]} {step}\\n")
                await asyncio.sleep(0.002)
asyncio.run(main())
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "s1.jsonl"


def hold(session: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(session)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


async def test_a_killed_owner_never_blocks(session: Path) -> None:
    with hold(session) as process:
        process.kill()
    assert lock_path(session).exists()
    async with asyncio.timeout(120), WriteLocks(SystemClock()).writing(session, "next"):
        pass
    assert list(session.parent.iterdir()) == []


async def test_after_the_timeout_the_holder_is_named(session: Path) -> None:
    with hold(session) as process:
        with pytest.raises(SessionBusy, match=rf"session busy: s1 .* process {process.pid} \(run-in-child\)") as caught:
            async with WriteLocks(SystemClock(), 0.05).writing(session, "me"):
                pytest.fail("two writers")
        assert caught.value.holder == f"process {process.pid} (run-in-child)"
        assert caught.value.code == "SESSION_BUSY"
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(120), WriteLocks(SystemClock()).writing(session, "me"):
            pass


async def test_the_wait_is_sixty_seconds_unless_told_otherwise(session: Path) -> None:
    clock = FakeClock()
    locks, others = WriteLocks(clock), WriteLocks(clock)

    async def late() -> None:
        async with others.writing(session, "late"):
            pytest.fail("two writers")

    async with locks.writing(session, "holder"):
        task = asyncio.create_task(late())
        await clock.advance(59.5)
        assert not task.done()
        await clock.advance(1)
        with pytest.raises(SessionBusy, match=rf"process {os.getpid()} \(holder\)"):
            await task


async def test_the_same_writer_asking_twice_fails_at_once(session: Path) -> None:
    locks = WriteLocks(FakeClock())  # whose time stands still: waiting would be for ever
    async with asyncio.timeout(120), locks.writing(session, "run"):
        with pytest.raises(SessionBusy, match="asked for it again"):
            async with locks.writing(session, "run"):
                pass
        assert lock_path(session).exists()


async def test_an_error_inside_lets_go(session: Path) -> None:
    locks = WriteLocks(FakeClock())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            async with locks.writing(session, "run"):
                raise ZeroDivisionError
    assert not lock_path(session).exists()


async def test_two_tasks_exclude_each_other(session: Path) -> None:
    locks = WriteLocks(SystemClock())
    inside = 0

    async def work(run: int) -> None:
        nonlocal inside
        async with locks.writing(session, f"run-{run}"):
            inside += 1
            await asyncio.sleep(0.001)
            assert inside == 1
            inside -= 1

    async with asyncio.timeout(120):
        await asyncio.gather(*(work(run) for run in range(6)))


async def test_a_task_that_gives_up_waiting_leaves_the_holder_alone(session: Path) -> None:
    locks = WriteLocks(SystemClock())

    async def wait() -> None:
        async with locks.writing(session, "waiting"):
            pytest.fail("two writers")

    async with locks.writing(session, "holder"):
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert lock_path(session).exists()
    assert not lock_path(session).exists()


def test_two_processes_exclude_each_other(session: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [subprocess.Popen([sys.executable, "-c", COUNT, str(session), str(log), name]) for name in "ab"]
    for process in processes:
        assert process.wait(60) == 0
    steps = [line.split() for line in log.read_text().splitlines()]
    assert len(steps) == 60
    for first, second in zip(steps[::2], steps[1::2], strict=True):
        assert (first[1], second[1], first[0]) == ("in", "out", second[0])


async def test_sessions_do_not_wait_for_each_other(session: Path) -> None:
    locks = WriteLocks(FakeClock())
    async with asyncio.timeout(120), locks.writing(session, "run"), locks.writing(session.with_name("s2.jsonl"), "run"):
        pass


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_no_descriptor_and_no_file_is_left(session: Path) -> None:
    locks, clock = WriteLocks(SystemClock()), SystemClock()

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = open_files()
    for run in range(10):
        async with locks.writing(session, f"{run}"):
            with pytest.raises(SessionBusy):
                async with WriteLocks(clock, 0.0).writing(session, "other"):
                    pass
    assert open_files() == before
    assert list(session.parent.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_files_that_stay_open_are_few_and_free_for_everybody_until_they_are_closed(session: Path) -> None:
    locks, others = WriteLocks(SystemClock()), WriteLocks(SystemClock(), 0.0)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(2 * MOST_PAUSED):
        place = session.with_name(f"s{number}.jsonl")
        for run in ("one", "another"):
            async with locks.writing(place, run, again=True):
                with pytest.raises(SessionBusy, match=run):
                    async with others.writing(place, "other"):
                        pass
        async with others.writing(place, "other", again=bool(number % 2)):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 2 * MOST_PAUSED
    others.close()
    locks.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert list(session.parent.iterdir()) == []
