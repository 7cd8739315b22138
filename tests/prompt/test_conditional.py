"""Sections that a setting or a caller brings about, each in a prompt that a real run was sent."""

import asyncio
from functools import partial
from typing import Any

import pytest

from openclaw.testing import Calls, Says, TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.telegram.server import TOKEN, TelegramServer
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE
from tests.prompt.recorded import NAMES, RecordedRequest, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Recorded = dict[str, RecordedRequest]


def taken_down(request: dict[str, Any]) -> RecordedRequest:
    tools = {each["function"]["name"]: each["function"] for each in request["tools"]}
    messages = [text_of(each) for each in request["messages"]]
    return RecordedRequest(system=messages[0], tools=tools, messages=messages[1:])


async def sent(home: TemporaryHome, more: dict[str, Any], model: dict[str, Any], **asked: Any) -> RecordedRequest:
    """What a model is sent when somebody writes, under these settings of agents.defaults (`more`) and of the model."""
    with MockModelServer([says("Yes.")]) as server:
        given = server.settings(**model)
        given["agents"]["defaults"] |= more.pop("defaults", {})
        home.configure({**given, **more})
        with GatewayProcess(home) as gateway:
            async with gateway.client() as client:
                await client.call("agent", {"message": "hi", "idempotencyKey": "1", **asked}, final=True)
        return taken_down(server.requests[0])


async def test_everything_that_settings_add(openclaw_home: TemporaryHome, recorded: Recorded) -> None:
    (openclaw_home.workspace / "AGENTS.md").write_text("Be kind. " * 5_000)
    settings = {
        "defaults": {
            "subagents": {"delegationMode": "prefer"},
            "models": {"mock/mock": {"alias": "mocky"}},
        },
        "memory": {"citations": "off"},
        "tools": {"experimental": {"planTool": True}, "exec": {"notifyOnExit": False}},
        "acp": {"agents": {"gemini": {"command": "gemini"}}},
    }
    told = await sent(
        openclaw_home, settings, {"compat": {"reasoningTags": True}}, extraSystemPrompt="Speak of the harbour only."
    )
    lines = {
        "## Sub-Agent Delegation": "Everything else goes to `sessions_spawn`",
        "## Model Aliases": "- mocky: mock/mock",
        "## Memory Recall": "No paths or line numbers unless the user asks.",
        "## Bootstrap Context Notice": "Some workspace files below were cut to fit.",
        "## Reasoning Format": "ALL reasoning goes inside <think>",
        "## Tooling": "`update_plan`: only for work of several real steps",
        "## Group Chat Context": "Speak of the harbour only.",
    }
    for heading, line in lines.items():
        assert line in told.section(heading), heading
        assert not any(line in recorded[name].system for name in NAMES if name != "tiny-model"), heading
    assert '`sessions_spawn` with `runtime:"acp"`' in told.section("## Tooling")
    # A command that ends wakes nobody, so nothing is promised.
    assert "wakes you" in recorded["terminal"].section("## Tooling") and "wakes you" not in told.system


async def test_what_is_denied_is_not_spoken_of(openclaw_home: TemporaryHome, recorded: Recorded) -> None:
    settings = {
        "defaults": {"skills": []},
        "tools": {"deny": ["gateway", "memory_search", "memory_get", "message", "cron", "session_status"]},
    }
    told = await sent(openclaw_home, settings, {})
    for heading in ("## Skills (mandatory)", "## Memory Recall", "## OpenClaw Self-Update"):
        assert recorded["terminal"].section(heading) and not told.section(heading), heading
    assert "the `gateway` tool" in recorded["terminal"].section("## OpenClaw Control")
    for line in ("the `gateway` tool", "config.schema.lookup", "`cron`", "run `session_status`", "### message tool"):
        assert line in recorded["telegram-direct"].system, line
        assert line not in told.system, line


async def test_a_small_window_names_the_files_it_leaves_out(recorded: Recorded) -> None:
    assert "Left out to save space; read them when they matter:" in recorded["tiny-model"].system
    assert "Left out to save space" not in recorded["terminal"].system


async def test_where_only_the_message_tool_speaks_the_text_reaches_nobody(openclaw_home: TemporaryHome) -> None:
    """`messages.groupChat.visibleReplies`: in groups only what the tool sends is seen; direct chats are as ever."""
    script: list[Says | Calls] = [
        calls("message", action="send", message="Tea at five."),
        says("I told them."),
        says("Hello, Ada."),
        says("Nobody reads this."),
    ]
    with MockModelServer(script) as server, TelegramServer() as telegram:
        club = {"id": -5, "type": "supergroup", "title": "Boats"}
        channel = {"botToken": TOKEN, "apiRoot": telegram.url, "groups": {"*": {"requireMention": False}}}
        openclaw_home.configure(
            {
                **server.settings(),
                "channels": {"telegram": {**channel, "groupAllowFrom": ["*"]}},
                "commands": {"ownerAllowFrom": ["telegram:7"]},
                "messages": {"groupChat": {"visibleReplies": "message_tool"}},
            }
        )
        with GatewayProcess(openclaw_home) as gateway:
            telegram.says("when is tea?", chat=club)
            async with asyncio.timeout(DEADLINE):
                while len(server.requests) < 2:
                    await asyncio.sleep(0.02)
            telegram.says("hello")
            answered = partial(lambda sent: any(each.get("text") == "Hello, Ada." for each in sent), telegram.sent)
            await asyncio.to_thread(telegram.until, answered, DEADLINE)
            # A caller can want it, too.
            how = {"deliver": True, "channel": "telegram", "to": "7", "sourceReplyDeliveryMode": "message_tool_only"}
            async with gateway.client() as client:
                done = await client.call("agent", {"message": "hush", "idempotencyKey": "1", **how}, final=True)
            assert done["result"]["payloads"] == []
        assert [each["text"] for each in telegram.sent if each["chat_id"] == -5] == ["Tea at five."]
        assert not any("Nobody reads this." in str(each) for each in telegram.sent)
        group, direct, hushed = (taken_down(server.requests[place]) for place in (0, 2, 3))
        assert "Your final text is NOT delivered here." in hushed.section("## Messaging")
        assert "Your final text is NOT delivered here." in group.section("## Messaging")
        assert "say nothing by sending nothing" in group.section("## Group Chat Context")
        assert "NO_REPLY" not in group.section("### message tool") and not group.section("## Silent Replies")
        assert "goes back to where the message came from" in direct.section("## Messaging")
