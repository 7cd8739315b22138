"""`/metrics`: the metrics of a running gateway, in the Prometheus text format."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from openclaw.budget.ledger import ModelTotals
from openclaw.core.events import ToolEnded
from openclaw.core.keys import SessionKey
from openclaw.runs.events import RunEvent, RunSettled

BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
MOST_MODELS = 100
"""Models with rows of their own; those that come later are counted together."""
_PLAIN = re.compile(r"[a-z0-9_-]{1,40}")
_REF = re.compile(r"[\w./:@+-]{1,120}", re.ASCII)

Labels = tuple[tuple[str, str], ...]


class MetricFamily(Struct, frozen=True):
    """One metric, with all its rows."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    rows: tuple[tuple[str, Labels, float], ...]
    """Suffix of the name, labels, value."""


def gauge(name: str, help_text: str, value: float) -> MetricFamily:
    return MetricFamily(name, "gauge", help_text, (("", (), float(value)),))


def gauges(name: str, help_text: str, label: str, values: Mapping[str, float]) -> MetricFamily:
    rows = tuple(("", ((label, key),), float(value)) for key, value in sorted(values.items()))
    return MetricFamily(name, "gauge", help_text, rows)


def counter(name: str, help_text: str, value: float) -> MetricFamily:
    return MetricFamily(name, "counter", help_text, (("", (), float(value)),))


def counters(
    name: str, help_text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> MetricFamily:
    rows = tuple(("", tuple(zip(labels, key, strict=True)), float(value)) for key, value in sorted(values.items()))
    return MetricFamily(name, "counter", help_text, rows)


class RunMetrics:
    """Counts runs from their events."""

    kinds = (ToolEnded, RunSettled)
    """The events it counts."""

    def __init__(self) -> None:
        self._ended: Counter[tuple[str, ...]] = Counter()
        self._errors: Counter[tuple[str, ...]] = Counter()
        self._tools: Counter[tuple[str, ...]] = Counter()
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def hear(self, told: RunEvent) -> None:
        event = told.event
        if isinstance(event, ToolEnded):
            self._tools[("error" if event.result.is_error else "ok",)] += 1
        if not isinstance(event, RunSettled):
            return
        outcome = event.outcome
        if outcome.steered_into:
            ending = "steered"
        elif outcome.status == "ok":
            ending = "ok"
        else:
            ending = outcome.stop_reason if outcome.stop_reason in ("aborted", "timeout") else "error"
        self._ended[(_source(told.key), ending)] += 1
        if outcome.status == "error" and outcome.stop_reason != "aborted":
            self._errors[(_kind(outcome.error_kind),)] += 1
        if outcome.started_at and outcome.ended_at and not outcome.steered_into:
            seconds = max(0.0, (outcome.ended_at - outcome.started_at) / 1000)
            self._buckets[bisect_left(BUCKETS, seconds)] += 1
            self._seconds += seconds

    def families(self) -> list[MetricFamily]:
        return [
            counters("runs_total", "runs that ended", ("source", "outcome"), self._ended),
            counters("run_errors_total", "runs that failed, by reason", ("kind",), self._errors),
            counters("tool_calls_total", "tool calls that ended", ("outcome",), self._tools),
            self._histogram(),
        ]

    def _histogram(self) -> MetricFamily:
        rows: list[tuple[str, Labels, float]] = []
        below = 0
        for limit, count in zip((*BUCKETS, None), self._buckets, strict=True):
            below += count
            rows.append(("_bucket", (("le", "+Inf" if limit is None else f"{limit:g}"),), float(below)))
        rows += [("_sum", (), self._seconds), ("_count", (), float(below))]
        told = "how long runs took, from their beginning to their end"
        return MetricFamily("run_seconds", "histogram", told, tuple(rows))


def models(spent: Mapping[str, ModelTotals]) -> list[MetricFamily]:
    """Calls, tokens and cost, by model."""
    named: dict[str, ModelTotals] = {}
    for number, (ref, one) in enumerate(spent.items()):
        shown = ref if number < MOST_MODELS and _REF.fullmatch(ref) else "other"
        named[shown] = named[shown] + one if shown in named else one
    calls: dict[tuple[str, ...], float] = {}
    tokens: dict[tuple[str, ...], float] = {}
    for ref, one in named.items():
        for reason, count in one.ends.items():
            outcome = _kind(reason) if reason else "ok"
            calls[(ref, outcome)] = calls.get((ref, outcome), 0) + count
        for kind in ("input", "output", "cache_read", "cache_write"):
            tokens[(ref, kind)] = getattr(one.usage, kind)
    cost: dict[tuple[str, ...], float] = {
        (ref,): one.usage.cost.total if one.usage.cost else 0.0 for ref, one in named.items()
    }
    return [
        counters("model_calls_total", "calls of models, by how they ended", ("model", "outcome"), calls),
        counters("model_tokens_total", "tokens of models", ("model", "kind"), tokens),
        counters("model_cost_dollars_total", "what calls of models cost, where the price is known", ("model",), cost),
    ]


def render_metrics(families: Iterable[MetricFamily]) -> str:
    """The metrics in the Prometheus text format."""
    lines: list[str] = []
    for family in families:
        name = f"openclaw_{family.name}"
        lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
        for ending, labels, value in family.rows:
            shown = ",".join(f'{label}="{_escaped(of)}"' for label, of in labels)
            lines.append(f"{name}{ending}{{{shown}}} {_number(value)}" if shown else f"{name}{ending} {_number(value)}")
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=64)
def _source(key: SessionKey) -> str:
    if key.is_cron:
        return "cron"
    if key.is_subagent:
        return "subagent"
    return "hook" if key.is_hook else "main"


def _kind(reason: str | None) -> str:
    """A reason as a label; anything but a plain word is replaced, as it may hold private text."""
    plain = (reason or "unknown").lower()
    return plain if _PLAIN.fullmatch(plain) else "other"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
