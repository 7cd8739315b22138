"""A Slack app through a real gateway: heard once, answered where it was asked, over kills, and by its own rules."""

import asyncio
import contextlib
import json
import socket
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer, Pauses
from tests.channels.slack.server import ADA, APP_TOKEN, BOT, CHANNEL, EVE, SIGNING, TOKEN, SlackServer
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


def configure(home: TemporaryHome, model: MockModelServer, slack: SlackServer, **more: Any) -> None:
    section = {"botToken": TOKEN, "appToken": APP_TOKEN, "apiRoot": slack.url, "streaming": {"mode": "off"}, **more}
    home.configure(
        {**model.settings(), "channels": {"slack": section}, "commands": {"ownerAllowFrom": [f"slack:{ADA}"]}}
    )


async def hears(slack: SlackServer, count: int) -> list[str]:
    return [each["text"] for each in await asyncio.to_thread(slack.hears, count, DEADLINE)]


async def until(slack: SlackServer, what: Any) -> None:
    await asyncio.to_thread(slack.until, what, DEADLINE)


async def test_a_direct_message_a_command_and_a_kill(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("**Good** day, <Ada>."), says("Again.")]) as model, SlackServer() as slack:
        configure(openclaw_home, model, slack)
        gateway = GatewayProcess(openclaw_home)
        with contextlib.ExitStack() as stack:
            gateway.start()
            stack.callback(gateway.__exit__)
            await until(slack, lambda: slack.connections)
            slack.says("hello")
            assert await hears(slack, 1) == ["*Good* day, &lt;Ada&gt;."]
            slack.chooses("/agentstatus")
            assert len(await hears(slack, 2)) == 2
            await until(slack, lambda: any("payload" in each for each in slack.acks))
            slack.says("who are you", sender=EVE)
            assert "openclaw pairing approve slack" in (await hears(slack, 3))[2]
            await until(slack, lambda: len(slack.acks) == 3)
            gateway.kill()
            slack.subscribed = False  # nobody is told of it: only the history knows
            slack.says("and now?")
            slack.subscribed = True
            gateway.start()
            # What was being sent when the gateway was killed may come twice: Slack knows no names for messages.
            await until(slack, lambda: any(each["text"] == "Again." for each in slack.sent))
        assert TOKEN not in gateway.output() and APP_TOKEN not in gateway.output() and len(model.requests) == 2


async def test_a_thread_is_a_conversation_and_needs_one_mention(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("In it."), says("Still.")]) as model, SlackServer() as slack:
        configure(openclaw_home, model, slack, channels={CHANNEL: {"users": [EVE]}})
        with GatewayProcess(openclaw_home):
            await until(slack, lambda: slack.connections)
            root = slack.says("plans for the party", sender=EVE, channel=CHANNEL)
            slack.says(f"<@{BOT}> what about them?", sender=EVE, channel=CHANNEL, thread_ts=root)
            await hears(slack, 1)
            await until(slack, lambda: slack.called("chat.postMessage"))
            slack.says("and the cake?", sender=EVE, channel=CHANNEL, thread_ts=root)
            assert await hears(slack, 2) == ["In it.", "Still."]
            assert {each["thread_ts"] for each in slack.sent} == {root}
            asked = json.dumps(model.requests[0])
            assert "plans for the party" in asked and "general" in asked


async def test_an_answer_grows_in_one_message(openclaw_home: TemporaryHome) -> None:
    begin, rest = "A long sentence about something that matters. " * 4, "**That** is all."
    with MockModelServer([[says(begin), Pauses(), says(rest)]]) as model, SlackServer() as slack:
        configure(openclaw_home, model, slack, streaming={"mode": "partial"})
        with GatewayProcess(openclaw_home):
            await until(slack, lambda: slack.connections)
            slack.says("tell me")
            (shown,) = await asyncio.to_thread(slack.hears, 1, DEADLINE)
            model.go_on()
            await until(slack, lambda: shown["text"].endswith("*That* is all."))
            assert len(slack.sent) == 1 and slack.called("chat.update")


async def test_an_approval_is_a_button_that_the_owner_presses(openclaw_home: TemporaryHome) -> None:
    run = calls("exec", command="install /dev/null done.txt")
    with MockModelServer([run, says("It is done.")]) as model, SlackServer() as slack:
        configure(openclaw_home, model, slack)
        with GatewayProcess(openclaw_home):
            await until(slack, lambda: slack.connections)
            slack.says("do it")
            (asks,) = await asyncio.to_thread(slack.hears, 1, DEADLINE)
            once = asks["blocks"][-1]["elements"][0]["value"]
            slack.presses(asks["ts"], once, sender=EVE)
            await until(slack, lambda: slack.ephemeral)
            slack.presses(asks["ts"], once)
            assert (await hears(slack, 2))[1] == "It is done."
            await until(slack, lambda: asks["blocks"] == [])
            assert "Allowed once" in asks["text"]
        assert [each["text"] for each in slack.ephemeral] == ["Only my owner can answer this.", "Allowed once."]
        assert (openclaw_home.workspace / "done.txt").exists()


async def test_slack_calls_the_gateway(openclaw_home: TemporaryHome) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with MockModelServer([says("Good day.")]) as model, SlackServer() as slack:
        configure(openclaw_home, model, slack, appToken=None, signingSecret=SIGNING, mode="http")
        slack.events_url = f"http://127.0.0.1:{port}/slack/events"
        gateway = GatewayProcess(openclaw_home)
        with contextlib.ExitStack() as stack:
            gateway.start(port)
            stack.callback(gateway.__exit__)
            await until(slack, lambda: slack.called("auth.test"))
            slack.deliver("events_api", {"type": "url_verification", "challenge": "c-1"})
            await until(slack, lambda: (200, "c-1") in slack.answers)
            slack.says("hello")
            assert await hears(slack, 1) == ["Good day."]
            slack.chooses("/openclaw", "whoami")
            assert "Session agent:main:main" in (await hears(slack, 2))[1]
            await until(slack, lambda: (200, "/whoami") in slack.answers)


async def test_two_apps_speak_each_for_itself(openclaw_home: TemporaryHome) -> None:
    with (
        MockModelServer([says("For the club."), says("For work.")]) as model,
        SlackServer() as club,
        SlackServer() as work,
    ):
        other = {"botToken": TOKEN, "appToken": APP_TOKEN, "apiRoot": work.url}
        configure(openclaw_home, model, club, accounts={"work": other})
        with GatewayProcess(openclaw_home):
            for slack in (club, work):
                await until(slack, lambda slack=slack: slack.connections)
            club.says("hello")
            assert await hears(club, 1) == ["For the club."]
            work.says("hello")
            assert await hears(work, 1) == ["For work."] and len(club.sent) == 1


def test_it_is_added_by_command_with_both_tokens_tried(openclaw_home: TemporaryHome) -> None:
    run = typed(openclaw_home)
    with SlackServer() as slack:
        add = ("channels", "add", "slack", "--bot-token", TOKEN, "--api-root", slack.url)
        wrong = run(*add, "--app-token", "xapp-wr0ng")
        assert wrong.code and "channels.slack.appToken" in wrong.err and "wr0ng" not in wrong.err
        lacks = run(*add)
        assert lacks.code and "appToken" in lacks.err
        done = run(*add, "--app-token", "-", stdin=f"{APP_TOKEN}\n")
        assert done.code == 0 and "this is claw" in done.out and "direct message in Slack" in done.out
        assert TOKEN not in done.out + done.err and APP_TOKEN not in done.out + done.err
        assert "Slack" in run("channels", "list").out
