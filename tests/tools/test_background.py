"""Commands in the background: watched, typed to, ended, and gone when the house is closed."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.tool import Effects, ToolContext
from openclaw.process.child import PipedProcess
from openclaw.process.group import members
from openclaw.process.tasks import SystemClock
from openclaw.testing import FakeClock
from openclaw.tools.background import DISCARDED, Background, Retention, fresh_name
from openclaw.tools.exec import ExecTool
from openclaw.tools.process import ProcessTool, encode_input, encode_key, encode_paste
from tests.tools.conftest import ENV

pytestmark = pytest.mark.anyio


def in_the_house(pid: int) -> bool:
    return bool(members(pid))


async def until_ended(process: ProcessTool, call, name: str) -> str:
    """Everything a command says until its end."""
    said = []
    async with asyncio.timeout(120):
        while True:
            output = await call(process, action="poll", sessionId=name, timeout=5000)
            said.append(output.text)
            if output.details["status"] != "running":
                return "\n".join(said)


async def test_a_quick_command_is_answered_as_if_there_were_no_background(run, process, call):
    output = await call(run, command="echo hello")
    assert output.text == "hello"
    assert (await call(process, action="list")).text == "No running or recent sessions."


async def test_a_slow_command_goes_on_under_a_name_and_is_polled_to_its_end(run, process, call, workspace):
    output = await call(run, command="echo first; sleep 0.3; echo second; exit 3", yieldMs=50)
    name, pid = output.details["sessionId"], output.details["pid"]
    assert output.text.startswith(f"Command still running (session {name}, pid {pid}).")
    assert output.details["status"] == "running"
    assert output.details["cwd"] == str(workspace)
    assert name.count("-") >= 1
    said = await until_ended(process, call, name)
    assert said.index("first") < said.index("second")
    assert "(Command exited with code 3)" in said
    listed = await call(process, action="list")
    assert listed.text.startswith(f"{name} failed ")
    assert listed.text.endswith(":: echo first; sleep 0.3; echo second; exit 3")


async def test_background_returns_at_once_and_input_arrives(run, process, call):
    started = await call(run, command="read line; echo got:$line", background=True)
    name = started.details["sessionId"]
    assert "Sent" in (await call(process, action="write", sessionId=name, data="hello")).text
    await call(process, action="submit", sessionId=name)
    assert "got:hello" in await until_ended(process, call, name)


async def test_the_end_of_input_ends_a_reader(run, process, call):
    name = (await call(run, command="cat", background=True)).details["sessionId"]
    await call(process, action="write", sessionId=name, data="whole text\n", eof=True)
    assert "whole text" in await until_ended(process, call, name)
    refused = await call(process, action="write", sessionId=name, data="more")
    assert refused.is_error
    assert "has ended" in refused.text


async def test_a_command_that_was_not_started_for_typing_says_so(run, process, call):
    name = (await call(run, command="sleep 5", yieldMs=20)).details["sessionId"]
    refused = await call(process, action="write", sessionId=name, data="x")
    assert refused.is_error
    assert "background: true or pty: true" in refused.text


async def test_keys_reach_a_program_in_a_terminal(run, process, call):
    name = (await call(run, command="cat; echo over", pty=True, background=True)).details["sessionId"]
    await call(process, action="send-keys", sessionId=name, literal="h\u00e9llo", keys=["Enter", "C-d"])
    said = await until_ended(process, call, name)
    assert said.count("h\u00e9llo") == 2  # once as it was typed, once as it came back
    assert "over" in said


async def test_killing_takes_the_whole_family(run, process, call):
    started = await call(run, command="sleep 60 & sleep 60", background=True)
    name, pid = started.details["sessionId"], started.details["pid"]
    assert in_the_house(pid)
    assert (await call(process, action="kill", sessionId=name)).text == f"Killed session {name}."
    assert not in_the_house(pid)
    assert (await call(process, action="list")).text.startswith(f"{name} killed ")
    await call(process, action="clear", sessionId=name)
    assert (await call(process, action="poll", sessionId=name)).text == f"No session found for {name}"


async def test_remove_ends_and_forgets(run, process, call):
    started = await call(run, command="sleep 60", background=True)
    name, pid = started.details["sessionId"], started.details["pid"]
    refused = await call(process, action="clear", sessionId=name)
    assert refused.is_error
    await call(process, action="remove", sessionId=name)
    assert not in_the_house(pid)
    assert (await call(process, action="list")).text == "No running or recent sessions."


async def test_another_session_does_not_see_it(run, process, call, workspace):
    name = (await call(run, command="sleep 60", background=True)).details["sessionId"]
    elsewhere = ToolContext(call_id="c", workspace=workspace, session_key="agent:main:other")
    for action in ("poll", "log", "kill", "write", "remove"):
        output = await process.call({"action": action, "sessionId": name, "data": "x"}, elsewhere)
        assert output.text == f"No session found for {name}"
    assert (await process.call({"action": "list"}, elsewhere)).text == "No running or recent sessions."
    assert "running" in (await call(process, action="list")).text


async def test_closing_the_house_leaves_nothing_behind(workspace):
    background = Background(SystemClock())
    tool = ExecTool(shell="/bin/bash", env=ENV, background=background)
    context = ToolContext(call_id="c", workspace=workspace)
    pids = [
        ((await tool.call({"command": command, "background": True}, context)).details or {})["pid"]
        for command in ("sleep 60", "trap '' TERM; sleep 60 & wait", "setsid sleep 60 & sleep 60")
    ]
    await background.close()
    assert not [pid for pid in pids if in_the_house(pid)]
    assert (await tool.call({"command": "true"}, context)).is_error


async def test_a_command_that_was_only_just_started_is_ended_too(workspace):
    background = Background(SystemClock())
    child = PipedProcess(["sleep", "60"], cwd=workspace, env=ENV, fed=True)
    background.start(child, command="sleep 60", cwd=workspace, owner="agent:main:main", timeout=None)
    await background.close()  # nothing ran in between: the task that attends to it had not begun
    assert child.input is None
    assert not in_the_house(child.pid)


async def test_two_who_end_the_same_command_leave_nothing_open(workspace):
    background = Background(SystemClock())
    child = PipedProcess(["sh", "-c", "trap '' TERM; sleep 60 & wait"], cwd=workspace, env=ENV, fed=True)
    job = background.start(child, command="", cwd=workspace, owner="agent:main:main", timeout=None, most=100)
    await asyncio.gather(background.kill(job), background.close(), background.kill(job))
    assert child.input is None
    assert not in_the_house(child.pid)


async def test_a_cancelled_call_ends_its_command(run, call, workspace, background):
    task = asyncio.ensure_future(call(run, command="echo $$ > pid; sleep 60"))
    file = workspace / "pid"
    async with asyncio.timeout(120):
        while not (file.exists() and file.read_text().strip()):
            await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not in_the_house(int(file.read_text()))
    assert background.of("agent:main:main") == []


async def test_the_timeout_holds_in_the_background_too(run, process, call):
    output = await call(run, command="sleep 60", background=True, timeoutSeconds=0.2)
    said = await until_ended(process, call, output.details["sessionId"])
    assert "Command timed out after 0.2 seconds." in said


async def test_the_log_shows_the_last_lines_and_any_others(run, process, call):
    name = (await call(run, command="seq 1 500; sleep 60", yieldMs=300)).details["sessionId"]
    await call(process, action="poll", sessionId=name, timeout=3000)
    log = await call(process, action="log", sessionId=name)
    assert log.details["totalLines"] == 500
    assert log.text.startswith("301\n")
    assert "[lines 300 to 500 of 500" in log.text
    assert (await call(process, action="log", sessionId=name, offset=0, limit=2)).text.startswith("1\n2\n\n")


async def test_endless_output_is_kept_to_its_end(run, process, call, background):
    name = (await call(run, command="yes | head -c 3000000; echo END; sleep 60", yieldMs=500)).details["sessionId"]
    async with asyncio.timeout(120):
        while "END" not in (await call(process, action="log", sessionId=name, limit=1)).text:
            await asyncio.sleep(0.05)
    text = background.find(name, "agent:main:main").tail.text()
    assert text.startswith(DISCARDED)
    assert len(text) < 210_000


async def test_what_ends_by_itself_is_announced_and_what_was_ended_is_not(run, process, call, background):
    killed = (await call(run, command="sleep 60", background=True)).details["sessionId"]
    await call(process, action="kill", sessionId=killed)
    name = (await call(run, command="sleep 0.1; echo done", background=True)).details["sessionId"]
    endings = background.endings()
    async with asyncio.timeout(120):
        ended = await anext(endings)
    assert ended.name == name
    assert ended.tail.text() == "done"
    await endings.aclose()


async def test_an_end_that_a_poll_saw_is_not_announced_again(run, process, call, background):
    seen = (await call(run, command="sleep 0.2", background=True)).details["sessionId"]
    await until_ended(process, call, seen)
    name = (await call(run, command="sleep 0.1", background=True)).details["sessionId"]
    endings = background.endings()
    async with asyncio.timeout(120):
        assert (await anext(endings)).name == name
    await endings.aclose()


async def test_too_many_at_once_are_refused_and_room_comes_back(workspace):
    background = Background(SystemClock(), Retention(running=2))
    tool = ExecTool(shell="/bin/bash", env=ENV, background=background)
    context = ToolContext(call_id="c", workspace=workspace)
    first = await tool.call({"command": "sleep 60", "background": True}, context)
    await tool.call({"command": "sleep 60", "background": True}, context)
    refused = await tool.call({"command": "echo three"}, context)
    assert refused.is_error
    assert "End some with process kill" in refused.text
    await background.kill(background.find((first.details or {})["sessionId"], ""))
    assert (await tool.call({"command": "echo three"}, context)).text == "three"
    await background.close()


async def test_finished_commands_are_forgotten_by_age_and_number(workspace):
    clock = FakeClock()
    background = Background(clock, Retention(finished=2, seconds=60))
    tool = ExecTool(shell="/bin/bash", env=ENV, background=background)
    context = ToolContext(call_id="c", workspace=workspace)
    names = []
    for _ in range(3):
        output = await tool.call({"command": "sleep 0.05", "background": True}, context)
        names.append((output.details or {})["sessionId"])
        await background.wait(background.find(names[-1], ""), 10)
    assert [job.name for job in background.of("")] == names[1:]
    await clock.advance(3600)
    assert background.of("") == []
    await background.close()


async def test_without_process_every_command_is_waited_for(workspace):
    tool = ExecTool(shell="/bin/bash", env=ENV)
    assert "yieldMs" not in tool.spec.parameters["properties"]
    context = ToolContext(call_id="c", workspace=workspace)
    output = await tool.call({"command": "sleep 0.2; echo done", "background": True, "yieldMs": 10}, context)
    assert output.text == "done"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"action": "poll"}, "sessionId is missing"),
        ({"action": "poll", "sessionId": "no-one"}, "No session found for no-one"),
        ({"action": "dance", "sessionId": "no-one"}, "Invalid arguments"),
    ],
)
async def test_bad_requests_are_told_what_is_wrong(process, call, args, says):
    output = await call(process, **args)
    assert output.is_error
    assert says in output.text


def test_typing_counts_as_running_code_and_looking_does_not():
    process = ProcessTool(Background(FakeClock()))
    assert Effects.RUNS_CODE in process.effects({"action": "write"})
    assert Effects.RUNS_CODE in process.effects({"action": "paste"})
    assert process.effects({"action": "poll"}) == Effects.NONE


@pytest.mark.parametrize(
    ("name", "sent"),
    [("Enter", "\r"), ("C-c", "\x03"), ("c-[", "\x1b"), ("M-x", "\x1bx"), ("S-Tab", "\x1b[Z"), ("F5", "\x1b[15~"),
     ("Up", "\x1b[A"), ("q", "q"), ("C-Space", "\0"), ("M-Up", "\x1b\x1b[A"), ("é", "é")],
)  # fmt: skip
def test_keys_are_what_a_terminal_sends(name, sent):
    assert encode_key(name) == sent


@pytest.mark.parametrize("name", ["Nope", "C-Enter", "", "C-é", "F13"])
def test_unknown_keys_are_named(name):
    with pytest.raises(InvalidRequest):
        encode_key(name)


def test_literal_hex_and_keys_come_in_this_order():
    assert encode_input("ab", ["0x1b", "5b"], ["Enter"]) == b"ab\x1b[\r"
    with pytest.raises(InvalidRequest):
        encode_input("", ["zz"], [])


def test_a_paste_cannot_end_itself():
    assert encode_paste("a\x1b[201~rm\r", bracketed=True) == b"\x1b[200~arm\r\x1b[201~"
    assert encode_paste("a\x1b[2\x1b[201~01~rm", bracketed=True) == b"\x1b[200~arm\x1b[201~"


@given(st.text())
def test_any_key_name_gives_bytes_or_a_clear_error(name):
    with contextlib.suppress(OpenClawError):
        assert isinstance(encode_key(name), str)


def test_names_do_not_repeat():
    taken: set[str] = set()
    for _ in range(2000):
        name = fresh_name(taken)
        assert name not in taken
        taken.add(name)


async def test_typing_to_a_command_that_ends_meanwhile_ends_with_it(run, process, call):
    started = await call(run, command="sleep 600", background=True)
    name = started.details["sessionId"]
    typing = asyncio.create_task(call(process, action="write", sessionId=name, data="x" * 1_000_000))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not typing.done()
    await call(process, action="kill", sessionId=name)
    assert "has closed its input" in (await typing).text
