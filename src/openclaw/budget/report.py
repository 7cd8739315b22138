"""What was spent, added up: by model, agent, session or day."""

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Literal

from msgspec import Struct

from openclaw.store.db import Database, Row

By = Literal["model", "agent", "session", "day"]
SLOT_MS = 900_000
"""A quarter of an hour: every time zone's midnight falls on one."""

_SUMS = (
    "COUNT(*) AS calls, SUM(CASE WHEN state = 'failed' THEN 1 ELSE 0 END) AS failed, "
    "SUM(input_tokens) AS input, SUM(output_tokens) AS output, SUM(cache_read_tokens) AS cache_read, "
    "SUM(cache_write_tokens) AS cache_write, SUM(COALESCE(input_cost, 0)) AS input_cost, "
    "SUM(COALESCE(output_cost, 0)) AS output_cost, SUM(COALESCE(cache_read_cost, 0)) AS cache_read_cost, "
    "SUM(COALESCE(cache_write_cost, 0)) AS cache_write_cost, "
    "SUM(COALESCE(cost_usd, CASE WHEN state = 'open' THEN estimate_usd END, 0)) AS total_cost, "
    "SUM(CASE WHEN cost_usd IS NULL AND state <> 'open' AND input_tokens + output_tokens > 0 THEN 1 ELSE 0 END) "
    "AS missing"
)
_KEYS: dict[By, str] = {
    "model": "provider || '/' || model",
    "agent": "agent_id",
    "session": "session_key",
    "day": "day",
}


class SpendSum(Struct, frozen=True, kw_only=True):
    """Several calls together."""

    calls: int = 0
    failed: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    input_cost: float = 0.0
    output_cost: float = 0.0
    cache_read_cost: float = 0.0
    cache_write_cost: float = 0.0
    total_cost: float = 0.0
    missing: int = 0
    """Calls whose price is not known; they are in no amount of money."""

    def __add__(self, other: "SpendSum") -> "SpendSum":
        return SpendSum(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class ReportSpan(Struct, frozen=True, kw_only=True):
    """Which calls are meant; times are milliseconds, `until` is the first that no longer counts."""

    since: int = 0
    until: int | None = None
    agent_id: str | None = None
    session_key: str | None = None


async def sums(db: Database, by: By, span: ReportSpan) -> dict[str, SpendSum]:
    """What was spent in `span`, the dearest first; days in order."""
    where, params = _where(span)
    order = "name" if by == "day" else "total_cost DESC, name"
    rows = await db.read(
        f"SELECT {_KEYS[by]} AS name, {_SUMS} FROM model_calls "  # noqa: S608
        f"WHERE {where} GROUP BY {_KEYS[by]} ORDER BY {order}",
        params,
    )
    return {row["name"]: _sum(row) for row in rows}


async def daily(db: Database, span: ReportSpan, zone: tzinfo) -> dict[str, SpendSum]:
    """What was spent on each day of `zone`, which need not be the zone the calls were made in."""
    where, params = _where(span)
    rows = await db.read(
        f"SELECT at / {SLOT_MS} AS slot, {_SUMS} FROM model_calls "  # noqa: S608
        f"WHERE {where} GROUP BY at / {SLOT_MS} ORDER BY slot",
        params,
    )
    days: dict[str, SpendSum] = {}
    for row in rows:
        date = datetime.fromtimestamp(row["slot"] * SLOT_MS / 1000, zone).date().isoformat()
        days[date] = days.get(date, SpendSum()) + _sum(row)
    return days


def total(parts: Iterable[SpendSum]) -> SpendSum:
    whole = SpendSum()
    for part in parts:
        whole = whole + part
    return whole


def document(part: SpendSum) -> dict[str, int | float]:
    """The sum as the protocol names it."""
    return {
        "input": part.input,
        "output": part.output,
        "cacheRead": part.cache_read,
        "cacheWrite": part.cache_write,
        "totalTokens": part.tokens,
        "totalCost": part.total_cost,
        "inputCost": part.input_cost,
        "outputCost": part.output_cost,
        "cacheReadCost": part.cache_read_cost,
        "cacheWriteCost": part.cache_write_cost,
        "missingCostEntries": part.missing,
    }


def _where(span: ReportSpan) -> tuple[str, dict[str, int | str]]:
    params: dict[str, int | str] = {"since": span.since}
    clauses = ["at >= :since"]
    for clause, name, value in (
        ("at < :until", "until", span.until),
        ("agent_id = :agent", "agent", span.agent_id),
        ("session_key = :key", "key", span.session_key),
    ):
        if value is not None:
            clauses.append(clause)
            params[name] = value
    return " AND ".join(clauses), params


def _sum(row: Row) -> SpendSum:
    return SpendSum(**{name: row[name] or 0 for name in SpendSum.__struct_fields__})
