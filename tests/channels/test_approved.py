"""A question to the owner on a channel holds no run: the answer comes later, and the result with it."""

import pytest

from openclaw.testing import Calls, Says, TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.channels.test_gateway import Post
from tests.e2e.gateway_process import GatewayProcess

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_the_answer_comes_after_a_kill_and_runs_what_was_shown(openclaw_home: TemporaryHome) -> None:
    script: list[Says | Calls] = [
        calls("exec", command="echo 4711 | dd of=kept.txt status=none; cat kept.txt"),
        says("It waits for you."),
        says("Good day."),
        says("It is done."),
    ]
    with MockModelServer(script) as server:
        post = Post(openclaw_home, server, {}, "mailbox:ada")
        openclaw_home.configure({**post.settings, "tools": {"exec": {"security": "allowlist", "ask": "on-miss"}}})
        with GatewayProcess(openclaw_home) as gateway:
            post.writes("ada", "keep the number")
            question = await post.hears("ada")
            assert "echo 4711 | dd of=kept.txt status=none; cat kept.txt" in question
            once = next(line for line in question.splitlines() if line.endswith("allow-once"))
            # Nobody answers for a while: the run goes on, and who writes next is served.
            assert await post.hears("ada") == "It waits for you."
            told = str(server.requests[1])
            assert "approval-pending" in told and f"Reply with: {once}" in told
            post.writes("ada", "hello")
            assert await post.hears("ada") == "Good day."
            assert not (openclaw_home.workspace / "kept.txt").exists()
            gateway.kill()
        with GatewayProcess(openclaw_home):
            post.writes("ada", once)
            heard = {await post.hears("ada") for _ in range(3)}
            assert "It is done." in heard
            assert (openclaw_home.workspace / "kept.txt").read_text() == "4711\n"
            assert "4711" in str(server.requests[3]) and once.split()[1] in str(server.requests[3])
            post.writes("ada", once)
            assert "already answered" in await post.hears("ada")
