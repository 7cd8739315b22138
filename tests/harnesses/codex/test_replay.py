"""Turns carried out by Codex, against a server that replays what the real one said."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.events import AttemptFailed, MessageEnded, TextDelta, ThinkingDelta, ToolEnded, ToolStarted
from openclaw.core.messages import Assistant, ToolResult, User
from openclaw.prompt.report import render_detail, render_list
from openclaw.runs.request import RunRequest
from openclaw.sessions.files import load
from openclaw.sessions.transcript import MessageEntry
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, ask, says
from tests.automation.support import place

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
FRAMES = HERE.parents[1] / "fixtures" / "codex" / "frames.jsonl"


class Replay:
    """A home whose Codex replays a scenario."""

    def __init__(self, home: TemporaryHome, scenario: str, after: str = "") -> None:
        self.log = home.root / "heard.jsonl"
        self.log.touch()
        self.program = home.root / "codex"
        self.play(scenario, after)
        home.configure(settings(home, self.program))

    def play(self, scenario: str, after: str = "") -> None:
        words = (sys.executable, str(HERE / "replay.py"), str(FRAMES), scenario, str(self.log), after)
        self.program.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
        self.program.chmod(0o755)

    def heard(self, method: str) -> list[dict[str, Any]]:
        said = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [each["params"] for each in said if each.get("method") == method]

    def answers(self) -> list[dict[str, Any]]:
        said = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [each["result"] for each in said if "method" not in each]


def settings(home: TemporaryHome, program: Path | str, **more: Any) -> dict[str, Any]:
    models = [{"id": "mock-model", "cost": {"input": 1.0, "output": 10.0}}]
    access = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "mock-key-123456", "api": "openai-responses"}
    provider = {**access, "models": models, "agentRuntime": {"id": "codex"}}
    return {
        "env": {"vars": {"OPENCLAW_CODEX_APP_SERVER_BIN": str(program)}},
        "models": {"providers": {"mock": provider}},
        "agents": {"defaults": {"model": "mock/mock-model"}},
        **more,
    }


def messages(home: TemporaryHome) -> list[User | Assistant | ToolResult]:
    (path,) = home.transcripts()
    return [entry.message for entry in load(path).entries if isinstance(entry, MessageEntry)]


async def test_a_turn_streams_and_is_recorded_with_its_cost(openclaw_home):
    replay = Replay(openclaw_home, "text_turn_with_reasoning")
    async with openclaw_home.assistant(ScriptedModel()) as app:
        heard = await ask(app, "THINK please")
    assert [each.text for each in heard.events if isinstance(each, TextDelta)] == ["thought", " about", " it"]
    assert [each.text for each in heard.events if isinstance(each, ThinkingDelta)] == ["pondering"]
    assert heard.end.stop_reason == "stop"
    usage = heard.end.usage
    assert (usage.input, usage.cache_read, usage.output, usage.total_tokens) == (90, 10, 20, 120)
    assert usage.cost is not None
    asked, answer = messages(openclaw_home)
    assert asked.text == "THINK please"
    assert isinstance(answer, Assistant)
    assert (answer.text, answer.thinking, answer.model) == ("thought about it", "pondering", "mock-model")
    (turn,) = replay.heard("turn/start")
    assert turn["input"][-1] == {"type": "text", "text": "THINK please"}


async def test_each_file_goes_by_its_carrier(openclaw_home):
    replay = Replay(openclaw_home, "text_turn_with_reasoning")
    files = {"SOUL.md": "soul-words", "TOOLS.md": "tools-words", "USER.md": "user-words", "AGENTS.md": "agents-words"}
    async with openclaw_home.assistant(ScriptedModel()) as app:
        for name, text in files.items():
            (openclaw_home.workspace / name).write_text(text)
        await ask(app, "hi")
    (thread,), (turn,) = replay.heard("thread/start"), replay.heard("turn/start")
    developer = thread["developerInstructions"]
    collaboration = turn["collaborationMode"]["settings"]["developer_instructions"]
    assert "tools-words" in developer
    assert "soul-words" in collaboration
    assert "user-words" in collaboration
    assert "soul-words" not in developer
    assert "agents-words" not in json.dumps([thread, turn])
    assert thread["cwd"] == str(openclaw_home.workspace)
    assert thread["config"]["project_doc_max_bytes"] > 0
    assert thread["approvalPolicy"] == "untrusted"
    (space,) = thread["dynamicTools"]
    assert space["name"] == "openclaw"
    assert {"exec", "read"} <= {tool["name"] for tool in space["tools"]}


async def test_calls_go_through_our_tools_and_each_has_its_result(openclaw_home):
    replay = Replay(openclaw_home, "two_dynamic_tools_one_reply")
    async with openclaw_home.assistant(ScriptedModel()) as app:
        heard = await ask(app, "both")
    started = [each.call.name for each in heard.events if isinstance(each, ToolStarted)]
    assert sorted(started) == ["a", "b"]
    assert len([each for each in heard.events if isinstance(each, ToolEnded)]) == 2
    assert heard.end.usage.total_tokens == 240
    # There is no such tool here: the refusal of our runner is what Codex reads.
    assert all(not each["success"] and "not found" in each["contentItems"][0]["text"] for each in replay.answers())
    said = messages(openclaw_home)
    calls = [call.id for each in said if isinstance(each, Assistant) for call in each.calls]
    results = [each.tool_call_id for each in said if isinstance(each, ToolResult)]
    assert calls == results == ["call_1_0", "call_1_1"]


async def test_a_change_that_our_tool_would_refuse_is_declined(openclaw_home):
    replay = Replay(openclaw_home, "file_change_decline")
    async with openclaw_home.assistant(ScriptedModel()) as app:
        heard = await ask(app, "patch it")
    assert {"decision": "decline"} in replay.answers()
    (result,) = heard.results
    assert result.tool_name == "apply_patch"
    assert result.is_error
    assert "outside the workspace" in result.text


@pytest.mark.parametrize(
    ("scenario", "code"),
    [
        ("error_http_401", "auth"),
        ("error_http_429", "rate_limit"),
        ("error_http_500", "server_error"),
        ("error_stream_dropped", "server_error"),
    ],
)
async def test_a_failed_turn_is_an_error_of_ours_and_asked_again_by_our_rules(openclaw_home, scenario, code):
    replay = Replay(openclaw_home, scenario)
    clock = FakeClock()
    async with openclaw_home.assistant(ScriptedModel(), clock=clock) as app:
        heard = await clock.drive(ask(app, "hi"))
    assert heard.end.stop_reason == "error"
    assert heard.end.error
    failures = [each.reason for each in heard.events if isinstance(each, AttemptFailed)]
    assert code in (*failures, heard.end.error_code)
    # The thread knows the question: it is not asked twice.
    assert [turn["input"] == [] for turn in replay.heard("turn/start")] == [False, True][: 1 + len(failures)]


@pytest.mark.parametrize("method", ["turn/started", "item/agentMessage/delta", "item/started"])
async def test_a_server_that_dies_leaves_a_transcript_and_the_next_turn_goes_on(openclaw_home, method):
    replay = Replay(openclaw_home, "text_turn_with_reasoning", f"crash:{method}")
    async with openclaw_home.assistant(ScriptedModel()) as app:
        heard = await ask(app, "first")
        assert heard.end.stop_reason == "error"
        assert "ask again" in (heard.end.error or "")
        replay.play("text_turn_with_reasoning")
        again = await ask(app, "second")
    assert again.text == "thought about it"
    assert [each.text for each in messages(openclaw_home) if isinstance(each, User)] == ["first", "second"]
    assert len(replay.heard("thread/resume")) == 1


@pytest.mark.parametrize(("method", "kept"), [("item/started", False), ("thread/tokenUsage/updated", True)])
async def test_a_turn_without_progress_is_given_up_and_its_answer_is_kept(openclaw_home, method, kept):
    replay = Replay(openclaw_home, "text_turn_with_reasoning", f"silent:{method}")
    clock = FakeClock()
    async with openclaw_home.assistant(ScriptedModel(), clock=clock) as app:
        heard = await clock.drive(ask(app, "hi"))
    assert len(replay.heard("turn/interrupt")) == 1
    if kept:
        assert (heard.text, heard.end.stop_reason) == ("thought about it", "stop")
    else:
        assert (heard.end.stop_reason, heard.end.error_code) == ("error", "timeout")


async def test_a_missing_program_is_said_with_the_way_to_install_it(openclaw_home):
    openclaw_home.configure(settings(openclaw_home, openclaw_home.root / "nothing"))
    async with openclaw_home.assistant(ScriptedModel(says("never"))) as app:
        with pytest.raises(Unavailable, match="OPENCLAW_CODEX_APP_SERVER_BIN names"):
            await ask(app, "hi")


async def test_a_model_that_speaks_another_api_is_refused(openclaw_home):
    Replay(openclaw_home, "text_turn_with_reasoning")
    chosen = settings(openclaw_home, openclaw_home.root / "codex")
    chosen["models"]["providers"]["mock"]["api"] = "anthropic-messages"
    openclaw_home.configure(chosen)
    async with openclaw_home.assistant(ScriptedModel(says("never"))) as app:
        with pytest.raises(InvalidRequest, match="Responses API"):
            await ask(app, "hi")


async def test_a_conversation_that_changes_its_runtime_keeps_its_history(openclaw_home):
    replay = Replay(openclaw_home, "text_turn_with_reasoning")
    model = ScriptedModel(says("ours"))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "codex first")
        await app.lifecycle.prefer(app.key("main", None), {"agent_runtime": "openclaw"})
        ours = await ask(app, "then ours")
        assert ours.text == "ours"
        assert model.saw("thought about it")
        await app.lifecycle.prefer(app.key("main", None), {"agent_runtime": None})
        await app.routes.close()  # the recording is of one thread
        back = await ask(app, "codex again")
    assert back.text == "thought about it"
    (injected,) = replay.heard("thread/inject_items")
    texts = [part["text"] for item in injected["items"] for part in item["content"]]
    assert texts == ["codex first", "thought about it", "then ours", "ours"]


async def test_the_last_events_of_a_turn_are_in_order(openclaw_home):
    Replay(openclaw_home, "text_turn_with_reasoning")
    async with openclaw_home.assistant(ScriptedModel()) as app:
        heard = await ask(app, "hi")
    ended = [place for place, each in enumerate(heard.events) if isinstance(each, MessageEnded)]
    assert ended and heard.events[-1] is heard.end


async def test_the_record_of_a_prompt_says_by_which_carrier_each_part_went(openclaw_home):
    Replay(openclaw_home, "text_turn_with_reasoning")
    async with openclaw_home.assistant(ScriptedModel()) as app:
        (openclaw_home.workspace / "SOUL.md").write_text("soul-words")
        await ask(app, "hi")
        stored = await app.archive.latest(str(app.key("main", None)))
        now = await app.preparer.preview(RunRequest(run_id="look", key=app.key("main", None), text=""), app.toolset())
    assert stored is not None
    by_name = {each.id.rpartition("/")[2].lower(): each for each in stored.prompt.sections}
    assert by_name["soul.md"].carrier == "collaborationMode"
    assert "soul-words" in by_name["soul.md"].text
    assert by_name["agents.md"].carrier == "AGENTS.md as Codex reads it"
    assert by_name["tools.md"].carrier == "developerInstructions"
    assert json.loads(by_name["codex_parameters"].text)["approvalPolicy"] == "untrusted"
    assert "by collaborationMode" in render_detail(stored.report)
    assert "Sent by: thread/start" in render_list(stored.report)
    # What would be sent next is shown in the same way, so the two can be compared.
    assert [(each.id, each.carrier) for each in now.built.prompt.sections] == [
        (each.id, each.carrier) for each in stored.prompt.sections
    ]


async def test_a_process_without_a_turn_is_ended_and_the_next_turn_starts_another(openclaw_home):
    replay = Replay(openclaw_home, "text_turn_with_reasoning")
    clock = FakeClock()
    async with openclaw_home.assistant(ScriptedModel(), clock=clock) as app:
        await ask(app, "first")
        await clock.advance(1_800)
        again = await ask(app, "second")
    assert again.text == "thought about it"
    assert len(replay.heard("initialize")) == 2


async def test_a_light_job_is_exactly_its_message(openclaw_home):
    replay = Replay(openclaw_home, "text_turn_with_reasoning")
    async with place(openclaw_home, ScriptedModel(), configured=True) as here:
        for name in ("AGENTS.md", "SOUL.md", "TOOLS.md"):
            (openclaw_home.workspace / name).write_text(f"{name}-words")
        job = {"message": "THINK please", "at": "1s", "deleteAfterRun": False, "lightContext": True}
        made = await here.scheduler.book.add({**job, "delivery": {"mode": "none"}})
        await here.clock.advance(2)
        await here.until(here.ended(made.id))
        (ended,) = here.of(made.id, "finished")
        (kept,) = await here.app.db.read("SELECT session_key FROM prompts")
        stored = await here.app.archive.latest(kept["session_key"])
    assert ended["status"] == "ok"
    (thread,), (turn,) = replay.heard("thread/start"), replay.heard("turn/start")
    assert turn["input"] == [{"type": "text", "text": "THINK please"}]
    assert not {"collaborationMode", "additionalContext"} & set(turn)
    assert turn["model"] == "mock-model"
    assert "developerInstructions" not in thread
    assert thread["ephemeral"]
    assert thread["config"]["project_doc_max_bytes"] == 0
    assert "-words" not in json.dumps([thread, turn])
    assert not [*openclaw_home.state.rglob("openclaw-threads/*")]
    assert stored is not None
    assert [each.id for each in stored.prompt.sections] == ["codex_parameters"]
