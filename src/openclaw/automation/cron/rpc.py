"""RPC methods `cron.*`, `wake`, `system-event` and `set-heartbeats`, with their parameter types."""

import hashlib
import uuid
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from openclaw.automation.cron.jobs import CronJob
from openclaw.automation.cron.service import Scheduler
from openclaw.automation.cron.store import job_to_json, run_to_json
from openclaw.automation.heartbeat_service import HeartbeatService
from openclaw.core.errors import InvalidRequest
from openclaw.protocol.params import NonEmpty, NonNegative, NoParams, Params, Positive, exactly_one
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from openclaw.sessions.service import SessionService
from openclaw.sessions.system_events import SystemEvents

Moment = Annotated[int, Meta(ge=0, le=8_640_000_000_000_000)]
Visible = Annotated[str, Meta(min_length=1, pattern=r"\S")]
DeliveryStatus = Literal["delivered", "not-delivered", "unknown", "not-requested"]
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


class CronGetParams(Params, frozen=True, kw_only=True):
    """Params of `cron.get`."""

    id: NonEmpty | None = None
    job_id: NonEmpty | None = None

    def __post_init__(self) -> None:
        exactly_one(id=self.id, jobId=self.job_id)


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
    command: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    cwd: NonEmpty | None = None
    mode: Literal["line", "match"] | None = None
    match: str | None = None
    batch_ms: int | None = None
    max_batch_bytes: int | None = None


class Pacing(Params, frozen=True, kw_only=True):
    min: Visible | None = None
    max: Visible | None = None


class Trigger(Params, frozen=True, kw_only=True):
    script: Annotated[str, Meta(min_length=1, max_length=65_536)]
    once: bool | None = None


class PayloadSystemEvent(Params, frozen=True, kw_only=True, tag_field="kind", tag="systemEvent"):
    text: NonEmpty
    tools_allow: tuple[str, ...] | None = None
    tools_allow_is_default: bool | None = None


class PayloadAgentTurn(Params, frozen=True, kw_only=True, tag_field="kind", tag="agentTurn"):
    message: NonEmpty
    model: str | None = None
    fallbacks: tuple[str, ...] | None = None
    thinking: str | None = None
    timeout_seconds: Annotated[float, Meta(ge=0)] | None = None
    allow_unsafe_external_content: bool | None = None
    light_context: bool | None = None
    tools_allow: tuple[str, ...] | None = None
    tools_allow_is_default: bool | None = None


class PayloadCommand(Params, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    argv: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]
    cwd: NonEmpty | None = None
    env: dict[str, str] | None = None
    input: str | None = None
    timeout_seconds: Annotated[float, Meta(ge=0)] | None = None
    no_output_timeout_seconds: Annotated[float, Meta(ge=0)] | None = None
    output_max_bytes: Positive | None = None
    tools_allow: tuple[str, ...] | None = None
    tools_allow_is_default: bool | None = None


class PayloadScript(Params, frozen=True, kw_only=True, tag_field="kind", tag="script"):
    script: Annotated[str, Meta(min_length=1, max_length=65_536)]
    timeout_seconds: Annotated[float, Meta(ge=1)] | None = None
    tool_budget: Positive | None = None
    tools_allow: tuple[str, ...] | None = None
    tools_allow_is_default: bool | None = None


class FailureDestination(Params, frozen=True, kw_only=True):
    channel: Visible | None = None
    to: Visible | None = None
    account_id: NonEmpty | None = None
    mode: Literal["announce", "webhook"] | None = None


class DeliveryNone(Params, frozen=True, kw_only=True, tag_field="mode", tag="none"):
    channel: Visible | None = None
    thread_id: str | int | float | None = None
    account_id: NonEmpty | None = None
    best_effort: bool | None = None
    failure_destination: FailureDestination | None = None
    to: Visible | None = None


class CompletionDestination(Params, frozen=True, kw_only=True):
    mode: Literal["webhook"]
    to: Visible


class DeliveryAnnounce(Params, frozen=True, kw_only=True, tag_field="mode", tag="announce"):
    channel: Visible | None = None
    thread_id: str | int | float | None = None
    account_id: NonEmpty | None = None
    best_effort: bool | None = None
    failure_destination: FailureDestination | None = None
    completion_destination: CompletionDestination | None = None
    to: Visible | None = None


