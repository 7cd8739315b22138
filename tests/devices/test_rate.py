"""Guessing gets slow."""

import pytest

from openclaw.protocol import auth
from openclaw.protocol.auth import AuthLimiter, RateLimits

LIMITS = RateLimits(max_attempts=3, window_ms=1_000, lockout_ms=10_000)


@pytest.mark.parametrize("address", ["203.0.113.9", "127.0.0.1", "::1"])
def test_the_last_allowed_failure_locks_the_address(address: str) -> None:
    limiter = AuthLimiter(lambda: LIMITS)
    for at in (0, 1):
        limiter.fail(address, at)
        assert limiter.wait_ms(address, at) == 0
    limiter.fail(address, 2)
    assert limiter.wait_ms(address, 2) == 10_000
    assert limiter.wait_ms(address, 10_001) == 1
    assert limiter.wait_ms(address, 10_002) == 0


def test_failures_that_are_far_apart_are_forgotten() -> None:
    limiter = AuthLimiter(lambda: LIMITS)
    for at in range(0, 10_000, 600):
        limiter.fail("a", at)
        assert limiter.wait_ms("a", at) == 0


def test_one_address_does_not_lock_another() -> None:
    limiter = AuthLimiter(lambda: LIMITS)
    for _ in range(3):
        limiter.fail("a", 0)
    assert limiter.wait_ms("b", 0) == 0


def test_a_good_attempt_starts_the_count_again() -> None:
    limiter = AuthLimiter(lambda: LIMITS)
    limiter.fail("a", 0)
    limiter.fail("a", 0)
    limiter.clear("a")
    limiter.fail("a", 0)
    assert limiter.wait_ms("a", 0) == 0


def test_after_the_lockout_the_count_starts_again() -> None:
    limiter = AuthLimiter(lambda: LIMITS)
    for _ in range(3):
        limiter.fail("a", 0)
    limiter.fail("a", 10_000)
    assert limiter.wait_ms("a", 10_000) == 0


def test_made_up_addresses_do_not_fill_the_memory() -> None:
    limiter = AuthLimiter(lambda: LIMITS)
    for number in range(auth.MAX_ADDRESSES + 50):
        limiter.fail(f"a{number}", 0)
    assert len(limiter._failures) == auth.MAX_ADDRESSES
