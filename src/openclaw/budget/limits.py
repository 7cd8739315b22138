"""Estimates the cost of a call, and decides whether it fits its limits. Pure; money is US dollars."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from openclaw.budget.settings import Allowance, BudgetSettings
from openclaw.core.messages import Usage
from openclaw.core.provider import Price, cost_of

# Estimates.

IMAGE_TOKENS = 1_600
EXPECTED_OUTPUT = 1_000
"""The likely tokens of an answer, within its limit."""


class Size(Struct, frozen=True, kw_only=True):
    """The size of a request, as far as it matters for its cost."""

    text_bytes: int
    images: int = 0
    output_limit: int | None = None
    window: int = 200_000
    """The context window: no request or answer is longer."""


class Estimate(Struct, frozen=True):
    """The likely and the worst-case cost of a call."""

    likely: float
    worst: float


def prompt_tokens(size: Size) -> int:
    return min(-(-size.text_bytes // 4) + size.images * IMAGE_TOKENS, size.window)


def estimate(size: Size, price: Price | None) -> Estimate | None:
    """Estimates the cost of a call; None when the price is unknown.

    The worst case is one token per byte, up to the window.
    """
    if price is None:
        return None
    limit = size.output_limit or size.window
    likely = prompt_tokens(size) * price.input + min(limit, EXPECTED_OUTPUT) * price.output
    dearest = max(price.input, price.cache_read, price.cache_write)
    most = min(size.text_bytes, size.window) if not size.images else size.window
    return Estimate(likely / 1e6, max(likely, most * dearest + limit * price.output) / 1e6)


def estimate_usage(size: Size, spoken_chars: int, price: Price | None) -> Usage:
    """Estimates the usage of a call that was cut off before its provider counted it."""
    tokens_in, tokens_out = prompt_tokens(size), -(-spoken_chars // 4)
    usage = Usage(input=tokens_in, output=tokens_out, total_tokens=tokens_in + tokens_out)
    return Usage(usage.input, usage.output, 0, 0, usage.total_tokens, cost_of(usage, price))


# Limits.

GUEST_SHARE = 0.1
"""Of the day's budget, when nothing is said: an open group must not be a bill."""
Scope = Literal["run", "day", "month", "agent-day", "agent-month", "guest-day"]
PERIODS: tuple[Scope, ...] = ("day", "month", "agent-day", "agent-month", "guest-day")


class BudgetLimit(Struct, frozen=True):
    """One limit: scope, amount, and the setting it comes from."""

    scope: Scope
    amount: float
    setting: str
    name: str
    """Its name for people: `today's budget`."""


class LimitLevel(Struct, frozen=True):
    """How full a limit is."""

    limit: BudgetLimit
    spent: float
    held: float = 0.0
    """The worst-case cost of running calls."""

    @property
    def share(self) -> float:
        return self.spent / self.limit.amount if self.limit.amount > 0 else 1.0


class Proceed(Struct, frozen=True):
    """The call fits."""


class WaitForBudget(Struct, frozen=True):
    """The call fits if running calls cost no more than expected."""

    why: str


class OverLimit(Struct, frozen=True):
    why: str


Ruling = Proceed | WaitForBudget | OverLimit
DegradationStep = Literal["normal", "cheaper", "no-background", "stop"]


class BudgetRules(Struct, frozen=True, kw_only=True):
    """The limits and thresholds for the calls of one run."""

    limits: tuple[BudgetLimit, ...] = ()
    background: bool = False
    cheaper_at: float = 0.8
    no_background_at: float = 0.9
    warn_at: tuple[float, ...] = (0.5, 0.8, 1.0)
    unknown_price: Literal["refuse", "allow"] = "refuse"


