"""`openclaw cron` and `openclaw system`, as docs/cron.md has them: without a gateway, and with one that delivers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer, Pauses
from tests.channels.telegram.server import TOKEN, TelegramServer
from tests.channels.telegram.test_gateway import asked, hears
from tests.e2e.gateway_process import GatewayProcess
from tests.e2e.test_command_line import run
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


def cron(home: TemporaryHome, *words: str, command: str = "cron") -> str:
    done = run(home, command, *words)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def listed(home: TemporaryHome, *options: str) -> dict[str, Any]:
    return {job["name"]: job for job in json.loads(cron(home, "list", "--json", *options))["jobs"]}


def test_jobs_are_kept_without_a_gateway(openclaw_home: TemporaryHome) -> None:
    home = openclaw_home
    assert "no jobs" in cron(home, "list")
    cron(home, "add", "0 7 * * 1-5", "Summarise my calendar", "--tz", "Europe/Berlin")
    cron(
        home, "add", "--every", "2h", "-m", "Look for new mail", "--name", "mail", "--channel", "telegram", "--to", "7"
    )
    cron(home, "add", "--at", "20m", "--system-event", "Reminder: the cake is in the oven", "--name", "cake")
    jobs = listed(home)
    calendar = jobs["Summarise my calendar"]["schedule"]
    assert (calendar["kind"], calendar["expr"], calendar["tz"]) == ("cron", "0 7 * * 1-5", "Europe/Berlin")
    assert jobs["mail"]["schedule"]["everyMs"] == 7_200_000 and jobs["mail"]["sessionTarget"] == "isolated"
    assert (jobs["mail"]["delivery"]["channel"], jobs["mail"]["delivery"]["to"]) == ("telegram", "7")
    assert jobs["cake"]["payload"] == {"kind": "systemEvent", "text": "Reminder: the cake is in the oven"}

    # A job is an id, the beginning of one, or a name.
    for name in ("mail", jobs["mail"]["id"], jobs["mail"]["id"][:8]):
        assert "Look for new mail" in cron(home, "show", name)
    cron(home, "edit", "mail", "--every", "3h", "--no-deliver", "--misfire", "skip")
    changed = listed(home)["mail"]
    assert changed["schedule"]["everyMs"] == 10_800_000 and changed["delivery"]["mode"] == "none"
    assert changed["misfire"] == "skip" and changed["payload"]["message"] == "Look for new mail"
    assert cron(home, "disable", "mail") == "switched off\n"
    assert "mail" not in listed(home) and "mail" in listed(home, "--all")
    assert cron(home, "next", "mail") == "never again\n"
    assert cron(home, "enable", "mail").startswith("next ")
    assert len(cron(home, "next", "mail", "-n", "3").splitlines()) == 3
    coming = cron(home, "next", "--cron", "0 9 * * 1-5", "--tz", "America/New_York").splitlines()
    assert len(coming) == 5 and all(" 09:00:00 E" in line and not line.startswith("S") for line in coming)
    assert "no runs yet" in cron(home, "runs", "mail")
    assert "3 job(s)" in cron(home, "status")
    assert cron(home, "rm", "cake") == "removed\n" and "cake" not in listed(home, "--all")


@pytest.mark.parametrize(
    ("words", "says_what_to_do"),
    [
        (("cron", "add", "-m", "x"), "say when"),
        (("cron", "add", "--every", "2h"), "say what"),
        (("cron", "add", "--every", "2h", "--at", "20m", "-m", "x"), "give one of"),
        (("cron", "add", "99 * * * *", "x"), "99 * * * *"),
        (("cron", "show", "nothing"), "nothing"),
        (("cron", "edit", "nothing"), "say what to change"),
        (("cron", "run", "nothing"), "openclaw gateway start"),
        (("system", "event"), "say what happened"),
        (("system", "heartbeat", "last"), "gateway"),
    ],
)
def test_mistakes_say_what_to_do(openclaw_home: TemporaryHome, words: tuple[str, ...], says_what_to_do: str) -> None:
    done = run(openclaw_home, *words)
    assert done.returncode != 0 and says_what_to_do in done.stderr, done.stderr


async def test_results_go_where_they_are_sent_and_a_receipt_is_needed(openclaw_home: TemporaryHome) -> None:
    home = openclaw_home
    paused = [Pauses(), says("Counted.")]
    script: list[Any] = [says("Sheep."), says("Hello."), says("The build is red."), paused, paused, paused]
    with MockModelServer(script) as model, TelegramServer() as telegram:
        home.configure(
            {
                **model.settings(),
                "channels": {"telegram": {"botToken": TOKEN, "apiRoot": telegram.url}},
                "commands": {"ownerAllowFrom": ["telegram:7"]},
                "cron": {"maxConcurrentRuns": 2},
            }
        )

        async def calls(*words: str, command: str = "cron") -> str:
            return await asyncio.to_thread(cron, home, *words, command=command)

        with GatewayProcess(home) as gateway:
            where = ("--channel", "telegram", "--to", "-100", "--thread-id", "42")
            await calls("add", "--every", "1d", "-m", "count the sheep", "--name", "sheep", *where)
            assert "openclaw cron runs sheep" in await calls("run", "sheep")
            assert await hears(telegram, 1) == ["Sheep."]
            assert (telegram.sent[0]["chat_id"], telegram.sent[0]["message_thread_id"]) == (-100, 42)
            async with asyncio.timeout(DEADLINE):
                while True:
                    (entry,) = json.loads(await calls("runs", "sheep", "--json"))["entries"]
                    if entry["deliveryStatus"] == "delivered":
                        break
                    assert entry["deliveryStatus"] == "unknown"
            assert entry["completionStatus"] == "succeeded" and "Sheep." in await calls("runs")

            telegram.says("hi")
            assert (await hears(telegram, 2))[-1] == "Hello."
            assert await calls("event", "--text", "The build is red", "--mode", "now", command="system") == "told\n"
            assert (await hears(telegram, 3))[-1] == "The build is red." and telegram.sent[-1]["chat_id"] == 7
            async with asyncio.timeout(DEADLINE):
                while "  sent  " not in await calls("heartbeat", "last", command="system"):
                    await asyncio.sleep(0.05)
            assert "off" in await calls("heartbeat", "disable", command="system")
            assert "on" in await calls("heartbeat", "enable", command="system")

            # No more than two at the same time; the third waits.
            async with gateway.client() as client:
                started = []
                for name in ("one", "two", "three"):
                    await calls("add", "--every", "1d", "-m", f"count {name}", "--name", name, "--no-deliver")
                    started.append((await client.call("cron.run", {"id": name, "mode": "force"}))["runId"])
                await asked(model, 5)
                async with asyncio.timeout(DEADLINE):
                    while True:
                        waits = [await client.call("agent.wait", {"runId": each, "timeoutMs": 0}) for each in started]
                        if sorted(each["status"] for each in waits) == ["pending", "timeout", "timeout"]:
                            break
                assert len(model.requests) == 5
            for _ in range(3):
                model.go_on()
            await asked(model, 6)


class Skipping(TemporaryHome):
    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "OPENCLAW_SKIP_CRON": "1"}


async def test_no_job_runs_when_the_environment_or_the_settings_say_so(tmp_path: Path) -> None:
    with GatewayProcess(home := Skipping(tmp_path)):
        assert (await asyncio.to_thread(cron, home, "status")).startswith("off")
    plain = TemporaryHome(tmp_path / "other")
    plain.configure({"cron": {"enabled": False}})
    assert (await asyncio.to_thread(cron, plain, "status")).startswith("off")
