"""Running commands: what comes back, and that nothing stays behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from openclaw.core.tool import Effects, ToolContext
from openclaw.process.group import members
from openclaw.tools.background import DISCARDED
from openclaw.tools.exec import ExecTool, pick_shell
from openclaw.tools.settings import ExecSettings
from tests.tools.waiting import until

pytestmark = pytest.mark.anyio

ENV = {"PATH": os.environ["PATH"], "HOME": "/tmp", "LANG": "C.UTF-8"}


@pytest.fixture
def tool():
    return ExecTool(shell="/bin/bash", env=ENV)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def written(path: Path) -> int:
    """The number a command writes to `path`, once it is there."""
    return int(await until(lambda: path.exists() and path.read_text().removesuffix("\n")))


async def test_output_comes_back_in_the_order_it_was_written(workspace, tool, call):
    output = await call(tool, command="echo one; echo two >&2; echo three")
    assert output.text == "one\ntwo\nthree"
    assert output.details["status"] == "completed"
    assert output.details["exitCode"] == 0
    assert output.details["exitReason"] == "exit"
    assert output.details["exitSignal"] is None
    assert output.details["timedOut"] is False
    assert output.details["cwd"] == str(workspace)
    assert 0 <= output.details["durationMs"] < 10_000


async def test_silence_is_said(tool, call):
    assert (await call(tool, command="true")).text == "(no output)"


async def test_a_failing_command_shows_its_code(tool, call):
    output = await call(tool, command="echo oops; exit 3")
    assert output.text == "oops\n\n(Command exited with code 3)"
    assert output.details["exitCode"] == 3
    assert not output.is_error


async def test_an_unknown_command_is_an_error(tool, call):
    output = await call(tool, command="no-such-program-here")
    assert output.is_error
    assert "(Command exited with code 127)" in output.text


async def test_death_by_signal_is_named(tool, call):
    output = await call(tool, command="kill -9 $$")
    assert "signal SIGKILL" in output.text
    assert output.details["exitSignal"] == "SIGKILL"
    assert output.details["exitReason"] == "signal"
    assert output.details["status"] == "failed"


async def test_commands_run_in_the_workspace_or_where_told(workspace, tool, call):
    (workspace / "sub").mkdir()
    assert (await call(tool, command="pwd")).text == str(workspace)
    assert (await call(tool, command="pwd", workdir="sub")).text == str(workspace / "sub")
    assert "not found" in (await call(tool, command="pwd", workdir="nope")).text
    (workspace / "file").write_text("")
    assert "not a directory" in (await call(tool, command="pwd", workdir="file")).text


async def test_input_is_closed(tool, call):
    with anyio.fail_after(5):
        assert (await call(tool, command="cat; echo end")).text == "end"


async def test_the_environment_is_the_one_handed_in(tool, workspace, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-leak")
    context = ToolContext(call_id="c", workspace=workspace, env={"FROM_RUN": "r"})
    output = await tool.call({"command": "env", "env": {"MINE": "m"}}, context)
    lines = output.text.split("\n")
    assert {"MINE=m", "FROM_RUN=r", "OPENCLAW_SHELL=exec", "LANG=C.UTF-8"} <= set(lines)
    assert "sk-leak" not in output.text


async def test_directories_can_be_put_before_the_path(workspace, call):
    (workspace / "hello").write_text("#!/bin/sh\necho from us\n")
    (workspace / "hello").chmod(0o755)
    tool = ExecTool(ExecSettings(path_prepend=(str(workspace),)), shell="/bin/sh", env=ENV)
    assert (await call(tool, command="hello")).text == "from us"


@pytest.mark.parametrize(
    "args",
    [
        {"command": " "},
        {"command": "/approve abc allow-always"},
        {"command": "openclaw channels login"},
        {"command": "ls", "env": {"PATH": "/tmp"}},
        {"command": "ls", "env": {"LD_PRELOAD": "/tmp/x.so"}},
        {"command": "ls", "timeoutSeconds": -1},
        {"command": "echo \ud800"},
        {"command": "ls", "env": {"A": "\ud800"}},
        {"command": "echo \ud800", "pty": True},
        {"command": "ls", "env": {"A": "\ud800"}, "pty": True},
        {"command": "echo " + "x" * 3_000_000},
        {},
    ],
)
async def test_what_cannot_or_must_not_run_is_an_answer(tool, call, args):
    output = await call(tool, **args)
    assert output.is_error
    assert output.text


async def test_a_timeout_keeps_the_output_and_ends_everything(workspace, tool, call):
    started = time.monotonic()
    output = await call(tool, command="sleep 300 & echo $! > pid; echo before; sleep 300", timeoutSeconds=0.5)
    assert time.monotonic() - started < 250, "it was waited for"
    assert output.text.startswith("before\n\nCommand timed out after 0.5 seconds.")
    assert output.is_error
    assert output.details["exitReason"] == "overall-timeout"
    assert output.details["timedOut"] is True
    assert output.details["status"] == "failed"
    assert output.details["exitCode"] is None
    assert not alive(int((workspace / "pid").read_text()))


async def test_what_ignores_a_polite_request_is_killed(workspace, tool, call):
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    started = time.monotonic()
    output = await call(tool, command=command, timeoutSeconds=0.3)
    assert output.details["timedOut"]
    assert time.monotonic() - started >= 2, "it was asked politely first"
    assert not alive(int((workspace / "pid").read_text()))


async def test_endless_output_neither_fills_memory_nor_stops_the_loop(tool, call):
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await anyio.sleep(0.02)
            beats += 1

    async with anyio.create_task_group() as group:
        group.start_soon(heart)
        output = await call(tool, command="yes", timeoutSeconds=1)
        group.cancel_scope.cancel()
    assert output.text.startswith(DISCARDED)
    assert len(output.text) < 201_000
    assert "timed out after 1 seconds" in output.text
    assert beats > 10


async def test_a_million_lines_are_kept_by_their_end(tool, call):
    output = await call(tool, command="seq 1000000")
    assert output.text.startswith(DISCARDED + "\n")
    assert output.text.endswith("\n1000000")
    assert len(output.text) <= 200_000 + len(DISCARDED) + 1


async def test_everything_written_before_the_end_is_seen(tool, call):
    output = await call(tool, command="head -c 150000 /dev/zero | tr '\\0' x; echo; echo END")
    assert output.text == "x" * 150_000 + "\nEND"


async def test_colours_and_binary_are_cleaned(tool, call):
    output = await call(tool, command="printf '\\033[31mred\\033[0m\\000\\377\\n10%%\\r99%%\\n'")
    assert output.text == "red\ufffd\n99%"


async def test_a_child_left_in_the_background_does_not_hold_the_call(workspace, tool, call):
    with anyio.fail_after(5):
        output = await call(tool, command="sleep 60 & echo $! > pid; echo started")
    pid = int((workspace / "pid").read_text())
    assert output.text.startswith("started\n\n[Processes it started are still running; to stop them: kill -- -")
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


async def test_a_background_child_that_never_stops_writing_does_not_hold_the_call(workspace, tool, call):
    with anyio.fail_after(5):
        output = await call(tool, command="yes & echo $! > pid")
    pid = int((workspace / "pid").read_text())
    assert output.text
    await until(lambda: not alive(pid))  # its output is gone, so its next write ends it


@pytest.mark.parametrize(
    "command",
    [
        "echo $$ > pid; sleep 300",
        "sleep 300 & echo $! > pid; wait",
        "(sleep 300 & echo $! > pid) & sleep 300",
        "set -m; sleep 300 & echo $! > pid; wait",
        "sh -c 'sh -c \"echo \\$\\$ > pid; exec sleep 300\" & exec sleep 300'",
    ],
)
@pytest.mark.parametrize("pty", [False, True])
async def test_cancelling_ends_the_whole_family(workspace, tool, call, command, pty):
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: call(tool, command=command, pty=pty))
        pid = await written(workspace / "pid")
        assert alive(pid)
        group.cancel_scope.cancel()
    assert not alive(pid)


async def test_cancelling_twice_still_ends_everything(workspace, tool, call):
    task = asyncio.ensure_future(call(tool, command="trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"))
    pid = await written(workspace / "pid")
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(pid)


async def test_no_descriptor_stays_open(tool, call):
    await call(tool, command="true")
    before = descriptors()
    for args in ({"command": "true"}, {"command": "sleep 9", "timeoutSeconds": 0.05}, {"command": "true", "pty": True}):
        await call(tool, **args)
    assert descriptors() == before


async def test_progress_is_shown_a_few_times_a_second(workspace, tool):
    seen: list[str] = []
    context = ToolContext(call_id="c", workspace=workspace, report=seen.append)
    await tool.call({"command": "for i in $(seq 60); do echo tick $i; sleep 0.01; done; sleep 0.4"}, context)
    assert 2 <= len(seen) <= 12
    assert seen[-1].endswith("tick 60")
    assert all(len(text) <= 2000 for text in seen)


async def test_a_terminal_is_a_terminal(tool, call):
    command = "test -t 0 && test -t 1 && echo terminal $TERM"
    assert (await call(tool, command=command)).text == "(no output)\n\n(Command exited with code 1)"
    assert (await call(tool, command=command, pty=True)).text == "terminal xterm-256color"


async def test_a_terminal_gives_codes_signals_and_directories(workspace, tool, call):
    output = await call(tool, command="pwd; exit 4", pty=True)
    assert output.text == f"{workspace}\n\n(Command exited with code 4)"
    assert (await call(tool, command="kill -TERM $$", pty=True)).details["exitSignal"] == "SIGTERM"


async def test_a_terminal_in_a_directory_with_an_odd_name(workspace, tool, call):
    odd = workspace / '-it\'s $HOME "odd"'
    odd.mkdir()
    assert (await call(tool, command="pwd", workdir=odd.name, pty=True)).text == str(odd)


def test_a_directory_that_cannot_be_entered_leaves_no_second_self(tmp_path):
    """The terminal library forks us; an error in the fork must not come back as another run of the program."""
    script = """
