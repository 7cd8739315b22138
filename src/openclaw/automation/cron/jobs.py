"""Cron jobs: payload, schedule, delivery, and what a result does to them. Parsed and validated once, here. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from openclaw.automation.cron.schedule import GRACE_MS, AtSchedule, JobPart, Misfire, Schedule, validate_schedule
from openclaw.automation.cron.watch import Watch
from openclaw.automation.settings import FailureAlertSettings
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import Origin, clip

NAME_CHARS = 60
STARTING_MS = 120_000
"""How long after a start missed jobs that ask a model are deferred."""
Status = Literal["ok", "error", "skipped"]
DeliveryStatus = Literal["delivered", "not-delivered", "unknown", "not-requested"]


class JobShape(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of stored and sent types: camelCase names, defaults omitted."""


class SystemEvent(JobPart, frozen=True, kw_only=True, tag="systemEvent"):
    """A line added to the main session."""

    text: Annotated[str, Meta(min_length=1)]


class AgentTurn(JobPart, frozen=True, kw_only=True, tag="agentTurn"):
    """A task for the agent, in a session of its own."""

    message: Annotated[str, Meta(min_length=1)]
    model: str | None = None
    thinking: str | None = None
    timeout_seconds: Annotated[float, Meta(ge=0)] | None = None
    tools_allow: tuple[str, ...] | None = None
    light_context: bool = False
    """Its message alone: no workspace files, and with Codex nothing of our prompt."""


Payload = SystemEvent | AgentTurn


class AlertRoute(JobShape, frozen=True, kw_only=True):
    """Where it is told that a job keeps failing."""

    mode: Literal["announce", "webhook"] | None = None
    channel: str | None = None
    to: str | None = None
    account_id: str | None = None


class Delivery(JobShape, frozen=True, kw_only=True):
    """Where the final text goes."""

    mode: Literal["none", "announce", "webhook"]
    channel: str | None = None
    to: str | None = None
    thread_id: str | int | None = None
    account_id: str | None = None
    best_effort: bool | None = None
    """A result that could not be delivered does not make the run a failed one."""
    failure_destination: AlertRoute | None = None


class FailureAlert(AlertRoute, frozen=True, kw_only=True):
    """When people are told that a job keeps failing, and where; what is absent is as `cron.failureAlert` says."""

    after: Annotated[int, Meta(ge=1)] | None = None
    cooldown_ms: Annotated[int, Meta(ge=0)] | None = None


class AutoDisabled(JobShape, frozen=True, kw_only=True):
    reason: str
    at_ms: int
    consecutive_errors: int = 0


class JobState(JobShape, frozen=True, kw_only=True):
    """What happened to a job so far."""

    next_run_at_ms: int | None = None
    running_at_ms: int | None = None
    last_run_at_ms: int | None = None
    last_run_status: Status | None = None
    last_error: str | None = None
    last_error_reason: str | None = None
    last_duration_ms: int | None = None
    consecutive_errors: int = 0
    consecutive_skipped: int = 0
    last_delivered: bool | None = None
    last_delivery_status: DeliveryStatus | None = None
    last_delivery_error: str | None = None
    last_failure_alert_at_ms: int | None = None
    auto_disabled: AutoDisabled | None = None
    seen: dict[str, str] = {}
    """What each of its watches reported last."""


class StoredJobOwner(JobShape, frozen=True, kw_only=True):
    agent_id: str | None = None
    session_key: str | None = None
    account_id: str | None = None


class CronJob(JobShape, frozen=True, kw_only=True):
    """One job."""

    id: str
    name: str
    enabled: bool
    created_at_ms: int
    updated_at_ms: int
    schedule: Schedule
    session_target: Literal["main", "isolated"]
    wake_mode: Literal["now", "next-heartbeat"]
    payload: Payload
    delivery: Delivery
    state: JobState
    description: str | None = None
    display_name: str | None = None
    declaration_key: str | None = None
    delete_after_run: bool | None = None
    agent_id: str | None = None
    session_key: str | None = None
    owner: StoredJobOwner | None = None
    misfire: Misfire = "once"
    failure_alert: FailureAlert | Literal[False] | None = None
    watch: tuple[Watch, ...] = ()
    origins: tuple[Origin, ...] = ()
    """Untrusted text the model had read when it made the job; its runs carry these labels."""

    @property
    def removes_itself(self) -> bool:
        return isinstance(self.schedule, AtSchedule) if self.delete_after_run is None else self.delete_after_run


