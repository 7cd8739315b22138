"""Which model is next after a failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core import errors
from openclaw.models.failover import (
    CandidateFailed,
    FailoverState,
    NextCandidate,
    NextProfile,
    Retry,
    StopTrying,
    backoff,
    exhausted_message,
    list_candidates,
    may_probe_cooling,
    next_step,
)
from openclaw.models.refs import ModelRef

A, B, C, D = (ModelRef("p", name) for name in "abcd")
FULL = FailoverState(profiles_left=2, candidates_left=2)
LATE = FailoverState(attempts=50, since_success=1000, profiles_left=2, candidates_left=2)
ROTATED = FailoverState(attempts=50, since_success=1000, rotations=1, profiles_left=1, candidates_left=2)
LAST = FailoverState(attempts=50, since_success=1000, rotations=1)


@pytest.mark.parametrize(
    ("given", "chain"),
    [
        ({}, (A,)),
        ({"primary": A}, (A,)),
        ({"fallbacks": (B, C)}, (A, B, C)),
        ({"primary": D, "fallbacks": (B, A, B)}, (A, B, D)),
    ],
)
def test_the_chain_of_a_turn(given, chain):
    assert list_candidates(A, **given) == chain


def test_a_pinned_request_keeps_its_profile_in_the_chain():
    pinned = ModelRef("p", "a", "work")
    assert list_candidates(pinned, primary=A, fallbacks=(B,)) == (pinned, B)


# reason: fresh failure, after waiting long enough, after one rotation, with nothing left
TABLE = {
    "auth": (NextProfile, NextProfile, NextProfile, StopTrying),
    "auth_permanent": (NextProfile, NextProfile, NextProfile, StopTrying),
    "billing": (NextProfile, NextProfile, NextProfile, StopTrying),
    "rate_limit": (Retry, NextProfile, NextCandidate, StopTrying),
    "overloaded": (Retry, NextProfile, NextCandidate, StopTrying),
    "timeout": (Retry, NextCandidate, NextCandidate, StopTrying),
    "server_error": (Retry, NextCandidate, NextCandidate, StopTrying),
    "empty_response": (Retry, NextCandidate, NextCandidate, StopTrying),
    "no_error_details": (Retry, NextCandidate, NextCandidate, StopTrying),
    "tls_certificate": (NextCandidate, NextCandidate, NextCandidate, StopTrying),
    "model_not_found": (NextCandidate, NextCandidate, NextCandidate, StopTrying),
    "session_expired": (NextCandidate, NextCandidate, NextCandidate, StopTrying),
    "unclassified": (NextCandidate, NextCandidate, NextCandidate, StopTrying),
    "budget": (NextCandidate, NextCandidate, NextCandidate, StopTrying),
    "unknown": (NextCandidate, NextCandidate, NextCandidate, StopTrying),
    "context_overflow": (StopTrying, StopTrying, StopTrying, StopTrying),
    "format": (StopTrying, StopTrying, StopTrying, StopTrying),
    "refused": (StopTrying, StopTrying, StopTrying, StopTrying),
    "aborted": (StopTrying, StopTrying, StopTrying, StopTrying),
    "run_timeout": (StopTrying, StopTrying, StopTrying, StopTrying),
}


@pytest.mark.parametrize("reason", TABLE)
def test_what_follows_each_failure(reason):
    steps = tuple(type(next_step(reason, state)) for state in (FULL, LATE, ROTATED, LAST))
    assert steps == TABLE[reason]


def test_every_reason_our_errors_carry_is_in_the_table():
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ProviderError)
    ]
    assert {kind.reason for kind in kinds} <= set(TABLE)


def test_an_error_marked_as_passing_is_retried():
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ProviderError)
    ]
    for kind in kinds:
        assert isinstance(next_step(kind.reason, FULL), Retry) is kind.retryable, kind


def test_rate_limits_get_ten_attempts():
    steps = [next_step("rate_limit", FailoverState(attempts=count, since_success=999)) for count in range(1, 12)]
    assert [isinstance(step, Retry) for step in steps] == [True] * 9 + [False] * 2


def test_other_passing_trouble_gets_eight_retries():
    steps = [next_step("overloaded", FailoverState(attempts=count)) for count in range(1, 11)]
    assert [isinstance(step, Retry) for step in steps] == [True] * 8 + [False] * 2


def test_passing_trouble_is_sat_out_for_ninety_seconds():
    assert isinstance(next_step("timeout", FailoverState(since_success=89)), Retry)
    assert isinstance(next_step("timeout", FailoverState(since_success=89.5)), StopTrying)


@pytest.mark.parametrize(("nth", "wait"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (9, 30), (5000, 30)])
def test_waits_double_up_to_half_a_minute(nth, wait):
    assert backoff(nth, 0.0) == wait


def test_the_provider_may_ask_for_more_patience_but_not_for_too_much():
    assert next_step("rate_limit", FailoverState(retry_after=45.0)) == Retry(45.0)
    assert next_step("rate_limit", FailoverState(retry_after=60.0)) == Retry(60.0)
    assert next_step("rate_limit", FailoverState(retry_after=0.2)) == Retry(1.0)
    assert next_step("rate_limit", FailoverState(retry_after=61.0, candidates_left=1)) == NextCandidate()
    assert next_step("rate_limit", FailoverState(retry_after=61.0, profiles_left=1, candidates_left=1)) == NextProfile()


@given(st.integers(1, 100), st.floats(0, 1), st.none() | st.floats(0, 60))
def test_no_wait_is_longer_than_a_minute(nth, jitter, retry_after):
    assert 1 <= backoff(nth, jitter, retry_after) <= 60


@given(
    st.sampled_from(sorted(TABLE)),
    st.builds(
        FailoverState,
        attempts=st.integers(1, 30),
        since_success=st.floats(0, 200),
        rotations=st.integers(0, 3),
        profiles_left=st.integers(0, 3),
        candidates_left=st.integers(0, 3),
    ),
)
def test_a_step_never_leads_to_something_that_is_not_there(reason, state):
    match next_step(reason, state):
        case NextProfile():
            assert state.profiles_left > 0
        case NextCandidate():
            assert state.candidates_left > 0
        case StopTrying(why):
            assert why


@pytest.mark.parametrize(
    ("reason", "more", "tried"),
    [
        ("auth", {"ends_in": 1}, False),
        ("auth_permanent", {"ends_in": 1}, False),
        ("billing", {"ends_in": 9999}, True),
        ("billing", {"ends_in": 9999, "since_probe": 29}, False),
        ("billing", {"ends_in": 9999, "since_probe": 31}, True),
        ("billing", {"ends_in": 9999, "is_primary": False}, False),
        ("rate_limit", {"ends_in": 120}, True),
        ("rate_limit", {"ends_in": 121}, False),
        ("rate_limit", {"ends_in": 10, "is_primary": False}, False),
        ("overloaded", {"ends_in": 10, "since_probe": 5}, False),
        ("overloaded", {"ends_in": 10, "probed_this_run": True}, False),
        ("unknown", {"ends_in": 10}, True),
    ],
)
def test_when_a_resting_provider_is_probed(reason, more, tried):
    asked = {"is_primary": True, "since_probe": None, "probed_this_run": False, **more}
    assert may_probe_cooling(reason, **asked) is tried


def test_when_nothing_answered_the_person_sees_each_attempt():
    text = exhausted_message([CandidateFailed("a/x", "rate_limit", "slow down"), CandidateFailed("b/y", "timeout")])
    assert text == "none of 2 models answered: a/x: slow down (rate_limit); b/y: timeout (timeout)"
    assert exhausted_message([CandidateFailed("a/x", "auth", "no key")]) == "a/x did not answer: no key"
    assert exhausted_message([CandidateFailed("a/x", "auth")]) == "a/x did not answer: auth"
