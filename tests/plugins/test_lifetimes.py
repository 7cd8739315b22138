"""Plugins that are stopped, cancelled or reloaded at a bad moment: nothing hangs and nothing is left behind."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from openclaw.core.hooks import HookContext
from openclaw.core.plugin import PluginFailed
from openclaw.core.tool import ToolContext
from tests.plugins.support import DEADLINE, bench, tool_plugin, write

pytestmark = pytest.mark.anyio

PATIENT = 60.0
"""Less than what a plugin may be silent for in these tests, and far more than anything here takes."""
SILENT = {"silentSeconds": 600, "startSeconds": 60}

STUBBORN = """
import asyncio
from openclaw.plugin import Api; from openclaw.plugin import FunctionTool

class Stubborn:
    async def start(self):
        pass
    async def stop(self):
        await asyncio.sleep(3600)

def register(api: Api) -> None:
    api.service("stubborn", Stubborn())
    api.tool(FunctionTool("stubborn", "Waits.", {}, wait))

async def wait(args, context):
    await asyncio.sleep(3600)
"""
DECLARED = {"contracts": {"tools": ["stubborn"], "services": ["stubborn"]}}


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_what_is_too_long_for_the_pipe_is_refused_and_the_plugin_lives(tmp_path: Path) -> None:
    tool_plugin(tmp_path / "p", "echo", "return str(len(args.get('text', '')))")
    async with bench(tmp_path, tmp_path / "p", limits={"failures": 1}) as here:
        answer = await here.call("echo", text="x" * (33 << 20))
        assert answer.is_error and "too long" in answer.text
        assert (await here.call("echo", text="xyz")).text == "3"
        assert here.status("echo").state == "running"


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be halted here")
async def test_a_call_to_a_process_that_does_not_read_can_be_cancelled(tmp_path: Path) -> None:
    tool_plugin(tmp_path / "p", "echo", "return ''")
    async with bench(tmp_path, tmp_path / "p", limits=SILENT) as here:
        pid = here.status("echo").pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        context = ToolContext(call_id="1", workspace=Path("/"))
        asking = asyncio.create_task(here.tool("echo").call({"text": "x" * (8 << 20)}, context))
        done, _ = await asyncio.wait({asking}, timeout=0.5)  # by now the pipe is full
        assert not done
        asking.cancel()
        done, _ = await asyncio.wait({asking}, timeout=PATIENT)
        assert done and asking.cancelled()
        async with asyncio.timeout(PATIENT):
            await here.plugins.close()
        assert gone(pid)


async def test_a_change_that_is_given_up_halfway_leaves_no_process(tmp_path: Path) -> None:
    write(tmp_path / "p", "stubborn", STUBBORN, **DECLARED)
    async with bench(tmp_path, tmp_path / "p", limits=SILENT) as here:
        pid = here.status("stubborn").pid
        assert pid is not None
        waiting = asyncio.create_task(here.call("stubborn"))
        await asyncio.sleep(0.1)
        change = asyncio.create_task(here.apply({"load": {"paths": [str(tmp_path / "p")]}, "deny": ["stubborn"]}))
        async with asyncio.timeout(DEADLINE):  # until the stop is under way: the call is told first
            assert (await waiting).is_error
        change.cancel()
        await asyncio.gather(change, return_exceptions=True)
        async with asyncio.timeout(DEADLINE):
            while not gone(pid):
                await asyncio.sleep(0.02)
        assert "stubborn" not in here.here
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "plugin:stubborn"]


async def test_nothing_more_is_asked_of_a_plugin_while_it_ends(tmp_path: Path) -> None:
    write(tmp_path / "p", "stubborn", STUBBORN, **DECLARED)
    async with bench(tmp_path, tmp_path / "p", limits=SILENT) as here:
        change = asyncio.create_task(here.apply({"load": {"paths": [str(tmp_path / "p")]}, "deny": ["stubborn"]}))
        await here.until("stubborn", "off")
        assert "stubborn" not in here.here
        await change


GUARD = """
def register(api):
    api.on("before_tool_call", lambda event, context: {"block": True, "blockReason": "no"})
"""


async def test_what_a_plugin_guards_is_refused_while_it_is_started_again(tmp_path: Path) -> None:
    write(tmp_path / "p", "guard", GUARD, hooks=["before_tool_call"])
    async with bench(tmp_path, tmp_path / "p") as here:
        old = here.here["guard"].hooks[0]
        again = asyncio.create_task(here.plugins.reload("guard", here.settings, here))
        meanwhile = set()
        while not again.done():
            (hook,) = here.here["guard"].hooks  # somebody guards at every moment
            meanwhile.add(hook.run)
            await asyncio.sleep(0)
        (new,) = here.here["guard"].hooks
        assert new.run not in (old.run, *(meanwhile - {new.run})) and len(meanwhile - {old.run, new.run}) == 1
        (refusing,) = meanwhile - {old.run, new.run}
        with pytest.raises(PluginFailed, match="the plugin guard is being started again"):
            await refusing(None, HookContext())


@pytest.mark.parametrize("hangs", ["start", "stop"])
async def test_a_trusted_plugin_whose_service_hangs_holds_nobody_up(tmp_path: Path, hangs: str) -> None:
    code = STUBBORN if hangs == "stop" else STUBBORN.replace("        pass", "        await asyncio.sleep(3600)")
    write(tmp_path / "p", "stubborn", code, **DECLARED)
    entries = {"stubborn": {"isolation": "inprocess"}}
    async with bench(tmp_path, tmp_path / "p", entries=entries, limits={"startSeconds": 1}) as here:
        status = here.status("stubborn")
        if hangs == "start":
            assert status.state == "quarantined" and "did not start within 1 s" in status.why
        async with asyncio.timeout(PATIENT):
            await here.plugins.close()


async def test_a_trusted_plugin_is_read_anew_with_all_its_files(tmp_path: Path) -> None:
    body = "import helper_of_fresh\nreturn helper_of_fresh.WORD"
    directory = tool_plugin(tmp_path / "p", "fresh", body)
    (directory / "helper_of_fresh.py").write_text("WORD = 'old'\n")
    async with bench(tmp_path, tmp_path / "p", entries={"fresh": {"isolation": "inprocess"}}) as here:
        assert (await here.call("fresh")).text == "old"
        (directory / "helper_of_fresh.py").write_text("WORD = 'newer'\n")
        await here.plugins.reload("fresh", here.settings, here)
        assert (await here.call("fresh")).text == "newer"
