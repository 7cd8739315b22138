"""How long a credential rests after a failure. Pure; times are milliseconds since the epoch."""

from collections.abc import Mapping

from msgspec import Struct, field, structs

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

FORGET_AFTER = DAY
"""Failures further apart than this have nothing to do with each other."""

_GENERIC = (30 * SECOND, MINUTE, 5 * MINUTE)

# What is wrong with these lies in the request or the model, not in the credential.
BLAMELESS = frozenset({"aborted", "budget", "context_overflow", "format", "model_not_found", "refused", "run_timeout"})
DISABLING = frozenset({"billing", "auth_permanent"})


class CredentialStats(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How a credential has fared."""

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


def length(reason: str, nth: int) -> int:
    """How long the `nth` failure for `reason` in a row keeps a credential back."""
    doubled = 1 << min(max(nth, 1) - 1, 20)
    if reason == "rate_limit":
        return min(DAY, 30 * SECOND * doubled)
    if reason == "billing":
        return min(DAY, 10 * MINUTE * doubled)
    if reason == "auth_permanent":
        return min(HOUR, 10 * MINUTE * doubled)
    return _GENERIC[min(max(nth, 1), len(_GENERIC)) - 1]


def settled(stats: CredentialStats, now: int) -> CredentialStats:
    """`stats` without what is over: lapsed windows, and the counters that went with them."""
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


def after_failure(stats: CredentialStats, reason: str, model: str, now: int) -> CredentialStats:
    """`stats` once a call to `model` failed for `reason`. A window that is open is never made longer."""
    if reason in BLAMELESS:
        return stats
    stats = settled(stats, now)
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
        return structs.replace(stats, disabled_until=now + length(reason, nth), disabled_reason=reason)
    scope = model if reason == "rate_limit" else None
    if stats.cooldown_until is not None:
        # A second model in trouble means that it is the credential, not the model.
        return stats if scope == stats.cooldown_model else structs.replace(stats, cooldown_model=None)
    count = nth if reason == "rate_limit" else _generic(stats.failure_counts)
    return structs.replace(
        stats, cooldown_until=now + length(reason, count), cooldown_reason=reason, cooldown_model=scope
    )


def _generic(counts: Mapping[str, int]) -> int:
    """Failures that share one schedule."""
    return sum(count for reason, count in counts.items() if reason != "rate_limit" and reason not in DISABLING)


def after_success(stats: CredentialStats, now: int) -> CredentialStats:
    """`stats` once a call worked."""
    return CredentialStats(last_used=now, last_failure_at=stats.last_failure_at)


def blocked_until(stats: CredentialStats, model: str | None, now: int) -> int | None:
    """When the credential can be used for `model` again; None when that is now."""
    ends = [0]
    if stats.disabled_until is not None:
        ends.append(stats.disabled_until)
    if stats.cooldown_until is not None and stats.cooldown_model in (None, model):
        ends.append(stats.cooldown_until)
    latest = max(ends)
    return latest if latest > now else None


def block_reason(stats: CredentialStats, model: str | None, now: int) -> str | None:
    """Why it cannot be used now."""
    if blocked_until(stats, model, now) is None:
        return None
    if stats.disabled_until is not None and stats.disabled_until > now:
        return stats.disabled_reason or "disabled"
    return stats.cooldown_reason or "cooling down"
