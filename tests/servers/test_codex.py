"""Turns carried out by the real `codex app-server`; the model is a script on loopback, and it is what it was asked."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from openclaw.core.events import CompactionEnded, MessageEnded, ModelCalled, Steered, TextDelta, ToolStarted
from openclaw.core.harness import Steering
from openclaw.core.messages import Assistant, ToolResult, User
from openclaw.process.tasks import SystemClock
from openclaw.sessions.files import load
from openclaw.sessions.transcript import MessageEntry
from openclaw.testing import Calls, FakeClock, Heard, Says, ScriptedModel, TemporaryHome, Thinks, ask
from openclaw.testing.server import Answers, Hangs, Pauses
from tests.harnesses.codex.responses import ResponsesServer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.servers,
    pytest.mark.skipif(find_spec("codex_cli_bin") is None, reason="the package openai-codex-cli-bin is not installed"),
]


def house(home: TemporaryHome, server: ResponsesServer, model: str = "mock-model", **more: Any) -> Any:
    home.configure({**server.settings(model), **more})
    return home.assistant(ScriptedModel(), clock=SystemClock())


def messages(home: TemporaryHome) -> list[User | Assistant | ToolResult]:
    (path,) = home.transcripts()
    return [entry.message for entry in load(path).entries if isinstance(entry, MessageEntry)]


def thread_of(home: TemporaryHome) -> str:
    (path,) = (home.state / "agents" / "main" / "agent" / "codex" / "openclaw-threads").glob("*.json")
    return str(json.loads(path.read_text())["thread_id"])


def children() -> list[psutil.Process]:
    """The processes of this one that belong to Codex."""
    return [each for each in psutil.Process().children(recursive=True) if "codex" in " ".join(each.cmdline()[:1])]


async def until(heard: Heard, kind: type, count: int = 1) -> None:
    async with asyncio.timeout(60):
        while sum(isinstance(each, kind) for each in heard.events) < count:
            await asyncio.sleep(0.01)


async def test_thoughts_words_and_parallel_tools(openclaw_home):
    with ResponsesServer([Thinks("pondering"), Calls("ls"), Calls("read", path="AGENTS.md")], Says("done")) as server:
        async with house(openclaw_home, server) as app:
            heard = await ask(app, "look around")
        assert heard.text == "done"
        assert heard.end.usage.total_tokens == 240
        assert [each.tool_name for each in heard.results] == ["ls", "read"]
        sent = [each for each in server.requests[1]["input"] if each["type"] == "function_call_output"]
        assert "AGENTS.md" in json.dumps(sent[0])
        said = messages(openclaw_home)
    assert isinstance(said[1], Assistant)
    assert said[1].thinking == "pondering"
    calls = [call.id for each in said if isinstance(each, Assistant) for call in each.calls]
    assert calls == [each.tool_call_id for each in said if isinstance(each, ToolResult)]


async def test_a_refused_call_is_what_the_model_reads(openclaw_home):
    with ResponsesServer(Calls("exec", command="touch made"), Says("refused")) as server:
        async with house(openclaw_home, server, tools={"exec": {"security": "deny"}}) as app:
            await ask(app, "make it")
        assert not (openclaw_home.workspace / "made").exists()
        assert len(server.requests) == 2


async def test_each_file_reaches_the_model_once_and_an_edit_with_the_next_turn(openclaw_home):
    with ResponsesServer(Says("hello")) as server:
        settings = server.settings("mock-model")
        settings["agents"]["defaults"]["heartbeat"] = {"every": "4h"}
        async with house(openclaw_home, server, agents=settings["agents"]) as app:
            for name in ("AGENTS", "SOUL", "TOOLS", "USER"):
                (openclaw_home.workspace / f"{name}.md").write_text(f"{name.lower()}-canary")
            (openclaw_home.workspace / "HEARTBEAT.md").write_text("heartbeat-canary")
            await ask(app, "hi")
            first = server.requests[0]["input"]
            roles = {
                role: json.dumps([each for each in first if each.get("role") == role]) for role in ("developer", "user")
            }
            for name in ("soul", "tools", "user"):
                assert roles["developer"].count(f"{name}-canary") == 1
            assert roles["user"].count("agents-canary") == 1
            assert not server.saw("heartbeat-canary")
            (openclaw_home.workspace / "SOUL.md").write_text("another-soul")
            before = thread_of(openclaw_home)
            await ask(app, "again")
            assert server.saw("another-soul")
            assert thread_of(openclaw_home) == before
            await ask(app, "HEARTBEAT", trigger="heartbeat")
            assert server.saw("Read HEARTBEAT.md")


async def test_other_tools_mean_another_thread_with_the_history(openclaw_home):
    with ResponsesServer(Says("first answer"), Says("second answer")) as server:
        async with house(openclaw_home, server) as app:
            await ask(app, "first question")
            before = thread_of(openclaw_home)
            await ask(app, "second question", tools_deny=("exec",))
        assert thread_of(openclaw_home) != before
        assert server.saw("first question")
        assert server.saw("first answer")


async def test_a_thread_goes_on_in_another_process(openclaw_home):
    with ResponsesServer(Says("first answer"), Says("second answer")) as server:
        async with house(openclaw_home, server) as app:
            await ask(app, "first question")
        before = thread_of(openclaw_home)
        async with house(openclaw_home, server) as app:
            heard = await ask(app, "second question")
        assert thread_of(openclaw_home) == before
        assert json.dumps(server.requests[1]).count("first question") == 1
        assert heard.end.usage.total_tokens == 120


async def test_a_code_mode_model_has_our_tools(openclaw_home):
    with ResponsesServer(Says("hello")) as server:
        async with house(openclaw_home, server, "gpt-6.1-sol") as app:
            heard = await ask(app, "hi")
        assert heard.text == "hello"
        assert server.saw("openclaw")


@pytest.mark.parametrize("where", ["stream", "tool"])
async def test_a_message_in_between_is_answered(openclaw_home, where):
    first: Any = [Calls("exec", command="sleep 1")] if where == "tool" else [Hangs("working")]
    with ResponsesServer(first, Says("both heard")) as server:
        tools = {"exec": {"security": "full", "ask": "off"}}
        async with house(openclaw_home, server, tools=tools) as app:
            heard, steering = Heard(), Steering()
            work = asyncio.create_task(ask(app, "begin", steering=steering, into=heard))
            await until(heard, ToolStarted if where == "tool" else TextDelta)
            steering.add(User(content="and this", timestamp=1, idempotency_key="second:user"))
            await work
        assert [each.message.text for each in heard.events if isinstance(each, Steered)] == ["and this"]
        assert server.saw("and this")
        assert heard.text == "both heard"
        assert not steering.waiting


STATES: dict[str, tuple[Any, type, int]] = {
    "before the turn has started": (Says("late"), ModelCalled, 1),
    "a silent model": (Hangs(), ModelCalled, 1),
    "in the stream": (Hangs("half"), TextDelta, 1),
    "in a tool": (Calls("exec", command="sleep 300"), ToolStarted, 1),
    "waiting for a person": (Calls("exec", command="touch asked"), ToolStarted, 1),
    "after a tool": ([Calls("ls")], ModelCalled, 2),
    "between two tools": ([Calls("ls"), Calls("exec", command="sleep 300")], ToolStarted, 2),
}


@pytest.mark.parametrize("state", STATES)
async def test_stopped_it_leaves_nothing_running_and_the_next_turn_works(openclaw_home, state):
    first, kind, count = STATES[state]
    policy = {"security": "allowlist", "ask": "always"} if "person" in state else {"security": "full", "ask": "off"}
    with ResponsesServer(first, Hangs() if state == "after a tool" else Says("next")) as server:
        async with house(openclaw_home, server, tools={"exec": policy}) as app:
            heard = Heard()
            work = asyncio.create_task(ask(app, "begin", into=heard))
            await until(heard, kind, count)
            if state in ("a silent model", "after a tool"):
                await asyncio.to_thread(server.until_asked, count)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            assert not [each for each in psutil.Process().children(recursive=True) if each.name() == "sleep"]
            if state != "after a tool":
                again = await ask(app, "once more")
                assert again.text in ("next", "late")
        said = messages(openclaw_home)
        calls = [call.id for each in said if isinstance(each, Assistant) for call in each.calls]
        assert calls == [each.tool_call_id for each in said if isinstance(each, ToolResult)]
    assert not children()


@pytest.mark.parametrize("reply", [Hangs(), Hangs("half"), Calls("exec", command="sleep 300")])
async def test_a_killed_server_is_an_error_and_the_next_turn_goes_on(openclaw_home, reply):
    with ResponsesServer(reply, Says("after it")) as server:
        async with house(openclaw_home, server, tools={"exec": {"security": "full", "ask": "off"}}) as app:
            heard = Heard()
            work = asyncio.create_task(ask(app, "begin", into=heard))
            await asyncio.to_thread(server.until_asked, 1)
            if isinstance(reply, Calls):
                await until(heard, ToolStarted)
            thread = thread_of(openclaw_home)
            for each in children():
                os.kill(each.pid, signal.SIGKILL)
            await work
            assert heard.end.stop_reason == "error"
            again = await ask(app, "go on")
            assert again.text == "after it"
            assert thread_of(openclaw_home) == thread
        assert server.saw("begin")


@pytest.mark.parametrize(("status", "code"), [(401, "auth"), (404, "model_not_found")])
async def test_an_error_of_the_model_is_one_of_ours(openclaw_home, status, code):
    with ResponsesServer(Answers(status, '{"error": {"message": "no"}}')) as server:
        async with house(openclaw_home, server) as app:
            heard = await ask(app, "hi")
    assert (heard.end.stop_reason, heard.end.error_code) == ("error", code)
    assert "mock-key-123456" not in (heard.end.error or "")


async def test_it_is_compacted_by_codex(openclaw_home):
    with ResponsesServer(Says("answer"), Says("a summary"), Says("after")) as server:
        async with house(openclaw_home, server) as app:
            await ask(app, "question")
            heard = await ask(app, "", compact="")
            (ended,) = [each for each in heard.events if isinstance(each, CompactionEnded)]
            assert ended.ok
            before = thread_of(openclaw_home)
            again = await ask(app, "and now")
        assert again.text == "after"
        assert thread_of(openclaw_home) == before
        assert server.saw("a summary")


async def test_a_silent_model_is_given_up(openclaw_home):
    clock = FakeClock(SystemClock.now())
    with ResponsesServer(Hangs()) as server:
        openclaw_home.configure(server.settings())
        async with openclaw_home.assistant(ScriptedModel(), clock=clock) as app:
            work = asyncio.create_task(ask(app, "hi"))
            await asyncio.to_thread(server.until_asked, 1)
            heard = await clock.drive(work)
    assert (heard.end.stop_reason, heard.end.error_code) == ("error", "timeout")


def _schemas(place: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in place.rglob("*.json"):
        yield path.stem, json.loads(path.read_text())


async def test_what_is_sent_fits_the_schema_of_the_server(openclaw_home, tmp_path):
    import codex_cli_bin  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import jsonschema

    from openclaw.harnesses.codex.routing import CodexLayers, thread_params, turn_params

    program = Path(str(codex_cli_bin.__file__)).parent / "bin" / "codex"
    command = (str(program), "app-server", "generate-json-schema", "--experimental", "--out", str(tmp_path))
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    schemas = dict(_schemas(tmp_path))
    layers = CodexLayers(developer="d", collaboration="c", context="x", turn="t", native=False)
    with ResponsesServer(Says("hello")) as server:
        async with house(openclaw_home, server) as app:
            tools = [tool.spec for tool in app.toolset().of(app.key("main", None))]
    thread = thread_params(layers, tools, model="m", workspace="/w")
    jsonschema.validate(thread, schemas["ThreadStartParams"])
    turn = turn_params(layers, "t", [User(content="hi")], model="m", thinking="off")
    jsonschema.validate(turn, schemas["TurnStartParams"])


async def test_a_pause_in_the_stream_changes_nothing(openclaw_home):
    with ResponsesServer([Pauses(), Says("late but whole")]) as server:
        async with house(openclaw_home, server) as app:
            work = asyncio.create_task(ask(app, "hi"))
            await asyncio.to_thread(server.until_asked, 1)
            server.go_on()
            heard = await work
    assert heard.text == "late but whole"
    assert [each.message.text for each in heard.events if isinstance(each, MessageEnded)] == ["late but whole"]