_FIELDS = {field.encode_name for field in structs.fields(CronJob)} - {"id", "state", "createdAtMs", "updatedAtMs"}
_FLAT = {
    "payload": ("message", "text", "model", "thinking", "timeoutSeconds", "toolsAllow", "lightContext"),
    "schedule": ("at", "atMs", "everyMs", "expr", "tz", "staggerMs"),
}
"""Fields that people and models write beside the part they belong to."""


_PARTS: dict[str, tuple[type[Struct], ...]] = {
    "payload": (SystemEvent, AgentTurn),
    "delivery": (Delivery,),
    "failureAlert": (FailureAlert,),
}
"""The parts of a job whose fields are checked by name, so that none is taken and ignored."""
_SAYS_NOTHING = {"kind", "toolsAllowIsDefault"}


# Building and patching.


def is_deferred(job: CronJob, began: int, now: int) -> bool:
    """Whether a job that was missed before the gateway `began` is deferred, so that starting stays quick.

    System events run at once. A clock that was set back ends the deferral.
    """
    slot = job.state.next_run_at_ms
    asks_a_model = isinstance(job.payload, AgentTurn) or job.wake_mode == "now"
    return asks_a_model and slot is not None and slot + GRACE_MS < began <= now < began + STARTING_MS


def build(raw: Mapping[str, Any], *, job_id: str, now: int, local: str, before: CronJob | None = None) -> CronJob:
    """Builds a job from raw input; fills in what is missing and has one sensible meaning."""
    given = normalize_job(raw)
    unknown = sorted(set(given) - _FIELDS)
    if unknown:
        raise InvalidRequest(f"a job has no {', '.join(unknown)}: it has {', '.join(sorted(_FIELDS))}")
    for needed, example in (
        ("schedule", '{"kind": "every", "everyMs": 3600000}'),
        ("payload", '{"kind": "agentTurn", "message": "…"}'),
    ):
        if not isinstance(given.get(needed), dict):
            raise InvalidRequest(f"a job needs a {needed}, for example {example}")
    for name, kinds in _PARTS.items():
        known = {field.encode_name for each in kinds for field in structs.fields(each)} | _SAYS_NOTHING
        part = given.get(name)
        extra = [field for field, value in part.items() if value is not None] if isinstance(part, dict) else []
        if unknown := sorted(set(extra) - known):
            raise InvalidRequest(
                f"{name} has no {', '.join(unknown)} here: it has {', '.join(sorted(known - _SAYS_NOTHING))}"
            )
    kind = given["payload"].get("kind")
    given.setdefault("sessionTarget", "main" if kind == "systemEvent" else "isolated")
    given.setdefault("delivery", {"mode": "announce" if kind == "agentTurn" else "none"})
    text = " ".join(str(given["payload"].get("message") or given["payload"].get("text") or "").split())
    given.setdefault("name", clip(text, NAME_CHARS) or "unnamed")
    created = before.created_at_ms if before else now
    ours = {"id": job_id, "createdAtMs": created, "updatedAtMs": now, "state": {}}
    try:
        job = msgspec.convert({"enabled": True, "wakeMode": "now", **given, **ours}, CronJob)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"this is not a job: {error}") from None
    _check(job)
    job = structs.replace(job, schedule=validate_schedule(job.schedule, now, created, local))
    return structs.replace(job, state=before.state) if before else job


