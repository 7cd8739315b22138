"""Which call fits a budget, and what is said when it does not."""

import pytest

from openclaw.budget.limits import (
    BudgetLimit,
    BudgetRules,
    Estimate,
    LimitLevel,
    OverLimit,
    Proceed,
    Size,
    WaitForBudget,
    crossed_warnings,
    degradation_step,
    estimate,
    estimate_usage,
    judge,
    rules_for,
)
from openclaw.budget.settings import Allowance, BudgetSettings
from openclaw.core.messages import Usage
from openclaw.core.provider import Price, cost_of

DAY = BudgetLimit("day", 10.0, "budget.day", "today's budget")
RUN = BudgetLimit("run", 1.0, "budget.turn", "the budget of this answer")
RULES = BudgetRules(limits=(DAY,))


def test_the_price_of_a_call_is_the_sum_of_its_parts() -> None:
    usage = Usage(input=900, output=20, cache_read=100)
    cost = cost_of(usage, Price(1, 2, 0.1))
    assert cost is not None and cost.total == pytest.approx(0.00095)


def test_an_unknown_price_is_neither_guessed_nor_free() -> None:
    assert estimate(Size(text_bytes=4000), None) is None
    assert estimate_usage(Size(text_bytes=4000), 400, None).cost is None


def test_the_worst_case_is_bound_by_the_window_and_the_output_limit() -> None:
    found = estimate(Size(text_bytes=8_000_000, output_limit=1_000, window=100_000), Price(1, 10, 0.1, 1.25))
    assert found is not None
    assert found.worst == pytest.approx((100_000 * 1.25 + 1_000 * 10) / 1e6)
    assert found.likely <= found.worst


@pytest.mark.parametrize(
    ("spent", "held", "likely", "ruling"),
    [
        (0, 0, 10, Proceed),
        (0, 0, 10.01, OverLimit),
        (9, 0, 1, Proceed),
        (9.5, 0, 1, OverLimit),
        (5, 5, 1, WaitForBudget),
        (5, 4, 1, Proceed),
        (10, 0, 0.001, OverLimit),
    ],
)
def test_a_call_fits_or_waits_or_is_refused(spent: float, held: float, likely: float, ruling: type) -> None:
    got = judge("a/b", Estimate(likely, likely * 2), [LimitLevel(DAY, spent, held)], RULES)
    assert isinstance(got, ruling)


def test_a_refusal_names_the_budget_what_is_left_and_what_to_do() -> None:
    got = judge("a/b", Estimate(2.0, 4.0), [LimitLevel(DAY, 9.0)], RULES)
    assert got == OverLimit(
        "not sent: a call to a/b costs about $2.00, and of today's budget ($10.00) $1.00 is left; "
        "raise budget.day to go on"
    )
    used_up = judge("a/b", Estimate(2.0, 4.0), [LimitLevel(DAY, 10.0)], RULES)
    assert used_up == OverLimit("not sent: today's budget ($10.00) is used up; raise budget.day to go on")


def test_a_model_without_a_price_is_refused_under_a_budget_unless_allowed() -> None:
    refused = judge("a/b", None, [LimitLevel(DAY, 0)], RULES)
    assert isinstance(refused, OverLimit) and "price of a/b is not known" in refused.why
    assert judge("a/b", None, [LimitLevel(DAY, 0)], BudgetRules(limits=(DAY,), unknown_price="allow")) == Proceed()
    assert judge("a/b", None, [], BudgetRules()) == Proceed()


@pytest.mark.parametrize(
    ("spent", "step"), [(0, "normal"), (7.9, "normal"), (8, "cheaper"), (9, "no-background"), (10, "stop")]
)
def test_the_ladder_goes_down_as_the_budget_fills(spent: float, step: str) -> None:
    assert degradation_step([LimitLevel(DAY, spent), LimitLevel(RUN, 1.0)], RULES)[0] == step


def test_background_work_is_refused_before_a_person_is() -> None:
    levels = [LimitLevel(DAY, 9.0)]
    refused = judge("a/b", Estimate(0.1, 0.1), levels, BudgetRules(limits=(DAY,), background=True))
    assert isinstance(refused, OverLimit) and "no background work" in refused.why and "90 %" in refused.why
    assert judge("a/b", Estimate(0.1, 0.1), levels, RULES) == Proceed()


def test_each_mark_is_told_once_and_the_highest_of_several() -> None:
    def told(before: float, after: float) -> tuple[str, ...]:
        return crossed_warnings([LimitLevel(DAY, before)], [LimitLevel(DAY, after)], (0.5, 0.8, 1.0))

    assert told(4.9, 5.0) == ("50 % of today's budget is spent: $5.00 of $10.00",)
    assert told(5.0, 7.9) == ()
    assert told(1.0, 9.0) == ("80 % of today's budget is spent: $9.00 of $10.00",)
    assert told(9.0, 10.5) == ("100 % of today's budget is spent: $10.50 of $10.00",)


def test_a_background_run_has_the_jobs_limit_and_an_agent_its_own() -> None:
    settings = BudgetSettings(turn=1, job=2, day=3, month=4, agents={"ada": Allowance(day=5, job=6)})
    turn = rules_for(settings, "main", background=False)
    job = rules_for(settings, "ada", background=True)
    assert [(limit.scope, limit.amount) for limit in turn.limits] == [("run", 1), ("day", 3), ("month", 4)]
    assert [(limit.setting, limit.amount) for limit in job.limits] == [
        ("budget.job", 2),
        ("budget.agents.ada.job", 6),
        ("budget.agents.ada.day", 5),
        ("budget.day", 3),
        ("budget.month", 4),
    ]
