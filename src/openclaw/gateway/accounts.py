"""The accounts of this installation: what calls cost, what may be spent, what is kept of them."""

from collections.abc import Callable
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from openclaw.budget.ledger import SpendLedger
from openclaw.budget.limits import Rules, percent, rules_for, rung
from openclaw.config.schema import Config
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey
from openclaw.gateway import wings
from openclaw.models.refs import Ref
from openclaw.models.situation import Situation
from openclaw.store.db import Database
from openclaw.turns.recording import Recorder
from openclaw.turns.spending import KeepProfile, Payer, Spending


def zone_of(name: str) -> tzinfo:
    """The time zone called `name`; Greenwich when there is none."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


class Accounts:
    """Opens the books of a run, and reads those that are closed."""

    def __init__(self, db: Database, clock: Clock, zone: tzinfo, config: Callable[[], Config]) -> None:
        self._clock = clock
        self._config = config
        self.ledger = SpendLedger(db, clock, zone)
        self.recorder = Recorder(db, clock, lambda: config().record, wings.encoded)
        self.probes: dict[str, float] = {}
        """When a provider whose credentials must rest was last tried all the same."""

    def rules(self, key: SessionKey) -> Rules:
        background = key.is_cron or key.is_hook or key.is_subagent
        return rules_for(self._config().budget, key.agent, background=background)

    def spending(self, run_id: str, key: SessionKey, session_id: str, keep_profile: KeepProfile) -> Spending:
        """The books of one run."""
        return Spending(
            Payer(run_id=run_id, session_key=str(key), session_id=session_id, agent_id=key.agent),
            ledger=self.ledger,
            rules=self.rules(key),
            recorder=self.recorder,
            clock=self._clock,
            keep_profile=keep_profile,
        )

    async def chain(self, spending: Spending, situation: Situation, wanted: tuple[Ref, ...]) -> tuple[Ref, ...]:
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

    async def forget_old(self) -> None:
        await self.ledger.forget_old()
        await self.recorder.forget_old()