def normalize_job(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Normalises what people and models write for a job."""
    given = {name: value for name, value in raw.items() if value is not None}
    if isinstance(given.get("name"), str):
        given["name"] = given["name"].strip() or None
    for name, fields in _FLAT.items():
        flat = {} if name in given else {field: given.pop(field) for field in fields if field in given}
        given |= {name: flat} if flat else {}
    if isinstance(payload := given.get("payload"), dict) and "kind" not in payload:
        kind = "agentTurn" if "message" in payload else "systemEvent" if "text" in payload else None
        given["payload"] = {**payload, **({"kind": kind} if kind else {})}
    if isinstance(schedule := given.get("schedule"), dict):
        given["schedule"] = _schedule(schedule)
    return {name: value for name, value in given.items() if value is not None}


def patch_job(job: CronJob, patch: Mapping[str, Any], *, now: int, local: str) -> CronJob:
    """The job with `patch` applied: null removes a setting, a payload or delivery of the same kind is merged."""
    raw = {name: value for name, value in msgspec.to_builtins(job).items() if name in _FIELDS}
    given = {name: value for name, value in patch.items() if name not in ("state", "id")}
    given = {**normalize_job(given), **{name: None for name, value in given.items() if value is None}}
    for name, value in given.items():
        if value is None:
            raw.pop(name, None)
        elif (
            name in ("payload", "delivery")
            and isinstance(value, dict)
            and value.get("kind", raw[name].get("kind")) == raw[name].get("kind")
        ):
            merged = {**raw[name], **value}
            raw[name] = {key: inner for key, inner in merged.items() if inner is not None}
        else:
            raw[name] = value
    if "payload" in given and "sessionTarget" not in given:
        raw["sessionTarget"] = "main" if raw["payload"].get("kind") == "systemEvent" else "isolated"
    return build(raw, job_id=job.id, now=now, local=local, before=job)


def _schedule(given: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(given)
    if "atMs" in found:
        found["at"] = _iso(found.pop("atMs"))
    for name in ("everyMs", "anchorMs", "staggerMs"):
        if isinstance(found.get(name), str) and found[name].strip().isdigit():
            found[name] = int(found[name])
    if "kind" not in found:
        kinds = (("at", "at"), ("every", "everyMs"), ("cron", "expr"))
        kind = next((kind for kind, field in kinds if field in found), None)
        found |= {"kind": kind} if kind else {}
    return found


def _iso(at_ms: Any) -> str:
    try:
        return datetime.fromtimestamp(float(at_ms) / 1000, UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        raise InvalidRequest(f"{at_ms!r} is not a moment: use milliseconds since 1970") from None


def _check(job: CronJob) -> None:
    if isinstance(job.payload, SystemEvent) != (job.session_target == "main"):
        raise InvalidRequest(
            'a systemEvent goes to sessionTarget "main" and an agentTurn to "isolated": no other pair exists'
        )
    if job.session_target == "main" and job.delivery.mode == "announce":
        raise InvalidRequest("a systemEvent is heard in the main conversation: it has nothing to announce")
    if job.delivery.mode == "webhook" and not (job.delivery.to or "").startswith(("http://", "https://")):
        raise InvalidRequest("delivery by webhook needs an address: set delivery.to to an http or https URL")
    for route in (job.failure_alert or None, job.delivery.failure_destination):
        if route is not None and route.mode == "webhook" and not (route.to or "").startswith(("http://", "https://")):
            raise InvalidRequest("an alert by webhook needs an address: set its to to an http or https URL")


# What a result does to a job: backoff, retries, alerts, disabling.

ALERTS = FailureAlertSettings()
BACKOFF_MS = (30_000, 60_000, 300_000, 900_000, 3_600_000)
MOST_FAILURES = 10
ONCE_TRIES = 3
TRANSIENT = frozenset(("rate_limit", "overloaded", "timeout", "server_error", "network", "interrupted"))


class JobResult(Struct, frozen=True, kw_only=True):
    """How one run ended."""

    status: Status
    started_at: int
    ended_at: int
    error: str | None = None
    error_kind: str | None = None
    summary: str = ""
    provider: str = ""
    model: str = ""
    session_id: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    seen: Mapping[str, str] | None = None


class JobAfter(Struct, frozen=True, kw_only=True):
    """The job afterwards; None when it is removed."""

    job: CronJob | None
    alert: str = ""
    """The alert text for a job that keeps failing."""


def apply_result(
    job: CronJob, result: JobResult, following: int | None, alerts: FailureAlertSettings = ALERTS
) -> JobAfter:
    """Applies a result to the job whose next slot is `following`; `alerts` hold where the job says nothing itself."""
    state = structs.replace(
        job.state,
        running_at_ms=None,
        last_run_at_ms=result.started_at,
        last_run_status=result.status,
        last_error=result.error,
        last_error_reason=result.error_kind,
        last_duration_ms=max(0, result.ended_at - result.started_at),
        consecutive_skipped=job.state.consecutive_skipped + 1 if result.status == "skipped" else 0,
        seen=dict(result.seen) if result.seen is not None else job.state.seen,
    )
    if result.status == "error":
        return _failed(structs.replace(job, state=state), result, following, alerts)
    alert = ""
    state = structs.replace(state, next_run_at_ms=following, consecutive_errors=0, auto_disabled=None)
    if result.status == "ok":
        alert = f"The job {job.name!r} works again." if state.last_failure_alert_at_ms else ""
        state = structs.replace(state, last_failure_alert_at_ms=None)
        if job.removes_itself:
            return JobAfter(job=None, alert=alert)
    if isinstance(job.schedule, AtSchedule):
        return JobAfter(job=structs.replace(job, enabled=False, state=structs.replace(state, next_run_at_ms=None)))
    return JobAfter(job=structs.replace(job, state=state), alert=alert)


def _failed(job: CronJob, result: JobResult, following: int | None, alerts: FailureAlertSettings) -> JobAfter:
    errors = job.state.consecutive_errors + 1
    pause = BACKOFF_MS[min(errors, len(BACKOFF_MS)) - 1]
    state = structs.replace(job.state, consecutive_errors=errors)
    if isinstance(job.schedule, AtSchedule):
        stops = result.error_kind not in TRANSIENT or errors >= ONCE_TRIES
        following = result.ended_at + pause
    else:
        stops = errors >= MOST_FAILURES
        following = None if following is None else max(following, result.ended_at + pause)
    if stops:
        why = f"it failed {errors} time(s) in a row, last with: {result.error or 'no details'}"
        state = structs.replace(
            state,
            next_run_at_ms=None,
            auto_disabled=AutoDisabled(reason=why, at_ms=result.ended_at, consecutive_errors=errors),
            last_failure_alert_at_ms=result.ended_at,
        )
        alert = f"The job {job.name!r} was switched off: {why}. Switch it on with: openclaw cron enable {job.id}"
        return JobAfter(job=structs.replace(job, enabled=False, state=state), alert=alert)
    state = structs.replace(state, next_run_at_ms=following)
    alert = ""
    if _alerts(job, state, result.ended_at, alerts):
        state = structs.replace(state, last_failure_alert_at_ms=result.ended_at)
        alert = f"The job {job.name!r} has failed {errors} times in a row: {result.error or 'no details'}"
    return JobAfter(job=structs.replace(job, state=state), alert=alert)


def _alerts(job: CronJob, state: JobState, now: int, settings: FailureAlertSettings) -> bool:
    own = job.failure_alert
    if own is False or (own is None and not settings.enabled):
        return False
    after = own.after if own and own.after is not None else settings.after
    cooldown = own.cooldown_ms if own and own.cooldown_ms is not None else settings.cooldown_ms
    last = state.last_failure_alert_at_ms
    return state.consecutive_errors >= after and (last is None or now - last >= cooldown)


def alert_delivery(job: CronJob, settings: FailureAlertSettings) -> Delivery:
    """Where it is told how a job is doing: as the job says, else as the settings say, else where its results go."""
    own, usual = job.failure_alert or None, job.delivery.failure_destination
    everybody = AlertRoute(mode=settings.mode, channel=settings.channel, to=settings.to, account_id=settings.account_id)
    for route in (own, usual, everybody):
        if route is not None and (route.channel or route.to):
            mode = route.mode or "announce"
            return Delivery(mode=mode, channel=route.channel, to=route.to, account_id=route.account_id)
    return job.delivery if job.delivery.mode == "announce" else Delivery(mode="announce")
