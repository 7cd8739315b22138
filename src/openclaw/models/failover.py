"""Failover: the order of candidate models, the step after a failed call, and credential cooldowns. Pure.

Times are seconds in the first part and milliseconds in the cooldowns.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field, structs

from openclaw.core.clock import Backoff
from openclaw.models.refs import ModelRef

# Candidates and retries.

RATE_LIMIT_ATTEMPTS = 10
TRANSIENT_RETRIES = 8
TRANSIENT_WINDOW = 90.0
"""Transient failures are retried until this long after the last success."""
WAITS = Backoff(1.0, 30.0)
LONGEST_RETRY_AFTER = 60.0
"""When a provider asks for a longer wait, failover goes on to the next candidate."""

PROBE_MARGIN = 120.0
PROBE_EVERY = 30.0

TRANSIENT = frozenset({"overloaded", "timeout", "server_error", "empty_response", "no_error_details"})
ROTATES_ONCE = frozenset({"rate_limit", "overloaded"})
ROTATES_ALWAYS = frozenset({"auth", "auth_permanent", "billing"})

_FINAL = {
    "aborted": "stopped by the user",
    "context_overflow": "the conversation is too long for the model: compact it or start a new session",
    "format": "the provider did not accept the request; another model would get the same one",
    "refused": "the model declined to answer",
    "run_timeout": "the run took too long",
}


class Retry(Struct, frozen=True):
    """The same model with the same credential, after a wait."""

    wait: float


class NextProfile(Struct, frozen=True):
    """The same model with the next credential."""


class NextCandidate(Struct, frozen=True):
    """The next model."""


class StopTrying(Struct, frozen=True):
    why: str


Step = Retry | NextProfile | NextCandidate | StopTrying


class FailoverState(Struct, frozen=True, kw_only=True):
    """The progress of a turn at the moment a call failed."""

    attempts: int = 1
    """Calls made to this candidate with this credential, the failed one included."""
    since_success: float = 0.0
    """Since the last call that worked, or since the turn began."""
    rotations: int = 0
    """Credentials already given up on for this candidate."""
    profiles_left: int = 0
    candidates_left: int = 0
    retry_after: float | None = None
    """What the provider asked for."""
    jitter: float = 0.0
    """A random number from 0 to 1, so that many clients do not return in step."""


def list_candidates(
    requested: ModelRef, *, primary: ModelRef | None = None, fallbacks: Sequence[ModelRef] = ()
) -> tuple[ModelRef, ...]:
    """The models to try in a turn, in order."""
    seen: dict[str, ModelRef] = {}
    for ref in (requested, *fallbacks, *((primary,) if primary else ())):
        seen.setdefault(ref.key, ref)
    return tuple(seen.values())


def backoff(nth: int, jitter: float, retry_after: float | None = None) -> float:
    """How long to wait before the `nth` retry, counted from 1."""
    wait = min(WAITS.after(nth) + jitter, WAITS.longest)
    return max(wait, retry_after or 0.0)


def next_step(reason: str, state: FailoverState) -> Step:
    """What to do after a call failed for `reason`."""
    if reason in _FINAL:
        return StopTrying(_FINAL[reason])
    if _worth_waiting(reason, state):
        return Retry(backoff(state.attempts, state.jitter, state.retry_after))
    may_rotate = reason in ROTATES_ALWAYS or (reason in ROTATES_ONCE and state.rotations == 0)
    if may_rotate and state.profiles_left > 0:
        return NextProfile()
    if state.candidates_left > 0:
        return NextCandidate()
    return StopTrying("there is no other model to try")


def _worth_waiting(reason: str, state: FailoverState) -> bool:
    if state.retry_after is not None and state.retry_after > LONGEST_RETRY_AFTER:
        return False
    if reason == "rate_limit":
        return state.attempts < RATE_LIMIT_ATTEMPTS
    if reason not in TRANSIENT or state.attempts > TRANSIENT_RETRIES:
        return False
    wait = backoff(state.attempts, state.jitter, state.retry_after)
    return state.since_success + wait <= TRANSIENT_WINDOW


def may_probe_cooling(
    reason: str,
    *,
    is_primary: bool,
    ends_in: float,
    since_probe: float | None,
    probed_this_run: bool,
) -> bool:
    """Whether to call a model although every credential of its provider is cooling down.

    `reason` is why, `ends_in` when the first cooldown ends, `since_probe` when the provider was last probed.
    """
    if reason in ("auth", "auth_permanent"):
        return False
    throttled = probed_this_run or (since_probe is not None and since_probe < PROBE_EVERY)
    if not is_primary or throttled:
        return False
    return reason == "billing" or ends_in <= PROBE_MARGIN


class CandidateFailed(Struct, frozen=True):
    """One candidate that did not answer."""

    ref: str
    reason: str
    error: str = ""


def exhausted_message(failures: Sequence[CandidateFailed]) -> str:
    """The error text for when every candidate failed."""
    if len(failures) == 1:
        return f"{failures[0].ref} did not answer: {failures[0].error or failures[0].reason}"
    listed = "; ".join(f"{item.ref}: {item.error or item.reason} ({item.reason})" for item in failures)
    return f"none of {len(failures)} models answered: {listed}"


# Cooldowns of credentials, in milliseconds.

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

FORGET_AFTER = DAY
"""Failures further apart than this do not count as a series."""

_GENERIC = (30 * SECOND, MINUTE, 5 * MINUTE)
_COOLDOWNS = {
    "rate_limit": Backoff(30 * SECOND, DAY),
    "billing": Backoff(10 * MINUTE, DAY),
    "auth_permanent": Backoff(10 * MINUTE, HOUR),
}

# Failures of the request or the model: they put no cooldown on the credential.
NO_COOLDOWN_REASONS = frozenset(
    {"aborted", "budget", "context_overflow", "format", "model_not_found", "refused", "run_timeout"}
)
DISABLING = frozenset({"billing", "auth_permanent"})


class CredentialStats(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Usage and failure counters of a credential, with its cooldown and disabled windows."""

    last_used: int | None = None
    cooldown_until: int | None = None
    cooldown_reason: str | None = None
    cooldown_model: str | None = None
    """The only model the cooldown is for; None when it is for all."""
    disabled_until: int | None = None
    disabled_reason: str | None = None
    error_count: int = 0
    failure_counts: Mapping[str, int] = field(default_factory=dict)
    last_failure_at: int | None = None


