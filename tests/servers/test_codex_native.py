"""Codex with its own shell and patches, against the real program: our gates judge each before it happens."""

import asyncio
import json
import time
from importlib.util import find_spec
from typing import Any

import pytest

from openclaw.core.events import ToolStarted
from openclaw.core.messages import Assistant, ToolResult
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Decision
from openclaw.process.tasks import SystemClock
from openclaw.testing import Heard, Says, ScriptedApprover, ScriptedModel, TemporaryHome, ask
from tests.harnesses.codex.responses import Native, ResponsesServer, Writes
from tests.processes import children
from tests.servers.test_codex import messages, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.servers,
    pytest.mark.skipif(find_spec("codex_cli_bin") is None, reason="the package openai-codex-cli-bin is not installed"),
]
FREE = {"exec": {"security": "full", "ask": "off"}}
LISTED = {"exec": {"security": "allowlist", "ask": "on-miss"}}
CLOSED = {"exec": {"security": "allowlist", "ask": "off"}}
PATCH = "*** Begin Patch\n*** Add File: note.txt\n+hello\n*** End Patch\n"


class NeverAnswers(ScriptedApprover):
    """A person who thinks about it."""

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        await asyncio.Event().wait()
        return await super().decide(request)


def shell(command: str, **more: Any) -> Native:
    return Native("exec_command", {"cmd": command, **more})


def native(
    home: TemporaryHome,
    server: ResponsesServer,
    *,
    tools: Any = FREE,
    model: str = "gpt-5.5",
    posture: str = "native",
    approver: ScriptedApprover | None = None,
) -> Any:
    settings = server.settings(model)
    settings["models"]["providers"]["mock"]["agentRuntime"]["posture"] = posture
    home.configure({**settings, "tools": tools})
    return home.assistant(ScriptedModel(), clock=SystemClock(), approver=approver)


def outputs(server: ResponsesServer, number: int = -1) -> list[str]:
    """What the model was told of its calls."""
    return [json.dumps(each["output"]) for each in server.requests[number]["input"] if each["type"].endswith("_output")]


async def test_an_admitted_command_runs_and_is_on_record_as_ours(openclaw_home):
    with ResponsesServer(shell("echo made > made && cat made"), Says("done")) as server:
        async with native(openclaw_home, server) as app:
            heard = await ask(app, "make it")
        assert "made" in outputs(server)[0]
        offered = {tool["name"] for tool in server.requests[0]["tools"]}
        (ours,) = [tool for tool in server.requests[0]["tools"] if tool["name"] == "openclaw"]
    assert {"exec_command", "apply_patch"} <= offered
    assert not {"spawn_agent", "web_search"} & offered
    assert not {"exec", "process", "write", "edit", "apply_patch"} & {tool["name"] for tool in ours["tools"]}
    assert (openclaw_home.workspace / "made").read_text() == "made\n"
    (result,) = heard.results
    assert (result.tool_name, result.text, result.is_error) == ("exec", "made\n", False)
    call, answer = messages(openclaw_home)[1], messages(openclaw_home)[2]
    assert isinstance(call, Assistant)
    assert isinstance(answer, ToolResult)
    assert call.calls[0].arguments["command"] == "echo made > made && cat made"
    assert call.calls[0].id == answer.tool_call_id


async def test_what_only_reads_is_not_asked_about(openclaw_home):
    approver = ScriptedApprover("deny")
    with ResponsesServer(shell("cat AGENTS.md"), Says("done")) as server:
        async with native(openclaw_home, server, tools=LISTED, approver=approver) as app:
            (openclaw_home.workspace / "AGENTS.md").write_text("canary")
            await ask(app, "look")
        assert "canary" in outputs(server)[0]
    assert not approver.asked


