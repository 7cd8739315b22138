"""`prompt`, `audit`, `runs` and `agents capabilities` ask a gateway: the one that runs, or one in their own process."""

import json

import pytest

from openclaw.protocol.connect_request import CallFailed
from openclaw.protocol.scopes import READ
from openclaw.runs.rpc import record as record_rpc
from openclaw.testing import RecordedRun, TemporaryHome
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio


def test_they_print_the_same_with_a_gateway_and_without(openclaw_home: TemporaryHome) -> None:
    cli = typed(openclaw_home)
    assert cli("agent", "--local", "-m", "List the files here").code == 0
    (run,) = json.loads(cli("runs", "list", "--json").out)["runs"]
    commands = [
        ("prompt", "build"),
        ("prompt", "report", "--run", run["runId"]),
        ("prompt", "diff", run["runId"][:8], "--text"),
        ("prompt", "blame", "--grep", "SOUL"),
        ("prompt", "lint", "--json"),
        ("prompt", "runs"),
        ("audit", "list", "--json"),
        ("audit", "verify"),
        ("runs", "list"),
        ("runs", "show", run["runId"][:8], "--requests"),
        ("runs", "replay", run["runId"], "--json"),
        ("runs", "replay", run["runId"], "--model", "offline/offline", "--json"),
        ("runs", "export", run["runId"]),
        ("runs", "show", "nobody"),
        ("agents", "capabilities", "--json"),
        ("mcp", "test", "nothing"),
    ]
    alone = [cli(*words) for words in commands]
    with GatewayProcess(openclaw_home):
        asked = [cli(*words) for words in commands]
    for words, before, after in zip(commands, alone, asked, strict=True):
        if words[0] == "prompt" and words[1] != "runs":
            # Without a gateway no channel and no background service is there to write about, and that is said.
            assert after.code == before.code, words
            continue
        assert after == before, words
    assert [done.code for done in alone] == [0] * 13 + [1, 0, 1]


async def test_looking_takes_the_right_to_read_and_acting_that_of_the_owner(openclaw_home: TemporaryHome) -> None:
    cli = typed(openclaw_home)
    cli("agent", "--local", "-m", "what time is it?")
    with GatewayProcess(openclaw_home) as gateway:
        async with gateway.client(scopes=(READ,)) as reader:
            (run,) = (await reader.call("runs.list"))["runs"]
            assert (await reader.call("runs.replay", {"runId": run["runId"]}))["identical"]
            assert (await reader.call("prompt.preview"))["prompt"]["stable"]
            assert (await reader.call("audit.verify"))["ok"]
            assert [each["agent"] for each in (await reader.call("agents.capabilities"))["agents"]] == ["main"]
            for method, params in (("runs.compare", {"runId": "x", "model": "y"}), ("mcp.test", {"name": "x"})):
                with pytest.raises(CallFailed, match=r"operator\.admin"):
                    await reader.call(method, params)


def test_a_long_record_comes_in_pieces(
    openclaw_home: TemporaryHome, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    from openclaw.cli.root import run as command

    for name, value in openclaw_home.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(openclaw_home.workspace)
    monkeypatch.setattr(record_rpc, "PART_CHARS", 1_000)
    assert command(["agent", "--local", "-m", "List the files here"]) == 0
    capsysbinary.readouterr()
    assert command(["runs", "list", "--json"]) == 0
    (run,) = json.loads(capsysbinary.readouterr().out)["runs"]
    assert command(["runs", "export", run["runId"]]) == 0
    exported = RecordedRun(capsysbinary.readouterr().out)
    assert exported.question == "List the files here" and len(exported.calls) == 2
