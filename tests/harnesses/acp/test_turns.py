"""Turns carried out by an external agent: what it does is seen, kept apart as foreign, and judged."""

import asyncio
import json
from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.events import CompactionEnded, MessageEnded, ThinkingDelta, ToolEnded, ToolStarted, ToolUpdated
from openclaw.core.messages import Assistant, Image, ToolResult
from openclaw.harnesses.acp.permissions import as_call, choose_option
from openclaw.testing import FakeClock, Heard, ScriptedApprover, ask
from tests.harnesses.runtimes import Runtimes
from tests.processes import is_alive

pytestmark = pytest.mark.anyio


async def test_calls_are_shown_as_they_come_and_recorded_in_order(openclaw_home):
    here = Runtimes(openclaw_home)
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        heard = await ask(app, "both")
    tools = [each for each in heard.events if isinstance(each, ToolStarted | ToolUpdated | ToolEnded)]
    shown = [(type(each).__name__, each.call.arguments["title"]) for each in tools]
    assert shown[:2] == [("ToolStarted", "Read x"), ("ToolStarted", "Run y")]
    assert ("ToolUpdated", "Read x") in shown
    assert [each for each in shown if each[0] == "ToolEnded"] == [("ToolEnded", "Read x"), ("ToolEnded", "Run y")]
    assert heard.text == "Both are done."
    said = here.check()
    assert [type(each) for each in said[1:]] == [Assistant, ToolResult, Assistant, ToolResult, Assistant]
    first, result = said[1], said[2]
    assert isinstance(first, Assistant) and isinstance(result, ToolResult)
    assert (first.text, first.calls[0].name) == ("Looking. ", "acp_read")
    assert first.calls[0].arguments == {"title": "Read x", "input": {"path": "x"}}
    assert "all of x" in result.text
    assert "<|im_start|>" not in result.text
    assert "EXTERNAL_UNTRUSTED_CONTENT" in result.text
    assert {each.source for each in result.origins} == {"acp agent coder"}
    assert heard.end.usage.cost is not None
    assert heard.end.usage.cost.total == 0.5


async def test_it_is_offered_no_files_and_no_terminal_of_ours(openclaw_home):
    here = Runtimes(openclaw_home)
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        heard = await ask(app, "speak")
    offered = json.loads((here.place / "capabilities").read_text())
    assert not any(offered.get("fs", {}).values())
    assert not offered.get("terminal")
    assert [each.text for each in heard.events if isinstance(each, ThinkingDelta)] == ["thinking it over"]


async def test_its_answers_are_foreign_to_later_turns(openclaw_home):
    here = Runtimes(openclaw_home)
    owner = ScriptedApprover("deny")
    async with openclaw_home.assistant(here.model, approver=owner) as app:
        await here.choose(app, "acp")
        await ask(app, "speak")
        await here.choose(app, "embedded")
        await ask(app, "permit")
    (asked,) = owner.asked
    assert {each.source for each in asked.origins} == {"acp agent coder"}


async def test_a_session_is_taken_up_again_and_not_told_twice(openclaw_home):
    here = Runtimes(openclaw_home)
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        await ask(app, "speak of apples")
    async with openclaw_home.assistant(here.model) as app:
        heard = await ask(app, "speak of pears")
    assert heard.text == "spoken"
    assert len((here.place / "loaded").read_text().split()) == 1
    assert (here.place / "asked").read_text() == "speak of apples\nspeak of pears\n"


async def test_a_picture_goes_to_an_agent_that_takes_it(openclaw_home):
    here = Runtimes(openclaw_home, "images")
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        await ask(app, "speak", images=(Image("aGk=", "image/png"),))
    assert "<image>" in (here.place / "asked").read_text()


async def test_one_that_does_not_stop_is_ended_with_all_it_started(openclaw_home):
    here = Runtimes(openclaw_home, started=True)
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        run = asyncio.create_task(ask(app, "hang with a child"))
        async with asyncio.timeout(120):
            while not (here.place / "child").exists() or not (here.place / "child").read_text():
                await asyncio.sleep(0.02)
        pids = [int((here.place / name).read_text()) for name in ("pid", "child")]
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        async with asyncio.timeout(60):  # they were killed, which on a busy machine takes a moment
            while any(map(is_alive, pids)):
                await asyncio.sleep(0.02)
        assert (here.place / "cancelled").exists()
        assert (await ask(app, "speak")).text == "spoken"
    here.check()


async def test_a_silent_one_is_given_up(openclaw_home):
    here = Runtimes(openclaw_home)
    clock = FakeClock()
    async with openclaw_home.assistant(here.model, clock=clock) as app:
        await here.choose(app, "acp")
        heard = await clock.drive(ask(app, "wait"))
    assert (heard.end.stop_reason, heard.end.error_code) == ("error", "timeout")


async def test_a_turn_without_a_word_says_so(openclaw_home):
    here = Runtimes(openclaw_home)
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        heard = await ask(app, "silence")
    assert heard.text == "(it said nothing)"


async def test_a_call_that_broke_off_has_a_result(openclaw_home):
    here = Runtimes(openclaw_home)
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        heard = await ask(app, "crash")
    (result,) = heard.results
    assert result.is_error
    assert "Check whether it took effect" in result.text
    here.check()


