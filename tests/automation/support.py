"""A gateway's automation in this process: a clock that a test moves, a model with a script."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from openclaw.core.keys import SessionKey
from openclaw.gateway.app import App
from openclaw.gateway.services import Services, build_services
from openclaw.process.tasks import work_threads
from openclaw.protocol.events import BusEvent
from openclaw.runs.projection import EventProjection
from openclaw.runs.queue import Lanes
from openclaw.sessions.files import load
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome

START = 1_800_000_000.0
MAIN = SessionKey("main", "main")


class Place:
    """What a test looks at."""

    def __init__(
        self, home: TemporaryHome, app: App, services: Services, clock: FakeClock, model: ScriptedModel
    ) -> None:
        self.home = home
        self.app = app
        self.runs = services.runs
        self.sessions = services.sessions
        self.toolset = services.toolset
        self.scheduler = services.automation.scheduler
        self.heartbeats = services.automation.heartbeats
        self.clock = clock
        self.model = model
        self.notices: list[BusEvent] = []
        self._heard = asyncio.Event()

    def hear(self, notice: BusEvent) -> None:
        self.notices.append(notice)
        self._heard.set()

    async def until(self, wanted: Callable[[BusEvent], bool], deadline: float = 60.0) -> BusEvent:
        async with asyncio.timeout(deadline):
            while True:
                for notice in self.notices:
                    if wanted(notice):
                        return notice
                self._heard.clear()
                await self._heard.wait()

    async def pass_time(self, seconds: float, step: float = 60.0) -> None:
        """Lets time go by as a clock does: step by step, with room for what happens on other threads."""
        left = seconds
        await self.quiet()
        while left > 0:
            await self.clock.advance(min(step, left))
            left -= step
            await self.quiet()

    async def quiet(self) -> None:
        """Until nothing runs, no thread is at work and the database is idle."""
        async with asyncio.timeout(60):
            for _ in range(20):  # more trips than anything here makes in a row: what was going on has gone to sleep
                await self.app.db.read("SELECT 1")
                await asyncio.sleep(0)
                while self.runs.busy or threads_at_work():
                    await asyncio.sleep(0.001)

    def ended(self, job_id: str, count: int = 1) -> Callable[[BusEvent], bool]:
        def wanted(_: BusEvent) -> bool:
            return len(self.of(job_id, "finished")) >= count

        return wanted

    def of(self, job_id: str, action: str) -> list[dict[str, Any]]:
        return [
            notice.payload
            for notice in self.notices
            if notice.event == "cron" and notice.payload["jobId"] == job_id and notice.payload["action"] == action
        ]

    def said(self, key: str = "agent:main:main") -> list[str]:
        """Everything in the transcripts of a session."""
        found = []
        for path in self.home.transcripts():
            loaded = load(path)
            if loaded.header is not None and loaded.header.session_key == key:
                found += [entry.message.text for entry in loaded.entries if hasattr(entry, "message")]
        return found


def threads_at_work() -> bool:
    """Whether a thread has work under way: the loop itself cannot see it."""
    pool, ours = getattr(asyncio.get_running_loop(), "_default_executor", None), work_threads()
    if len(ours._idle) < ours._count:
        return True
    return pool is not None and pool._idle_semaphore._value < len(pool._threads)


@asynccontextmanager
async def place(
    home: TemporaryHome,
    model: ScriptedModel,
    *,
    clock: FakeClock | None = None,
    fires: bool = True,
    configured: bool = False,
    **settings: Any,
) -> AsyncIterator[Place]:
    if not configured:
        home.use_model()
        if settings:
            import json

            config = json.loads(home.config_path.read_text())
            defaults = settings.pop("defaults", {})
            config["agents"]["defaults"] |= defaults
            home.configure({**config, **settings})
    clock = clock or FakeClock(START)
    async with home.assistant(model, clock=clock) as app:
        told = partial(EventProjection().publish, app.bus)
        services = build_services(app, told, lanes=Lanes({"main": 4, "cron-nested": 4}))
        async with services.serving() as runs:
            await runs.resume()
            found = Place(home, app, services, clock, model)
            with app.bus.listening() as listener:
                hearing = asyncio.create_task(_hear(listener, found))
                try:
                    async with services.automation.serving(fires=fires):
                        yield found
                finally:
                    hearing.cancel()
                    await asyncio.gather(hearing, return_exceptions=True)


async def _hear(listener: Any, found: Place) -> None:
    async for notice in listener:
        found.hear(notice)
