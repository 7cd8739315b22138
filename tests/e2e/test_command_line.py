"""The real program in its own process, as a person would run it."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.messages import Assistant, ToolResult
from openclaw.sessions.files import load
from openclaw.sessions.transcript import build_context
from openclaw.testing import Calls, Says, TemporaryHome, calls, says
from openclaw.testing_server import Answers, Breaks, Hangs, MockModelServer
from tests.commandline import openclaw

OPENCLAW = [sys.executable, "-m", "openclaw"]


def run(home: TemporaryHome, *words: str, stdin: str = "", cwd: Path | None = None, **extra: str) -> Any:
    return openclaw(*words, input=stdin, env={**home.environ, **extra}, cwd=cwd or home.root)


def start(home: TemporaryHome, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*OPENCLAW, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=home.environ,
        cwd=home.root,
    )


def messages(home: TemporaryHome) -> tuple[Any, ...]:
    (path,) = home.transcripts()
    context = build_context(load(path).entries)
    assert context.problems == ()
    return context.messages


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text(
        "# Boats\n\nAll about boats and how to build them.\n\n## Sails\n\nSails catch wind.\n"
    )
    (folder / "hull.py").write_text("print('hull')\n")
    return folder


def test_the_first_answer_needs_no_key_and_no_network(openclaw_home: TemporaryHome, project: Path) -> None:
    done = run(openclaw_home, "agent", "--message", "List the files here and tell me what README.md says", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "- README.md" in done.stdout and "- hull.py" in done.stdout
    assert "Boats" in done.stdout and "Sails: Sails catch wind." in done.stdout
    assert "without a model" in done.stdout
    assert "ls " in done.stderr and "read " in done.stderr
    used = [message.tool_name for message in messages(openclaw_home) if isinstance(message, ToolResult)]
    assert sorted(used) == ["ls", "read"]


def test_a_note_is_remembered_by_the_next_process(openclaw_home: TemporaryHome) -> None:
    assert run(openclaw_home, "agent", "-m", "remember that the dentist is on Tuesday").returncode == 0
    assert run(openclaw_home, "agent", "-m", "remember that the plumber comes on Friday").returncode == 0
    done = run(openclaw_home, "agent", "-m", "what did I say about the dentist?")
    assert "dentist is on Tuesday" in done.stdout
    assert "plumber" not in done.stdout


def test_a_model_reads_and_changes_files(openclaw_home: TemporaryHome, project: Path) -> None:
    target = project / "hull.py"
    script: list[Says | list[Calls]] = [
        [calls("read", path=str(target)), calls("edit", path=str(target), oldText="'hull'", newText="'deck'")],
        says("Renamed it."),
    ]
    with MockModelServer(script) as server:
        openclaw_home.configure(server.settings(cost={"input": 1.0, "output": 2.0}))
        done = run(openclaw_home, "agent", "-m", "rename hull to deck", "--json")
    document = json.loads(done.stdout)
    assert target.read_text() == "print('deck')\n"
    assert document["status"] == "ok" and document["payloads"] == [{"text": "Renamed it.", "mediaUrl": None}]
    assert document["model"] == "mock/mock" and document["stopReason"] == "stop"
    assert document["usage"]["input"] == 200 and document["usage"]["output"] == 20
    assert document["cost"] == pytest.approx((200 * 1.0 + 20 * 2.0) / 1e6)
    second = server.requests[1]["messages"]
    assert [message["role"] for message in second[-3:]] == ["assistant", "tool", "tool"]
    listed = json.loads(run(openclaw_home, "sessions", "list", "--json").stdout)
    assert listed["sessions"][0]["totalTokens"] == 220


def test_the_answer_streams_while_it_is_written(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Hangs("half an answer")]) as server:
        openclaw_home.configure(server.settings())
        process = start(openclaw_home, "agent", "-m", "hello")
        assert process.stdout is not None
        seen = ""
        while "half an answer" not in seen:
            seen += process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=200)
    assert process.returncode == 130


def test_ctrl_c_stops_within_a_second_and_keeps_the_conversation_whole(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([[says("Let me wait."), calls("exec", command="sleep 300")]]) as server:
        settings = server.settings()
        settings["tools"] = {"exec": {"security": "full", "ask": "off"}}
        openclaw_home.configure(settings)
        process = start(openclaw_home, "agent", "-m", "wait")
        deadline = time.monotonic() + 30
        while not _children(process.pid, "sleep 300"):
            assert time.monotonic() < deadline, "the command never started"
            time.sleep(0.05)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=200)
        took = time.monotonic() - began
    assert process.returncode == 130
    assert took < 250, "the command was waited for"
    assert "stopped" in errors
    said = messages(openclaw_home)
    assert isinstance(said[-1], ToolResult) and said[-1].is_error and "Stopped by the user" in said[-1].text
    assert not _children(process.pid, "sleep 300")


def _children(pid: int, command: str) -> list[int]:
    """Processes below `pid`, or orphans, that run `command`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if b" ".join(words).strip().decode(errors="replace") == command and int(parent) in (pid, 1, *_tree(pid)):
                found.append(int(entry.name))
    return found


