"""How long a credential rests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.models.failover import (
    DAY,
    HOUR,
    MINUTE,
    NO_COOLDOWN_REASONS,
    SECOND,
    CredentialStats,
    block_reason,
    blocked_until,
    cooldown_ms,
    drop_expired,
    record_failure,
    record_success,
)

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("reason", "lengths"),
    [
        ("timeout", (30 * SECOND, MINUTE, 5 * MINUTE, 5 * MINUTE)),
        ("overloaded", (30 * SECOND, MINUTE, 5 * MINUTE, 5 * MINUTE)),
        ("server_error", (30 * SECOND, MINUTE, 5 * MINUTE, 5 * MINUTE)),
        ("unknown", (30 * SECOND, MINUTE, 5 * MINUTE, 5 * MINUTE)),
        ("auth", (30 * SECOND, MINUTE, 5 * MINUTE, 5 * MINUTE)),
        ("rate_limit", (30 * SECOND, MINUTE, 2 * MINUTE, 4 * MINUTE)),
        ("billing", (10 * MINUTE, 20 * MINUTE, 40 * MINUTE, 80 * MINUTE)),
        ("auth_permanent", (10 * MINUTE, 20 * MINUTE, 40 * MINUTE, HOUR)),
    ],
)
def test_repeated_failures_rest_longer(reason, lengths):
    assert tuple(cooldown_ms(reason, nth) for nth in range(1, 5)) == lengths


@pytest.mark.parametrize("reason", ["rate_limit", "billing"])
def test_no_rest_is_longer_than_a_day(reason):
    assert cooldown_ms(reason, 10_000) == DAY


def test_a_rate_limit_is_for_one_model_only():
    stats = record_failure(CredentialStats(), "rate_limit", "big", NOW)
    assert blocked_until(stats, "big", NOW) == NOW + 30 * SECOND
    assert blocked_until(stats, "small", NOW) is None
    assert block_reason(stats, "big", NOW) == "rate_limit"
    assert block_reason(stats, "small", NOW) is None


def test_two_models_in_trouble_mean_the_credential_is():
    stats = record_failure(CredentialStats(), "rate_limit", "big", NOW)
    stats = record_failure(stats, "rate_limit", "small", NOW + SECOND)
    assert blocked_until(stats, "third", NOW + SECOND) == NOW + 30 * SECOND


def test_other_trouble_is_for_all_models():
    stats = record_failure(CredentialStats(), "server_error", "big", NOW)
    assert blocked_until(stats, "small", NOW) == NOW + 30 * SECOND


def test_an_open_window_is_never_made_longer():
    stats = record_failure(CredentialStats(), "timeout", "m", NOW)
    later = record_failure(stats, "timeout", "m", NOW + 20 * SECOND)
    assert later.cooldown_until == NOW + 30 * SECOND
    assert later.error_count == 2
    broke = record_failure(CredentialStats(), "billing", "m", NOW)
    assert record_failure(broke, "billing", "m", NOW + 1).disabled_until == NOW + 10 * MINUTE


def test_a_lapsed_window_takes_its_counters_along():
    stats = record_failure(CredentialStats(), "timeout", "m", NOW)
    again = record_failure(stats, "timeout", "m", NOW + 31 * SECOND)
    assert again.cooldown_until == NOW + 31 * SECOND + 30 * SECOND
    assert again.error_count == 1


def test_counters_outlive_a_window_while_another_is_open():
    stats = record_failure(CredentialStats(), "billing", "m", NOW)
    stats = record_failure(stats, "timeout", "m", NOW + 1)
    later = record_failure(stats, "timeout", "m", NOW + MINUTE)
    assert later.cooldown_until == NOW + MINUTE + MINUTE  # the second of its kind


def test_failures_a_day_apart_are_not_counted_together():
    old = CredentialStats(error_count=5, failure_counts={"timeout": 5}, last_failure_at=NOW - DAY - 1)
    assert drop_expired(old, NOW).error_count == 0
    assert record_failure(old, "timeout", "m", NOW).cooldown_until == NOW + 30 * SECOND
    recent = CredentialStats(error_count=2, failure_counts={"timeout": 2}, last_failure_at=NOW - HOUR)
    assert record_failure(recent, "timeout", "m", NOW).cooldown_until == NOW + 5 * MINUTE


@pytest.mark.parametrize("reason", ["billing", "auth_permanent"])
def test_a_lasting_problem_disables_the_profile(reason):
    stats = record_failure(CredentialStats(), reason, "m", NOW)
    assert (stats.disabled_until, stats.disabled_reason) == (NOW + 10 * MINUTE, reason)
    assert blocked_until(stats, "other", NOW) == NOW + 10 * MINUTE
    assert block_reason(stats, "other", NOW) == reason


@pytest.mark.parametrize("reason", sorted(NO_COOLDOWN_REASONS))
def test_what_is_not_the_credentials_fault_leaves_it_alone(reason):
    assert record_failure(CredentialStats(), reason, "m", NOW) == CredentialStats()


def test_success_forgives_everything():
    stats = record_failure(record_failure(CredentialStats(), "billing", "m", NOW), "timeout", "m", NOW)
    assert record_success(stats, NOW + 1) == CredentialStats(last_used=NOW + 1, last_failure_at=NOW)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["timeout", "rate_limit", "billing", "auth_permanent", "format"]),
            st.sampled_from(["a", "b"]),
            st.integers(0, DAY),
        ),
        max_size=30,
    )
)
def test_no_history_blocks_a_credential_for_more_than_a_day(history):
    stats, now = CredentialStats(), NOW
    for reason, model, wait in history:
        now += wait
        stats = record_failure(stats, reason, model, now)
        until = blocked_until(stats, model, now)
        assert until is None or now < until <= now + DAY
        assert reason in NO_COOLDOWN_REASONS or until is not None