class DeliveryWebhook(Params, frozen=True, kw_only=True, tag_field="mode", tag="webhook"):
    channel: Visible | None = None
    thread_id: str | int | float | None = None
    account_id: NonEmpty | None = None
    best_effort: bool | None = None
    failure_destination: FailureDestination | None = None
    to: Visible


class FailureAlertParam(Params, frozen=True, kw_only=True):
    after: Positive | None = None
    channel: Visible | None = None
    to: Visible | None = None
    cooldown_ms: NonNegative | None = None
    include_skipped: bool | None = None
    mode: Literal["announce", "webhook"] | None = None
    account_id: NonEmpty | None = None


class CronAddParams(Params, frozen=True, kw_only=True):
    """Params of `cron.add`."""

    name: NonEmpty
    declaration_key: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")] | None = None
    display_name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")] | None = None
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


class SystemEventPatch(Params, frozen=True, kw_only=True, tag_field="kind", tag="systemEvent"):
    text: NonEmpty | None = None
    tools_allow: tuple[str, ...] | UnsetType | None = UNSET
    tools_allow_is_default: bool | None = None


class AgentTurnPatch(Params, frozen=True, kw_only=True, tag_field="kind", tag="agentTurn"):
    message: NonEmpty | None = None
    model: str | UnsetType | None = UNSET
    fallbacks: tuple[str, ...] | UnsetType | None = UNSET
    thinking: str | UnsetType | None = UNSET
    timeout_seconds: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    allow_unsafe_external_content: bool | None = None
    light_context: bool | None = None
    tools_allow: tuple[str, ...] | UnsetType | None = UNSET
    tools_allow_is_default: bool | None = None


class CommandPatch(Params, frozen=True, kw_only=True, tag_field="kind", tag="command"):
    argv: Annotated[tuple[NonEmpty, ...], Meta(min_length=1)] | None = None
    cwd: NonEmpty | None = None
    env: dict[str, str] | None = None
    input: str | None = None
    timeout_seconds: Annotated[float, Meta(ge=0)] | UnsetType | None = UNSET
    no_output_timeout_seconds: Annotated[float, Meta(ge=0)] | None = None
    output_max_bytes: Positive | None = None
    tools_allow: tuple[str, ...] | UnsetType | None = UNSET
    tools_allow_is_default: bool | None = None


class ScriptPatch(Params, frozen=True, kw_only=True, tag_field="kind", tag="script"):
    script: Annotated[str, Meta(min_length=1, max_length=65_536)] | None = None
    timeout_seconds: Annotated[float, Meta(ge=1)] | UnsetType | None = UNSET
    tool_budget: Positive | None = None
    tools_allow: tuple[str, ...] | UnsetType | None = UNSET
    tools_allow_is_default: bool | None = None


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


class JobStatePatch(Params, frozen=True, kw_only=True):
    next_run_at_ms: Moment | None = None
    running_at_ms: Moment | None = None
    last_run_at_ms: Moment | None = None
    last_run_status: Literal["ok", "error", "skipped"] | None = None
    last_status: Literal["ok", "error", "skipped"] | None = None
    last_error: str | None = None
    last_error_reason: (
        Literal[
            "auth",
            "auth_permanent",
            "format",
            "rate_limit",
            "overloaded",
            "billing",
            "server_error",
            "timeout",
            "tls_certificate",
            "context_overflow",
            "model_not_found",
            "session_expired",
            "empty_response",
            "no_error_details",
            "unclassified",
            "unknown",
        ]
        | None
    ) = None
    last_duration_ms: NonNegative | None = None
    consecutive_errors: NonNegative | None = None
    consecutive_skipped: NonNegative | None = None
    last_delivered: bool | None = None
    last_delivery_status: DeliveryStatus | None = None
    last_delivery_error: str | None = None
    last_failure_notification_delivered: bool | None = None
    last_failure_notification_delivery_status: DeliveryStatus | None = None
    last_failure_notification_delivery_error: str | None = None
    last_failure_alert_at_ms: Moment | None = None
    last_trigger_eval_at_ms: Moment | None = None
    trigger_eval_count: NonNegative | None = None
    last_trigger_fire_at_ms: Moment | None = None
    trigger_state: Any = UNSET
    stream_status: Literal["starting", "running", "restarting", "stopped", "disabled", "error"] | None = None
    stream_error: str | None = None
    stream_consecutive_failures: NonNegative | None = None
    stream_restart_exhausted: bool | None = None
    stream_dropped_batches: NonNegative | None = None
    stream_coalesced_batches: NonNegative | None = None
    stream_last_started_at_ms: Moment | None = None
    stream_last_exit_at_ms: Moment | None = None