def cooldown_ms(reason: str, nth: int) -> int:
    """The cooldown after the `nth` failure in a row for `reason`."""
    if (growing := _COOLDOWNS.get(reason)) is not None:
        return round(growing.after(nth))
    return _GENERIC[min(max(nth, 1), len(_GENERIC)) - 1]


def drop_expired(stats: CredentialStats, now: int) -> CredentialStats:
    """`stats` without windows that have ended and the counters that belong to them."""
    cooling = stats.cooldown_until is not None and stats.cooldown_until > now
    disabled = stats.disabled_until is not None and stats.disabled_until > now
    lapsed = (stats.cooldown_until is not None and not cooling) or (stats.disabled_until is not None and not disabled)
    old = stats.last_failure_at is not None and now - stats.last_failure_at > FORGET_AFTER
    if not cooling:
        stats = structs.replace(stats, cooldown_until=None, cooldown_reason=None, cooldown_model=None)
    if not disabled:
        stats = structs.replace(stats, disabled_until=None, disabled_reason=None)
    if (lapsed or old) and not cooling and not disabled:
        stats = structs.replace(stats, error_count=0, failure_counts={})
    return stats


def record_failure(stats: CredentialStats, reason: str, model: str, now: int) -> CredentialStats:
    """`stats` after a call to `model` failed for `reason`. An open window is never extended."""
    if reason in NO_COOLDOWN_REASONS:
        return stats
    stats = drop_expired(stats, now)
    nth = stats.failure_counts.get(reason, 0) + 1
    stats = structs.replace(
        stats,
        error_count=stats.error_count + 1,
        failure_counts={**stats.failure_counts, reason: nth},
        last_failure_at=now,
    )
    if reason in DISABLING:
        if stats.disabled_until is not None:
            return stats
        return structs.replace(stats, disabled_until=now + cooldown_ms(reason, nth), disabled_reason=reason)
    scope = model if reason == "rate_limit" else None
    if stats.cooldown_until is not None:
        # Two models failing on one credential point to the credential, so the cooldown is for all models.
        return stats if scope == stats.cooldown_model else structs.replace(stats, cooldown_model=None)
    others = [count for each, count in stats.failure_counts.items() if each not in ("rate_limit", *DISABLING)]
    count = nth if reason == "rate_limit" else sum(others)  # all but these share the generic schedule
    return structs.replace(
        stats, cooldown_until=now + cooldown_ms(reason, count), cooldown_reason=reason, cooldown_model=scope
    )


def record_success(stats: CredentialStats, now: int) -> CredentialStats:
    """`stats` after a successful call."""
    return CredentialStats(last_used=now, last_failure_at=stats.last_failure_at)


def blocked_until(stats: CredentialStats, model: str | None, now: int) -> int | None:
    """When the credential can be used for `model` again; None when that is now."""
    cooldown = stats.cooldown_until if stats.cooldown_model in (None, model) else None
    latest = max(stats.disabled_until or 0, cooldown or 0)
    return latest if latest > now else None


def block_reason(stats: CredentialStats, model: str | None, now: int) -> str | None:
    """Why the credential cannot be used for `model` now."""
    if blocked_until(stats, model, now) is None:
        return None
    if stats.disabled_until is not None and stats.disabled_until > now:
        return stats.disabled_reason or "disabled"
    return stats.cooldown_reason or "cooling down"
