"""What a run means for its job: the next moment, a pause after failures, the end of its life. Pure."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, structs

from openclaw.cron.jobs import AutoDisabled, CronJob, FailureAlert, JobState, Status
from openclaw.cron.schedule import AtSchedule

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
    """The job afterwards; None when it is gone."""

    job: CronJob | None
    alert: str = ""
    """What people should be told about a job that fails."""


def after(job: CronJob, result: JobResult, following: int | None) -> JobAfter:
    """The job after a run whose slot is followed by `following`."""
    state = _recorded(job.state, result)
    job = structs.replace(job, state=state)
    if result.status == "error":
        return _failed(job, result, following)
    alert = f"The job {job.name!r} works again." if job.state.last_failure_alert_at_ms else ""
    state = structs.replace(
        state, next_run_at_ms=following, consecutive_errors=0, last_failure_alert_at_ms=None, auto_disabled=None
    )
    if result.status == "skipped":
        state = structs.replace(state, last_failure_alert_at_ms=job.state.last_failure_alert_at_ms)
        alert = ""
    if isinstance(job.schedule, AtSchedule):
        if job.removes_itself and result.status == "ok":
            return JobAfter(job=None, alert=alert)
        return JobAfter(job=structs.replace(job, enabled=False, state=structs.replace(state, next_run_at_ms=None)))
    if job.removes_itself and result.status == "ok":
        return JobAfter(job=None, alert=alert)
    return JobAfter(job=structs.replace(job, state=state), alert=alert)


def _failed(job: CronJob, result: JobResult, following: int | None) -> JobAfter:
    errors = job.state.consecutive_errors + 1
    pause = BACKOFF_MS[min(errors, len(BACKOFF_MS)) - 1]
    state = structs.replace(job.state, consecutive_errors=errors)
    stop: Literal["", "permanent", "often"] = ""
    if isinstance(job.schedule, AtSchedule):
        following = result.ended_at + pause
        if result.error_kind not in TRANSIENT:
            stop = "permanent"
        elif errors >= ONCE_TRIES:
            stop = "often"
    elif errors >= MOST_FAILURES:
        stop = "often"
    elif following is not None:
        following = max(following, result.ended_at + pause)
    if stop:
        why = f"it failed {errors} time(s) in a row, last with: {result.error or 'no details'}"
        state = structs.replace(
            state,
            next_run_at_ms=None,
            auto_disabled=AutoDisabled(reason=why, at_ms=result.ended_at, consecutive_errors=errors),
            last_failure_alert_at_ms=result.ended_at,
        )
        job = structs.replace(job, enabled=False, state=state)
        return JobAfter(job=job, alert=f"The job {job.name!r} was switched off: {why}. Switch it on with: "
                     f"openclaw cron enable {job.id}")  # fmt: skip
    state = structs.replace(state, next_run_at_ms=following)
    if not _alerts(job, state, result.ended_at):
        return JobAfter(job=structs.replace(job, state=state))
    state = structs.replace(state, last_failure_alert_at_ms=result.ended_at)
    text = f"The job {job.name!r} has failed {errors} times in a row: {result.error or 'no details'}"
    return JobAfter(job=structs.replace(job, state=state), alert=text)


def _alerts(job: CronJob, state: JobState, now: int) -> bool:
    if job.failure_alert is False:
        return False
    rule = job.failure_alert or FailureAlert()
    last = state.last_failure_alert_at_ms
    return state.consecutive_errors >= rule.after and (last is None or now - last >= rule.cooldown_ms)


def _recorded(state: JobState, result: JobResult) -> JobState:
    return structs.replace(
        state,
        running_at_ms=None,
        last_run_at_ms=result.started_at,
        last_run_status=result.status,
        last_error=result.error,
        last_error_reason=result.error_kind,
        last_duration_ms=max(0, result.ended_at - result.started_at),
        consecutive_skipped=state.consecutive_skipped + 1 if result.status == "skipped" else 0,
        seen=dict(result.seen) if result.seen is not None else state.seen,
    )
