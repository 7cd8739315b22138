"""Work in threads: who does it, what comes back, and what a cancellation means."""

import asyncio
import os
from contextvars import ContextVar
from threading import Event, get_ident

import pytest

from openclaw.process.tasks import WorkThreads, run_in_thread

pytestmark = pytest.mark.anyio

asked_by: ContextVar[str] = ContextVar("asked_by")


def own_thread(stop: Event) -> int:
    return get_ident()


async def test_the_thread_that_worked_last_works_next() -> None:
    threads, both_there = WorkThreads(4), Event()

    def meet(stop: Event) -> int:
        both_there.wait(60)
        return get_ident()

    first, second = threads.start(meet), threads.start(meet)
    both_there.set()
    assert await first != await second
    used = [await threads.start(own_thread) for _ in range(10)]
    assert len(set(used)) == 1 and get_ident() not in used


async def test_what_finds_no_thread_waits_for_one() -> None:
    threads = WorkThreads(2)
    used = await asyncio.gather(*(threads.start(own_thread) for _ in range(50)))
    assert len(set(used)) <= 2


async def test_a_result_an_error_and_the_context_pass() -> None:
    def fail(stop: Event) -> None:
        raise ValueError(asked_by.get())

    asked_by.set("somebody")
    with pytest.raises(ValueError, match="somebody"):
        await run_in_thread(fail)
    assert await run_in_thread(own_thread) != get_ident()


async def test_a_cancelled_task_ends_with_the_work() -> None:
    began, told, ended = Event(), Event(), Event()

    def work(stop: Event) -> None:
        began.set()
        stop.wait(60)
        told.set()
        ended.wait(60)

    task = asyncio.create_task(run_in_thread(work))
    assert await run_in_thread(lambda stop: began.wait(60))
    task.cancel()
    assert await run_in_thread(lambda stop: told.wait(60))
    assert not task.done()
    ended.set()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_loop_that_ends_meanwhile_stops_nobody() -> None:
    threads, go = WorkThreads(1), Event()

    async def leave() -> None:
        threads.start(lambda stop: go.wait(60))

    def other_loop(stop: Event) -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave())
        loop.close()

    await run_in_thread(other_loop)
    go.set()
    assert await threads.start(own_thread) != get_ident()


async def test_a_fork_has_threads_of_its_own() -> None:
    await run_in_thread(own_thread)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.set_event_loop(None)
            asyncio.events._set_running_loop(None)
            loop = asyncio.new_event_loop()
            os.write(write, str(loop.run_until_complete(run_in_thread(own_thread)) != get_ident()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        assert await run_in_thread(lambda stop: answer.read()) == "True"
    await run_in_thread(lambda stop: os.waitpid(child, 0))