def _tree(pid: int) -> list[int]:
    try:
        kids = [int(kid) for kid in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return kids + [grandkid for kid in kids for grandkid in _tree(kid)]


def test_a_partial_answer_is_kept_as_aborted(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Hangs("half an answer")]) as server:
        openclaw_home.configure(server.settings())
        process = start(openclaw_home, "agent", "-m", "hello")
        assert process.stdout is not None
        assert process.stdout.read(4) == "half"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=200)
    last = messages(openclaw_home)[-1]
    assert isinstance(last, Assistant)
    assert (last.text, last.stop_reason) == ("half an answer", "aborted")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Answers(401, '{"error":{"message":"bad key"}}'), "models.providers.mock.apiKey"),
        (Answers(404, '{"error":{"message":"model not found"}}'), "mock"),
        (Answers(400, '{"error":{"message":"maximum context length is 8000 tokens"}}'), "conversation"),
        (Answers(200, "<html>login</html>", content_type="text/html"), "mock"),
    ],
)
def test_a_failing_provider_says_what_to_do(reply: Answers, expected: str, openclaw_home: TemporaryHome) -> None:
    with MockModelServer([reply]) as server:
        openclaw_home.configure(server.settings())
        done = run(openclaw_home, "agent", "-m", "hello", "--timeout", "3")
    assert done.returncode == 1
    assert expected.lower() in done.stderr.lower(), done.stderr
    assert "mock-key-123456" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_stream_that_breaks_is_tried_again_and_leaves_one_answer(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Breaks("half a th"), says("The whole thing.")]) as server:
        openclaw_home.configure(server.settings())
        done = run(openclaw_home, "agent", "-m", "hello")
    assert done.returncode == 0, done.stderr
    assert "closed" in done.stderr
    texts = [message.text for message in messages(openclaw_home) if isinstance(message, Assistant)]
    assert texts == ["The whole thing."]


def test_a_model_that_never_answers_ends_at_the_deadline(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Hangs()]) as server:
        openclaw_home.configure(server.settings())
        done = run(openclaw_home, "agent", "-m", "hello", "--timeout", "1")
    assert done.returncode == 1
    assert "--timeout" in done.stderr


def test_a_server_that_is_not_running_is_named(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("x")]) as server:
        settings = server.settings()
    openclaw_home.configure(settings)
    done = run(openclaw_home, "agent", "-m", "hello")
    assert done.returncode == 1
    assert "127.0.0.1" in done.stderr and "Traceback" not in done.stderr


def test_broken_configuration_is_shown_with_line_and_column(openclaw_home: TemporaryHome) -> None:
    openclaw_home.config_path.write_text('{\n  "agents": {\n    "defaults": {]\n  }\n}\n')
    openclaw_home.config_path.chmod(0o600)
    done = run(openclaw_home, "agent", "-m", "hello")
    assert done.returncode == 1
    assert "openclaw.json" in done.stderr and "line 3" in done.stderr.replace(":3:", " line 3 "), done.stderr


