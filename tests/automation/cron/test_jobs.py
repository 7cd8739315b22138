"""Jobs: what people and models write becomes a whole job, or a refusal that helps; and what runs do to them."""

from typing import Any

import pytest
from msgspec import structs

from openclaw.automation.cron.jobs import (
    BACKOFF_MS,
    STARTING_MS,
    AgentTurn,
    CronJob,
    JobResult,
    Status,
    SystemEvent,
    apply_result,
    build,
    is_deferred,
    patch_job,
)
from openclaw.automation.cron.watch import WatchResult, changed_results
from openclaw.core.errors import InvalidRequest

NOW = 1_800_000_000_000
HOURLY: dict[str, Any] = {"schedule": {"kind": "every", "everyMs": 3_600_000}}


def job(**raw: Any) -> CronJob:
    said = {} if "payload" in raw else {"message": "look"}
    return build({**HOURLY, **said, **raw}, job_id="j1", now=NOW, local="Europe/Berlin")


def test_a_flat_job_gets_its_parts_and_its_defaults() -> None:
    made = build({"message": " water the plants ", "atMs": NOW + 60_000}, job_id="j1", now=NOW, local="UTC")
    assert isinstance(made.payload, AgentTurn)
    assert (made.session_target, made.delivery.mode, made.name) == ("isolated", "announce", "water the plants")
    assert made.removes_itself
    told = build({"text": "tea", "expr": "0 7 * * *"}, job_id="j2", now=NOW, local="Europe/Berlin")
    assert isinstance(told.payload, SystemEvent) and told.session_target == "main" and told.delivery.mode == "none"
    assert told.schedule.tz == "Europe/Berlin"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"sessionTarget": "main"}, "no other pair"),
        ({"payload": {"kind": "systemEvent", "text": "x"}, "sessionTarget": "isolated"}, "no other pair"),
        ({"delivery": {"mode": "webhook", "to": "ftp://x"}}, "http"),
        ({"payload": {"kind": "dance"}}, "dance"),
        ({"schedule": "hourly"}, "needs a schedule"),
        ({"colour": "red"}, "no colour"),
        ({"wakeMode": "later"}, "wakeMode"),
        ({"message": ""}, "this is not a job"),
    ],
)
def test_what_cannot_be_a_job_is_refused_in_words(raw: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        job(**raw)


def test_a_change_keeps_the_rest_and_null_takes_away() -> None:
    made = job(description="often", model="a/b")
    after_ = patch_job(made, {"payload": {"kind": "agentTurn", "message": "look twice"}}, now=NOW + 1, local="UTC")
    assert after_.payload == AgentTurn(message="look twice", model="a/b")
    assert after_.schedule == made.schedule and after_.created_at_ms == NOW
    assert patch_job(made, {"description": None}, now=NOW, local="UTC").description is None
    turned = patch_job(
        made, {"payload": {"kind": "systemEvent", "text": "x"}, "delivery": {"mode": "none"}}, now=NOW, local="UTC"
    )
    assert turned.session_target == "main"


def ran(status: Status, kind: str | None = None, at: int = NOW) -> JobResult:
    return JobResult(
        status=status, started_at=at - 500, ended_at=at, error="no" if status == "error" else None, error_kind=kind
    )


def test_failures_push_the_next_run_away_and_a_good_run_forgives() -> None:
    made = job()
    for count, pause in enumerate(BACKOFF_MS, 1):
        outcome = apply_result(made, ran("error"), NOW + 1000)
        assert outcome.job is not None
        made = outcome.job
        assert made.state.consecutive_errors == count
        assert made.state.next_run_at_ms == NOW + pause
        assert bool(outcome.alert) == (count == 2)  # told once; the rest falls into the hour of silence
    good = apply_result(made, ran("ok"), NOW + 1000)
    assert good.job is not None and good.job.state.next_run_at_ms == NOW + 1000
    assert good.job.state.consecutive_errors == 0 and "works again" in good.alert


def test_a_job_that_never_works_is_switched_off_with_a_reason() -> None:
    made = job()
    for _ in range(10):
        outcome = apply_result(made, ran("error"), NOW + 1000)
        assert outcome.job is not None
        made = outcome.job
    assert not made.enabled and made.state.next_run_at_ms is None
    assert made.state.auto_disabled is not None and "10 time" in made.state.auto_disabled.reason
    assert "switched off" in outcome.alert


def test_a_single_job_goes_after_success_tries_again_after_a_passing_failure_and_stops_after_a_lasting_one() -> None:
    made = build({"message": "x", "at": "2027-01-31T09:00:00Z"}, job_id="j", now=NOW, local="UTC")
    assert apply_result(made, ran("ok"), None).job is None
    kept = apply_result(structs.replace(made, delete_after_run=False), ran("ok"), None).job
    assert kept is not None and not kept.enabled
    again = apply_result(made, ran("error", "rate_limit"), None).job
    assert again is not None and again.enabled and again.state.next_run_at_ms == NOW + 30_000
    lasting = apply_result(made, ran("error", "auth"), None).job
    assert lasting is not None and not lasting.enabled


def test_a_watch_speaks_only_of_what_it_saw_change() -> None:
    look = WatchResult(name="file a", mark="2", says="now")
    assert changed_results([look], {}) == []
    assert changed_results([look], {"file a": "2"}) == []
    assert changed_results([look], {"file a": "1"}) == [look]
    assert changed_results([structs.replace(look, mark="")], {"file a": "1"}) == []


@pytest.mark.parametrize(
    ("raw", "late", "since", "waits"),
    [
        ({}, 3_600_000, 0, True),
        ({}, 3_600_000, STARTING_MS - 1, True),
        ({}, 3_600_000, STARTING_MS, False),
        ({}, 3_600_000, -86_400_000, False),  # the clock was set back
        ({}, 1_000, 0, False),  # merely busy
        ({}, -1_000, 0, False),
        ({"payload": {"kind": "systemEvent", "text": "x"}, "wakeMode": "now"}, 3_600_000, 0, True),
        ({"payload": {"kind": "systemEvent", "text": "x"}, "wakeMode": "next-heartbeat"}, 3_600_000, 0, False),
    ],
)
def test_a_missed_job_that_asks_a_model_waits_for_the_start(
    raw: dict[str, Any], late: int, since: int, waits: bool
) -> None:
    made = job(**raw)
    missed = structs.replace(made, state=structs.replace(made.state, next_run_at_ms=NOW - late))
    assert is_deferred(missed, NOW, NOW + since) is waits
