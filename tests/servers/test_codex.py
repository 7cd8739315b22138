"""Turns carried out by the real `codex app-server`; the model is a script on loopback, and it is what it was asked."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import AuthFailed
from openclaw.core.events import (
    AttemptFailed,
    CompactionEnded,
    MessageEnded,
    ModelCalled,
    Steered,
    TextDelta,
    ToolStarted,
)
from openclaw.core.harness import Steering
from openclaw.core.messages import Assistant, ToolResult, User
from openclaw.process.tasks import SystemClock
from openclaw.sessions.files import load
from openclaw.sessions.transcript import MessageEntry
from openclaw.testing import Calls, FakeClock, Heard, Says, ScriptedModel, TemporaryHome, Thinks, ask, says
from openclaw.testing.server import Answers, Breaks, Hangs, Pauses
from tests.gateway.test_turns import PIXEL
from tests.harnesses.codex.responses import Native, ResponsesServer, Writes
from tests.processes import children

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.servers,
    pytest.mark.skipif(find_spec("codex_cli_bin") is None, reason="the package openai-codex-cli-bin is not installed"),
]


def house(
    home: TemporaryHome, server: ResponsesServer, model: str = "mock-model", *, sees: bool = False, **more: Any
) -> Any:
    home.configure({**server.settings(model, input=["text", "image"] if sees else ["text"]), **more})
    return home.assistant(ScriptedModel(), clock=SystemClock())


def messages(home: TemporaryHome) -> list[User | Assistant | ToolResult]:
    (path,) = home.transcripts()
    return [entry.message for entry in load(path).entries if isinstance(entry, MessageEntry)]


def thread_of(home: TemporaryHome) -> str:
    (path,) = (home.state / "agents" / "main" / "agent" / "codex" / "openclaw-threads").glob("*.json")
    return str(json.loads(path.read_text())["thread_id"])


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


async def test_a_light_job_reaches_the_model_alone(openclaw_home):
    with ResponsesServer(Says("done")) as server:
        async with house(openclaw_home, server) as app:
            for name in ("AGENTS", "SOUL", "TOOLS", "MEMORY"):
                (openclaw_home.workspace / f"{name}.md").write_text(f"{name.lower()}-canary")
            heard = await ask(app, "exactly this", session="cron:1:run:1", trigger="cron", light=True)
            again = await ask(app, "and this", session="cron:1:run:2", trigger="cron", light=True)
        assert (heard.text, again.text) == ("done", "done")
        said = [each for each in server.requests[0]["input"] if each.get("role") == "user"]
        assert [part["text"] for each in said for part in each["content"]] == ["exactly this"]
        assert "canary" not in json.dumps(server.requests)
        assert "exactly this" not in json.dumps(server.requests[1])
        ours = [each for each in server.requests[0]["input"] if each.get("role") == "developer"]
        assert "openclaw" not in json.dumps(ours).lower()
        assert "openclaw" in {tool["name"] for tool in server.requests[0]["tools"]}
    codex = openclaw_home.state / "agents" / "main" / "agent" / "codex"
    assert not [*codex.rglob("openclaw-threads/*"), *codex.rglob("sessions/**/*.jsonl")]


async def test_the_first_hour_is_in_the_turn_and_a_picture_too(openclaw_home):
    with ResponsesServer(Says("hello")) as server:
        async with house(openclaw_home, server, sees=True) as app:
            (openclaw_home.workspace / "BOOTSTRAP.md").write_text("bootstrap-canary")
            await ask(app, "who are you", images=(PIXEL,))
            asked = [each for each in server.requests[0]["input"] if each.get("role") == "user"][-1]["content"]
            assert [part["type"] for part in asked] == ["input_text", "input_text", "input_image"]
            assert "bootstrap-canary" in asked[0]["text"]
            assert asked[1]["text"] == "who are you"
            assert asked[2]["image_url"].startswith("data:image/png;base64,")
            assert json.dumps(server.requests[0]["input"]).count("bootstrap-canary") == 1
            await ask(app, "and now")
            last = [each for each in server.requests[1]["input"] if each.get("role") == "user"][-1]["content"]
            assert [part["text"] for part in last] == ["and now"]  # the thread has it
            assert json.dumps(server.requests[1]["input"]).count("bootstrap-canary") == 1
            await ask(app, "", compact="")
            await ask(app, "after it")
            assert json.dumps(server.requests[-1]["input"]).count("bootstrap-canary") >= 1
            (openclaw_home.workspace / "BOOTSTRAP.md").unlink()
            await ask(app, "without it")
            last = [each for each in server.requests[-1]["input"] if each.get("role") == "user"][-1]["content"]
            assert [part["text"] for part in last] == ["without it"]


async def test_other_tools_mean_another_thread_with_the_history(openclaw_home):
    with ResponsesServer(Says("first answer"), Says("second answer")) as server:
        async with house(openclaw_home, server) as app:
            await ask(app, "first question")
            before = thread_of(openclaw_home)
            await ask(app, "second question", tools_deny=("exec",))
        assert thread_of(openclaw_home) != before
        assert server.saw("first question")
        assert server.saw("first answer")


async def test_a_turn_that_is_not_a_persons_takes_the_thread_with_its_fewer_tools(openclaw_home):
    with ResponsesServer(Says("hello"), Calls("exec", command="touch made"), Says("ok"), Says("again")) as server:
        async with house(openclaw_home, server, tools={"exec": {"security": "full", "ask": "off"}}) as app:
            await ask(app, "hi")
            before = thread_of(openclaw_home)
            heard = await ask(app, "look after it", trigger="heartbeat", tools_deny=("exec",))
            assert [each.is_error for each in heard.results] == [True]
            await ask(app, "still there?")
        assert thread_of(openclaw_home) == before
    assert not (openclaw_home.workspace / "made").exists()


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


async def test_a_conversation_that_changes_its_runtime_keeps_its_history(openclaw_home):
    ours = ScriptedModel(says("ours of pears"))
    with ResponsesServer(Calls("ls"), Says("theirs of apples"), Says("theirs of figs")) as server:
        openclaw_home.configure(server.settings())
        async with openclaw_home.assistant(ours, clock=SystemClock()) as app:
            await ask(app, "first question")
            await app.lifecycle.prefer(app.key("main", None), {"agent_runtime": "openclaw"})
            assert (await ask(app, "second question")).text == "ours of pears"
            assert ours.saw("theirs of apples") and ours.saw("AGENTS.md")
            await app.lifecycle.prefer(app.key("main", None), {"agent_runtime": None})
            assert (await ask(app, "third question")).text == "theirs of figs"
        said = json.dumps(server.requests[-1]["input"])
    for text in ("first question", "theirs of apples", "second question", "ours of pears", "third question"):
        assert said.count(text) == 1
    assert '"function_call_output"' in said


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
            began = time.monotonic()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            print(f"stopped {state}: {time.monotonic() - began:.2f} s")
            assert not children("sleep")
            if state != "after a tool":
                again = await ask(app, "once more")
                assert again.text in ("next", "late")
        said = messages(openclaw_home)
        calls = [call.id for each in said if isinstance(each, Assistant) for call in each.calls]
        assert calls == [each.tool_call_id for each in said if isinstance(each, ToolResult)]
    assert not children("codex")


HOLDS = """
import sys, time
for line in sys.stdin:
    time.sleep(0.3 if '"turn/started"' in line else 0)
    print(line, end="", flush=True)