class JobPatch(Params, frozen=True, kw_only=True):
    name: NonEmpty | None = None
    display_name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\S")] | UnsetType | None = UNSET
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
    state: JobStatePatch | None = None

    def __post_init__(self) -> None:
        if self.failure_alert is True:
            raise ValueError("failureAlert must be false or an object")


class CronUpdateParams(Params, frozen=True, kw_only=True):
    """Params of `cron.update`."""

    id: NonEmpty | None = None
    patch: JobPatch
    expected_config_revision: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    job_id: NonEmpty | None = None

    def __post_init__(self) -> None:
        exactly_one(id=self.id, jobId=self.job_id)


class CronRemoveParams(Params, frozen=True, kw_only=True):
    """Params of `cron.remove`."""

    id: NonEmpty | None = None
    job_id: NonEmpty | None = None

    def __post_init__(self) -> None:
        exactly_one(id=self.id, jobId=self.job_id)


class CronRunParams(Params, frozen=True, kw_only=True):
    """Params of `cron.run`."""

    id: NonEmpty | None = None
    mode: Literal["due", "force", "if-enabled"] | None = None
    expected_process_instance_id: NonEmpty | None = None
    job_id: NonEmpty | None = None

    def __post_init__(self) -> None:
        exactly_one(id=self.id, jobId=self.job_id)


class CronRunsParams(Params, frozen=True, kw_only=True):
    """Params of `cron.runs`."""

    agent_id: NonEmpty | None = None
    scope: Literal["job", "all"] | None = None
    id: Annotated[str, Meta(min_length=1, pattern=r"^[^/\\]+$")] | None = None
    job_id: Annotated[str, Meta(min_length=1, pattern=r"^[^/\\]+$")] | None = None
    run_id: NonEmpty | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] | None = None
    offset: NonNegative | None = None
    statuses: Annotated[tuple[Literal["ok", "error", "skipped"], ...], Meta(min_length=1, max_length=3)] | None = None
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


class SystemEventParams(Params, frozen=True, kw_only=True):
    """Params of `system-event`."""

    text: str
    device_id: str | None = None
    instance_id: str | None = None
    host: str | None = None
    ip: str | None = None
    mode: str | None = None
    version: str | None = None
    platform: str | None = None
    device_family: str | None = None
    model_identifier: str | None = None
    last_input_seconds: float | None = None
    reason: str | None = None
    roles: tuple[str, ...] | None = None
    scopes: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None


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


def cron_methods(
    sessions: SessionService, system_events: SystemEvents, scheduler: Scheduler, heartbeats: HeartbeatService
) -> list[RpcMethod]:
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
            "jobs": [_job(sessions, job) for job in page],
            "snapshotRevision": _revision(jobs),
            **_paging(len(jobs), offset, limit, len(page)),
        }

    async def status(params: NoParams, caller: Caller) -> Any:
        return await scheduler.status()

    async def get(params: CronGetParams, caller: Caller) -> Any:
        return _job(sessions, await book.find(params.id or params.job_id or ""))

    async def add(params: AddParams, caller: Caller) -> Any:
        return _job(sessions, await book.add(msgspec.to_builtins(params)))

    async def update(params: UpdateParams, caller: Caller) -> Any:
        if params.patch.state is not None:
            raise InvalidRequest("the state of a job is kept by the gateway: it cannot be set")
        name = params.id or params.job_id or ""
        job = await book.update(name, msgspec.to_builtins(params.patch), params.expected_config_revision)
        return _job(sessions, job)

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
        shown_entries = [run_to_json(entry) for entry in entries if wanted is None or entry.status in wanted]
        return {"entries": shown_entries, **_paging(total, offset, limit, len(entries))}

    async def wake(params: WakeParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key or "main", params.agent_id)
        await system_events.add(key, params.text, str(uuid.uuid4()))
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


def _job(sessions: SessionService, job: CronJob) -> dict[str, Any]:
    return {**job_to_json(job), "effectiveAgentId": job.agent_id or sessions.key("main").agent}


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
