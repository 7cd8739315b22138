"""RPC methods `cron.*`, `wake` and `set-heartbeats`, with their parameter types."""

import hashlib
import uuid
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from openclaw.automation.cron.jobs import CronJob, DeliveryStatus, Status
from openclaw.automation.cron.service import Scheduler
from openclaw.automation.cron.store import job_to_json, run_to_json
from openclaw.automation.cron.words import describe_schedule, parse_schedule
from openclaw.automation.heartbeat_service import HeartbeatService
from openclaw.core.errors import InvalidRequest
from openclaw.protocol.params import NonEmpty, NonNegative, NoParams, Params, Positive, exactly_one
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from openclaw.sessions.service import SessionService

Moment = Annotated[int, Meta(ge=0, le=8_640_000_000_000_000)]
Visible = Annotated[str, Meta(min_length=1, pattern=r"\S")]
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")]
Script = Annotated[str, Meta(min_length=1, max_length=65_536)]
Timeout = Annotated[float, Meta(ge=0)]
Argv = Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
Tools = tuple[str, ...]
JobId = Annotated[str, Meta(min_length=1, pattern=r"^[^/\\]+$")]
SessionTarget = Annotated[str, Meta(pattern=r"^(?:main|isolated|current)$|^session:.+")]


class CronListParams(Params, frozen=True, kw_only=True):
    """Params of `cron.list`."""

    session_key: NonEmpty | None = None
    session_agent_id: NonEmpty | None = None
    include_disabled: bool | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] | None = None
    offset: NonNegative | None = None
    query: str | None = None
    enabled: Literal["all", "enabled", "disabled"] | None = None
    schedule_kind: Literal["all", "at", "every", "cron", "on-exit", "stream"] | None = None
    last_run_status: Literal["all", "ok", "error", "skipped", "unknown"] | None = None
    trigger: Literal["all", "conditional", "unconditional"] | None = None
    sort_by: Literal["nextRunAtMs", "updatedAtMs", "name"] | None = None
    sort_dir: Literal["asc", "desc"] | None = None
    agent_id: NonEmpty | None = None
    compact: bool | None = None
    include_delivery_previews: bool | None = None


class _OneJob(Params, frozen=True, kw_only=True):
    """Names one job by `id` or `jobId`."""

    id: NonEmpty | None = None
    job_id: NonEmpty | None = None

    def __post_init__(self) -> None:
        exactly_one(id=self.id, jobId=self.job_id)

    @property
    def name(self) -> str:
        return self.id or self.job_id or ""


class CronGetParams(_OneJob, frozen=True, kw_only=True):
    """Params of `cron.get`."""


class JobOwner(Params, frozen=True, kw_only=True):
    agent_id: NonEmpty | None = None
    session_key: NonEmpty | None = None
    account_id: NonEmpty | None = None


class ScheduleAt(Params, frozen=True, kw_only=True, tag_field="kind", tag="at"):
    at: NonEmpty


class ScheduleEvery(Params, frozen=True, kw_only=True, tag_field="kind", tag="every"):
    every_ms: Annotated[int, Meta(ge=1, le=8_640_000_000_000_000)]
    anchor_ms: Moment | None = None


class ScheduleCron(Params, frozen=True, kw_only=True, tag_field="kind", tag="cron"):
    expr: NonEmpty
    tz: str | None = None
    stagger_ms: Moment | None = None


class ScheduleOnExit(Params, frozen=True, kw_only=True, tag_field="kind", tag="on-exit"):
    command: NonEmpty
    cwd: NonEmpty | None = None


class ScheduleStream(Params, frozen=True, kw_only=True, tag_field="kind", tag="stream"):
    command: Argv
    cwd: NonEmpty | None = None
    mode: Literal["line", "match"] | None = None
    match: str | None = None
    batch_ms: int | None = None
    max_batch_bytes: int | None = None


class Pacing(Params, frozen=True, kw_only=True):
    min: Visible | None = None
    max: Visible | None = None


class Trigger(Params, frozen=True, kw_only=True):
    script: Script
    once: bool | None = None


class _Payload(Params, frozen=True, kw_only=True, tag_field="kind"):
    tools_allow: Tools | None = None
    tools_allow_is_default: bool | None = None


class PayloadSystemEvent(_Payload, frozen=True, kw_only=True, tag="systemEvent"):
    text: NonEmpty


class PayloadAgentTurn(_Payload, frozen=True, kw_only=True, tag="agentTurn"):
    message: NonEmpty
    model: str | None = None
    fallbacks: tuple[str, ...] | None = None
    thinking: str | None = None
    timeout_seconds: Timeout | None = None
    allow_unsafe_external_content: bool | None = None
    light_context: bool | None = None


