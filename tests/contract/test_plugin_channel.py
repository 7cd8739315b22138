"""What every channel does: what people write is heard once and in order, what is sent arrives and is receipted.

A channel is brought to the suite as a `Bench`: the channel, a way to write to it as a person, and what was delivered.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest
from msgspec import Struct

from openclaw.core.channel import Channel, Inbound, Outbound
from openclaw.testing import FakeChannel

pytestmark = pytest.mark.anyio


class Bench(Struct, frozen=True):
    channel: Channel
    writes: Callable[..., Awaitable[None]]
    """`writes(sender, text, group=None)`, as a person does."""
    delivered: Callable[[], list[Outbound]]


def fake() -> Bench:
    channel = FakeChannel()

    async def writes(sender: str, text: str, group: str | None = None) -> None:
        await channel.person(sender).writes(text, group=group)

    return Bench(channel, writes, lambda: channel.sent)


@pytest.fixture(params=[fake], ids=["fake"])
def bench(request: Any) -> Bench:
    made: Bench = request.param()
    return made


async def heard(channel: Channel, count: int) -> list[Inbound]:
    found: list[Inbound] = []
    listening = channel.listen()
    assert isinstance(listening, AsyncIterator)
    async with asyncio.timeout(120), aclosing(listening) as messages:  # type: ignore[type-var]
        async for message in messages:
            found.append(message)
            if len(found) == count:
                break
    return found


async def test_a_channel_has_a_name_and_its_messages_carry_it(bench: Bench) -> None:
    await bench.writes("alice", "hello")
    (message,) = await heard(bench.channel, 1)
    assert bench.channel.name
    assert (message.channel, message.sender, message.text) == (bench.channel.name, "alice", "hello")


async def test_messages_are_heard_in_the_order_they_were_written_each_with_its_own_id(bench: Bench) -> None:
    for number in range(5):
        await bench.writes("alice" if number % 2 else "bob", str(number))
    messages = await heard(bench.channel, 5)
    assert [message.text for message in messages] == ["0", "1", "2", "3", "4"]
    assert len({message.id for message in messages}) == 5


@pytest.mark.parametrize("text", ["grüße 👋🏽 世界", "two\nlines", " spaces ", "*not* _markdown_ <b>", "x" * 3000])
async def test_a_text_arrives_as_it_was_written(bench: Bench, text: str) -> None:
    await bench.writes("alice", text)
    assert (await heard(bench.channel, 1))[0].text == text


async def test_an_answer_goes_to_where_the_message_came_from(bench: Bench) -> None:
    await bench.writes("alice", "hi")
    await bench.writes("bob", "hi all", group="friends")
    direct, grouped = await heard(bench.channel, 2)
    assert (direct.origin.channel, direct.origin.to) == (bench.channel.name, "alice")
    assert (grouped.origin.to, grouped.mentioned) == ("friends", True)
    for message in (direct, grouped):
        receipt = await bench.channel.send(Outbound(to=message.origin, text=f"hello {message.sender}"))
        assert receipt.id
    assert [(sent.to.to, sent.text) for sent in bench.delivered()] == [
        ("alice", "hello alice"),
        ("friends", "hello bob"),
    ]


async def test_every_message_sent_has_a_receipt_of_its_own(bench: Bench) -> None:
    await bench.writes("alice", "hi")
    (message,) = await heard(bench.channel, 1)
    receipts = [await bench.channel.send(Outbound(to=message.origin, text=text)) for text in ("a", "b")]
    assert len({receipt.id for receipt in receipts}) == 2


async def test_listening_ends_when_it_is_cancelled_and_can_begin_again(bench: Bench) -> None:
    waiting = asyncio.create_task(heard(bench.channel, 1))
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(120):
        await asyncio.wait({waiting})
    assert waiting.cancelled()
    await bench.writes("alice", "still there?")
    assert (await heard(bench.channel, 1))[0].text == "still there?"


async def test_a_person_on_the_fake_hears_what_is_sent_to_them() -> None:
    channel = FakeChannel()
    alice = channel.person("alice")
    await alice.writes("hi")
    (message,) = await heard(channel, 1)
    await channel.send(Outbound(to=message.origin, text="hello"))
    assert await alice.hears() == "hello"
    with pytest.raises(TimeoutError):
        await alice.hears(deadline=0.01)
