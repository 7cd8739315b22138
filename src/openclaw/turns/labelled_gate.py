"""The gate of one run: the table of labels first, then the breaker, then the rules for commands."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from openclaw.core.clock import Clock
from openclaw.core.deed import ActionKind
from openclaw.core.tool import Effects, Tool, ToolContext
from openclaw.policy.breaker import CircuitBreaker, Kind
from openclaw.policy.deeds import deletes
from openclaw.policy.execution import AskPerson, Deny
from openclaw.policy.labels import Table, decide
from openclaw.turns.addresses import strings
from openclaw.turns.gate import ExecGate
from openclaw.turns.labelling import RunLabels

SENDING: frozenset[ActionKind] = frozenset({"send", "fetch-composed"})


class LabelGate:
    """Knows what its model has read, and lets text from elsewhere bring about nothing the owner did not want."""

    def __init__(self, inner: ExecGate, labels: RunLabels, table: Table, breaker: CircuitBreaker, clock: Clock) -> None:
        self._inner = inner
        self._labels = labels
        self._table = table
        self._breaker = breaker
        self._clock = clock

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        effects = tool.effects(args)
        deeds = self._labels.deeds(tool, args, context)
        behind = self._labels.behind(tool, args, context)
        context = structs.replace(context, origins=behind)
        ruling = decide(deeds, behind, self._table)
        if isinstance(ruling, Deny):
            return f"Not done: {ruling.why}. It is refused by the table of labels (security.externalContent)."
        cause = self._because(ruling.why, tool, args) if isinstance(ruling, AskPerson) else ""
        counts = _counts(deeds, effects, args)
        now = self._clock.now()
        tripped = [kind for kind, count in counts.items() if self._breaker.tripped(kind, count, now)]
        bulk = "; ".join(why for kind in tripped if (why := self._breaker.tripped(kind, counts[kind], now)))
        if Effects.RUNS_CODE in effects:
            refusal = await self._inner.admit(tool, args, context, cause, bulk)
        else:
            why = "; ".join(each for each in (cause, bulk) if each)
            refusal = await self._inner.ask(tool, args, context, why) if why else None
        if refusal is None:
            if (cause or bulk) and Effects.WRITES_FILES in effects:
                self._labels.vouch(context.call_id)
            for kind in tripped:
                self._breaker.excused(kind)
            for kind, count in counts.items():
                self._breaker.count(kind, count, now)
        return refusal

    def _because(self, why: str, tool: Tool, args: Mapping[str, Any]) -> str:
        asked = self._labels.asked_by(" ".join(strings(args)))
        return f"{why}. The text that seems to ask for it is from {asked}" if asked else why


def _counts(deeds: tuple[ActionKind, ...], effects: Effects, args: Mapping[str, Any]) -> dict[Kind, int]:
    """How much of what cannot be taken back a call does."""
    command = args.get("command")
    gone = deletes(command) if isinstance(command, str) and Effects.RUNS_CODE in effects else 0
    if "delete" in deeds:
        patch = args.get("input")
        gone += max(1, patch.count("*** Delete File:") if isinstance(patch, str) else 1)
    sent = int(any(deed in SENDING for deed in deeds))
    return {"deletes": gone, "sends": sent}
