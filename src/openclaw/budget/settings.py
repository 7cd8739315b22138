"""Settings of `budget` and `record`: what calls to models may cost, and what is kept of them."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.settings import Count, Settings, doc

Dollars = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]


class Allowance(Settings, frozen=True):
    """US dollars one agent may spend; what is left out has no limit of its own."""

    turn: Annotated[Dollars | None, doc("US dollars one answer of this agent may cost")] = None
    job: Annotated[Dollars | None, doc("US dollars one of its background runs may cost")] = None
    day: Annotated[Dollars | None, doc("US dollars it may spend in a day")] = None
    month: Annotated[Dollars | None, doc("US dollars it may spend in a calendar month")] = None


class BudgetSettings(Settings, frozen=True):
    """`budget`: what calls to models may cost. Without an amount nothing is limited, only counted."""

    turn: Annotated[Dollars | None, doc("US dollars one answer may cost, tool calls and retries included")] = None
    job: Annotated[Dollars | None, doc("US dollars one background run (cron, hook, sub-agent) may cost")] = None
    day: Annotated[Dollars | None, doc("US dollars all agents together may spend in a day")] = None
    month: Annotated[Dollars | None, doc("US dollars all agents together may spend in a calendar month")] = None
    guest_day: Annotated[
        Dollars | None,
        doc("US dollars each guest and each group on a channel may cost in a day; a tenth of day when left out"),
    ] = None
    agents: Annotated[Mapping[str, Allowance], doc("limits of single agents, by agent id")] = field(
        default_factory=dict
    )
    cheaper_model: Annotated[str | None, doc("the model to use when a budget runs short")] = None
    cheaper_at: Annotated[Share, doc("the share of a day's or month's budget from which the cheaper model is used")] = (
        0.8
    )
    no_background_at: Annotated[Share, doc("the share from which no background work is begun")] = 0.9
    warn_at: Annotated[tuple[Share, ...], doc("shares of a budget at which a person is told")] = (0.5, 0.8, 1.0)
    unknown_price: Annotated[
        Literal["refuse", "allow"], doc("whether a hosted model without a known price may be used under a budget")
    ] = "refuse"


class RecordSettings(Settings, frozen=True):
    """`record`: what is kept of every run, so that it can be shown and replayed."""

    enabled: Annotated[bool, doc("keep requests and answers of models")] = True
    keep_days: Annotated[Count, doc("forget runs that are older than this")] = 30
    max_megabytes: Annotated[Count, doc("forget the oldest runs beyond this size")] = 512