def rules_for(settings: BudgetSettings, agent_id: str, *, background: bool, guest: bool = False) -> BudgetRules:
    """The rules for a run of `agent_id`; `guest` says that others than the owner speak in its conversation."""
    own = settings.agents.get(agent_id, Allowance())
    kind, a_run = ("job", "this background run") if background else ("turn", "this answer")
    theirs = f"budget.agents.{agent_id}"
    wanted: tuple[tuple[Scope, float | None, str, str], ...] = (
        ("run", getattr(settings, kind), f"budget.{kind}", f"the budget of {a_run}"),
        ("run", getattr(own, kind), f"{theirs}.{kind}", f"{agent_id}'s budget of {a_run}"),
        ("agent-day", own.day, f"{theirs}.day", f"{agent_id}'s budget for today"),
        ("agent-month", own.month, f"{theirs}.month", f"{agent_id}'s budget for this month"),
        (
            "guest-day",
            guest_day(settings) if guest else None,
            "budget.guestDay",
            "this conversation's budget for today",
        ),
        ("day", settings.day, "budget.day", "today's budget"),
        ("month", settings.month, "budget.month", "this month's budget"),
    )
    return BudgetRules(
        limits=tuple(
            BudgetLimit(scope, amount, path, name) for scope, amount, path, name in wanted if amount is not None
        ),
        background=background,
        cheaper_at=settings.cheaper_at,
        no_background_at=settings.no_background_at,
        warn_at=tuple(sorted(settings.warn_at)),
        unknown_price=settings.unknown_price,
    )


def guest_day(settings: BudgetSettings) -> float | None:
    """What one guest or one group may cost in a day."""
    if settings.guest_day is not None or settings.day is None:
        return settings.guest_day
    return settings.day * GUEST_SHARE


def degradation_step(levels: Sequence[LimitLevel], rules: BudgetRules) -> tuple[DegradationStep, LimitLevel | None]:
    """The current degradation step, and the limit that causes it."""
    fullest = max(
        (level for level in levels if level.limit.scope in PERIODS), key=lambda level: level.share, default=None
    )
    if fullest is None:
        return "normal", None
    if fullest.share >= 1:
        return "stop", fullest
    if fullest.share >= rules.no_background_at:
        return "no-background", fullest
    return ("cheaper", fullest) if fullest.share >= rules.cheaper_at else ("normal", None)


def judge(model: str, estimate: Estimate | None, levels: Sequence[LimitLevel], rules: BudgetRules) -> Ruling:
    """Decides whether a call may be sent. `levels` are the current levels of the limits in `rules`."""
    if not levels:
        return Proceed()
    if rules.background:
        step, level = degradation_step(levels, rules)
        if level is not None and step in ("no-background", "stop"):
            return OverLimit(
                f"not sent: no background work is begun while {percent(level.share)} of {level.limit.name} is spent "
                f"({level.limit.setting}, budget.noBackgroundAt)"
            )
    if estimate is None:
        if rules.unknown_price == "allow":
            return Proceed()
        return OverLimit(
            f"not sent: the price of {model} is not known, so {levels[0].limit.name} cannot be kept. Set its cost "
            "under models.providers, or budget.unknownPrice to allow"
        )
    held: LimitLevel | None = None
    for level in levels:
        if level.spent + estimate.likely > level.limit.amount:
            return OverLimit(_too_dear(model, estimate, level))
        if level.spent + level.held + estimate.likely > level.limit.amount:
            held = held or level
    if held is None:
        return Proceed()
    return WaitForBudget(
        f"not sent: {dollars(held.held)} of {held.limit.name} is held for calls that are still under way; "
        f"try again when they have ended, or raise {held.limit.setting}"
    )


def _too_dear(model: str, estimate: Estimate, level: LimitLevel) -> str:
    limit = level.limit
    if level.spent >= limit.amount:
        return f"not sent: {limit.name} ({dollars(limit.amount)}) is used up; raise {limit.setting} to go on"
    return (
        f"not sent: a call to {model} costs about {dollars(estimate.likely)}, and of {limit.name} "
        f"({dollars(limit.amount)}) {dollars(limit.amount - level.spent)} is left; raise {limit.setting} to go on"
    )


def crossed_warnings(
    before: Sequence[LimitLevel], after: Sequence[LimitLevel], marks: Sequence[float]
) -> tuple[str, ...]:
    """Warnings about limits that were filled up to a mark, one line each."""
    lines = []
    for old, new in zip(before, after, strict=True):
        passed = [mark for mark in marks if old.share < mark <= new.share]
        if passed and new.limit.amount > 0:
            lines.append(
                f"{percent(max(passed))} of {new.limit.name} is spent: {dollars(new.spent)} of "
                f"{dollars(new.limit.amount)}"
            )
    return tuple(lines)


def percent(share: float) -> str:
    return f"{int(share * 100 + 1e-9)} %"


def dollars(amount: float) -> str:
    """Formats an amount with as many digits as matter."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"
