"""The table of model calls: each is reserved before it is sent and settled when it ends.

A running call holds its worst-case cost against the limits; a new call is admitted by its likely cost. So whatever
runs concurrently, a limit is exceeded by no more than the misestimate of the last call.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, tzinfo
from typing import Literal

from msgspec import Struct, field, structs

from openclaw.budget.limits import (
    BudgetRules,
    Estimate,
    LimitLevel,
    OverLimit,
    Proceed,
    Scope,
    WaitForBudget,
    crossed_warnings,
    judge,
)
from openclaw.core.clock import Clock, millis
from openclaw.core.messages import Cost, Usage
from openclaw.process.tasks import wait_first
from openclaw.storage.database import Database, Row, Transaction, transact

TOPIC = "budget"
MAX_WAIT_SECONDS = 30.0
"""Seconds a call waits for running ones before it is refused."""
POLL_SECONDS = 2.0
"""Seconds between polls: calls of another process end without a notification."""
STALE_MS = 3_600_000
"""A reservation this old belongs to a dead process: it counts with its likely cost."""
KEPT_DAYS = 400

State = Literal["open", "ok", "failed"]
_COUNTED = (
    "SUM(CASE WHEN state <> 'open' THEN COALESCE(cost_usd, 0) WHEN at <= :stale THEN COALESCE(estimate_usd, 0) "
    "ELSE 0 END) AS spent, "
    "SUM(CASE WHEN state = 'open' AND at > :stale THEN COALESCE(worst_usd, 0) ELSE 0 END) AS held"
)
_WHERE: dict[Scope, str] = {
    "run": "run_id = :run",
    "day": "day = :day",
    "month": "day >= :month",
    "agent-day": "day = :day AND agent_id = :agent",
    "agent-month": "day >= :month AND agent_id = :agent",
    # The threads of a group are part of it.
    "guest-day": "day = :day AND (session_key = :guest OR substr(session_key, 1, length(:guest) + 8) = :guest || "
    "':thread:')",
}


class MeterAccount(Struct, frozen=True, kw_only=True):
    """The run, session and agent that calls are charged to."""

    run_id: str
    session_key: str
    session_id: str
    agent_id: str


class ReservedCall(MeterAccount, frozen=True, kw_only=True):
    """A call to reserve, and its model."""

    call_id: str
    provider: str
    model: str
    profile: str = ""
    background: bool = False


class CallEnd(Struct, frozen=True, kw_only=True):
    """How a call ended."""

    usage: Usage = Usage()
    reason: str = ""
    """Why it failed; empty when it did not."""
    error: str = ""
    measured: bool = True
    """Whether the provider counted the tokens; otherwise they are an estimate."""


class ModelTotals(Struct):
    """Totals of one model's calls since the process started."""

    ends: Counter[str] = field(default_factory=Counter)
    """Number of calls by end reason; the empty reason is success."""
    usage: Usage = Usage()

    def __add__(self, other: "ModelTotals") -> "ModelTotals":
        return ModelTotals(self.ends + other.ends, self.usage + other.usage)


class CallRow(Struct, frozen=True, kw_only=True):
    """A call read back from the table."""

    call_id: str
    run_id: str
    session_key: str
    session_id: str
    agent_id: str
    attempt: int
    at: int
    ended_at: int | None
    provider: str
    model: str
    profile: str
    state: State
    reason: str
    error: str
    usage: Usage
    estimate_usd: float | None
    measured: bool

    @property
    def ref(self) -> str:
        return f"{self.provider}/{self.model}"


