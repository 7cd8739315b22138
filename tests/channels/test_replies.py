"""What people on a plugin's channel see of a run while it works: parts of the answer, and questions for the owner."""

from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer, Pauses
from tests.channels.test_gateway import Post
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio

PARAGRAPH = "This is a paragraph that says very little, but at some length. "
HEARD = {"dmPolicy": "open", "allowFrom": ["*"], "groups": {"*": {"requireMention": False}}}


async def test_parts_of_an_answer_arrive_while_the_rest_is_written(openclaw_home: TemporaryHome) -> None:
    said: list[Any] = [says(PARAGRAPH * 4 + "\n\n"), says(PARAGRAPH * 4 + "\n\n"), Pauses(), says("That is all.")]
    with MockModelServer([said]) as server:
        post = Post(openclaw_home, server, {"streaming": {"block": {"enabled": True}}}, "mailbox:ada")
        chunk = {"minChars": 100, "maxChars": 400}
        post.settings["agents"]["defaults"]["blockStreamingChunk"] = chunk
        openclaw_home.configure(post.settings)
        with GatewayProcess(openclaw_home):
            post.writes("ada", "talk")
            assert await post.hears("ada") == (PARAGRAPH * 4).strip()
            server.go_on()
            assert await post.hears("ada") == (PARAGRAPH * 4).strip()
            assert await post.hears("ada") == "That is all."


async def test_the_owner_is_asked_in_text_and_answers_with_a_command(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([calls("exec", command="install /dev/null clicked"), says("Made it.")]) as server:
        post = Post(openclaw_home, server, {}, "mailbox:ada")
        with GatewayProcess(openclaw_home):
            post.writes("ada", "make it")
            question = await post.hears("ada")
            assert "install /dev/null clicked" in question and "allow-always" in question
            command = next(line for line in question.splitlines() if line.endswith("allow-once"))
            post.writes("ada", command)
            heard = {await post.hears("ada") for _ in range(3)}
            name = command.split()[1]
            assert heard == {f"{name}: allow-once.", f"Approval {name}: Allowed once.", "Made it."}
    assert (openclaw_home.workspace / "clicked").exists()


async def test_a_group_does_not_see_the_question(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([calls("exec", command="install /dev/null clicked"), says("Never mind.")]) as server:
        post = Post(openclaw_home, server, HEARD, "mailbox:ada")
        with GatewayProcess(openclaw_home):
            post.writes("club@ada", "@bot make it")
            question = await post.hears("ada")
            assert "install /dev/null clicked" in question
            assert await post.hears("club") == "That needs my owner's approval; the owner is asked."
            post.writes("ada", next(line for line in question.splitlines() if line.endswith("deny")))
            assert await post.hears("club") == "Never mind."
    assert not (openclaw_home.workspace / "clicked").exists()


async def test_without_anybody_to_ask_the_run_is_told_at_once(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([calls("read", path="/etc/hostname"), says("I may not.")]) as server:
        post = Post(openclaw_home, server, {**HEARD, "dmPolicy": "allowlist", "allowFrom": ["eve"]})
        with GatewayProcess(openclaw_home):
            post.writes("eve", "look")
            assert await post.hears("eve") == "I may not."
            assert "nobody can be asked" in str(server.requests[-1])
