"""How an answer looks on a channel: what it begins with, how it is cut, and the pauses between its parts."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclaw.agent.settings import HumanDelaySettings
from openclaw.channels.chunking import split_paragraphs
from openclaw.channels.streaming import COMPACTING
from openclaw.config.schema import Config
from openclaw.core.channel import Address
from openclaw.core.events import CompactionEnded, CompactionStarted
from openclaw.runs.outbox import begin_with, response_prefix
from openclaw.storage.database import Database
from openclaw.testing import FakeClock, TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.channels.fake_platform import Slate
from tests.channels.test_gateway import Post
from tests.channels.test_streaming import WORDS, Talk
from tests.databases import open_database
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio

ADA = Address(channel="slate", to="ada")


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    found = await open_database(tmp_path / "state.sqlite")
    yield found
    await found.close()


@pytest.mark.parametrize(
    ("written", "prefix"),
    [
        ("auto", "[Clara]"),
        ("{identityName}:", "Clara:"),
        ("({model} {thinkingLevel})", "(opus-4 low)"),
        ("{PROVIDER} {modelFull}", "lab lab/deep/opus-4-20260101"),
        ("{nobody}", "{nobody}"),
        ("", ""),
    ],
)
def test_a_prefix_is_filled_in(written: str, prefix: str) -> None:
    settings: dict[str, Any] = {"agents": {"list": [{"id": "main", "identity": {"name": "Clara"}}]}}
    config = msgspec.convert({**settings, "messages": {"responsePrefix": written}}, Config)
    assert response_prefix(config, "main", ADA, "lab", "deep/opus-4-20260101", "low") == prefix


def test_a_name_nobody_gave_makes_no_prefix() -> None:
    config = msgspec.convert({"messages": {"responsePrefix": "auto"}}, Config)
    assert response_prefix(config, "main", ADA, "lab", "m", "") == ""
    assert begin_with("[C]", "[C] said already") == "[C] said already"


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ({}, 0.0),
        ({"mode": "natural", "minMs": 5}, 1.65),
        ({"mode": "custom", "minMs": 1_000, "maxMs": 2_000}, 1.5),
        ({"mode": "custom", "minMs": 5_000}, 5.0),
    ],
)
def test_a_pause_lies_between_its_bounds(delay: dict[str, Any], seconds: float) -> None:
    assert msgspec.convert(delay, HumanDelaySettings).seconds(0.5) == pytest.approx(seconds)


def test_a_code_fence_is_no_paragraph_break() -> None:
    fence = "```py\na\n\nb\n```"
    assert split_paragraphs(f"One.\n\n\n{fence}\n \nTwo.") == ["One.", fence, "Two."]


async def test_a_preview_and_its_answer_begin_the_same_way(db: Database, fake_clock: FakeClock) -> None:
    channels = {"slate": {"responsePrefix": "[{model}, {thinkingLevel}]"}}
    talk = Talk(db, fake_clock, Slate(), channels=channels, messages={"responsePrefix": "not this"})
    async with talk.alive():
        run = await talk.ask()
        talk.write(run, WORDS)
        await talk.until(lambda: talk.slate.texts() == [f"[mock-1, low] {WORDS.strip()}"])
        await talk.end(run, talk.finish(run, WORDS + "End."))
        await talk.quiet()
    assert talk.slate.texts() == [f"[mock-1, low] {WORDS}End."]


async def test_parts_come_with_pauses_and_the_first_without(db: Database, fake_clock: FakeClock) -> None:
    defaults = {
        "humanDelay": {"mode": "off"},
        "blockStreamingDefault": "on",
        "blockStreamingChunk": {"minChars": 10, "maxChars": 60},
    }
    own = [{"id": "main", "humanDelay": {"mode": "custom", "minMs": 4_000, "maxMs": 6_000}}]
    talk = Talk(db, fake_clock, Slate(actions=("send",)), agents={"defaults": defaults, "list": own})
    async with talk.alive():
        run = await talk.ask()
        await talk.end(run, talk.finish(run, WORDS * 3))
        began, arrived = fake_clock.now(), []
        for count in (1, 2, 3):
            await talk.until(lambda count=count: len(talk.slate.texts()) == count)  # type: ignore[misc]
            arrived.append(fake_clock.now() - began)
    assert arrived[0] < 2 and arrived[1] - arrived[0] >= 4.5 and arrived[2] - arrived[1] >= 4.5


async def test_every_paragraph_is_a_message(db: Database, fake_clock: FakeClock) -> None:
    channels = {"slate": {"streaming": {"chunkMode": "newline"}, "textChunkLimit": 60}}
    talk = Talk(db, fake_clock, Slate(actions=("send",)), channels=channels)
    async with talk.alive():
        run = await talk.ask()
        await talk.end(run, talk.finish(run, f"One.\n\nTwo.\n\n{WORDS}{WORDS}"))
        await talk.quiet()
    assert talk.slate.texts() == ["One.", "Two.", WORDS.strip(), WORDS.strip()]


@pytest.mark.slow
async def test_the_settings_hold_on_a_channel_of_a_real_gateway(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says(WORDS * 3)]) as server:
        channel = {"textChunkLimit": 70, "responsePrefix": "[{modelFull}]"}
        post = Post(openclaw_home, server, channel, "mailbox:ada")
        reference = post.settings["agents"]["defaults"]["model"]
        with GatewayProcess(openclaw_home):
            post.writes("ada", "talk")
            heard = [await post.hears("ada") for _ in range(3)]
    assert heard[0].startswith(f"[{reference}] The weather") and all(len(each) <= 70 for each in heard)


async def test_people_are_told_of_a_compaction_at_once(db: Database, fake_clock: FakeClock) -> None:
    talk = Talk(db, fake_clock, Slate(), agents={"defaults": {"compaction": {"notifyUser": True}}})
    async with talk.alive():
        run = await talk.ask()
        talk.say(run, CompactionStarted(reason="threshold", tokens=9))
        await talk.until(lambda: talk.slate.texts() == [COMPACTING])
        talk.say(run, CompactionEnded(reason="threshold", ok=True, tokens_before=9, tokens_after=1))
        await talk.end(run, talk.finish(run, "Here it is."))
        await talk.quiet()
    first, second, third = talk.slate.texts()
    assert first == COMPACTING and second.startswith("compacted: about 9 tokens became 1") and third == "Here it is."