class SpendLedger:
    """Reserves and settles model calls, and measures how full the limits are; days are those of `zone`."""

    def __init__(self, db: Database, clock: Clock, zone: tzinfo) -> None:
        self._db = db
        self._clock = clock
        self.zone = zone
        self.spent: dict[str, ModelTotals] = {}
        """By model, since this process started; for metrics, which must not query the database."""

    def day(self, at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, self.zone).date().isoformat()

    async def reserve(self, call: ReservedCall, estimate: Estimate | None, rules: BudgetRules) -> Proceed | OverLimit:
        """Reserves the call when it fits; waits when it may fit after running calls have ended."""
        ruling = await self._try(call, estimate, rules)
        if isinstance(ruling, WaitForBudget):
            ruling = await self._try_again(call, estimate, rules)
        return OverLimit(ruling.why) if isinstance(ruling, WaitForBudget) else ruling

    async def _try_again(
        self, call: ReservedCall, estimate: Estimate | None, rules: BudgetRules
    ) -> Proceed | WaitForBudget | OverLimit:
        """Tries again whenever a call ends, for at most `MAX_WAIT_SECONDS`."""
        deadline = self._clock.now() + MAX_WAIT_SECONDS
        changed = asyncio.Event()
        async with self._db.listen(TOPIC) as changes:
            hearing = asyncio.create_task(_hear(changes, changed), name=f"budget:{call.call_id}")
            try:
                while True:
                    changed.clear()
                    ruling = await self._try(call, estimate, rules)
                    left = deadline - self._clock.now()
                    if not isinstance(ruling, WaitForBudget) or left <= 0:
                        return ruling
                    await wait_first(changed.wait(), self._clock.sleep(min(left, POLL_SECONDS)))
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)

    async def _try(
        self, call: ReservedCall, estimate: Estimate | None, rules: BudgetRules
    ) -> Proceed | WaitForBudget | OverLimit:
        now = millis(self._clock)
        reserved = {
            **structs.asdict(call),
            "background": int(call.background),
            "now": now,
            "day": self.day(now),
            "likely": estimate.likely if estimate else None,
            "worst": estimate.worst if estimate else None,
        }
        if not rules.limits:
            await self._db.soon((_RESERVE, reserved))
            return Proceed()

        async def reserve(transaction: Transaction) -> Proceed | WaitForBudget | OverLimit:
            levels = await self._levels(transaction, call, rules, now)
            ruling = judge(f"{call.provider}/{call.model}", estimate, levels, rules)
            if isinstance(ruling, Proceed):
                await transaction.write(_RESERVE, reserved)
            return ruling

        return await transact(self._db, reserve, "budget")

    async def commit(self, call: ReservedCall, end: CallEnd, rules: BudgetRules) -> tuple[str, ...]:
        """Settles a call; returns warnings about the limits it filled."""
        totals = self.spent.setdefault(f"{call.provider}/{call.model}", ModelTotals())
        totals.ends[end.reason] += 1
        totals.usage += end.usage
        now = millis(self._clock)
        settled = {
            "call": call.call_id,
            "now": now,
            "state": "failed" if end.reason else "ok",
            "reason": end.reason,
            "error": end.error,
            "measured": int(end.measured),
            **{name: getattr(end.usage, name) for name in ("input", "output", "cache_read", "cache_write")},
            **{f"{name}_cost": getattr(end.usage.cost, name, None) for name in Cost.__struct_fields__},
        }
        if not rules.limits:
            await self._db.soon((_SETTLE, settled))
            await self._db.notify(TOPIC)
            return ()

        async def settle(transaction: Transaction) -> tuple[list[LimitLevel], list[LimitLevel]]:
            before = await self._levels(transaction, call, rules, now)
            await transaction.write(_SETTLE, settled)
            return before, await self._levels(transaction, call, rules, now)

        before, after = await transact(self._db, settle, "budget")
        await self._db.notify(TOPIC)
        return crossed_warnings(before, after, rules.warn_at)

    async def release(self, call_id: str) -> None:
        """Deletes the reservation of a call that was never sent."""
        await self._db.write("DELETE FROM model_calls WHERE call_id = :call AND state = 'open'", {"call": call_id})
        await self._db.notify(TOPIC)

    async def amend(self, call_id: str, reason: str, error: str) -> None:
        """Changes a settled call to failed for `reason`; its cost stays."""
        await self._db.write(
            "UPDATE model_calls SET state = 'failed', reason = :reason, error = :error WHERE call_id = :call",
            {"call": call_id, "reason": reason, "error": error},
        )

    async def levels(self, payer: MeterAccount, rules: BudgetRules) -> list[LimitLevel]:
        """How full each limit is."""
        return await self._levels(self._db, payer, rules, millis(self._clock))

    async def _levels(
        self, db: Transaction | Database, payer: MeterAccount, rules: BudgetRules, now: int
    ) -> list[LimitLevel]:
        today = self.day(now)
        params = {
            "run": payer.run_id,
            "agent": payer.agent_id,
            "guest": payer.session_key.partition(":thread:")[0],
            "day": today,
            "month": f"{today[:7]}-01",
            "stale": now - STALE_MS,
        }
        counted: dict[Scope, Row] = {}
        for limit in rules.limits:
            if limit.scope not in counted:
                where = _WHERE[limit.scope]
                named = {name: value for name, value in params.items() if f":{name}" in where or name == "stale"}
                rows = await db.read(f"SELECT {_COUNTED} FROM model_calls WHERE {where}", named)  # noqa: S608
                counted[limit.scope] = rows[0]
        return [
            LimitLevel(limit, counted[limit.scope]["spent"] or 0.0, counted[limit.scope]["held"] or 0.0)
            for limit in rules.limits
        ]

    async def of_run(self, run_id: str) -> list[CallRow]:
        """The calls of a run, in order."""
        rows = await self._db.read(
            "SELECT * FROM model_calls WHERE run_id = :run ORDER BY attempt, at", {"run": run_id}
        )
        return [_row(row) for row in rows]

    async def last_run(self, session_key: str) -> list[CallRow]:
        """The calls of the latest run of a session."""
        rows = await self._db.read(
            "SELECT run_id FROM model_calls WHERE session_key = :key ORDER BY at DESC, attempt DESC LIMIT 1",
            {"key": session_key},
        )
        return await self.of_run(rows[0]["run_id"]) if rows else []

    async def forget_old(self) -> int:
        """Deletes calls older than `KEPT_DAYS`."""
        return await self._db.write(
            "DELETE FROM model_calls WHERE day < :before",
            {"before": self.day(millis(self._clock) - KEPT_DAYS * 86_400_000)},
        )