"""


async def test_stopped_before_it_has_started_it_is_interrupted_as_soon_as_it_has(openclaw_home, tmp_path):
    """Before that an interruption is refused, and the turn would run to its end."""
    import codex_cli_bin  # type: ignore[import-not-found,import-untyped,unused-ignore]

    real = Path(str(codex_cli_bin.__file__)).parent / "bin" / "codex"
    program, holds = tmp_path / "codex-held", shlex.join((sys.executable, "-c", HOLDS))
    program.write_text(f'#!/bin/sh\n{real} "$@" | {holds}\n')
    program.chmod(0o755)
    with ResponsesServer(Hangs(), Says("next")) as server:
        variables = {"vars": {"OPENCLAW_CODEX_APP_SERVER_BIN": str(program)}}
        async with house(openclaw_home, server, env=variables) as app:
            work = asyncio.create_task(ask(app, "begin"))
            async with asyncio.timeout(60):
                while not begun(openclaw_home):
                    await asyncio.sleep(0.005)
            began = time.monotonic()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            print(f"stopped before turn/started: {time.monotonic() - began:.2f} s")
            thread, processes = thread_of(openclaw_home), children("codex")
            assert (await ask(app, "once more")).text == "next"
            assert thread_of(openclaw_home) == thread
            assert children("codex") == processes
    assert not children("codex")


def begun(home: TemporaryHome) -> bool:
    """Whether Codex has accepted a turn."""
    found = (home.state / "agents" / "main" / "agent" / "codex" / "openclaw-threads").glob("*.json")
    return any(json.loads(path.read_text())["begun"] for path in found)


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
            for pid in children("codex"):
                os.kill(pid, signal.SIGKILL)
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


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(Answers(429, "{}"), "rate_limit"), (Answers(500, "{}"), "server_error"), (Breaks("half"), "server_error")],
)
async def test_a_failure_that_passes_is_asked_again_and_the_question_once(openclaw_home, failure, reason):
    with ResponsesServer(failure, Says("after all")) as server:
        async with house(openclaw_home, server) as app:
            heard = await ask(app, "the-question")
        assert len(server.requests) == 2
        assert json.dumps(server.requests[1]["input"]).count("the-question") == 1
    assert [each.reason for each in heard.events if isinstance(each, AttemptFailed)] == [reason]
    assert (heard.text, heard.end.stop_reason) == ("after all", "stop")


async def test_when_a_model_fails_after_a_tool_the_next_goes_on_with_the_thread(openclaw_home):
    with ResponsesServer(Calls("ls"), Answers(401, "{}")) as first, ResponsesServer(Says("from the other")) as second:
        settings, other = first.settings(), second.settings("other-model")
        settings["models"]["providers"]["second"] = other["models"]["providers"]["mock"]
        settings["agents"]["defaults"]["model"] = {"primary": "mock/mock-model", "fallbacks": ["second/other-model"]}
        openclaw_home.configure(settings)
        async with openclaw_home.assistant(ScriptedModel(), clock=SystemClock()) as app:
            heard = await ask(app, "the-question")
            thread = thread_of(openclaw_home)
            again = await ask(app, "and then")
        (request, _) = second.requests
        said = json.dumps(request["input"])
        assert request["model"] == "other-model"
        assert said.count("the-question") == 1
        assert "AGENTS.md" in json.dumps([each for each in request["input"] if each["type"] == "function_call_output"])
    assert (heard.text, again.text) == ("from the other", "from the other")
    assert thread_of(openclaw_home) == thread
    assert not children("codex")


async def test_without_a_key_nothing_is_started(openclaw_home):
    model = {"id": "gpt-5.5"}
    access = {"agentRuntime": {"id": "codex"}, "models": [model]}
    openclaw_home.configure(
        {"models": {"providers": {"openai": access}}, "agents": {"defaults": {"model": "openai/gpt-5.5"}}}
    )
    async with openclaw_home.assistant(ScriptedModel(), clock=SystemClock()) as app:
        with pytest.raises(AuthFailed, match="openclaw models auth openai"):
            await ask(app, "hi")
    assert not children("codex")


DIES = """
import json, sys
asked = json.loads(sys.stdin.readline())
print(json.dumps({"id": asked["id"], "result": {"userAgent": "openclaw/0.163.0 (x)"}}), flush=True)
sys.stdin.readline(), sys.stdin.readline()
"""


async def test_a_process_that_dies_before_it_accepts_the_turn_is_replaced_once(openclaw_home, tmp_path):
    import codex_cli_bin  # type: ignore[import-not-found,import-untyped,unused-ignore]

    real = Path(str(codex_cli_bin.__file__)).parent / "bin" / "codex"
    program, dies = tmp_path / "codex-once", shlex.join((sys.executable, "-c", DIES))
    program.write_text(f'#!/bin/sh\nif mkdir {tmp_path}/died 2>/dev/null; then exec {dies}; fi\nexec {real} "$@"\n')
    program.chmod(0o755)
    with ResponsesServer(Says("hello")) as server:
        variables = {"vars": {"OPENCLAW_CODEX_APP_SERVER_BIN": str(program)}}
        async with house(openclaw_home, server, env=variables) as app:
            heard = await ask(app, "hi")
        assert len(server.requests) == 1
    assert (tmp_path / "died").exists()
    assert (heard.text, heard.end.stop_reason) == ("hello", "stop")


async def test_memory_is_looked_up_or_given_where_it_cannot_be(openclaw_home):
    with ResponsesServer(Says("hello")) as server:
        async with house(openclaw_home, server) as app:
            (openclaw_home.workspace / "MEMORY.md").write_text("memory-canary")
            await ask(app, "hi")
            assert not server.saw("memory-canary")
            assert server.saw("use memory_search and memory_get")
            await ask(app, "hi", tools_deny=("memory_search", "memory_get"))
            assert server.saw("memory-canary")


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


@pytest.mark.parametrize("reply", [[Hangs()], [Says("the answer"), Hangs()]])
async def test_a_silent_model_is_given_up_and_its_answer_is_kept(openclaw_home, reply):
    clock, heard = FakeClock(SystemClock.now()), Heard()
    with ResponsesServer(reply) as server:
        openclaw_home.configure(server.settings())
        async with openclaw_home.assistant(ScriptedModel(), clock=clock) as app:
            work = asyncio.create_task(ask(app, "hi", into=heard))
            await asyncio.to_thread(server.until_asked, 1)
            if len(reply) > 1:
                await until(heard, TextDelta)
            await clock.drive(work)
    if len(reply) > 1:
        assert (heard.text, heard.end.stop_reason) == ("the answer", "stop")
        assert messages(openclaw_home)[-1].text == "the answer"
    else:
        assert (heard.end.stop_reason, heard.end.error_code) == ("error", "timeout")


ANSWERS = {
    "item/tool/call": "DynamicToolCallResponse",
    "item/commandExecution/requestApproval": "CommandExecutionRequestApprovalResponse",
    "item/fileChange/requestApproval": "FileChangeRequestApprovalResponse",
}


async def test_all_that_is_sent_fits_the_schema_of_the_server(openclaw_home, tmp_path):
    import codex_cli_bin  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import jsonschema

    program = Path(str(codex_cli_bin.__file__)).parent / "bin" / "codex"
    command = (str(program), "app-server", "generate-json-schema", "--experimental", "--out", str(tmp_path))
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    schemas = {path.stem: json.loads(path.read_text()) for path in tmp_path.rglob("*.json")}
    sent, heard_by_us, between = tmp_path / "sent", tmp_path / "heard", tmp_path / "codex-between"
    between.write_text(f'#!/bin/sh\ntee -a {sent} | {program} "$@" | tee -a {heard_by_us}\n')
    between.chmod(0o755)
    patch = "*** Begin Patch\n*** Add File: note.txt\n+hello\n*** End Patch\n"
    replies: tuple[Any, ...] = (
        [Calls("ls"), Native("exec_command", {"cmd": "ls"})],
        Writes("apply_patch", patch),
        Says("first"),
        Hangs("half"),
        Says("second"),
        Says("a summary"),
        Says("third"),
    )
    with ResponsesServer(*replies) as server:
        settings = server.settings("gpt-5.5")
        settings["models"]["providers"]["mock"]["agentRuntime"]["posture"] = "native"
        variables = {"env": {"vars": {"OPENCLAW_CODEX_APP_SERVER_BIN": str(between)}}}
        async with house(openclaw_home, server, "gpt-5.5", **{**settings, **variables}) as app:
            await ask(app, "one")
            heard, steering = Heard(), Steering()
            work = asyncio.create_task(ask(app, "two", steering=steering, into=heard))
            await until(heard, TextDelta)
            steering.add(User(content="and this", timestamp=1, idempotency_key="second:user"))
            await work
            await ask(app, "", compact="")
        async with house(openclaw_home, server, "gpt-5.5", **{**settings, **variables}) as app:
            await ask(app, "three")
            await ask(app, "four", tools_deny=("ls",))
            await ask(app, "light", session="cron:1:run:1", trigger="cron", light=True)
            server.then = hangs
            heard = Heard()
            work = asyncio.create_task(ask(app, "five", into=heard))
            await until(heard, TextDelta)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
    asked = {each["id"]: each["method"] for each in frames(heard_by_us) if "id" in each and "method" in each}
    methods = set()
    for each in frames(sent):
        if "method" in each:
            methods.add(each["method"])
            jsonschema.validate(each, schemas["ClientRequest" if "id" in each else "ClientNotification"])
        else:
            methods.add(asked[each["id"]])
            jsonschema.validate(each["result"], schemas[ANSWERS[asked[each["id"]]]])
    assert methods >= {*ANSWERS, "initialize", "initialized", "thread/start", "thread/resume", "thread/inject_items"}
    begun = [each["params"] for each in frames(sent) if each.get("method") == "thread/start"]
    assert any(each.get("ephemeral") for each in begun)
    assert methods >= {"turn/start", "turn/steer", "turn/interrupt", "thread/compact/start"}
    assert "thread/backgroundTerminals/clean" in methods


def hangs(request: dict[str, Any]) -> list[Hangs]:
    return [Hangs("half")]


def frames(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_pause_in_the_stream_changes_nothing(openclaw_home):
    with ResponsesServer([Pauses(), Says("late but whole")]) as server:
        async with house(openclaw_home, server) as app:
            work = asyncio.create_task(ask(app, "hi"))
            await asyncio.to_thread(server.until_asked, 1)
            server.go_on()
            heard = await work
    assert heard.text == "late but whole"
    assert [each.message.text for each in heard.events if isinstance(each, MessageEnded)] == ["late but whole"]