class PayloadCommand(_Payload, frozen=True, kw_only=True, tag="command"):
    argv: Argv
    cwd: NonEmpty | None = None
    env: dict[str, str] | None = None
    input: str | None = None
    timeout_seconds: Timeout | None = None
    no_output_timeout_seconds: Timeout | None = None
    output_max_bytes: Positive | None = None


class PayloadScript(_Payload, frozen=True, kw_only=True, tag="script"):
    script: Script
    timeout_seconds: Annotated[float, Meta(ge=1)] | None = None
    tool_budget: Positive | None = None


class FailureDestination(Params, frozen=True, kw_only=True):
    channel: Visible | None = None
    to: Visible | None = None
    account_id: NonEmpty | None = None
    mode: Literal["announce", "webhook"] | None = None


class CompletionDestination(Params, frozen=True, kw_only=True):
    mode: Literal["webhook"]
    to: Visible


class _Delivery(Params, frozen=True, kw_only=True, tag_field="mode"):
    channel: Visible | None = None
    thread_id: str | int | float | None = None
    account_id: NonEmpty | None = None
    best_effort: bool | None = None
    failure_destination: FailureDestination | None = None


class DeliveryNone(_Delivery, frozen=True, kw_only=True, tag="none"):
    to: Visible | None = None


class DeliveryAnnounce(_Delivery, frozen=True, kw_only=True, tag="announce"):
    to: Visible | None = None
    completion_destination: CompletionDestination | None = None


class DeliveryWebhook(_Delivery, frozen=True, kw_only=True, tag="webhook"):
    to: Visible


class FailureAlertParam(Params, frozen=True, kw_only=True):
    after: Positive | None = None
    channel: Visible | None = None
    to: Visible | None = None
    cooldown_ms: NonNegative | None = None
    include_skipped: bool | None = None
    mode: Literal["announce", "webhook"] | None = None
    account_id: NonEmpty | None = None


class CronParseParams(Params, frozen=True, kw_only=True):
    """Params of `cron.parse`: a time in words, or a cron expression, in a zone."""

    text: NonEmpty
    tz: NonEmpty


class CronAddParams(Params, frozen=True, kw_only=True):
    """Params of `cron.add`."""

    name: NonEmpty
    declaration_key: Name | None = None
    display_name: Name | None = None
    owner: JobOwner | None = None
    agent_id: NonEmpty | UnsetType | None = UNSET
    session_key: NonEmpty | UnsetType | None = UNSET
    description: str | None = None
    enabled: bool | None = None
    delete_after_run: bool | None = None
    schedule: ScheduleAt | ScheduleEvery | ScheduleCron | ScheduleOnExit | ScheduleStream
    pacing: Pacing | None = None
    trigger: Trigger | None = None
    session_target: SessionTarget
    wake_mode: Literal["next-heartbeat", "now"]
    payload: PayloadSystemEvent | PayloadAgentTurn | PayloadCommand | PayloadScript
    delivery: DeliveryNone | DeliveryAnnounce | DeliveryWebhook | None = None
    failure_alert: bool | FailureAlertParam | None = None

    def __post_init__(self) -> None:
        if self.failure_alert is True:
            raise ValueError("failureAlert must be false or an object")


class _PayloadPatch(Params, frozen=True, kw_only=True, tag_field="kind"):
    tools_allow: Tools | UnsetType | None = UNSET
    tools_allow_is_default: bool | None = None


class SystemEventPatch(_PayloadPatch, frozen=True, kw_only=True, tag="systemEvent"):
    text: NonEmpty | None = None


class AgentTurnPatch(_PayloadPatch, frozen=True, kw_only=True, tag="agentTurn"):
    message: NonEmpty | None = None
    model: str | UnsetType | None = UNSET
    fallbacks: tuple[str, ...] | UnsetType | None = UNSET
    thinking: str | UnsetType | None = UNSET
    timeout_seconds: Timeout | UnsetType | None = UNSET
    allow_unsafe_external_content: bool | None = None
    light_context: bool | None = None


class CommandPatch(_PayloadPatch, frozen=True, kw_only=True, tag="command"):
    argv: Argv | None = None
    cwd: NonEmpty | None = None
    env: dict[str, str] | None = None
    input: str | None = None
    timeout_seconds: Timeout | UnsetType | None = UNSET
    no_output_timeout_seconds: Timeout | None = None
    output_max_bytes: Positive | None = None


class ScriptPatch(_PayloadPatch, frozen=True, kw_only=True, tag="script"):
    script: Script | None = None
    timeout_seconds: Annotated[float, Meta(ge=1)] | UnsetType | None = UNSET
    tool_budget: Positive | None = None