async def _hear(changes: AsyncIterator[str], changed: asyncio.Event) -> None:
    async for _ in changes:
        changed.set()


_RESERVE = (
    "INSERT INTO model_calls (call_id, run_id, session_key, session_id, agent_id, background, attempt, at, day, "
    "provider, model, profile, state, estimate_usd, worst_usd) VALUES (:call_id, :run_id, :session_key, :session_id, "
    ":agent_id, :background, (SELECT COUNT(*) + 1 FROM model_calls WHERE run_id = :run_id), :now, :day, :provider, "
    ":model, :profile, 'open', :likely, :worst)"
)
_SETTLE = (
    "UPDATE model_calls SET ended_at = :now, state = :state, reason = :reason, error = :error, measured = :measured, "
    "input_tokens = :input, output_tokens = :output, cache_read_tokens = :cache_read, "
    "cache_write_tokens = :cache_write, input_cost = :input_cost, output_cost = :output_cost, "
    "cache_read_cost = :cache_read_cost, cache_write_cost = :cache_write_cost, cost_usd = :total_cost "
    "WHERE call_id = :call"
)


def _row(row: Row) -> CallRow:
    cost = None
    if row["cost_usd"] is not None:
        cost = Cost(
            row["input_cost"], row["output_cost"], row["cache_read_cost"], row["cache_write_cost"], row["cost_usd"]
        )
    counts = (row["input_tokens"], row["output_tokens"], row["cache_read_tokens"], row["cache_write_tokens"])
    fields = {name: row[name] for name in CallRow.__struct_fields__ if name not in ("usage", "measured")}
    return CallRow(**fields, usage=Usage(*counts, sum(counts), cost), measured=bool(row["measured"]))
