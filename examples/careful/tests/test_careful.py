"""The example guard: what it blocks, what it asks about, what it lets pass."""

from pathlib import Path

import pytest

from openclaw.plugin import BeforeToolCall, MessageSending
from openclaw.testing.plugins import plugin_problems, running_plugin

HERE = Path(__file__).parent.parent
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_keeps_to_the_contract() -> None:
    assert await plugin_problems(HERE) == []


async def test_it_blocks_asks_and_lets_pass() -> None:
    async with running_plugin(HERE) as plugin:

        async def verdict(command: str) -> object:
            return await plugin.hook(BeforeToolCall(tool_name="exec", params={"command": command}))

        blocked = await verdict("sudo rm   -rf / --no-preserve-root")
        assert blocked.block and "'rm -rf /'" in blocked.block_reason
        asked = await verdict("git push origin main")
        assert not asked.block and asked.require_approval.title == "This leaves your machine"
        assert await verdict("ls -la") is None


async def test_what_it_blocks_can_be_set() -> None:
    async with running_plugin(HERE, config={"block": ["curl"]}) as plugin:
        verdict = await plugin.hook(BeforeToolCall(tool_name="exec", params={"command": "curl example.org"}))
        assert verdict.block


async def test_credentials_do_not_leave_in_messages() -> None:
    async with running_plugin(HERE) as plugin:
        said = await plugin.hook(MessageSending(to="ada", content="the key is sk-abcdefghijklmnopqrstuvwx."))
        assert said.content == "the key is [a credential]."
        assert await plugin.hook(MessageSending(to="ada", content="no key here")) is None