class FailureDestinationPatch(Params, frozen=True, kw_only=True):
    channel: Visible | UnsetType | None = UNSET
    to: Visible | UnsetType | None = UNSET
    account_id: NonEmpty | UnsetType | None = UNSET
    mode: Literal["announce", "webhook"] | UnsetType | None = UNSET


class DeliveryPatch(Params, frozen=True, kw_only=True):
    mode: Literal["none", "announce", "webhook"] | None = None
    channel: Visible | UnsetType | None = UNSET
    thread_id: str | int | float | UnsetType | None = UNSET
    account_id: NonEmpty | UnsetType | None = UNSET
    best_effort: bool | None = None
    failure_destination: FailureDestinationPatch | UnsetType | None = UNSET
    completion_destination: CompletionDestination | UnsetType | None = UNSET
    to: Visible | UnsetType | None = UNSET


class FailureAlertPatch(Params, frozen=True, kw_only=True):
    after: Positive | UnsetType | None = UNSET
    channel: Visible | UnsetType | None = UNSET
    to: Visible | UnsetType | None = UNSET
    cooldown_ms: NonNegative | UnsetType | None = UNSET
    include_skipped: bool | UnsetType | None = UNSET
    mode: Literal["announce", "webhook"] | UnsetType | None = UNSET
    account_id: NonEmpty | UnsetType | None = UNSET


class JobPatch(Params, frozen=True, kw_only=True):
    name: NonEmpty | None = None
    display_name: Name | UnsetType | None = UNSET
    agent_id: NonEmpty | UnsetType | None = UNSET
    session_key: NonEmpty | UnsetType | None = UNSET
    description: str | None = None
    enabled: bool | None = None
    delete_after_run: bool | None = None
    schedule: ScheduleAt | ScheduleEvery | ScheduleCron | ScheduleOnExit | ScheduleStream | None = None
    pacing: Pacing | UnsetType | None = UNSET
    trigger: Trigger | UnsetType | None = UNSET
    session_target: SessionTarget | None = None
    wake_mode: Literal["next-heartbeat", "now"] | None = None
    payload: SystemEventPatch | AgentTurnPatch | CommandPatch | ScriptPatch | None = None
    delivery: DeliveryPatch | None = None
    failure_alert: bool | FailureAlertPatch | UnsetType | None = UNSET
    state: dict[str, Any] | None = None
    """Refused: the gateway keeps it."""

    def __post_init__(self) -> None:
        if self.failure_alert is True:
            raise ValueError("failureAlert must be false or an object")


class CronUpdateParams(_OneJob, frozen=True, kw_only=True):
    """Params of `cron.update`."""

    patch: JobPatch
    expected_config_revision: Annotated[str, Meta(min_length=1, max_length=128)] | None = None


class CronRemoveParams(_OneJob, frozen=True, kw_only=True):
    """Params of `cron.remove`."""


class CronRunParams(_OneJob, frozen=True, kw_only=True):
    """Params of `cron.run`."""

    mode: Literal["due", "force", "if-enabled"] | None = None
    expected_process_instance_id: NonEmpty | None = None


class CronRunsParams(Params, frozen=True, kw_only=True):
    """Params of `cron.runs`."""

    agent_id: NonEmpty | None = None
    scope: Literal["job", "all"] | None = None
    id: JobId | None = None
    job_id: JobId | None = None
    run_id: NonEmpty | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] | None = None
    offset: NonNegative | None = None
    statuses: Annotated[tuple[Status, ...], Meta(min_length=1, max_length=3)] | None = None
    status: Literal["all", "ok", "error", "skipped"] | None = None
    delivery_statuses: Annotated[tuple[DeliveryStatus, ...], Meta(min_length=1, max_length=4)] | None = None
    delivery_status: DeliveryStatus | None = None
    query: str | None = None
    sort_dir: Literal["asc", "desc"] | None = None


class WakeParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Params of `wake`."""

    mode: Literal["now", "next-heartbeat"]
    text: NonEmpty
    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None


class SetHeartbeatsParams(Params, frozen=True, kw_only=True):
    """Params of `set-heartbeats`."""

    enabled: bool


PAGE = 50


class AddParams(CronAddParams, frozen=True, kw_only=True):
    """Params of `cron.add`, with the fields that only our jobs have."""

    misfire: Literal["once", "skip", "all"] | None = None
    watch: tuple[dict[str, Any], ...] | None = None


class Patch(JobPatch, frozen=True, kw_only=True):
    misfire: Literal["once", "skip", "all"] | None = None
    watch: tuple[dict[str, Any], ...] | UnsetType | None = UNSET


class UpdateParams(CronUpdateParams, frozen=True, kw_only=True):
    patch: Patch


def cron_methods(sessions: SessionService, scheduler: Scheduler) -> list[RpcMethod]:
    """The methods `cron.*`."""
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
        versions = ",".join(f"{job.id}:{job.updated_at_ms}" for job in jobs)
        return {
            "jobs": [_job(sessions, job) for job in page],
            "snapshotRevision": hashlib.sha256(versions.encode()).hexdigest()[:16],
            **_paging(len(jobs), offset, limit, len(page)),
        }

    async def status(params: NoParams, caller: Caller) -> Any:
        return await scheduler.status()

    async def get(params: CronGetParams, caller: Caller) -> Any:
        return _job(sessions, await book.find(params.name))

    async def add(params: AddParams, caller: Caller) -> Any:
        return _job(sessions, await book.add(msgspec.to_builtins(params)))

    async def parse(params: CronParseParams, caller: Caller) -> Any:
        schedule = parse_schedule(params.text, params.tz, sessions.now)
        meaning = describe_schedule(schedule, params.tz, sessions.now)
        return {"schedule": msgspec.to_builtins(schedule), "meaning": meaning}

    async def update(params: UpdateParams, caller: Caller) -> Any:
        if params.patch.state is not None:
            raise InvalidRequest("the state of a job is kept by the gateway: it cannot be set")
        job = await book.update(params.name, msgspec.to_builtins(params.patch), params.expected_config_revision)
        return _job(sessions, job)

    async def remove(params: CronRemoveParams, caller: Caller) -> Any:
        return {"ok": True, "removed": await book.remove(params.name)}

    async def run(params: CronRunParams, caller: Caller) -> Any:
        run_id, why = None, "disabled"
        if params.mode != "if-enabled" or (await book.find(params.name)).enabled:
            run_id, why = await scheduler.run_now(params.name, only_due=params.mode == "due"), "not-due"
        answer = {"reason": why} if run_id is None else {"runId": run_id}
        return {"ok": True, "enqueued": run_id is not None, **answer, "processInstanceId": instance}

    async def runs(params: CronRunsParams, caller: Caller) -> Any:
        named = params.id or params.job_id
        if named is None and params.scope != "all" and params.run_id is None:
            raise InvalidRequest('name a job (id), a run (runId), or set scope to "all"')
        offset, limit = params.offset or 0, params.limit or PAGE
        entries, total = await scheduler.store.runs(named, run_id=params.run_id, limit=limit, offset=offset)
        wanted = params.statuses or ((params.status,) if params.status not in (None, "all") else None)
        shown_entries = [run_to_json(entry) for entry in entries if wanted is None or entry.status in wanted]
        return {"entries": shown_entries, **_paging(total, offset, limit, len(entries))}

    return [
        RpcMethod("cron.list", CronListParams, listed, READ),
        RpcMethod("cron.status", NoParams, status, READ),
        RpcMethod("cron.get", CronGetParams, get, READ),
        RpcMethod("cron.parse", CronParseParams, parse, READ),
        RpcMethod("cron.add", AddParams, add, ADMIN),
        RpcMethod("cron.update", UpdateParams, update, ADMIN),
        RpcMethod("cron.remove", CronRemoveParams, remove, ADMIN),
        RpcMethod("cron.run", CronRunParams, run, ADMIN),
        RpcMethod("cron.runs", CronRunsParams, runs, READ),
    ]


def heartbeat_methods(sessions: SessionService, heartbeats: HeartbeatService) -> list[RpcMethod]:
    """The methods that wake the assistant, and show and switch its heartbeats."""

    async def wake(params: WakeParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key or "main", params.agent_id)
        await heartbeats.add_event(key, params.text, params.mode)
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
        RpcMethod("wake", WakeParams, wake, WRITE),
        RpcMethod("last-heartbeat", NoParams, last, READ),
        RpcMethod("heartbeats.status", NoParams, beating, READ),
        RpcMethod("set-heartbeats", SetHeartbeatsParams, switch, ADMIN),
    ]


def _job(sessions: SessionService, job: CronJob) -> dict[str, Any]:
    return {**job_to_json(job), "effectiveAgentId": job.agent_id or sessions.key("main").agent}


def _paging(total: int, offset: int, limit: int, taken: int) -> dict[str, Any]:
    following = offset + taken if offset + taken < total else None
    more = following is not None
    return {"total": total, "offset": offset, "limit": limit, "hasMore": more, "nextOffset": following}
