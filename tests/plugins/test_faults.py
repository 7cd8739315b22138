"""A plugin that misbehaves is put away with a reason; the gateway's side lives and the other plugin goes on working."""

import contextlib
import logging

import pytest

from tests.plugins.support import bench, tool_plugin, write

pytestmark = pytest.mark.anyio

AT_THE_CALL = {
    "leaves the interpreter": ("import os\nos._exit(3)", "exit code 3"),
    "crashes the interpreter": ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
    "writes garbage to its pipe": (
        "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'x' * 9_000)\n    except OSError:\n"
        "        pass\nimport time\ntime.sleep(3600)",
        "no message",
    ),
    "writes a message nobody speaks": (
        "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'\\0\\0\\0\\3abc')\n    except OSError:\n"
        "        pass\nimport time\ntime.sleep(3600)",
        "no message",
    ),
    "floods its output": ("while True:\n    print('x' * 100_000)", "printed more than 1 MiB"),
    "floods the log": (
        "import logging\nwhile True:\n    logging.getLogger('a').error('x' * 3_000)",
        "to the log",
    ),
    "leaks two gigabytes": ("kept = [bytearray(b'x') * (16 << 20) for _ in range(128)]\nreturn 'done'", "64 MiB"),
    "leaks slowly": (
        "import time\nkept = [bytearray(b'x') * (16 << 20) for _ in range(12)]\ntime.sleep(3600)",
        "64 MiB",
    ),
    "keeps the interpreter busy": ("import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')", "no sign of life"),
    "closes everything": ("import os\nos.closerange(3, 64)\nimport time\ntime.sleep(3600)", ""),
}
LIMITS = {"memoryMb": 64, "silentSeconds": 3, "outputMb": 1, "failures": 3}


@pytest.mark.parametrize("case", AT_THE_CALL)
async def test_a_plugin_that_goes_wrong_at_a_call_is_put_away(tmp_path, caplog, case):
    caplog.set_level(logging.ERROR)
    body, why = AT_THE_CALL[case]
    tool_plugin(tmp_path / "p", "bad", body)
    tool_plugin(tmp_path / "p", "good", "return 'fine'")
    async with bench(tmp_path, tmp_path / "p", limits=LIMITS) as here:
        answer = await here.call("bad")
        assert answer.is_error and "bad" in answer.text
        status = await here.until("bad", "quarantined")
        assert why in status.why
        assert status.pid is None and "bad" not in here.here[status.id].names()["tools"]
        assert (await here.call("good")).text == "fine"
        lines = [record.getMessage() for record in caplog.records if "put away" in record.getMessage()]
        assert lines == [f"plugin bad was put away: {status.why}"]


AT_THE_START = {
    "does not compile": ("def register(api:\n", "SyntaxError"),
    "imports what is not there": ("import nothing_of_that_name\n", "nothing_of_that_name"),
    "raises when it registers": ("def register(api):\n    raise RuntimeError('no luck')\n", "no luck (plugin.py:2)"),
    "leaves when it is imported": ("import os\nos._exit(5)\n", "exit code 5"),
    "exits when it is imported": ("import sys\nsys.exit('bye')\n", "SystemExit: bye"),
    "hangs when it is imported": ("import time\ntime.sleep(3600)\n", "did not register within 3 s"),
    "registers nothing callable": ("register = 5\n", "no function register"),
    "registers with a coroutine": ("async def register(api):\n    pass\n", "plain function"),
    "takes two gigabytes": ("kept = [bytearray(b'x') * (16 << 20) for _ in range(128)]\n", "64 MiB"),
    "is killed": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "SIGKILL"),
}


