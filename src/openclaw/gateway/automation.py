"""What the assistant does by itself, put together: the scheduler, heartbeats, the tool that sets jobs."""

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from openclaw.core.keys import parse
from openclaw.core.messages import Assistant, User
from openclaw.core.origin import Origin
from openclaw.cron.tool import CronTool
from openclaw.gateway.desk import SessionService
from openclaw.gateway.heartbeats import HeartbeatService
from openclaw.gateway.scheduler import Scheduler
from openclaw.sessions.transcript import build_context


class Automation(Struct, frozen=True):
    scheduler: Scheduler
    heartbeats: HeartbeatService

    @asynccontextmanager
    async def serving(self, *, fires: bool) -> AsyncIterator[None]:
        """With `fires`, jobs and heartbeats happen by themselves for as long as the block lasts."""
        async with self.heartbeats.serving(beats=fires), self.scheduler.serving(fires=fires):
            yield


def automation(desk: SessionService, environ: Mapping[str, str]) -> Automation:
    """The parts; the assistant gets the tool `cron` with them."""
    heartbeats = HeartbeatService(desk, environ)
    scheduler = Scheduler(desk, heartbeats.wake, environ)

    async def run(job_id: str, only_due: bool) -> str | None:
        return await scheduler.run_now(job_id, only_due=only_due)

    async def wake(session_key: str, text: str, mode: str, origins: Sequence[Origin]) -> None:
        key = parse(session_key)
        await desk.app.events.add(key, text, str(uuid.uuid4()), origins)
        if mode == "now":
            heartbeats.wake(key, "wake")

    async def recent(session_key: str, count: int) -> Sequence[str]:
        """The last things that people and the assistant said in a conversation."""
        _, loaded = await desk.load(parse(session_key))
        if loaded is None:
            return []
        said = build_context(loaded.entries).messages
        lines = [
            f"{'User' if isinstance(each, User) else 'Assistant'}: {each.text}"
            for each in said
            if isinstance(each, User | Assistant) and each.text.strip()
        ]
        return lines[-count:]

    desk.app.tools.offer(CronTool(scheduler.book, run, wake, recent, scheduler.status))
    return Automation(scheduler, heartbeats)
