"""Sums of spending by model, agent, session or day; and `BudgetService`, which opens a run's meter."""

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Literal

import msgspec
from msgspec import Struct

from openclaw.budget.ledger import MeterAccount, SpendLedger
from openclaw.budget.limits import PERIODS, BudgetRules, degradation_step, dollars, percent, rules_for
from openclaw.budget.meter import KeepProfile, RunMeter, explain_run
from openclaw.budget.settings import BudgetSettings, RecordSettings
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey
from openclaw.core.settings import Live
from openclaw.models.model_set import ModelSet
from openclaw.models.providers import encode_request
from openclaw.models.recording import CallRecorder
from openclaw.models.refs import ModelRef
from openclaw.security.settings import CommandsSettings
from openclaw.security.tool_policy import is_shared
from openclaw.storage.database import Database, Row

# Sums.

GroupBy = Literal["model", "agent", "session", "day"]
SLOT_MS = 900_000
"""A quarter of an hour: midnight falls on a slot boundary in every time zone."""

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
_KEYS: dict[GroupBy, str] = {
    "model": "provider || '/' || model",
    "agent": "agent_id",
    "session": "session_key",
    "day": "day",
}


class SpendSum(Struct, frozen=True, kw_only=True, rename="camel"):
    """Totals of several calls."""

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
    """Calls with an unknown price; the cost fields do not include them."""

    def __add__(self, other: "SpendSum") -> "SpendSum":
        return SpendSum(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class ReportSpan(Struct, frozen=True, kw_only=True):
    """A filter of calls; times are milliseconds, `until` is exclusive."""

    since: int = 0
    until: int | None = None
    agent_id: str | None = None
    session_key: str | None = None


async def sum_by(db: Database, by: GroupBy, span: ReportSpan) -> dict[str, SpendSum]:
    """Sums the calls in `span` by key, highest cost first; days in order."""
    where, params = _where(span)
    order = "name" if by == "day" else "total_cost DESC, name"
    rows = await db.read(
        f"SELECT {_KEYS[by]} AS name, {_SUMS} FROM model_calls "  # noqa: S608
        f"WHERE {where} GROUP BY {_KEYS[by]} ORDER BY {order}",
        params,
    )
    return {row["name"]: _sum(row) for row in rows}


async def sum_by_day(db: Database, span: ReportSpan, zone: tzinfo) -> dict[str, SpendSum]:
    """Sums the calls in `span` by day of `zone`, which may differ from the zone they were recorded in."""
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


def add_up(parts: Iterable[SpendSum]) -> SpendSum:
    return sum(parts, start=SpendSum())


def sum_to_json(part: SpendSum) -> dict[str, int | float]:
    """The sum as JSON for the protocol."""
    figures: dict[str, int | float] = msgspec.to_builtins(part)
    del figures["calls"], figures["failed"]
    return {**figures, "totalTokens": part.tokens, "missingCostEntries": figures.pop("missing")}


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


# The service.

MONTH_MS = 32 * 86_400_000


def render_amount(part: SpendSum) -> str:
    """Formats a sum: tokens, cost, and the number of unpriced calls."""
    text = f"{part.tokens:,} tokens, {dollars(part.total_cost)}"
    return f"{text} (without {part.missing} call(s) whose price is not known)" if part.missing else text


class BudgetService:
    """Opens the meter of a run, and reports spending and limits."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        zone: tzinfo,
        settings: Live[BudgetSettings],
        record: Live[RecordSettings],
        commands: Live[CommandsSettings],
    ) -> None:
        self._db = db
        self._clock = clock
        self._settings = settings
        self._commands = commands
        self.ledger = SpendLedger(db, clock, zone)
        self.recorder = CallRecorder(db, clock, record, encode_request)
        self._rules: dict[tuple[str, bool, bool], BudgetRules] = {}
        self._rules_for: BudgetSettings | None = None
        self.probes: dict[str, float] = {}
        """When a provider in cooldown was last probed."""

    def rules(self, key: SessionKey) -> BudgetRules:
        """The limits on a run of `key`."""
        settings = self._settings.current
        if settings is not self._rules_for:
            self._rules, self._rules_for = {}, settings
        guest = key.route is not None and is_shared(key, self._commands.current.owner_allow_from)
        kind = (key.agent, key.is_cron or key.is_hook or key.is_subagent, guest)
        known = self._rules.get(kind)
        if known is None:
            known = self._rules[kind] = rules_for(settings, key.agent, background=kind[1], guest=guest)
        return known

    def spending(
        self, run_id: str, key: SessionKey, session_id: str, keep_profile: KeepProfile, footer: str | None = None
    ) -> RunMeter:
        """Opens the meter of a run; `footer` is the usage line at its end: tokens, full or none."""
        return RunMeter(
            MeterAccount(run_id=run_id, session_key=str(key), session_id=session_id, agent_id=key.agent),
            ledger=self.ledger,
            rules=self.rules(key),
            recorder=self.recorder,
            clock=self._clock,
            keep_profile=keep_profile,
            footer=footer,
        )

    async def chain(
        self, spending: RunMeter, situation: ModelSet, wanted: tuple[ModelRef, ...]
    ) -> tuple[ModelRef, ...]:
        """The models of a run under its budget: the cheaper one first when money runs short, else last."""
        name = self._settings.current.cheaper_model
        if name is None:
            return wanted
        try:
            cheaper = situation.resolve(name)
        except (InvalidRequest, NotFound) as error:
            raise InvalidRequest(f"budget.cheaperModel: {error.message}") from error
        others = tuple(ref for ref in wanted if ref.key != cheaper.key)
        step, level = degradation_step(await spending.levels(), spending.rules)
        if step == "normal" or level is None or not others:
            return wanted if len(others) < len(wanted) else (*wanted, cheaper)
        spending.tell(f"{cheaper} is asked first: {percent(level.share)} of {level.limit.name} is spent")
        return (cheaper, *others)

    async def standing(self, key: SessionKey) -> list[str]:
        """The lines of `/status`: who answered last and why, and the level of each budget."""
        told = explain_run(await self.ledger.last_run(str(key)), self.ledger.zone)
        payer = MeterAccount(run_id="", session_key=str(key), session_id="", agent_id=key.agent)
        levels = await self.ledger.levels(payer, self.rules(key))
        lines = [f"Last run: {told}."] if told else []
        for level in levels:
            if level.limit.scope in PERIODS:
                spent = f"{dollars(level.spent)} of {dollars(level.limit.amount)}"
                lines.append(f"Of {level.limit.name} {percent(level.share)} is spent: {spent}.")
        return lines

    async def summary(self, key: SessionKey) -> list[str]:
        """The lines of `/usage`: this session, today, this month."""
        now = round(self._clock.now() * 1000)
        today = self.ledger.day(now)
        days = await sum_by(self._db, "day", ReportSpan(since=now - MONTH_MS))
        month = add_up(part for day, part in days.items() if day[:7] == today[:7])
        here = add_up((await sum_by(self._db, "session", ReportSpan(session_key=str(key)))).values())
        return [
            f"This conversation: {render_amount(here)}.",
            f"Today: {render_amount(days.get(today, SpendSum()))}.",
            f"This month: {render_amount(month)}.",
            *await self.standing(key),
        ]

    async def forget_old(self) -> None:
        await self.ledger.forget_old()
        await self.recorder.forget_old()