@pytest.mark.parametrize(("able", "ok"), [((), False), (("compact",), True)])
async def test_it_is_asked_to_compact_where_it_can(openclaw_home, able, ok):
    here = Runtimes(openclaw_home, *able)
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        await ask(app, "speak")
        heard = await ask(app, "", compact="")
    (ended,) = [each for each in heard.events if isinstance(each, CompactionEnded)]
    assert ended.ok == ok
    assert ok or "/new" in ended.error
    assert ("/compact" in (here.place / "asked").read_text()) == ok


async def test_what_keeps_it_from_working_is_said(openclaw_home):
    here = Runtimes(openclaw_home, "login")
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        heard = await ask(app, "speak")
    assert "log in" in (heard.end.error or "")


@pytest.mark.parametrize(
    ("acp", "error", "told"),
    [
        ({"agents": {"coder": {"command": "gemini"}}}, Unavailable, "npm install -g @google/gemini-cli"),
        ({"agents": {"coder": {"command": "no-such"}}}, Unavailable, "acp.agents.coder.command"),
        ({"enabled": False}, InvalidRequest, "acp.enabled"),
        ({"agents": {}}, InvalidRequest, "acp.agents"),
    ],
)
async def test_one_that_is_not_there_is_an_error_with_the_way_to_get_it(openclaw_home, acp, error, told):
    here = Runtimes(openclaw_home)
    chosen: dict[str, Any] = json.loads(openclaw_home.config_path.read_text())
    openclaw_home.configure({**chosen, "acp": acp})
    async with openclaw_home.assistant(here.model) as app:
        await here.choose(app, "acp")
        with pytest.raises(error, match=told):
            await ask(app, "speak")


@pytest.mark.parametrize("level", ["agent", "model", "provider"])
async def test_it_can_be_chosen_for_more_than_a_conversation(openclaw_home, level):
    here = Runtimes(openclaw_home)
    chosen: dict[str, Any] = json.loads(openclaw_home.config_path.read_text())
    provider = chosen["models"]["providers"]["mock"]
    runtime = {"agentRuntime": {"id": "acp"}}
    if level == "agent":
        chosen["agents"]["list"] = [{"id": "main", **runtime}]
    elif level == "model":
        provider["models"][0].update(runtime)
    else:
        provider.update(runtime)
    openclaw_home.configure(chosen)
    async with openclaw_home.assistant(here.model) as app:
        heard = await ask(app, "speak")
    (said,) = [each.message for each in heard.events if isinstance(each, MessageEnded)]
    assert (said.provider, said.model) == ("acp", "coder")


async def test_an_agent_that_was_once_chosen_as_a_model_is_still_chosen(openclaw_home):
    here = Runtimes(openclaw_home)
    async with openclaw_home.assistant(here.model) as app:
        await app.lifecycle.prefer(app.key("main", None), {"model": "acp/coder"})
        assert (await app.lifecycle.preferences(app.key("main", None))).agent_runtime == "acp/coder"
        await ask(app, "speak", into=(heard := Heard()))
    assert heard.text == "spoken"
    assert (here.place / "sessions.json").exists()


WORKSPACE = "/home/me/work"
PLACES = [{"path": f"{WORKSPACE}/a.txt"}]


@pytest.mark.parametrize(
    ("about", "call"),
    [
        ({"kind": "execute", "rawInput": {"command": "ls"}}, ("exec", {"command": "ls"})),
        ({"kind": "execute", "rawInput": {"cmd": "ls", "cwd": "/x"}}, ("exec", {"command": "ls", "workdir": "/x"})),
        ({"kind": "execute", "rawInput": {"command": ["ls"]}}, None),
        ({"kind": "fetch", "rawInput": {"url": "http://a"}}, ("web_fetch", {"url": "http://a"})),
        ({"kind": "read", "locations": PLACES}, ("read", {"path": f"{WORKSPACE}/a.txt"})),
        ({"kind": "edit", "rawInput": {"path": "b", "content": "x"}}, ("write", {"path": "b", "content": "x"})),
        ({"kind": "edit", "locations": [{"path": "/etc/passwd"}]}, None),
        ({"kind": "edit", "rawInput": {"path": "../b"}}, None),
        ({"kind": "edit", "locations": [*PLACES, {"path": "/etc/passwd"}]}, None),
        ({"kind": "delete", "locations": PLACES}, None),
        ({"rawInput": {"command": "ls"}}, None),
    ],
)
def test_what_it_asks_for_is_judged_as_a_call_of_ours_or_by_a_person(about, call):
    found = as_call(about, WORKSPACE)
    assert (found and (found.name, found.arguments)) == call


@pytest.mark.parametrize(
    ("kinds", "decision", "chosen"),
    [
        (("allow_once", "reject_once"), "allow-always", "allow_once"),
        (("allow_always", "reject_once"), "allow-once", "allow_always"),
        (("allow_once",), "deny", None),
        (("allow_once", "reject_always"), "deny", "reject_always"),
    ],
)
def test_an_answer_is_one_of_its_own_options(kinds, decision, chosen):
    assert choose_option([{"kind": each, "id": each} for each in kinds], decision) == chosen
