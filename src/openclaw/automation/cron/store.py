"""Stores jobs and taken slots. A slot is taken by one insert, so that it fires once: across restarts, kills, clock
changes, and two gateways on one database.

Taking a slot gives it a run id that follows from the job and the slot. Whoever finishes the work of a process that
died asks for the same run again, which the ledger of runs answers without running it twice. A slot belongs to the
process that took it until its result is delivered.
"""

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.automation.cron.jobs import (
    ALERTS,
    CronJob,
    DeliveryStatus,
    JobAfter,
    JobResult,
    apply_result,
    build,
    patch_job,
)
from openclaw.automation.cron.schedule import DueSlots, next_fire
from openclaw.automation.settings import FailureAlertSettings
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import Conflict, InvalidRequest, NotFound
from openclaw.storage.database import Database, Row, Transaction, transact
from openclaw.storage.owners import OwnedRows, Owner

KEPT_MS = 7 * 86_400_000
KEPT_RUNS = 2_000
"""Per job."""
_SLOTS = uuid.UUID("4f7e6a0e-8c1e-5d0a-9a55-3c1b64d0f0a7")
# A job does not overlap itself: its next slot waits until the previous run has ended.
_IDLE = (
    "NOT EXISTS (SELECT 1 FROM cron_fires WHERE cron_fires.job_id = cron_jobs.job_id AND cron_fires.status = 'running')"
)


class JobFire(Struct, frozen=True, kw_only=True):
    """One taken slot of a job."""

    job: CronJob
    slot: int
    run_id: str
    following: int | None
    status: str
    fired_at: int
    ended_at: int | None = None
    delivery: DeliveryStatus = "not-requested"
    delivery_error: str = ""
    result: JobResult | None = None


def run_id_of(job_id: str, slot: int) -> str:
    return str(uuid.uuid5(_SLOTS, f"{job_id}:{slot}"))


