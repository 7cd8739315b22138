"""The book of jobs: what clients, the command line and the assistant do with them, in one place."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import Conflict, InvalidRequest
from openclaw.cron.jobs import CronJob, build, changed
from openclaw.cron.schedule import fires
from openclaw.cron.store import CronStore, JobFire, scheduled

MOST_JOBS = 10_000
MOST_FIRES = 1_000
Told = Callable[[str, str, CronJob | None, Mapping[str, Any]], None]
"""Hears `action, job id, job, more` after each change."""


def _nobody(action: str, job_id: str, job: CronJob | None, more: Mapping[str, Any]) -> None:
    """For a book that nobody watches."""


class JobBook:
    def __init__(
        self,
        store: CronStore,
        clock: Clock,
        *,
        local_zone: str,
        check_agent: Callable[[str], object],
        told: Told = _nobody,
    ) -> None:
        self.store = store
        self._clock = clock
        self._zone = local_zone
        self._check_agent = check_agent
        self._told = told

    async def add(self, raw: Mapping[str, Any]) -> CronJob:
        now = millis(self._clock)
        job = scheduled(build(raw, job_id=str(uuid.uuid4()), now=now, local=self._zone), now)
        if job.agent_id:
            self._check_agent(job.agent_id)
        if await self.store.count() >= MOST_JOBS:
            raise InvalidRequest(f"there are {MOST_JOBS} jobs already: remove some first")
        await self.store.add(job)
        self._told("added", job.id, job, {})
        return job

    async def update(self, name: str, patch: Mapping[str, Any], expected: str | None = None) -> CronJob:
        job, revision = await self.store.versioned((await self.find(name)).id)
        if expected is not None and expected != revision_of(job):
            raise Conflict(f"the job {job.id} has changed since you looked at it")
        now = millis(self._clock)
        after = changed(job, patch, now=now, local=self._zone)
        if after.agent_id:
            self._check_agent(after.agent_id)
        switched_on = after.enabled and not job.enabled
        if switched_on:
            state = structs.replace(after.state, auto_disabled=None, consecutive_errors=0)
            after = structs.replace(after, state=state)
        if switched_on or after.schedule != job.schedule or after.enabled != job.enabled:
            after = scheduled(after, now)
        await self.store.put(after, revision)
        self._told("updated", after.id, after, {})
        return after

    async def remove(self, name: str) -> bool:
        job = await self.find(name)
        removed = await self.store.remove(job.id)
        self._told("removed", job.id, None, {})
        return removed

    async def find(self, name: str) -> CronJob:
        """The job with this id, with the one id that begins so, or with the one that is called so."""
        jobs = await self.store.all()
        exact = [job for job in jobs if job.id == name]
        alike = exact or [job for job in jobs if job.name == name] or [j for j in jobs if j.id.startswith(name)]
        if len(alike) > 1:
            raise InvalidRequest(f"{name!r} means {len(alike)} jobs: use an id ({', '.join(j.id for j in alike[:3])})")
        return alike[0] if alike else await self.store.get(name)

    async def list(
        self,
        *,
        include_disabled: bool = False,
        query: str = "",
        agent_id: str | None = None,
        kind: str | None = None,
        sort: str = "nextRunAtMs",
        descending: bool = False,
    ) -> list[CronJob]:
        wanted = query.strip().lower()
        found = [
            job
            for job in await self.store.all()
            if (include_disabled or job.enabled)
            and (not wanted or wanted in f"{job.name} {job.description or ''} {job.id}".lower())
            and (agent_id is None or job.agent_id == agent_id)
            and (kind in (None, "all") or msgspec.to_builtins(job.schedule)["kind"] == kind)
        ]
        return sorted(found, key=lambda job: _rank(job, sort), reverse=descending)

    async def coming(self, name: str, count: int) -> Sequence[int]:
        """The next moments of a job."""
        job = await self.find(name)
        if not job.enabled:
            return []
        first = job.state.next_run_at_ms
        if first is None:
            return []
        return [first, *fires(job.schedule, first, job.id, min(count, MOST_FIRES) - 1)]


def _rank(job: CronJob, sort: str) -> tuple[Any, ...]:
    if sort == "name":
        return (job.name.lower(), job.id)
    if sort == "updatedAtMs":
        return (job.updated_at_ms, job.id)
    at = job.state.next_run_at_ms
    return (at is None, at or 0, job.name, job.id)


def revision_of(job: CronJob) -> str:
    return f"{job.updated_at_ms:x}"


def job_to_json(job: CronJob) -> dict[str, Any]:
    """A job as clients see it."""
    raw: dict[str, Any] = msgspec.to_builtins(job)
    state = raw["state"]
    for name in ("nextRunAtMs", "lastRunAtMs", "lastRunStatus"):
        if name in state:
            raw[name] = state[name]
    if "lastError" in state:
        raw["lastRunError"] = state["lastError"]
    return {**raw, "configRevision": revision_of(job)}


def run_shown(fire: JobFire) -> dict[str, Any]:
    """An ended run as clients see it."""
    result = fire.result
    raw: dict[str, Any] = {
        "ts": fire.ended_at or fire.fired_at,
        "jobId": fire.job.id,
        "jobName": fire.job.name,
        "action": "finished",
        "status": fire.status,
        "runId": fire.run_id,
        "runAtMs": fire.fired_at,
        "slotMs": fire.slot,
        "deliveryStatus": fire.delivery,
    }
    if fire.delivery_error:
        raw["deliveryError"] = fire.delivery_error
    if result is not None:
        raw["durationMs"] = max(0, result.ended_at - result.started_at)
        more = {
            "error": result.error,
            "summary": result.summary or None,
            "model": result.model or None,
            "provider": result.provider or None,
            "costUsd": result.cost_usd,
        }
        raw |= {name: value for name, value in more.items() if value is not None}
        if result.input_tokens or result.output_tokens:
            raw["usage"] = {"input_tokens": result.input_tokens, "output_tokens": result.output_tokens}
    return raw