@pytest.mark.parametrize("case", AT_THE_START)
async def test_a_plugin_that_cannot_start_is_put_away(tmp_path, case):
    code, why = AT_THE_START[case]
    write(tmp_path / "p", "bad", code)
    tool_plugin(tmp_path / "p", "good", "return 'fine'")
    async with bench(tmp_path, tmp_path / "p", limits={**LIMITS, "startSeconds": 3 if "hangs" in case else 60}) as here:
        status = await here.until("bad", "quarantined")
        assert why in status.why
        assert (await here.call("good")).text == "fine"


async def test_a_plugin_that_raises_goes_on_until_it_has_raised_too_often(tmp_path):
    tool_plugin(tmp_path / "p", "bad", "raise ValueError('not today')")
    async with bench(tmp_path, tmp_path / "p", limits=LIMITS) as here:
        first = await here.call("bad")
        assert first.is_error and "ValueError: not today (plugin.py:8)" in first.text
        assert here.status("bad").state == "running"
        await here.call("bad")
        await here.call("bad")
        assert "failed 3 times in a row" in (await here.until("bad", "quarantined")).why


async def test_a_call_that_never_ends_is_given_up_and_the_plugin_lives(tmp_path):
    tool_plugin(tmp_path / "p", "slow", "import time\ntime.sleep(0 if args.get('quick') else 3600)\nreturn 'done'")
    async with bench(tmp_path, tmp_path / "p", limits={**LIMITS, "callSeconds": 2, "silentSeconds": 60}) as here:
        answer = await here.call("slow")
        assert answer.is_error and "took longer than 2 s" in answer.text
        assert (await here.call("slow", quick=True)).text == "done"


async def test_whatever_a_plugin_started_ends_with_it(tmp_path):
    body = "import subprocess\nreturn str(subprocess.Popen(['sleep', '3600']).pid)"
    tool_plugin(tmp_path / "p", "starts", body)
    import psutil  # type: ignore[import-untyped]

    async with bench(tmp_path, tmp_path / "p") as here:
        child = psutil.Process(int((await here.call("starts")).text))
        assert child.is_running()
    _, alive = psutil.wait_procs([child], timeout=30)
    assert not alive


async def test_a_guard_that_was_put_away_refuses_what_it_guards(tmp_path):
    code = "import os\ndef register(api):\n    api.on('before_tool_call', lambda event, context: os._exit(1))\n"
    write(tmp_path / "p", "guard", code, hooks=["before_tool_call"])
    async with bench(tmp_path, tmp_path / "p") as here:
        from openclaw.core.hooks import BeforeToolCall, HookContext

        hook = here.here["guard"].hooks[0]
        with pytest.raises(Exception, match="not running"):
            await hook.run(BeforeToolCall(tool_name="exec", params={}), HookContext())
        await here.until("guard", "quarantined")
        with pytest.raises(Exception, match="was put away"):
            await here.here["guard"].hooks[0].run(BeforeToolCall(tool_name="exec", params={}), HookContext())


async def test_a_plugin_that_was_put_away_can_be_started_again(tmp_path):
    tool_plugin(tmp_path / "p", "bad", "import os\nos._exit(3)")
    async with bench(tmp_path, tmp_path / "p") as here:
        await here.call("bad")
        await here.until("bad", "quarantined")
        tool_plugin(tmp_path / "p", "bad", "return 'mended'")
        status = await here.plugins.reload("bad", here.settings, here)
        assert status.state == "running"
        assert (await here.call("bad")).text == "mended"


async def test_something_that_got_away_does_not_keep_the_plugin(tmp_path):
    body = "import subprocess\nreturn str(subprocess.Popen(['sleep', '3600'], start_new_session=True).pid)"
    tool_plugin(tmp_path / "p", "starts", body)
    import os
    import signal

    async with bench(tmp_path, tmp_path / "p") as here:
        escaped = int((await here.call("starts")).text)
        try:
            await here.apply({"load": {"paths": []}})
            assert here.plugins.statuses() == ()
        finally:
            with contextlib.suppress(ProcessLookupError):  # it may have ended with the plugin
                os.kill(escaped, signal.SIGKILL)
