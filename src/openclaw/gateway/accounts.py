"""The accounts of this installation: what calls cost, what may be spent, what is kept of them."""

from collections.abc import Callable
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from openclaw.budget import report
from openclaw.budget.ledger import SpendLedger
from openclaw.budget.limits import PERIODS, BudgetRules, dollars, percent, rules_for, rung
from openclaw.budget.report import ReportSpan, SpendSum
from openclaw.config.schema import Config
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey
from openclaw.models.refs import ModelRef
from openclaw.models.situation import ModelSet
from openclaw.providers.catalog import encoded
from openclaw.store.db import Database
from openclaw.turns.recording import CallRecorder
from openclaw.turns.spending import KeepProfile, MeterAccount, RunMeter, explained

MONTH_MS = 32 * 86_400_000


def zone_of(name: str) -> tzinfo:
    """The time zone called `name`; Greenwich when there is none."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def render_amount(part: SpendSum) -> str:
    """A sum in words: tokens, money, and the calls nobody knows the price of."""
    text = f"{part.tokens:,} tokens, {dollars(part.total_cost)}"
    return f"{text} (without {part.missing} call(s) whose price is not known)" if part.missing else text


class BudgetService:
    """Opens the books of a run, and reads those that are closed."""

    def __init__(self, db: Database, clock: Clock, zone: tzinfo, config: Callable[[], Config]) -> None:
        self._db = db
        self._clock = clock
        self._config = config
        self.ledger = SpendLedger(db, clock, zone)
        self.recorder = CallRecorder(db, clock, lambda: config().record, encoded)
        self.probes: dict[str, float] = {}
        """When a provider whose credentials must rest was last tried all the same."""

    def rules(self, key: SessionKey) -> BudgetRules:
        background = key.is_cron or key.is_hook or key.is_subagent
        return rules_for(self._config().budget, key.agent, background=background)

    def spending(
        self, run_id: str, key: SessionKey, session_id: str, keep_profile: KeepProfile, footer: str | None = None
    ) -> RunMeter:
        """The books of one run; `footer` says how much of them is shown at its end: tokens, full or nothing."""
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
        name = self._config().budget.cheaper_model
        if name is None or not spending.rules.limits:
            return wanted
        try:
            cheaper = situation.resolve(name)
        except (InvalidRequest, NotFound) as error:
            raise InvalidRequest(f"budget.cheaperModel: {error.message}") from error
        others = tuple(ref for ref in wanted if ref.key != cheaper.key)
        step, level = rung(await spending.levels(), spending.rules)
        if step == "normal" or level is None or not others:
            return wanted if len(others) < len(wanted) else (*wanted, cheaper)
        spending.tell(f"{cheaper} is asked first: {percent(level.share)} of {level.limit.name} is spent")
        return (cheaper, *others)

    async def standing(self, key: SessionKey) -> list[str]:
        """What `/status` says: who answered last time and why, and how full each budget is."""
        told = explained(await self.ledger.last_run(str(key)), self.ledger.zone)
        levels = await self.ledger.levels("", key.agent, self.rules(key))
        lines = [f"Last run: {told}."] if told else []
        for level in levels:
            if level.limit.scope in PERIODS:
                spent = f"{dollars(level.spent)} of {dollars(level.limit.amount)}"
                lines.append(f"Of {level.limit.name} {percent(level.share)} is spent: {spent}.")
        return lines

    async def summary(self, key: SessionKey) -> list[str]:
        """What `/usage` says: this conversation, today, this month."""
        now = round(self._clock.now() * 1000)
        today = self.ledger.day(now)
        days = await report.sums(self._db, "day", ReportSpan(since=now - MONTH_MS))
        month = report.total(part for day, part in days.items() if day[:7] == today[:7])
        here = report.total((await report.sums(self._db, "session", ReportSpan(session_key=str(key)))).values())
        return [
            f"This conversation: {render_amount(here)}.",
            f"Today: {render_amount(days.get(today, SpendSum()))}.",
            f"This month: {render_amount(month)}.",
            *await self.standing(key),
        ]

    async def forget_old(self) -> None:
        await self.ledger.forget_old()
        await self.recorder.forget_old()
