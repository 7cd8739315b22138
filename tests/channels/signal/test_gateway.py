"""A Signal account through a real gateway: heard once, answered where it was asked, with a daemon of its own."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.signal.server import ADA, EVE, GROUP, ME, SignalServer
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


def configure(home: TemporaryHome, model: MockModelServer, **section: Any) -> None:
    home.configure(
        {
            **model.settings(),
            "channels": {"signal": {"account": ME, **section}},
            "commands": {"ownerAllowFrom": [f"signal:{ADA}"]},
        }
    )


async def hears(signal: SignalServer, count: int) -> list[str]:
    return [each["message"] for each in await asyncio.to_thread(signal.hears, count, DEADLINE)]


async def until(signal: SignalServer, what: Any) -> None:
    await asyncio.to_thread(signal.until, what, DEADLINE)


async def test_a_direct_message_a_group_a_reaction_and_a_stranger(openclaw_home: TemporaryHome) -> None:
    script = [says("**Good** day."), says("To all."), says("I saw it.")]
    with MockModelServer(script) as model, SignalServer() as signal:
        configure(openclaw_home, model, httpUrl=signal.url, groups={GROUP: {"allowFrom": [EVE]}})
        with GatewayProcess(openclaw_home):
            told = signal.says("hello")
            assert await hears(signal, 1) == ["Good day."]
            first = signal.sent[0]
            assert (first["to"], first["textStyle"]) == (ADA, ["0:4:BOLD"])
            assert first["quoteTimestamp"] == int(told.partition(":")[0]) and first["quoteMessage"] == "hello"
            await until(signal, lambda: signal.called("sendTyping") and signal.called("sendReceipt"))
            signal.says("nobody is meant", sender=EVE, group=GROUP)
            quote = {"id": first["timestamp"], "author": ME, "authorNumber": ME, "text": "Good day."}
            signal.says("and you?", sender=EVE, group=GROUP, quote=quote)
            assert (await hears(signal, 2))[1] == "To all."
            assert signal.sent[1]["groupId"] == GROUP and "nobody is meant" in str(model.requests[1])
            signal.says("let me in", sender=EVE)
            assert "openclaw pairing approve signal" in (await hears(signal, 3))[2]
            signal.reacts(str(first["timestamp"]), "👍")
            signal.says("did you see it?")
            assert (await hears(signal, 4))[3] == "I saw it."
            assert "reacted with 👍" in str(model.requests[2])


async def test_an_approval_is_answered_with_a_command(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer([calls("exec", command="install /dev/null done.txt"), says("It is done.")]) as model,
        SignalServer() as signal,
    ):
        configure(openclaw_home, model, httpUrl=signal.url)
        with GatewayProcess(openclaw_home):
            signal.says("do it")
            (asks,) = await hears(signal, 1)
            answer = next(line for line in asks.splitlines() if line.startswith("/approve") and "allow-once" in line)
            signal.says(answer)
            await until(signal, lambda: any(each["message"] == "It is done." for each in signal.sent))
            await until(signal, lambda: "Allowed once" in signal.sent[0]["message"])
        assert (openclaw_home.workspace / "done.txt").exists()


FAKE = """#!{python}
import os, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.channels.signal.server import SignalServer
port = int(sys.argv[sys.argv.index("--http") + 1].partition(":")[2])
Path({folder!r}, "pids").open("a").write(f"{{os.getpid()}}\\n")
with SignalServer(port) as server:
    server.says("hello")
    server.until(lambda: server.sent, 600)
    Path({folder!r}, "sent").open("a").write(server.sent[0]["message"] + "\\n")
    server.until(lambda: False, 600)
"""


async def test_a_killed_gateway_leaves_no_daemon_behind(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    program, pids, sent = tmp_path / "signal-cli", tmp_path / "pids", tmp_path / "sent"
    program.write_text(FAKE.format(python=sys.executable, root=str(Path.cwd()), folder=str(tmp_path)))
    program.chmod(0o755)
    with MockModelServer([says("Good day."), says("Again.")]) as model:
        configure(openclaw_home, model, cliPath=str(program), startupTimeoutMs=120_000)
        with GatewayProcess(openclaw_home) as gateway:
            await exists(lambda: sent.exists() and sent.read_text().count("\n") == 1)
            gateway.kill()
            await exists(lambda: not is_alive(int(pids.read_text().split()[0])))
            gateway.start()
            await exists(lambda: sent.read_text().count("\n") == 2)
        await exists(lambda: not any(is_alive(int(each)) for each in pids.read_text().split()))


async def exists(true: Any) -> None:
    async with asyncio.timeout(DEADLINE):
        while not true():
            await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]


def test_it_is_added_by_command_and_tried(openclaw_home: TemporaryHome) -> None:
    run = typed(openclaw_home)
    with SignalServer() as signal:
        signal.accounts = [ME]
        wrong = run("channels", "add", "signal", "--number", "+15559999", "--http-url", signal.url)
        assert wrong.code and "signal-cli link" in wrong.err
        nobody = run("channels", "add", "signal", "--number", ME, "--http-url", "http://127.0.0.1:9")
        assert nobody.code and "daemon --http" in nobody.err
        missing = run("channels", "add", "signal", "--number", ME, "--cli-path", "/nowhere/signal-cli")
        assert missing.code and "is not installed" in missing.err
        done = run("channels", "add", "signal", "--number", ME, "--http-url", signal.url)
        assert done.code == 0 and f"this is {ME}" in done.out and f"Write to {ME} in Signal" in done.out
