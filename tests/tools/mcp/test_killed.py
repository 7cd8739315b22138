"""When the gateway is killed without a word, what it had started through helpers ends all the same."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from openclaw.tools.browser.tool import NAMES
from tests.processes import children, is_alive
from tests.tools.mcp.conftest import HERE

SERVER = """
import asyncio, os, sys
from openclaw.tools.mcp.servers import McpServer as Held
from openclaw.tools.settings import McpServerSettings
async def main():
    how = McpServerSettings(transport="stdio", command=sys.executable, args=tuple(sys.argv[1:]))
    held = Held("shop", how, idle=600, environ=dict(os.environ))
    await held.list()
    print("ready", flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
"""
BROWSER = """
import asyncio, os, sys
from pathlib import Path
from openclaw.core.settings import Fixed
from openclaw.core.tool import ToolContext
from openclaw.tools.browser.tool import Browsers, BrowserTool
from openclaw.tools.settings import BrowserSettings
async def main():
    place = Path(sys.argv[1])
    tool = BrowserTool(Browsers(Fixed(dict(os.environ))), BrowserSettings(no_sandbox=os.geteuid() == 0), place)
    print((await tool.call({"action": "start"}, ToolContext(call_id="c", workspace=place))).text, file=sys.stderr)
    print("ready", flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["server", "browser"])
def test_nothing_outlives_a_killed_gateway(what: str, tmp_path: Path) -> None:
    if what == "browser" and not any(shutil.which(name) for name in NAMES):
        pytest.skip("no Chromium is installed")
    arguments = [SERVER, str(HERE / "shop.py"), str(tmp_path)] if what == "server" else [BROWSER, str(tmp_path)]
    with subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        assert gateway.stdout.readline() == "ready\n"
        started = children(of=gateway.pid)
        assert len(started) >= (2 if what == "server" else 4)
        os.kill(gateway.pid, signal.SIGKILL)
    until = time.monotonic() + 60
    while any(is_alive(pid) for pid in started) and time.monotonic() < until:
        time.sleep(0.1)
    assert not [pid for pid in started if is_alive(pid)]
