"""Tools without a schema in the request: found, described and called as if they had one."""

from typing import Any

import pytest
from msgspec import Struct

from openclaw.agent.repeats import RepeatDetector, RepeatLimits
from openclaw.agent.tool_runner import ToolCatalog, ToolRunner
from openclaw.agent.tool_search import DIRECT, SEARCH_SPECS, search, split_tools
from openclaw.core.events import ToolEnded, ToolStarted
from openclaw.core.messages import ToolCall
from openclaw.core.tool import Effects, Output, Tool, ToolContext, tool_spec
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, ask, calls, says
from openclaw.tools.base import SimpleTool

pytestmark = pytest.mark.anyio


class Boat(SimpleTool):
    """A tool for everything that floats."""

    usual_effects = Effects.SENDS_OUT

    def __init__(self, name: str, about: str = "steers a boat") -> None:
        fields = {"course": {"type": "integer"}, "sail": {"type": "string"}}
        self.spec = tool_spec(name, name, about, about * 60, fields, "course", rare=("sail",))

    async def call(self, args: Any, context: ToolContext) -> Output:
        return Output.of(f"{self.spec.name} on {args['course']}")


class Asked(Struct):
    """A gate that remembers what it was asked about."""

    names: list[str] = []

    async def admit(self, tool: Tool, args: Any, context: ToolContext) -> str | None:
        self.names.append(tool.spec.name)
        return None


def runner(tmp_path: Any, *names: str, gate: Asked | None = None) -> ToolRunner:
    tools = [Boat("read"), *map(Boat, names)]
    return ToolRunner(
        ToolCatalog(tools, window=200_000),
        ToolContext(call_id="", workspace=tmp_path),
        [gate or Asked()],
        FakeClock(),
        repeats=RepeatDetector(RepeatLimits()),
        cap=10_000,
    )


async def run(box: ToolRunner, name: str, **arguments: Any) -> tuple[list[Any], ToolEnded]:
    events = [event async for event in box.run_all([ToolCall(id="1", name=name, arguments=arguments)])]
    ended = events[-1]
    assert isinstance(ended, ToolEnded)
    return events, ended


def test_only_everyday_tools_and_the_three_that_find_others_are_sent(tmp_path: Any) -> None:
    box = runner(tmp_path, "ketch", "sloop")
    assert [spec.name for spec in box.specs] == ["read", "tool_call", "tool_describe", "tool_search"]
    assert [spec.name for spec in box.all_specs] == ["ketch", "read", "sloop"]
    assert list(box.specs[0].parameters["properties"]) == ["course"]  # the rare one is left out


def test_nothing_is_hidden_where_that_would_cost_more() -> None:
    small: dict[str, Tool] = {"note": Boat("note", "x")}
    assert small["note"].spec.chars < sum(spec.chars for spec in SEARCH_SPECS)
    assert split_tools(small, window=200_000, always=frozenset()) == frozenset()
    assert len(DIRECT) == 17


async def test_a_carried_call_is_judged_told_and_answered_as_the_tool_that_is_meant(tmp_path: Any) -> None:
    gate = Asked(names=[])
    box = runner(tmp_path, "ketch", gate=gate)
    events, ended = await run(box, "tool_call", id="ketch", args={"course": "90"})
    assert ended.result.text == "ketch on 90" and gate.names == ["ketch"]
    assert isinstance(events[0], ToolStarted) and events[0].call.name == "ketch"
    assert ended.result.tool_name == "tool_call"  # providers pair the result with the call they made
    assert (await run(box, "tool_call", id="ketch", args='{"course": 80}'))[1].result.text == "ketch on 80"
    assert (await run(box, "ketch", course=70))[1].result.text == "ketch on 70"  # its name alone will do


async def test_a_call_that_does_not_fit_is_shown_the_schema(tmp_path: Any) -> None:
    ended = (await run(runner(tmp_path, "ketch"), "tool_call", id="ketch", args={}))[1]
    assert ended.result.is_error and "course" in ended.result.text and '"sail"' in ended.result.text


async def test_an_unknown_tool_is_said_to_be_unknown(tmp_path: Any) -> None:
    box = runner(tmp_path, "ketch")
    for name in ("tool_call", "tool_describe"):
        ended = (await run(box, name, id="raft"))[1]
        assert ended.result.is_error and "raft not found" in ended.result.text


async def test_tools_are_found_by_words_and_described_whole(tmp_path: Any) -> None:
    box = runner(tmp_path, "ketch", "sloop")
    assert '"ketch"' in (await run(box, "tool_search", query="a ketch"))[1].result.text
    assert "All there are: ketch, sloop" in (await run(box, "tool_search", query="piano"))[1].result.text
    assert '"sail"' in (await run(box, "tool_describe", id="read"))[1].result.text
    specs = [Boat("ketch").spec, Boat("mailer", "sends a letter").spec]
    assert [spec.name for spec in search(specs, "send letters")] == ["mailer"]


async def test_a_run_reaches_a_tool_it_has_no_schema_of(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    (openclaw_home.workspace / "note.txt").write_text("old\n")
    patch = "*** Begin Patch\n*** Update File: note.txt\n@@\n-old\n+new\n*** End Patch"
    model = ScriptedModel(calls("tool_call", id="apply_patch", args={"input": patch}), says("Done."))
    async with openclaw_home.assistant(model, approver=None) as app:
        heard = await ask(app, "change it")
    assert heard.text == "Done." and (openclaw_home.workspace / "note.txt").read_text() == "new\n"
    assert "apply_patch" not in {spec.name for spec in model.requests[0].tools}


async def test_every_schema_is_sent_when_the_owner_wants_that(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(tools={"toolSearch": False})
    model = ScriptedModel(says("Hello."))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "hi")
    names = {spec.name for spec in model.requests[0].tools}
    assert "apply_patch" in names and "tool_search" not in names
    sent = next(spec for spec in model.requests[0].tools if spec.name == "exec")
    assert "security" in sent.parameters["properties"]