import asyncio, os, sys
from pathlib import Path
from openclaw.process.child import TerminalProcess as InTerminal, wait_for_child as attend
seen = []
child = InTerminal(["/bin/echo", "ran"], cwd=Path(sys.argv[1]), env={})
ended = asyncio.run(attend(child, [seen.append], timeout=5))
print("once", ended.code != 0, b"ran" in b"".join(seen))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "gone"], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "once True False\n"


async def test_a_terminal_that_waits_for_a_person_times_out(workspace, tool, call):
    output = await call(tool, command="echo $$ > pid; read -p 'name? ' x", pty=True, timeoutSeconds=0.5)
    assert output.text.startswith("name?")
    assert output.details["timedOut"]
    assert not members(int((workspace / "pid").read_text()))


async def test_many_commands_at_once_do_not_mix(tool, call):
    outputs: dict[int, str] = {}

    async def one(n: int) -> None:
        outputs[n] = (await call(tool, command=f"for i in 1 2 3; do echo {n}; done")).text

    async with anyio.create_task_group() as group:
        for n in range(12):
            group.start_soon(one, n)
    assert outputs == {n: f"{n}\n{n}\n{n}" for n in range(12)}


def test_fish_gives_way_to_a_shell_that_reads_the_same_language(tmp_path):
    fish = tmp_path / "fish"
    fish.write_text("#!/bin/sh\n")
    fish.chmod(0o755)
    assert Path(pick_shell(str(fish), ENV["PATH"])).name in ("bash", "sh")
    assert pick_shell("/bin/sh", ENV["PATH"]) == "/bin/sh"
    assert pick_shell("/nowhere/zsh", str(tmp_path)) == "/bin/sh"


def test_policy_hears_the_truth(tool, context):
    assert Effects.RUNS_CODE in tool.effects({"command": "ls"})
    assert tool.resources({"command": "ls", "pty": True}, context) == {"pty"}
    assert tool.resources({"command": "ls"}, context) == frozenset()
