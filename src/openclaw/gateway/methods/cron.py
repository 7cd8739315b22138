"""`cron.*`, `wake`, `last-heartbeat`, `set-heartbeats`: what the assistant does by itself."""

import hashlib
import uuid
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from openclaw.core.errors import InvalidRequest
from openclaw.cron.book import job_to_json, run_shown
from openclaw.cron.jobs import CronJob
from openclaw.gateway.desk import SessionService
from openclaw.gateway.heartbeats import HeartbeatService
from openclaw.gateway.scheduler import Scheduler
from openclaw.wire.caller import Caller
from openclaw.wire.params.cron import (
    CronAddParams,
    CronGetParams,
    CronListParams,
    CronRemoveParams,
    CronRunParams,
    CronRunsParams,
    CronUpdateParams,
    JobPatch,
)
from openclaw.wire.params.kinds import NoParams
from openclaw.wire.params.system import SetHeartbeatsParams, WakeParams
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import ADMIN, READ, WRITE

PAGE = 50


class AddParams(CronAddParams, frozen=True, kw_only=True):
    """The protocol's, and what only our jobs have."""

    misfire: Literal["once", "skip", "all"] | None = None
    watch: tuple[dict[str, Any], ...] | None = None


class Patch(JobPatch, frozen=True, kw_only=True):
    misfire: Literal["once", "skip", "all"] | None = None
    watch: tuple[dict[str, Any], ...] | UnsetType | None = UNSET


class UpdateParams(CronUpdateParams, frozen=True, kw_only=True):
    patch: Patch


def methods(desk: SessionService, scheduler: Scheduler, heartbeats: HeartbeatService) -> list[RpcMethod]:
    instance = str(uuid.uuid4())
    book = scheduler.book

    async def listed(params: CronListParams, caller: Caller) -> Any:
        everything = params.enabled in ("all", "disabled") or bool(params.include_disabled)
        jobs = await book.list(
            include_disabled=everything,
            query=params.query or "",
            agent_id=params.agent_id,
            kind=params.schedule_kind,
            sort=params.sort_by or "nextRunAtMs",
            descending=params.sort_dir == "desc",
        )
        if params.enabled == "disabled":
            jobs = [job for job in jobs if not job.enabled]
        if params.last_run_status not in (None, "all"):
            jobs = [job for job in jobs if (job.state.last_run_status or "unknown") == params.last_run_status]
        offset, limit = params.offset or 0, params.limit or PAGE
        page = jobs[offset : offset + limit]
        return {
            "jobs": [_job(desk, job) for job in page],
            "snapshotRevision": _revision(jobs),
            **_paging(len(jobs), offset, limit, len(page)),
        }

    async def status(params: NoParams, caller: Caller) -> Any:
        return await scheduler.status()

    async def get(params: CronGetParams, caller: Caller) -> Any:
        return _job(desk, await book.find(params.id or params.job_id or ""))

    async def add(params: AddParams, caller: Caller) -> Any:
        return _job(desk, await book.add(msgspec.to_builtins(params)))

    async def update(params: UpdateParams, caller: Caller) -> Any:
        if params.patch.state is not None:
            raise InvalidRequest("the state of a job is kept by the gateway: it cannot be set")
        name = params.id or params.job_id or ""
        job = await book.update(name, msgspec.to_builtins(params.patch), params.expected_config_revision)
        return _job(desk, job)

    async def remove(params: CronRemoveParams, caller: Caller) -> Any:
        return {"ok": True, "removed": await book.remove(params.id or params.job_id or "")}

    async def run(params: CronRunParams, caller: Caller) -> Any:
        name = params.id or params.job_id or ""
        if params.mode == "if-enabled" and not (await book.find(name)).enabled:
            return {"ok": True, "enqueued": False, "reason": "disabled", "processInstanceId": instance}
        run_id = await scheduler.run_now(name, only_due=params.mode == "due")
        if run_id is None:
            return {"ok": True, "enqueued": False, "reason": "not-due", "processInstanceId": instance}
        return {"ok": True, "enqueued": True, "runId": run_id, "processInstanceId": instance}

    async def runs(params: CronRunsParams, caller: Caller) -> Any:
        named = params.id or params.job_id
        if named is None and params.scope != "all" and params.run_id is None:
            raise InvalidRequest('name a job (id), a run (runId), or set scope to "all"')
        offset, limit = params.offset or 0, params.limit or PAGE
        entries, total = await scheduler.store.runs(named, run_id=params.run_id, limit=limit, offset=offset)
        wanted = params.statuses or ((params.status,) if params.status not in (None, "all") else None)
        shown_entries = [run_shown(entry) for entry in entries if wanted is None or entry.status in wanted]
        return {"entries": shown_entries, **_paging(total, offset, limit, len(entries))}

    async def wake(params: WakeParams, caller: Caller) -> Any:
        key = desk.key(params.session_key or "main", params.agent_id)
        await desk.app.events.add(key, params.text, str(uuid.uuid4()))
        if params.mode == "now":
            heartbeats.wake(key, "wake")
        return {"ok": True}

    async def last(params: NoParams, caller: Caller) -> Any:
        return heartbeats.last

    async def beating(params: NoParams, caller: Caller) -> Any:
        agents = [
            {"agentId": agent, "every": settings.every, "nextAtMs": heartbeats.next_at(agent)}
            for agent, settings in heartbeats.enrolled().items()
        ]
        return {"enabled": heartbeats.enabled, "last": heartbeats.last, "agents": agents}

    async def switch(params: SetHeartbeatsParams, caller: Caller) -> Any:
        heartbeats.enabled = params.enabled
        return {"ok": True, "enabled": params.enabled}

    return [
        RpcMethod("cron.list", CronListParams, listed, READ),
        RpcMethod("cron.status", NoParams, status, READ),
        RpcMethod("cron.get", CronGetParams, get, READ),
        RpcMethod("cron.add", AddParams, add, ADMIN),
        RpcMethod("cron.update", UpdateParams, update, ADMIN),
        RpcMethod("cron.remove", CronRemoveParams, remove, ADMIN),
        RpcMethod("cron.run", CronRunParams, run, ADMIN),
        RpcMethod("cron.runs", CronRunsParams, runs, READ),
        RpcMethod("wake", WakeParams, wake, WRITE),
        RpcMethod("last-heartbeat", NoParams, last, READ),
        RpcMethod("heartbeats.status", NoParams, beating, READ),
        RpcMethod("set-heartbeats", SetHeartbeatsParams, switch, ADMIN),
    ]


def _job(desk: SessionService, job: CronJob) -> dict[str, Any]:
    return {**job_to_json(job), "effectiveAgentId": job.agent_id or desk.key("main").agent}


def _revision(jobs: list[CronJob]) -> str:
    text = ",".join(f"{job.id}:{job.updated_at_ms}" for job in jobs)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _paging(total: int, offset: int, limit: int, taken: int) -> dict[str, Any]:
    more = offset + taken < total
    return {
        "total": total,
        "offset": offset,
        "limit": limit,
        "hasMore": more,
        "nextOffset": offset + taken if more else None,
    }