class CronStore:
    """The tables `cron_jobs` and `cron_fires`."""

    def __init__(self, db: Database, me: Owner | None = None) -> None:
        self._db = db
        self._owned = OwnedRows(
            db, "cron_fires", key="run_id", in_work="(status = 'running' OR delivery = 'unknown')", me=me
        )

    async def all(self) -> list[CronJob]:
        return [_job(row) for row in await self._db.read("SELECT * FROM cron_jobs ORDER BY name, job_id")]

    async def get(self, job_id: str) -> CronJob:
        return (await self.versioned(job_id))[0]

    async def versioned(self, job_id: str) -> tuple[CronJob, int]:
        """A job and its revision number."""
        rows = await self._db.read("SELECT * FROM cron_jobs WHERE job_id = :id", {"id": job_id})
        if not rows:
            raise NotFound(f"no job {job_id}: openclaw cron list shows them")
        return _job(rows[0]), rows[0]["revision"]

    async def count(self) -> int:
        return int((await self._db.read("SELECT count(*) AS n FROM cron_jobs"))[0]["n"])

    async def add(self, job: CronJob) -> None:
        await self._db.write(
            "INSERT INTO cron_jobs (job_id, job, name, enabled, next_run_at, updated_at) "
            "VALUES (:id, :job, :name, :enabled, :next, :updated)",
            _columns(job),
        )

    async def put(self, job: CronJob, revision: int) -> None:
        """Writes a changed job over the revision that was read."""
        done = await self._db.write(
            "UPDATE cron_jobs SET job = :job, name = :name, enabled = :enabled, next_run_at = :next, "
            "updated_at = :updated, revision = revision + 1 WHERE job_id = :id AND revision = :revision",
            {**_columns(job), "revision": revision},
        )
        if not done:
            raise Conflict(f"the job {job.id} has changed in the meantime: look at it again")

    async def remove(self, job_id: str) -> bool:
        return bool(await self._db.write("DELETE FROM cron_jobs WHERE job_id = :id", {"id": job_id}))

    async def next_wake(self) -> int | None:
        """When the next job is due."""
        rows = await self._db.read(
            f"SELECT min(next_run_at) AS at FROM cron_jobs WHERE enabled = 1 AND next_run_at IS NOT NULL AND {_IDLE}"  # noqa: S608
        )
        return rows[0]["at"] if rows else None

    async def due(self, now: int, limit: int = 100) -> list[CronJob]:
        rows = await self._db.read(
            f"SELECT * FROM cron_jobs WHERE enabled = 1 AND next_run_at <= :now AND {_IDLE} "  # noqa: S608
            "ORDER BY next_run_at LIMIT :limit",
            {"now": now, "limit": limit},
        )
        return [_job(row) for row in rows]

    async def take(self, job: CronJob, due: DueSlots, *, now: int) -> JobFire | None:
        """Takes a slot and moves the job on, in one transaction; None when somebody else has it or the job changed."""

        async def move(tx: Transaction) -> JobFire | None:
            after = _encode(_at(job, due.following, running=now))
            moved = await tx.write(
                "UPDATE cron_jobs SET job = :job, next_run_at = :next, revision = revision + 1 "
                "WHERE job_id = :id AND enabled = 1 AND next_run_at = :was",
                {"id": job.id, "job": after, "next": due.following, "was": job.state.next_run_at_ms},
            )
            if not moved:
                return None
            return await self._insert(tx, job, due.slot, due.following, now)

        return await transact(self._db, move, f"cron:{job.id}")

    async def force(self, job: CronJob, *, now: int) -> JobFire:
        """Runs a job now, beside its schedule."""

        async def insert(tx: Transaction) -> JobFire:
            slot = now
            while (made := await self._insert(tx, job, slot, job.state.next_run_at_ms, now)) is None:
                slot += 1
            return made

        return await transact(self._db, insert, f"cron:{job.id}")

    async def _insert(
        self, tx: Transaction, job: CronJob, slot: int, following: int | None, now: int
    ) -> JobFire | None:
        run_id = run_id_of(job.id, slot)
        fire = JobFire(job=job, slot=slot, run_id=run_id, following=following, status="running", fired_at=now)
        row = {"id": job.id, "slot": slot, "run": run_id, "job": _encode(job), "following": following, "now": now}
        made = await tx.write(
            "INSERT INTO cron_fires (job_id, slot, run_id, job, following, status, owner, fired_at) "
            "VALUES (:id, :slot, :run, :job, :following, 'running', :me, :now) "
            "ON CONFLICT (job_id, slot) DO NOTHING",
            {**row, "me": self._owned.me},
        )
        return fire if made else None

    async def take_over(self) -> list[JobFire]:
        """The slots that processes which are gone had in work, ours from now on: to be run, or only to be delivered."""
        return [_fire(row) for row in await self._owned.take()]

    async def release(self, run_ids: Sequence[str]) -> None:
        """Puts slots down whose work is not done: the next start takes them up."""
        await self._owned.release(run_ids)

    async def finish(
        self, fire: JobFire, result: JobResult, *, delivers: bool, alerts: FailureAlertSettings = ALERTS
    ) -> JobAfter | None:
        """Records how a slot ended and applies it to the job; None when it is on record already."""

        async def record(tx: Transaction) -> JobAfter | None:
            done = await tx.write(
                "UPDATE cron_fires SET status = :status, ended_at = :ended, result = :result, delivery = :delivery, "
                "owner = CASE WHEN :delivery = 'unknown' THEN owner ELSE '' END "
                "WHERE run_id = :run AND status = 'running'",
                {
                    "run": fire.run_id,
                    "status": result.status,
                    "ended": result.ended_at,
                    "result": msgspec.json.encode(result).decode(),
                    "delivery": "unknown" if delivers else "not-requested",
                },
            )
            if not done:
                return None
            rows = await tx.read("SELECT * FROM cron_jobs WHERE job_id = :id", {"id": fire.job.id})
            if not rows:
                return JobAfter(job=None)
            job = _job(rows[0])  # reread: the job may have been edited since the slot was taken
            made = apply_result(job, result, job.state.next_run_at_ms if job.enabled else None, alerts)
            if made.job is None:
                await tx.write("DELETE FROM cron_jobs WHERE job_id = :id", {"id": job.id})
            else:
                await tx.write(
                    "UPDATE cron_jobs SET job = :job, enabled = :enabled, next_run_at = :next, "
                    "revision = revision + 1 WHERE job_id = :id",
                    {key: value for key, value in _columns(made.job).items() if key not in ("name", "updated")},
                )
            return made

        return await transact(self._db, record, f"cron:{fire.job.id}")

    async def delivered(self, fire: JobFire, status: DeliveryStatus, error: str = "") -> None:
        async def record(tx: Transaction) -> None:
            await tx.write(
                "UPDATE cron_fires SET delivery = :status, delivery_error = :error, owner = '' WHERE run_id = :run",
                {"run": fire.run_id, "status": status, "error": error},
            )
            rows = await tx.read("SELECT * FROM cron_jobs WHERE job_id = :id", {"id": fire.job.id})
            if rows:
                job = _job(rows[0])
                told = {"last_delivered": status == "delivered", "last_delivery_status": status}
                state = structs.replace(job.state, **told, last_delivery_error=error or None)
                changed = _encode(structs.replace(job, state=state))
                await tx.write("UPDATE cron_jobs SET job = :job WHERE job_id = :id", {"id": job.id, "job": changed})

        await transact(self._db, record, f"cron:{fire.job.id}")

    async def runs(
        self, job_id: str | None = None, *, run_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[Sequence[JobFire], int]:
        """Ended slots, the latest first, and their total."""
        where = "status <> 'running' AND (:id = '' OR job_id = :id) AND (:run = '' OR run_id = :run)"
        params = {"id": job_id or "", "run": run_id or ""}
        counted = await self._db.read(f"SELECT count(*) AS n FROM cron_fires WHERE {where}", params)  # noqa: S608
        rows = await self._db.read(
            f"SELECT * FROM cron_fires WHERE {where} ORDER BY fired_at DESC, slot DESC LIMIT :limit OFFSET :offset",  # noqa: S608
            {**params, "limit": limit, "offset": offset},
        )
        # A run that ended between the two reads is listed, so it counts.
        return [_fire(row) for row in rows], max(counted[0]["n"], offset + len(rows) if rows else 0)

    async def forget_old(self, now: int) -> None:
        """Deletes history older than a week, and beyond the latest runs of each job."""
        await self._db.write_all(
            (
                "DELETE FROM cron_fires WHERE status <> 'running' AND delivery <> 'unknown' AND run_id IN "
                "(SELECT run_id FROM (SELECT run_id, row_number() OVER "
                "(PARTITION BY job_id ORDER BY fired_at DESC, slot DESC) AS place FROM cron_fires) "
                "WHERE place > :kept)",
                {"kept": KEPT_RUNS},
            ),
            ("DELETE FROM cron_fires WHERE status <> 'running' AND fired_at < :before", {"before": now - KEPT_MS}),
            ("DELETE FROM system_events WHERE taken_by <> '' AND created_at < :before", {"before": now - KEPT_MS}),
        )


def with_next_slot(job: CronJob, now: int) -> CronJob:
    """The job with its next slot; an overdue one-shot job is due now."""
    following = next_fire(job.schedule, now, job.id) if job.enabled else None
    if job.enabled and following is None and job.state.last_run_at_ms is None:
        following = now
    return _at(job, following)


def _at(job: CronJob, following: int | None, running: int | None = None) -> CronJob:
    state = structs.replace(job.state, next_run_at_ms=following, running_at_ms=running or job.state.running_at_ms)
    return structs.replace(job, state=state)


def _columns(job: CronJob) -> dict[str, object]:
    return {
        "id": job.id,
        "job": _encode(job),
        "name": job.name,
        "enabled": int(job.enabled),
        "next": job.state.next_run_at_ms,
        "updated": job.updated_at_ms,
    }


def _encode(job: CronJob) -> str:
    return msgspec.json.encode(job).decode()


def _job(row: Row) -> CronJob:
    return _at(msgspec.json.decode(row["job"], type=CronJob), row["next_run_at"])


def _fire(row: Row) -> JobFire:
    result = row["result"]
    return JobFire(
        **{name: row[name] for name in JobFire.__struct_fields__ if name not in ("job", "result")},
        job=msgspec.json.decode(row["job"], type=CronJob),
        result=msgspec.json.decode(result, type=JobResult) if result else None,
    )


# Managing jobs by name, with events for each change.

MOST_JOBS = 10_000


class CronJobs:
    def __init__(
        self,
        store: CronStore,
        clock: Clock,
        *,
        local_zone: str,
        check_agent: Callable[[str], object],
        publish: Callable[[str, str, CronJob | None, Mapping[str, Any]], None],
    ) -> None:
        """`publish` is called with `action, job id, job, more` after each change."""
        self.store = store
        self._clock = clock
        self._zone = local_zone
        self._check_agent = check_agent
        self._publish = publish

    async def add(self, raw: Mapping[str, Any]) -> CronJob:
        now = millis(self._clock)
        job = with_next_slot(build(raw, job_id=str(uuid.uuid4()), now=now, local=self._zone), now)
        if job.agent_id:
            self._check_agent(job.agent_id)
        if await self.store.count() >= MOST_JOBS:
            raise InvalidRequest(f"there are {MOST_JOBS} jobs already: remove some first")
        await self.store.add(job)
        self._publish("added", job.id, job, {})
        return job

    async def update(self, name: str, patch: Mapping[str, Any], expected: str | None = None) -> CronJob:
        job, revision = await self.store.versioned((await self.find(name)).id)
        if expected is not None and expected != revision_of(job):
            raise Conflict(f"the job {job.id} has changed since you looked at it")
        now = millis(self._clock)
        after = patch_job(job, patch, now=now, local=self._zone)
        if after.agent_id:
            self._check_agent(after.agent_id)
        switched_on = after.enabled and not job.enabled
        if switched_on:
            state = structs.replace(after.state, auto_disabled=None, consecutive_errors=0)
            after = structs.replace(after, state=state)
        if switched_on or after.schedule != job.schedule or after.enabled != job.enabled:
            after = with_next_slot(after, now)
        await self.store.put(after, revision)
        self._publish("updated", after.id, after, {})
        return after

    async def remove(self, name: str) -> bool:
        job = await self.find(name)
        removed = await self.store.remove(job.id)
        self._publish("removed", job.id, None, {})
        return removed

    async def find(self, name: str) -> CronJob:
        """The job with this id, the unique id prefix, or the unique name."""
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
        return sorted(found, key=_RANKS[sort], reverse=descending)


_RANKS: dict[str, Callable[[CronJob], Any]] = {
    "name": lambda job: (job.name.lower(), job.id),
    "updatedAtMs": attrgetter("updated_at_ms", "id"),
    "nextRunAtMs": lambda job: (job.state.next_run_at_ms or math.inf, job.name, job.id),
}


def revision_of(job: CronJob) -> str:
    return f"{job.updated_at_ms:x}"


def job_to_json(job: CronJob) -> dict[str, Any]:
    """A job for clients."""
    raw: dict[str, Any] = msgspec.to_builtins(job)
    state = raw["state"]
    raw |= {name: state[name] for name in ("nextRunAtMs", "lastRunAtMs", "lastRunStatus") if name in state}
    if "lastError" in state:
        raw["lastRunError"] = state["lastError"]
    return {**raw, "configRevision": revision_of(job)}


def completion_of(fire: JobFire) -> str:
    """How a run ended for the person: it is done when its result arrived where it has to."""
    if fire.status != "ok":
        return "failed"
    if fire.delivery == "unknown":
        return "unknown"
    return "failed" if fire.delivery == "not-delivered" and not fire.job.delivery.best_effort else "succeeded"


def run_to_json(fire: JobFire) -> dict[str, Any]:
    """An ended run for clients."""
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
    if fire.status != "skipped":
        raw["completionStatus"] = completion_of(fire)
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
