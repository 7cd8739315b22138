"""The example channel: each message is heard once, and answers land where they belong."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from openclaw.plugin import Address, InvalidRequest, Outbound
from openclaw.testing.plugins import plugin_problems, running_plugin

HERE = Path(__file__).parent.parent
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_keeps_to_the_contract() -> None:
    assert await plugin_problems(HERE) == []


async def test_a_message_is_heard_once_and_answered(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "ada--1.txt").write_text("hello\n")
    (tmp_path / "inbox" / "bob--2.txt").write_text("  \n")
    async with running_plugin(HERE, config={"directory": str(tmp_path), "seconds": 0.05}) as plugin:
        channel: Any = plugin.channel("mailbox")
        async with asyncio.timeout(60), aclosing(channel.listen()) as heard:
            first = await anext(heard)
            assert (first.sender, first.text, first.id, first.channel) == ("ada", "hello", "1", "mailbox")
            (tmp_path / "inbox" / "ada--3.txt").write_text("again\n")
            assert (await anext(heard)).text == "again"
        receipt = await channel.send(Outbound(to=Address(channel="mailbox", to="ada"), text="hello, Ada"))
        assert (tmp_path / "outbox" / receipt.id).read_text() == "hello, Ada\n"
        # Nothing was asked for after the second: it may not be on record yet, and is kept.
        assert [path.name for path in (tmp_path / "inbox").glob("ada*")] == ["ada--3.txt"]


async def test_an_answer_never_leaves_the_outbox(tmp_path: Path) -> None:
    async with running_plugin(HERE, config={"directory": str(tmp_path)}) as plugin:
        message = Outbound(to=Address(channel="mailbox", to="../../etc/cron.d/x"), text="*")
        with pytest.raises(InvalidRequest, match="not a sender"):
            await plugin.channel("mailbox").send(message)
