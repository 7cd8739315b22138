"""What docs/replies.md and docs/approvals.md promise, through a socket and the command line of a real gateway."""

import asyncio
import json
from typing import Any

import pytest

from openclaw.protocol.client import GatewayClient
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess
from tests.e2e.test_command_line import run
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


async def told(client: GatewayClient, text: str) -> list[str]:
    """What a message is answered, part by part."""
    done = await client.call("agent", {"message": text, "idempotencyKey": f"{text}:{id(client)}"}, final=True)
    return [str(each["text"]) for each in (done.get("result") or done)["payloads"]]


async def test_what_is_shown_of_an_answer_and_for_how_long(openclaw_home: TemporaryHome) -> None:
    fails: list[Any] = [calls("read", path="missing.txt"), says("<final>NO_REPLY</final>")]
    script = [
        says("<think>a secret</think>noise<final>Answer.</final>"),
        says("<think>a secret</think>After the tag."),
        says("<think>a secret</think><final>Shown.</final>"),
        *fails,
        *fails,
    ]
    with MockModelServer(script) as model:
        openclaw_home.configure(model.settings(compat={"reasoningTags": True}))
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                assert await told(client, "one") == ["Answer."]
                assert await told(client, "two") == ["After the tag."]
                assert await told(client, "/reasoning on") == ["Reasoning: on (shown with each answer)."]
                assert await told(client, "three") == ["Reasoning:\na secret", "Shown."]
                await told(client, "/reasoning default")
                assert await told(client, "four") == ["⚠️ read failed."]
                await told(client, "/verbose full")
                tool, failed = await told(client, "five")
                assert tool.startswith("✗ read missing.txt") and "File not found" in tool and "File not found" in failed
                assert "agent: main" in (await told(client, "/capabilities"))[0]
                await told(client, "/new")
            gateway.stop()
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                assert "full" in (await told(client, "/verbose"))[0] and "off" in (await told(client, "/reasoning"))[0]
                assert "off" in (await told(client, "/verbose default"))[0]
        assert len(model.requests) == 7


async def test_questions_are_listed_and_answered_at_the_command_line(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([calls("exec", command="install /dev/null here"), says("It is there.")]) as model:
        openclaw_home.configure(model.settings())

        async def types(*words: str) -> str:
            done = await asyncio.to_thread(run, openclaw_home, "approvals", *words)
            assert done.returncode == 0, done.stderr
            return str(done.stdout)

        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client(caps=("approvals", "exec-approvals")) as client, asyncio.timeout(DEADLINE):
                await client.call("agent", {"message": "go", "idempotencyKey": "go"})
                while not (waiting := json.loads(await types("pending", "--json"))):
                    await asyncio.sleep(0.02)
                (question,) = waiting
                assert "install /dev/null here" in await types("pending")
                await types("resolve", question["id"], "allow-once")
                while not (openclaw_home.workspace / "here").exists():
                    await asyncio.sleep(0.02)
                assert json.loads(await types("pending", "--json")) == []
