"""Commands, queueing and stopping on a plugin's channel, through a real gateway."""

from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import Hangs, MockModelServer
from tests.channels.test_gateway import Post, server_asked
from tests.e2e.gateway_process import GatewayProcess

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_commands_on_a_channel(openclaw_home: TemporaryHome) -> None:
    group = {"groups": {"club": {}}, "dmPolicy": "allowlist", "allowFrom": ["eve"]}
    script: list[Any] = [says("Hello, Eve."), says("Unasked."), says("Nobody hears."), Hangs(), says("Heard again.")]
    with MockModelServer(script) as server:
        post = Post(openclaw_home, server, group, "mailbox:ada")
        with GatewayProcess(openclaw_home):
            post.writes("eve", "/status")  # a stranger's command is ignored
            post.writes("eve", "hello")
            assert await post.hears("eve") == "Hello, Eve."
            post.writes("ada", "/whoami")
            assert "You are mailbox:ada. You are the owner." in await post.hears("ada")
            post.writes("ada", "/stauts")
            assert "Did you mean /status?" in await post.hears("ada")
            assert len(server.requests) == 1

            post.writes("club@ada", "/activation always")
            assert await post.hears("club") == "Answered in this group: every message."
            post.writes("club@ada", "nobody is mentioned")
            assert await post.hears("club") == "Unasked."

            post.writes("ada", "/send off")
            assert "off" in await post.hears("ada")
            post.writes("ada", "are you there?")
            await server_asked(server, 3)
            post.writes("ada", "/send on")
            assert await post.hears("ada") == "Answers to the channel: on."

            post.writes("ada", "think for ever")
            await server_asked(server, 4)
            post.writes("ada", "stop")
            assert await post.hears("ada") == "Stopped (1)."  # one word, one message
            post.writes("ada", "and now?")
            assert await post.hears("ada") == "Heard again."