@pytest.mark.parametrize("answer", ["allow-once", "deny"])
async def test_a_person_decides_where_the_policy_says_so(openclaw_home, answer: Decision):
    approver = ScriptedApprover(answer)
    with ResponsesServer(shell("mkfifo pipe"), Says("done")) as server:
        async with native(openclaw_home, server, tools=LISTED, approver=approver) as app:
            heard = await ask(app, "make it")
        told = outputs(server)[0]
    assert [each.command for each in approver.asked] == ["mkfifo pipe"]
    assert approver.asked[0].cwd == str(openclaw_home.workspace)
    allowed = answer == "allow-once"
    assert (openclaw_home.workspace / "pipe").exists() == allowed
    assert ("rejected" in told) == (not allowed)
    assert heard.results[0].is_error == (not allowed)
    assert heard.text == "done"


async def test_always_holds_for_the_next_time(openclaw_home):
    approver = ScriptedApprover("allow-always")
    with ResponsesServer(shell("chmod 600 TOOLS.md"), shell("chmod 600 TOOLS.md"), Says("done")) as server:
        async with native(openclaw_home, server, tools=LISTED, approver=approver) as app:
            heard = await ask(app, "twice")
        assert len(outputs(server)) == 2
    assert [each.command for each in approver.asked] == ["chmod 600 TOOLS.md"]
    assert len(heard.results) == 2


async def test_nobody_to_ask_is_a_no_and_the_turn_goes_on(openclaw_home):
    with ResponsesServer(shell("mkfifo pipe"), Says("then not")) as server:
        async with native(openclaw_home, server, tools=CLOSED) as app:
            heard = await ask(app, "make it")
        assert "rejected" in outputs(server)[0]
    assert heard.text == "then not"
    assert not (openclaw_home.workspace / "pipe").exists()
    assert "Not run" in heard.results[0].text


@pytest.mark.parametrize("posture", ["own", "native"])
async def test_a_patch_is_judged_as_ours_and_can_be_undone(openclaw_home, posture):
    with ResponsesServer(Writes("apply_patch", PATCH), Says("done")) as server:
        async with native(openclaw_home, server, tools=CLOSED, posture=posture) as app:
            heard = await ask(app, "write it")
            note = openclaw_home.workspace / "note.txt"
            assert note.read_text() == "hello\n"
            undone = list((openclaw_home.state / "undo").rglob("*"))
        assert "Success" in outputs(server)[0]
    assert heard.results[0].tool_name == "apply_patch"
    assert undone


async def test_a_patch_outside_the_workspace_is_declined(openclaw_home):
    path = openclaw_home.root / "outside.txt"
    with ResponsesServer(Writes("apply_patch", PATCH.replace("note.txt", str(path))), Says("done")) as server:
        async with native(openclaw_home, server, tools=FREE) as app:
            heard = await ask(app, "write it")
        assert "rejected" in outputs(server)[0]
    assert not path.exists()
    assert "outside the workspace" in heard.results[0].text


async def test_a_tool_that_policy_took_away_is_not_there(openclaw_home):
    tools = {**FREE, "deny": ["apply_patch", "exec"]}
    with ResponsesServer(Writes("apply_patch", PATCH), Says("done")) as server:
        async with native(openclaw_home, server, tools=tools) as app:
            await ask(app, "write it")
        assert "rejected" in outputs(server)[0]
        assert "exec_command" not in {tool["name"] for tool in server.requests[0]["tools"]}
    assert not (openclaw_home.workspace / "note.txt").exists()


async def test_what_a_command_fetches_is_labelled(openclaw_home):
    with ResponsesServer(shell("curl -s http://127.0.0.1:9/ || echo nothing"), Says("done")) as server:
        async with native(openclaw_home, server) as app:
            heard = await ask(app, "fetch")
    (result,) = heard.results
    assert [each.label for each in result.origins] == ["external"]


