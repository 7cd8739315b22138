"""Signal against Crabline, which has the message flow, and against the real signal-cli, which has no account here."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from openclaw.channels.signal.channel import Signal
from openclaw.channels.signal.settings import SignalSettings
from openclaw.core.channel import AccountClosed, Address, Outbound, TryLater
from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess
from tests.servers.crabline import crabline
from tests.servers.signal_cli import install

pytestmark = [pytest.mark.anyio, pytest.mark.servers]

ADA, EVE, ME = "+15550000007", "+15550000008", "+15550000009"
GROUP = "Y2x1YjEyMzQ1Njc4OTBhYmNkZWZnaGlqa2xtbm9wcXI="


async def test_a_conversation_a_group_a_long_answer_and_a_stranger(
    openclaw_home: TemporaryHome, tmp_path: Path
) -> None:
    long = "A sentence about something. " * 300
    script = [says("**Good** day."), says(long), says("To all.")]
    with MockModelServer(script) as model, crabline("signal", tmp_path) as server:
        signal = {
            "account": server.manifest["account"],
            "httpUrl": server.manifest["baseUrl"],
            "groups": {GROUP: {"allowFrom": [ADA], "requireMention": False}},
        }
        owners = {"ownerAllowFrom": [f"signal:{ADA}"]}
        openclaw_home.configure({**model.settings(), "channels": {"signal": signal}, "commands": owners})

        async def sends(count: int) -> list[dict[str, object]]:
            calls = await asyncio.to_thread(server.until, "rpc", count, lambda call: call["method"] == "send")
            return [call["params"] for call in calls]

        with GatewayProcess(openclaw_home):
            server.happens(sourceNumber=ADA, sourceName="Ada", text="hello")  # heard as soon as somebody listens
            (first,) = await sends(1)
            assert (first["message"], first["recipient"], first["textStyle"]) == ("Good day.", [ADA], ["0:4:BOLD"])
            server.happens(sourceNumber=ADA, text="tell me everything")
            pieces = [str(each["message"]) for each in (await sends(4))[1:]]
            assert " ".join(pieces).split() == long.split() and all(len(each) <= 4_000 for each in pieces)
            server.happens(sourceNumber=ADA, text="and you all?", groupId=GROUP)
            told = (await sends(5))[4]
            assert (told["message"], told["groupId"]) == ("To all.", GROUP)
            server.happens(sourceNumber=EVE, text="let me in")
            assert "openclaw pairing approve signal" in str((await sends(6))[5]["message"])
            assert len(model.requests) == 3
            await asyncio.to_thread(server.until, "rpc", 1, lambda call: call["method"] == "sendReceipt")


class Nobody:
    """An inbox in which nothing comes."""

    def __init__(self) -> None:
        self.there = asyncio.Event()

    def connected(self) -> None:
        self.there.set()

    async def take(self, events: object, cursor: str | None) -> None:
        raise AssertionError("nobody can write")


@pytest.fixture
async def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The real daemon, for any account."""
    program = install()
    monkeypatch.setenv("SIGNAL_DATA", str(tmp_path / "data"))
    port = 28_080
    with contextlib.closing(await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)) as free:
        port = free.sockets[0].getsockname()[1]
    with (tmp_path / "out").open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *(str(program), "daemon", "--http", f"127.0.0.1:{port}"), stdout=out, stderr=out
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def test_the_real_daemon_says_that_it_has_no_account(daemon: str) -> None:
    signal = Signal(ME, settings=SignalSettings(http_url=daemon))
    try:
        async with asyncio.timeout(240):
            while True:
                try:
                    await signal.probe()
                except TryLater:  # Java takes its time
                    await asyncio.sleep(0.25)
                except AccountClosed as error:
                    assert "signal-cli link" in error.message
                    break
        with pytest.raises(AccountClosed, match="no account"):
            await signal.send(Outbound(to=Address(channel="signal", to=ADA), text="**x**"))
        with pytest.raises(AccountClosed, match="no account"):
            await signal.run(None, Nobody())
    finally:
        await signal.close()


async def test_the_real_program_is_asked_and_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = install()
    monkeypatch.setenv("SIGNAL_DATA", str(tmp_path / "data"))
    settings = SignalSettings(account=ME, cli_path=str(program), startup_timeout_ms=120_000)
    signal = Signal(ME, settings=settings)
    try:
        with pytest.raises(AccountClosed, match="no account"):
            await signal.probe()
        with pytest.raises(AccountClosed, match="no account"):
            await signal.run(None, Nobody())
    finally:
        await signal.close()
