"""Settings of `agents` that a person or a model notices, each through the front door."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from openclaw.agent.settings import AgentsSettings
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says
from tests.runs.front_door import front_door, said, texts

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(openclaw_home: TemporaryHome) -> TemporaryHome:
    return openclaw_home


def configure(home: TemporaryHome, own: Mapping[str, Any] | None = None, **defaults: Any) -> None:
    """`own` are settings of the agent itself."""
    main = {"id": "main", **(own or {})}
    home.use_model(agents={"defaults": {"model": "scripted/scripted", **defaults}, "list": [main]})


async def card(home: TemporaryHome) -> str:
    """The status card a model is given."""
    model = ScriptedModel(calls("session_status"), says("So it is."))
    async with front_door(home, model) as door:
        await door.ask("what time is it?")
    return str(model.requests[1].messages[-1].text)


@pytest.mark.parametrize(("wanted", "looks"), [("auto", r"\d\d:\d\d:\d\d UTC"), ("12", r"\d\d?:\d\d:\d\d [AP]M UTC")])
async def test_the_time_is_told_where_the_user_is_in_their_format(home: TemporaryHome, wanted: str, looks: str) -> None:
    configure(home, userTimezone="Asia/Kathmandu", timeFormat=wanted)
    time = rf"^Time: \w+day \d{{4}}-\d\d-\d\d {looks}\+05:45 \(Asia/Kathmandu\)$"
    assert re.search(time, await card(home), re.MULTILINE)


async def test_verbose_and_reasoning_begin_as_configured_and_a_conversation_may_differ(home: TemporaryHome) -> None:
    configure(home, verboseDefault="on", reasoningDefault="on")
    model = ScriptedModel(calls("ls", path="."), says("Done."), calls("ls", path="."), says("Again."))
    async with front_door(home, model) as door:
        assert any("ls" in text for text in texts(await door.ask("look")) if text != "Done.")
        assert "Verbose: on" in said(await door.chat("/verbose"))
        assert "Verbose: off" in said(await door.chat("/verbose off"))
        assert texts(await door.ask("look again")) == ["Again."]
        assert "Verbose: on" in said(await door.chat("/verbose default"))
        assert "Reasoning: on. Verbose: on." in said(await door.chat("/status"))


async def test_no_more_of_a_window_is_used_than_configured(home: TemporaryHome) -> None:
    configure(home, contextTokens=12_000)
    async with front_door(home, ScriptedModel(says("Yes."))) as door:
        final = await door.ask("hello")
        assert "of 12,000 tokens" in said(await door.chat("/status"))
        assert "/ ctx=12,000" in said(await door.chat("/context list"))
    assert final["result"]["meta"]["agentMeta"]["contextTokens"] == 12_000


async def test_without_bootstrap_no_file_is_written_or_sent(home: TemporaryHome) -> None:
    (home.workspace / "AGENTS.md").write_text("Answer in rhyme.\n")
    configure(home, skipBootstrap=True)
    model = ScriptedModel(says("Yes."))
    async with front_door(home, model) as door:
        await door.ask("hello")
    system = model.requests[0].system
    assert "Answer in rhyme." not in system.stable and "No workspace file is loaded in this run." in system.stable
    assert [path.name for path in home.workspace.iterdir() if path.suffix == ".md"] == ["AGENTS.md"]


async def test_status_tells_which_files_were_cut(home: TemporaryHome) -> None:
    (home.workspace / "AGENTS.md").write_text("Be kind. " * 5_000)
    configure(home)
    async with front_door(home, ScriptedModel(says("Yes."))) as door:
        await door.ask("hello")
        assert "AGENTS.md: 18," in (told := said(await door.chat("/status")))
    assert "of 44,999 characters are sent" in told


@pytest.mark.parametrize("own", [None, {"contextLimits": {"memoryGetMaxChars": 40}}])
async def test_a_note_is_shown_up_to_the_limit_of_the_agent(home: TemporaryHome, own: Mapping[str, Any] | None) -> None:
    (home.workspace / "memory").mkdir(exist_ok=True)
    (home.workspace / "memory" / "long.md").write_text("a line of a note\n" * 100)
    configure(home, own, contextLimits={"memoryGetMaxChars": 4_000 if own else 40})
    model = ScriptedModel(calls("memory_get", path="memory/long.md"), says("Read."))
    async with front_door(home, model) as door:
        await door.ask("read it")
    assert "[98 more lines. Use from=3 to continue.]" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|b*)*", "["])
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"regular expression|repeats"):
        msgspec.convert({"list": [{"id": "main", "groupChat": {"mentionPatterns": [pattern]}}]}, AgentsSettings)