async def test_nested_calls_of_a_code_mode_model_are_judged_one_by_one(openclaw_home):
    script = (
        'text(await tools.exec_command({cmd: "echo one > one"})); text(await tools.openclaw__ls({path: "."}));'
        'text(await tools.exec_command({cmd: "mkfifo two"})); text(await tools.apply_patch(' + json.dumps(PATCH) + "))"
    )
    with ResponsesServer(Writes("exec", script), Says("done")) as server:
        async with native(openclaw_home, server, tools=CLOSED, model="gpt-6.1-sol") as app:
            heard = await ask(app, "go")
        told = outputs(server)[0]
    assert [each.tool_name for each in heard.results][:3] == ["exec", "ls", "exec"]
    assert [each.is_error for each in heard.results][:3] == [False, False, True]
    assert "AGENTS.md" in told
    assert (openclaw_home.workspace / "one").exists()
    assert not (openclaw_home.workspace / "two").exists()


async def test_a_command_that_goes_on_does_not_keep_the_turn(openclaw_home):
    with ResponsesServer(shell("sleep 300", yield_time_ms=250), Says("meanwhile")) as server:
        async with native(openclaw_home, server) as app:
            heard = await ask(app, "wait")
        assert "session ID" in outputs(server)[0]
    assert heard.text == "meanwhile"
    assert (heard.results[0].details or {})["status"] == "running"
    assert not children("codex")


async def test_what_is_typed_unasked_ends_the_turn(openclaw_home):
    first = shell("cat", tty=True, yield_time_ms=250)
    with ResponsesServer(first, Says("never said")) as server:
        server.then = typed
        async with native(openclaw_home, server, tools=LISTED) as app:
            heard = await ask(app, "type")
    assert heard.end.stop_reason == "error"
    assert "typed something" in (heard.end.error or "")
    assert not children("cat")


def typed(request: dict[str, Any]) -> tuple[Native, ...] | None:
    """Types to the program that the request says is running."""
    said = json.dumps(request["input"])
    if (
        len(request["input"])
        and "session ID" in said
        and "write_stdin" not in said.partition("function_call_output")[2]
    ):
        number = int(said.partition("session ID ")[2].split("\\n")[0])
        return (Native("write_stdin", {"session_id": number, "chars": "rm -rf /\n", "yield_time_ms": 250}),)
    return None


@pytest.mark.parametrize("where", ["in a command", "while a person is asked"])
async def test_stopped_it_leaves_no_command_behind(openclaw_home, where):
    command, policy = ("sleep 300", FREE) if where == "in a command" else ("mkfifo pipe", LISTED)
    approver = NeverAnswers() if policy is LISTED else None
    with ResponsesServer(shell(command), Says("next")) as server:
        async with native(openclaw_home, server, tools=policy, approver=approver) as app:
            heard = Heard()
            work = asyncio.create_task(ask(app, "begin", into=heard))
            await until(heard, ToolStarted)
            if policy is FREE:
                while not children("sleep"):
                    await asyncio.sleep(0.01)
            began = time.monotonic()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            print(f"stopped {where}: {time.monotonic() - began:.2f} s")
            assert not children("sleep")
            again = await ask(app, "once more")
            assert again.text == "next"
        said = messages(openclaw_home)
    assert not (openclaw_home.workspace / "pipe").exists()
    calls = [call.id for each in said if isinstance(each, Assistant) for call in each.calls]
    assert calls == [each.tool_call_id for each in said if isinstance(each, ToolResult)]


async def test_a_visit_without_a_shell_does_not_take_a_thread_that_has_one(openclaw_home):
    with ResponsesServer(Says("hello"), Says("looked")) as server:
        async with native(openclaw_home, server) as app:
            await ask(app, "hi")
            heard = await ask(app, "look after it", trigger="heartbeat", tools_deny=("exec",))
        assert heard.text == "looked"
        assert "exec_command" in {tool["name"] for tool in server.requests[0]["tools"]}
        assert "exec_command" not in {tool["name"] for tool in server.requests[1]["tools"]}
        assert '"hi"' in json.dumps(server.requests[1]["input"])
