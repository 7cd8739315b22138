"""The figures of a gateway: counted as it works, readable to monitoring, with nothing anybody wrote in it."""

import re
from collections import Counter

import pytest

from openclaw.budget.ledger import CallEnd, ModelTotals
from openclaw.core.events import ToolEnded
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Cost, Text, ToolCall, ToolResult, Usage
from openclaw.gateway.http.metrics import MOST_MODELS, RunMetrics, counters, gauges, models, render_metrics
from openclaw.runs.events import RunEvent, RunSettled
from openclaw.runs.inbox import RunOutcome

FAILED = {"status": "error", "stop_reason": "error"}
ROW = re.compile(r'openclaw_[a-z_]+(\{[a-z]+="([^"\\\n]|\\.)*"(,[a-z]+="([^"\\\n]|\\.)*")*\})? [0-9.e+-]+')


def settled(key: str = "main", **fields: object) -> RunEvent:
    given: dict[str, object] = {"status": "ok", "stop_reason": "stop", "started_at": 1_000, "ended_at": 3_000}
    outcome = RunOutcome(**(given | fields))  # type: ignore[arg-type]
    return RunEvent(run_id="r", key=SessionKey("main", key), seq=1, at=3_000, event=RunSettled(outcome))


def _totals(end: CallEnd) -> ModelTotals:
    return ModelTotals(Counter((end.reason,)), end.usage)


def shown(figures: RunMetrics) -> str:
    return render_metrics(figures.families())


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({}, 'runs_total{source="main",outcome="ok"} 1'),
        ({"key": "cron:j1:run:r"}, 'runs_total{source="cron",outcome="ok"} 1'),
        ({"key": "subagent:x"}, 'runs_total{source="subagent",outcome="ok"} 1'),
        ({"key": "hook:x"}, 'runs_total{source="hook",outcome="ok"} 1'),
        ({"steered_into": "other"}, 'runs_total{source="main",outcome="steered"} 1'),
        ({"status": "error", "stop_reason": "aborted"}, 'runs_total{source="main",outcome="aborted"} 1'),
        ({"status": "error", "stop_reason": "timeout"}, 'runs_total{source="main",outcome="timeout"} 1'),
        (
            {"status": "error", "stop_reason": "error", "error_kind": "rate_limit"},
            'run_errors_total{kind="rate_limit"} 1',
        ),
        (
            {"status": "error", "stop_reason": "error", "error_kind": "UNAVAILABLE"},
            'run_errors_total{kind="unavailable"} 1',
        ),
        (
            {"status": "error", "stop_reason": "error", "error_kind": "my secret text"},
            'run_errors_total{kind="other"} 1',
        ),
        (FAILED, 'run_errors_total{kind="unknown"} 1'),
    ],
)
def test_a_run_is_counted_by_how_it_ended(fields: dict[str, object], row: str) -> None:
    figures = RunMetrics()
    figures.hear(settled(**fields))  # type: ignore[arg-type]
    assert f"openclaw_{row}\n" in shown(figures)


def test_how_long_runs_take_is_a_histogram_that_adds_up() -> None:
    figures = RunMetrics()
    for ended in (1_200, 1_500, 8_000, 9_999_000):
        figures.hear(settled(ended_at=ended))
    figures.hear(settled(steered_into="r2"))  # part of another
    figures.hear(settled(started_at=0, ended_at=0))  # never began
    found = shown(figures)
    buckets = [int(count) for count in re.findall(r'run_seconds_bucket\{le="[^"]+"\} (\d+)', found)]
    assert buckets == sorted(buckets) and buckets[-1] == 4
    assert 'openclaw_run_seconds_bucket{le="0.5"} 2\n' in found
    assert 'openclaw_run_seconds_bucket{le="10"} 3\n' in found
    assert 'openclaw_run_seconds_bucket{le="+Inf"} 4\n' in found
    assert "openclaw_run_seconds_count 4\n" in found
    assert "openclaw_run_seconds_sum 10005.7\n" in found


def test_tool_calls_are_counted_without_their_names() -> None:
    figures = RunMetrics()
    call = ToolCall(id="c", name="made up by a model", arguments={})
    for failed in (False, True, False):
        result = ToolResult(tool_call_id="c", tool_name=call.name, content=(Text("x"),), is_error=failed)
        figures.hear(RunEvent(run_id="r", key=SessionKey("main", "main"), seq=1, at=1, event=ToolEnded(call, result)))
    assert 'openclaw_tool_calls_total{outcome="ok"} 2\n' in shown(figures)
    assert "made up" not in shown(figures)


def test_models_are_counted_by_name_with_what_they_cost() -> None:
    good = _totals(CallEnd(usage=Usage(input=100, output=20, cost=Cost(total=0.25))))
    bad = _totals(CallEnd(reason="rate_limit"))
    found = render_metrics(models({"openai/gpt-x": good + good + bad}))
    assert 'openclaw_model_calls_total{model="openai/gpt-x",outcome="ok"} 2\n' in found
    assert 'openclaw_model_calls_total{model="openai/gpt-x",outcome="rate_limit"} 1\n' in found
    assert 'openclaw_model_tokens_total{model="openai/gpt-x",kind="input"} 200\n' in found
    assert 'openclaw_model_cost_dollars_total{model="openai/gpt-x"} 0.5\n' in found


def test_rows_stay_few_and_names_stay_names() -> None:
    one = _totals(CallEnd(usage=Usage(input=1)))
    found = render_metrics(
        models({**{f"p/m{number}": one for number in range(MOST_MODELS + 50)}, 'p/a "quoted"\nname': one})
    )
    assert found.count("model_cost_dollars_total{") == MOST_MODELS + 1
    assert 'openclaw_model_tokens_total{model="other",kind="input"} 51\n' in found
    assert "quoted" not in found


def test_every_line_is_one_a_monitoring_program_can_read() -> None:
    figures = RunMetrics()
    figures.hear(settled())
    families = [
        *figures.families(),
        *models({"p/m": _totals(CallEnd())}),
        gauges("lane_waiting", "help", "lane", {'a"b\\c': 1.5}),
        counters("x_total", "help", ("a",), {("line\nbreak",): 1}),
    ]
    for line in render_metrics(families).splitlines():
        assert line.startswith("# ") or ROW.fullmatch(line), line
