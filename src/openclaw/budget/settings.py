"""Settings of `budget` and `record`: what calls to models may cost, and what is kept of them."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.settings import Count, Settings

Dollars = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]


class Allowance(Settings, frozen=True):
    """US dollars one agent may spend; what is left out has no limit of its own."""

    turn: Dollars | None = None
    """US dollars one answer of this agent may cost"""
    job: Dollars | None = None
    """US dollars one of its background runs may cost"""
    day: Dollars | None = None
    """US dollars it may spend in a day"""
    month: Dollars | None = None
    """US dollars it may spend in a calendar month"""


class BudgetSettings(Settings, frozen=True):
    """`budget`: what calls to models may cost. Without an amount nothing is limited, only counted."""

    turn: Dollars | None = None
    """US dollars one answer may cost, tool calls and retries included"""
    job: Dollars | None = None
    """US dollars one background run (cron, hook, sub-agent) may cost"""
    day: Dollars | None = None
    """US dollars all agents together may spend in a day"""
    month: Dollars | None = None
    """US dollars all agents together may spend in a calendar month"""
    guest_day: Dollars | None = None
    """US dollars each guest and each group on a channel may cost in a day; a tenth of day when left out"""
    agents: Mapping[str, Allowance] = field(default_factory=dict)
    """limits of single agents, by agent id"""
    cheaper_model: str | None = None
    """the model to use when a budget runs short"""
    cheaper_at: Share = 0.8
    """the share of a day's or month's budget from which the cheaper model is used"""
    no_background_at: Share = 0.9
    """the share from which no background work is begun"""
    warn_at: tuple[Share, ...] = (0.5, 0.8, 1.0)
    """shares of a budget at which a person is told"""
    unknown_price: Literal["refuse", "allow"] = "refuse"
    """whether a hosted model without a known price may be used under a budget"""


class RecordSettings(Settings, frozen=True):
    """`record`: what is kept of every run, so that it can be shown and replayed."""

    enabled: bool = True
    """keep requests and answers of models"""
    keep_days: Count = 30
    """forget runs that are older than this"""
    max_megabytes: Count = 512
    """forget the oldest runs beyond this size"""