def test_the_last_good_configuration_keeps_the_program_running(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("still here")]) as server:
        openclaw_home.configure(server.settings())
        assert run(openclaw_home, "agent", "-m", "hello").returncode == 0
        openclaw_home.config_path.write_text("{ this is not")
        done = run(openclaw_home, "agent", "-m", "hello again")
    assert done.returncode == 0, done.stderr
    assert "still here" in done.stdout
    assert "openclaw.json" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["agent", "-m", "hi", "--model", "anthropic/claude-sonet-4-5"], "ANTHROPIC_API_KEY"),
        (["agent", "-m", "hi", "--model", "antropic/claude-sonnet-4-5"], "anthropic"),
        (["agent", "-m", "hi", "--agent", "nobody"], "openclaw agents add nobody"),
        (["agent", "-m", "hi", "--session-key", "agent:main"], "agent:main:main"),
        (["agent", "-m", "hi", "--thinking", "hard"], "thinking"),
        (["agent", "-m", "  "], "--message"),
        (["agent", "--message-file", "nowhere.txt"], "nowhere.txt"),
        (["sessions", "show", "nothing"], "sessions list"),
        (["sesions"], "Did you mean sessions?"),
    ],
)
def test_bad_input_says_what_to_do(words: list[str], expected: str, openclaw_home: TemporaryHome) -> None:
    done = run(openclaw_home, *words)
    assert done.returncode in (1, 2)
    assert expected in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert openclaw_home.transcripts() == []


def test_an_unreadable_workspace_is_named(openclaw_home: TemporaryHome) -> None:
    openclaw_home.workspace.rmdir()
    openclaw_home.workspace.write_text("a file where the directory should be")
    done = run(openclaw_home, "agent", "-m", "hello")
    assert done.returncode == 1
    assert str(openclaw_home.workspace) in done.stderr and "Traceback" not in done.stderr


def test_failures_are_json_when_asked(openclaw_home: TemporaryHome) -> None:
    done = run(openclaw_home, "agent", "-m", "hi", "--json", "--agent", "nobody")
    document = json.loads(done.stdout)
    assert document["ok"] is False and document["error"]["type"] == "cli_error"


def test_commands_need_a_person_when_nobody_is_at_the_terminal(openclaw_home: TemporaryHome) -> None:
    done = run(openclaw_home, "agent", "-m", "run `touch proof`")
    assert "not on the allowlist" in done.stdout
    assert not list(openclaw_home.root.rglob("proof"))


def test_two_processes_share_a_session_one_after_the_other(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("one answer")]) as server:
        openclaw_home.configure(server.settings())
        threads = [threading.Thread(target=run, args=(openclaw_home, "agent", "-m", f"hi {i}")) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    said = messages(openclaw_home)
    assert [type(message).__name__ for message in said] == ["User", "Assistant"] * 3


def test_a_conversation_can_be_shown_and_exported(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    run(openclaw_home, "agent", "-m", "what time is it?")
    shown = run(openclaw_home, "sessions", "show", "main")
    assert "you: what time is it?" in shown.stdout and "assistant: It is " in shown.stdout
    target = tmp_path / "talk.md"
    assert run(openclaw_home, "sessions", "export", "main", "-o", str(target)).returncode == 0
    assert "what time is it?" in target.read_text()
    again = run(openclaw_home, "sessions", "export", "main", "-o", str(target))
    assert again.returncode == 1 and "already there" in again.stderr


def test_a_newer_state_directory_is_refused_in_one_sentence(openclaw_home: TemporaryHome) -> None:
    import apsw

    run(openclaw_home, "status")
    connection = apsw.Connection(str(openclaw_home.state / "state" / "openclaw-py.sqlite"))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    done = run(openclaw_home, "status")
    assert done.returncode == 1
    assert "newer OpenClaw" in done.stderr and "OPENCLAW_STATE_DIR" in done.stderr


def test_nothing_is_readable_by_others(openclaw_home: TemporaryHome) -> None:
    run(openclaw_home, "agent", "-m", "what time is it?")
    for path in (*openclaw_home.transcripts(), openclaw_home.state / "state" / "openclaw-py.sqlite"):
        assert path.stat().st_mode & 0o077 == 0, path
