"""Sub-agents with a thread of their own on a chat platform, through a real gateway."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.discord.server import ADA, BOT, CHANNEL, EVE, TOKEN, DiscordServer
from tests.channels.slack import server as slack_server
from tests.channels.slack.server import SlackServer
from tests.commandline import forked
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio
TASK = "Look for marinas."


class Model(MockModelServer):
    """Starts a sub-agent when it is told to, and answers everything else with how many messages people wrote."""

    def __init__(self, **spawn: Any) -> None:
        super().__init__([says("x")])
        self._spawn = spawn

    def _next(self, request: dict[str, Any]) -> tuple[Any, ...]:
        super()._next(request)
        last = request["messages"][-1]
        said = json.dumps(last)
        if last["role"] == "tool":
            return (says("It is on its way."),)
        if "start one" in said:
            return (calls("sessions_spawn", **{"task": TASK, **self._spawn}),)
        return (says("Parent here." if "start one" in json.dumps(request["messages"]) else "Child here."),)


def configure(home: TemporaryHome, model: MockModelServer, discord: DiscordServer, **more: Any) -> None:
    section: dict[str, Any] = {"token": TOKEN, "apiRoot": discord.url, "streaming": {"mode": "off"}}
    section |= {"guilds": {"*": {}}, "groupPolicy": "open"}
    owner = {"commands": {"ownerAllowFrom": [f"discord:{ADA}"]}}
    home.configure({**model.settings(), "channels": {"discord": section}, **owner, **more})


async def until(server: Any, what: Any) -> None:
    await asyncio.to_thread(server.until, what, DEADLINE)


def said_in(discord: DiscordServer, channel: str) -> list[str]:
    return [each["content"] for each in discord.sent if each["channel_id"] == channel]


async def test_a_thread_belongs_to_its_sub_agent(openclaw_home: TemporaryHome) -> None:
    spawn = {"thread": True, "label": "Marinas", "context": "isolated"}
    with Model(**spawn) as model, DiscordServer() as discord:
        configure(openclaw_home, model, discord)
        with GatewayProcess(openclaw_home) as gateway:
            await until(discord, lambda: discord.identified)
            discord.says("<@900> start one", channel=CHANNEL, mentions=[BOT])
            await until(discord, lambda: len(discord.sent) == 2)
            (thread,) = discord.made_threads
            assert (thread["name"], thread["parent_id"]) == ("Marinas", CHANNEL)
            assert said_in(discord, CHANNEL) == ["It is on its way."]
            assert said_in(discord, thread["id"]) == ["Child here."]
            # Who writes there speaks to it, without a mention, and it remembers; elsewhere nothing changes.
            discord.says("and cheap ones?", channel=thread["id"])
            await until(discord, lambda: len(said_in(discord, thread["id"])) == 2)
            asked = json.dumps(model.requests[-1])
            assert TASK in asked and "and cheap ones?" in asked and "start one" not in asked
            discord.says("<@900> hello", channel=CHANNEL, mentions=[BOT])
            await until(discord, lambda: len(said_in(discord, CHANNEL)) == 2)
            assert said_in(discord, CHANNEL)[1] == "Parent here."
            async with gateway.client() as client:
                rows = (await client.call("sessions.list", {}))["sessions"]
                (child,) = [row for row in rows if ":subagent:" in row["key"]]
                assert child["label"] == "Marinas"
        # It is the same one after a restart.
        with GatewayProcess(openclaw_home):
            await until(discord, lambda: len(discord.identified) + len(discord.resumed) > 1)
            discord.says("with showers?", channel=thread["id"])
            await until(discord, lambda: len(said_in(discord, thread["id"])) == 3)
            asked = json.dumps(model.requests[-1])
            assert "and cheap ones?" in asked and "with showers?" in asked
            discord.says("/unfocus", channel=thread["id"])
            await until(discord, lambda: len(said_in(discord, thread["id"])) == 4)
            discord.says("<@900> who is here?", channel=thread["id"], mentions=[BOT])
            await until(discord, lambda: len(said_in(discord, thread["id"])) == 5)
            assert TASK not in json.dumps(model.requests[-1])


async def test_a_coding_agent_gets_a_thread_on_discord_and_hears_its_owner_alone(
    openclaw_home: TemporaryHome, tmp_path: Path
) -> None:
    place = tmp_path / "coder"
    place.mkdir()
    command, *args = forked("tests.harnesses.acp.coder", str(place))
    acp = {"agents": {"coder": {"command": command, "args": args}}, "defaultAgent": "coder"}
    with Model(runtime="acp", task="speak") as model, DiscordServer() as discord:
        configure(openclaw_home, model, discord, acp=acp)
        with GatewayProcess(openclaw_home):
            await until(discord, lambda: discord.identified)
            discord.says("<@900> start one", channel=CHANNEL, mentions=[BOT])
            await until(discord, lambda: len(discord.sent) == 2)
            (thread,) = discord.made_threads
            assert said_in(discord, thread["id"]) == ["spoken"]
            prompt = model.requests[0]["messages"][0]["content"]
            assert '(`thread:true`, `mode:"session"`)' in prompt
            assert "Do this in codex" in prompt
            discord.says("recall, says Eve", sender=EVE, channel=thread["id"])
            discord.says("recall", channel=thread["id"])
            await until(discord, lambda: len(said_in(discord, thread["id"])) == 2)
            assert "speak" in said_in(discord, thread["id"])[1]
        assert "Eve" not in (place / "asked").read_text()
        # Alone with the owner there are no threads, and nothing was asked for: it is as elsewhere.
        with GatewayProcess(openclaw_home):
            discord.says("start one")
            await until(discord, lambda: len(said_in(discord, f"5{ADA}")) == 2)
            assert len(discord.made_threads) == 1


async def test_on_slack_a_thread_hangs_on_its_first_message(openclaw_home: TemporaryHome) -> None:
    with Model(thread=True, label="Marinas", context="isolated") as model, SlackServer() as slack:
        section = {"botToken": slack_server.TOKEN, "appToken": slack_server.APP_TOKEN, "apiRoot": slack.url}
        owner = {"commands": {"ownerAllowFrom": [f"slack:{slack_server.ADA}"]}}
        openclaw_home.configure(
            {**model.settings(), "channels": {"slack": {**section, "streaming": {"mode": "off"}}}, **owner}
        )
        with GatewayProcess(openclaw_home):
            await until(slack, lambda: slack.connections)
            slack.says("start one")
            await until(slack, lambda: len(slack.sent) == 3)
            (root,) = [each for each in slack.sent if each["text"] == "Marinas"]
            (child,) = [each for each in slack.sent if each["text"] == "Child here."]
            assert child["thread_ts"] == root["ts"]
            slack.says("and cheap ones?", thread_ts=root["ts"])
            await until(slack, lambda: len(slack.sent) == 4)
            assert slack.sent[-1]["thread_ts"] == root["ts"]
            asked = json.dumps(model.requests[-1])
            assert TASK in asked and "and cheap ones?" in asked


async def test_without_threads_the_model_is_told_what_to_do(openclaw_home: TemporaryHome) -> None:
    with Model(thread=True) as model, DiscordServer() as discord:
        configure(openclaw_home, model, discord)
        with GatewayProcess(openclaw_home) as gateway:
            await until(discord, lambda: discord.identified)
            discord.says("start one")
            await until(discord, lambda: len(discord.sent) == 1)
            told = json.dumps(model.requests[-1]["messages"][-1])
            assert "Cannot execute action on this channel type" in told and "Leave thread out" in told
            async with gateway.client() as client:
                sent = await client.call("agent", {"message": "start one", "idempotencyKey": "one"})
                await client.call("agent.wait", {"runId": sent["runId"], "timeoutMs": 60_000})
            told = json.dumps(model.requests[-1]["messages"][-1])
            assert "on no channel" in told and "Leave thread out" in told


async def test_a_thread_that_nobody_uses_is_let_go(openclaw_home: TemporaryHome) -> None:
    with Model(thread=True, context="isolated") as model, DiscordServer() as discord:
        configure(openclaw_home, model, discord, session={"threadBindings": {"idleHours": 0.00001}})
        with GatewayProcess(openclaw_home) as gateway:
            await until(discord, lambda: discord.identified)
            discord.says("<@900> start one", channel=CHANNEL, mentions=[BOT])
            await until(discord, lambda: len(discord.sent) == 2)
            (thread,) = discord.made_threads
            async with gateway.client() as client, asyncio.timeout(DEADLINE):
                while [
                    row for row in (await client.call("sessions.list", {}))["sessions"] if ":subagent:" in row["key"]
                ]:
                    await asyncio.sleep(0.02)
            discord.says("<@900> still there?", channel=thread["id"], mentions=[BOT])
            await until(discord, lambda: len(discord.sent) == 3)
            assert TASK not in json.dumps(model.requests[-1])
