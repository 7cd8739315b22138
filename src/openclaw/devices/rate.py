"""Who has guessed wrong too often: a count by address, on a clock that is handed in. Pure.

Nobody is exempt, not even loopback: a program on this machine, or a page in its browser, can guess fastest of all.
"""

from msgspec import Struct

MAX_ADDRESSES = 10_000


class RateLimits(Struct, frozen=True, kw_only=True):
    max_attempts: int = 10
    window_ms: int = 60_000
    lockout_ms: int = 300_000


class AuthLimiter:
    """Counts failures; after `max_attempts` within the window an address waits out the lockout."""

    def __init__(self, limits: RateLimits | None = None) -> None:
        self._limits = limits or RateLimits()
        self._failures: dict[str, list[int]] = {}
        self._locked: dict[str, int] = {}

    def wait_ms(self, key: str, now: int) -> int:
        """How long `key` has to wait before its next attempt is looked at; 0 when it may try."""
        until = self._locked.get(key, 0)
        if until <= now:
            self._locked.pop(key, None)
            return 0
        return until - now

    def fail(self, key: str, now: int) -> None:
        recent = [at for at in self._failures.pop(key, ()) if at > now - self._limits.window_ms]
        recent.append(now)
        if len(recent) >= self._limits.max_attempts:
            self._locked.pop(key, None)
            self._locked[key] = now + self._limits.lockout_ms
            _forget_oldest(self._locked)
        else:
            self._failures[key] = recent
            _forget_oldest(self._failures)

    def clear(self, key: str) -> None:
        """A good attempt: whatever was counted against `key` is forgotten."""
        self._failures.pop(key, None)


def _forget_oldest(table: dict[str, int] | dict[str, list[int]]) -> None:
    # Many addresses, or many made-up ones, must not become many bytes.
    while len(table) > MAX_ADDRESSES:
        del table[next(iter(table))]
