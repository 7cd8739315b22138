"""The book of calls: nothing is spent that was not reserved, whoever else is spending."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw.budget import service
from openclaw.budget.ledger import CallEnd, ReservedCall, SpendLedger
from openclaw.budget.limits import BudgetLimit, BudgetRules, Estimate, OverLimit, Proceed
from openclaw.core.messages import Cost, Usage
from openclaw.testing import FakeClock
from tests.databases import open_database

pytestmark = pytest.mark.anyio

DAY = BudgetLimit("day", 1.0, "budget.day", "today's budget")
RULES = BudgetRules(limits=(DAY,))


def call(run: str = "r1", *, agent: str = "main", model: str = "m") -> ReservedCall:
    return ReservedCall(
        call_id=uuid.uuid4().hex,
        run_id=run,
        session_key=f"agent:{agent}:main",
        session_id="s",
        agent_id=agent,
        provider="p",
        model=model,
    )


def spent(amount: float, tokens: int = 10) -> CallEnd:
    return CallEnd(usage=Usage(tokens, 0, 0, 0, tokens, Cost(amount, 0, 0, 0, amount)))


@asynccontextmanager
async def book(folder: Path, clock: FakeClock | None = None) -> AsyncIterator[SpendLedger]:
    db = await open_database(folder / f"{uuid.uuid4().hex}.sqlite")
    try:
        yield SpendLedger(db, clock or FakeClock(), UTC)
    finally:
        await db.close()


async def test_a_call_is_a_row_from_before_it_is_sent(tmp_path: Path) -> None:
    async with book(tmp_path) as ledger:
        one = call()
        assert await ledger.reserve(one, Estimate(0.1, 0.2), RULES) == Proceed()
        (row,) = await ledger.of_run("r1")
        assert row.state == "open" and row.estimate_usd == 0.1 and row.attempt == 1
        await ledger.commit(one, CallEnd(usage=Usage(5, 7, 0, 0, 12), reason="rate_limit", error="slow down"), RULES)
        (row,) = await ledger.of_run("r1")
        assert (row.state, row.reason, row.usage.output, row.usage.cost) == ("failed", "rate_limit", 7, None)


async def test_what_is_reserved_cannot_be_spent_by_somebody_else(tmp_path: Path) -> None:
    clock = FakeClock()
    async with book(tmp_path, clock) as ledger:
        first = call("a")
        assert await ledger.reserve(first, Estimate(0.5, 0.8), RULES) == Proceed()
        # It might fit once the first has ended, so it waits, and after a while it is told why.
        refused = await clock.drive(ledger.reserve(call("b"), Estimate(0.3, 0.3), RULES))
        assert isinstance(refused, OverLimit) and "still under way" in refused.why
        waiting = asyncio.create_task(ledger.reserve(call("c"), Estimate(0.3, 0.3), RULES))
        await ledger.commit(first, spent(0.4), RULES)
        async with asyncio.timeout(120):
            assert await waiting == Proceed()


async def test_what_a_killed_process_left_open_counts_as_its_estimate(tmp_path: Path) -> None:
    clock = FakeClock()
    async with book(tmp_path, clock) as ledger:
        await ledger.reserve(call("gone"), Estimate(0.5, 5.0), RULES)
        await clock.advance(3_601)
        (level,) = await ledger.levels(call("x"), RULES)
        assert (level.spent, level.held) == (0.5, 0.0)


async def test_a_new_day_and_a_new_month_start_at_nothing(tmp_path: Path) -> None:
    clock = FakeClock(1_798_740_000.0)  # 31 December 2026, 18:00 UTC
    rules = BudgetRules(limits=(DAY, BudgetLimit("month", 1.0, "budget.month", "this month's budget")))
    async with book(tmp_path, clock) as ledger:
        one = call()
        await ledger.reserve(one, Estimate(0.9, 0.9), rules)
        assert await ledger.commit(one, spent(0.9), rules) == (
            "80 % of today's budget is spent: $0.9000 of $1.00",
            "80 % of this month's budget is spent: $0.9000 of $1.00",
        )
        assert isinstance(await ledger.reserve(call(), Estimate(0.2, 0.2), rules), OverLimit)
        await clock.advance(6 * 3600)
        assert [level.spent for level in await ledger.levels(call("x"), rules)] == [0, 0]


async def test_agents_have_separate_purses(tmp_path: Path) -> None:
    rules = BudgetRules(limits=(BudgetLimit("agent-day", 1.0, "budget.agents.ada.day", "ada's budget for today"),))
    async with book(tmp_path) as ledger:
        other = call(agent="main")
        await ledger.reserve(other, Estimate(0.9, 0.9), BudgetRules())
        await ledger.commit(other, spent(0.9), BudgetRules())
        assert await ledger.reserve(call(agent="ada"), Estimate(0.9, 0.9), rules) == Proceed()


async def test_sums_by_model_agent_session_and_day(tmp_path: Path) -> None:
    async with book(tmp_path) as ledger:
        for model, amount in (("cheap", 0.1), ("dear", 0.5), ("cheap", 0.1)):
            one = call(model=model)
            await ledger.reserve(one, Estimate(amount, amount), BudgetRules())
            await ledger.commit(one, spent(amount), BudgetRules())
        unknown = call(model="unpriced", agent="ada")
        await ledger.reserve(unknown, None, BudgetRules())
        await ledger.commit(unknown, CallEnd(usage=Usage(3, 4, 0, 0, 7)), BudgetRules())
        db = ledger._db
        by_model = await service.sum_by(db, "model", service.ReportSpan())
        assert list(by_model) == ["p/dear", "p/cheap", "p/unpriced"]
        assert by_model["p/cheap"].calls == 2 and by_model["p/cheap"].total_cost == pytest.approx(0.2)
        assert by_model["p/unpriced"].missing == 1 and by_model["p/unpriced"].total_cost == 0
        assert set(await service.sum_by(db, "agent", service.ReportSpan())) == {"main", "ada"}
        assert set(await service.sum_by(db, "day", service.ReportSpan())) == {"2027-01-15"}
        days = await service.sum_by_day(db, service.ReportSpan(agent_id="ada"), UTC)
        assert days["2027-01-15"].tokens == 7


ROUNDS = st.lists(st.tuples(st.floats(0.001, 0.2), st.floats(1.0, 3.0), st.floats(0.0, 1.0)), min_size=5, max_size=40)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROUNDS)
async def test_under_concurrency_a_budget_is_passed_by_at_most_one_misjudged_call(
    tmp_path: Path, rounds: list[tuple[float, float, float]]
) -> None:
    """Many runs at once on one database; each call costs anything up to its worst case."""
    clock = FakeClock()
    async with book(tmp_path, clock) as ledger:

        async def one(number: int, likely: float, factor: float, luck: float) -> tuple[float, float] | None:
            mine = call(f"run{number}")
            ruling = await ledger.reserve(mine, Estimate(likely, likely * factor), RULES)
            if not isinstance(ruling, Proceed):
                return None
            for _ in range(number % 3):
                await asyncio.sleep(0)
            actual = likely * factor * luck
            await ledger.commit(mine, spent(actual), RULES)
            return likely, actual

        results = await clock.drive(asyncio.gather(*(one(number, *each) for number, each in enumerate(rounds))))
        made = [each for each in results if each is not None]
        total = sum(actual for _, actual in made)
        misjudged = max((actual - likely for likely, actual in made), default=0.0)
        assert total <= DAY.amount + max(0.0, misjudged) + 1e-9
        (level,) = await ledger.levels(call("x"), RULES)
        assert level.spent == pytest.approx(total) and level.held == 0
