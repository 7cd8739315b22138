"""Commands typed into a chat window, through a whole gateway: what is answered, what is changed, what is asked."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.commands import NAMES, command_word, is_whole_command, parse_trigger
from openclaw.protocol.connect_request import CallFailed
from openclaw.runs.commands.catalog import CATALOG, NOT_HERE, unknown_reply
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says, stalls
from tests.plugins.support import write
from tests.runs.commands.house import chat_window, text_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/typo", "typo"),
        ("/typo now please", "typo"),
        ("/Typo: x", "typo"),
        ("/etc/hosts is empty", None),
        ("/tmp is full", None),
        ("/ what", None),
        ("/3 of them", None),
        ("and/or", None),
        ("//typo", None),
    ],
)
def test_what_has_the_shape_of_a_command(text: str, word: str | None) -> None:
    assert command_word(text) == word


def test_an_unknown_command_is_told_the_nearest_or_why_it_is_not_here() -> None:
    assert "Did you mean /status?" in unknown_reply("stauts", ())
    assert "Did you mean /pirate?" in unknown_reply("pirat", ["pirate"])
    assert "Did you mean" not in unknown_reply("xyzzy", ())
    assert unknown_reply("tts", ()).startswith("/tts is not available here")


def test_what_is_listed_is_what_there_is() -> None:
    assert {entry.name for entry in CATALOG} == set(NAMES.values())
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
    assert all(f"| `/{entry.name}" in page for entry in CATALOG)
    assert not set(NOT_HERE) & set(NAMES)


@pytest.mark.parametrize(
    ("text", "whole"), [("/status", True), ("/new hi", True), ("/think high", False), ("stop", False)]
)
def test_what_is_ignored_from_strangers(text: str, whole: bool) -> None:
    assert is_whole_command(text) is whole


async def test_every_command_answers_without_a_model(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel()
    async with chat_window(openclaw_home, model) as chat:
        for name in (entry.name for entry in CATALOG if entry.name not in ("restart", "new", "reset", "compact")):
            answer = await chat.asks(f"/{name}")
            assert answer.strip(), name
        listed = await chat.asks("/commands")
        assert all(f"/{entry.name}" in listed for entry in CATALOG)
        for text in ("/typo", "/stauts", "/tts on", "/bash ls"):
            await chat.asks(text)
        assert "There is no command /typo" in await chat.asks("/typo with words")
        assert "Did you mean /status?" in await chat.asks("/stauts")
        assert "is not available here" in await chat.asks("/fast on")
    assert model.requests == []


async def test_paths_and_doubled_slashes_are_messages(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel(says("a"), says("b"), says("c"))
    async with chat_window(openclaw_home, model) as chat:
        await chat.asks("/etc/hosts is empty, why?")
        assert chat.said().endswith("/etc/hosts is empty, why?")
        await chat.asks("/tmp is full")
        assert chat.said().endswith("/tmp is full")
        await chat.asks("//typo is a word")
        assert chat.said().endswith("\n/typo is a word") or chat.said() == "/typo is a word"


async def test_directives_inside_a_message_hold_for_it_and_a_model_for_good(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel(*(says(str(number)) for number in range(6)))
    async with chat_window(openclaw_home, model) as chat:
        await chat.asks("/think off what is 2+2?")
        assert chat.said().endswith("what is 2+2?") and "/think" not in chat.said()
        assert "Thinking: default" in await chat.asks("/think")
        end = await chat.end_of(await chat.sends("say hi /model scripted/other"))
        assert model.requests[-1].model.id == "other" and chat.said().endswith("say hi")
        assert any("Model: scripted/other" in each for each in end["notices"])
        await chat.asks("again")
        assert model.requests[-1].model.id == "other"
        assert await chat.asks("/model scripted/scripted") == "Model: scripted/scripted, from the next message on."
        assert "is not a thinking level" in await chat.asks("/think bogus and more")
        await chat.asks("the words `/think high` are code, and /model is a word")
        assert "`/think high`" in chat.said() and "/model is a word" in chat.said()
        end = await chat.end_of(await chat.sends("how are you? /status"))
        assert text_of(end) == "4" and any("Session: agent:main:main" in each for each in end["notices"])
        assert chat.said().endswith("how are you?")
        assert "cannot think at 'high'" in await chat.asks("/think high and more")
        said = await chat.asks("/think off /verbose on")
        assert "Thinking: off." in said and "Verbose: on" in said


async def test_verbose_for_one_message_shows_its_tools(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    (openclaw_home.workspace / "a.txt").write_text("x")
    model = ScriptedModel(calls("read", path="a.txt"), says("one"), calls("read", path="a.txt"), says("two"))
    async with chat_window(openclaw_home, model) as chat:
        first = await chat.client.call("agent", {"message": "/verbose on read it", "idempotencyKey": "v1"}, final=True)
        second = await chat.client.call("agent", {"message": "read it", "idempotencyKey": "v2"}, final=True)
    texts = [[each["text"] for each in answer["result"]["payloads"]] for answer in (first, second)]
    assert len(texts[0]) == 2 and "read" in texts[0][0] and texts[1] == ["two"]


async def test_exec_limits_for_one_message(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel(
        calls("exec", command="echo hello"), says("ok"), calls("exec", command="echo hello"), says("ok")
    )
    async with chat_window(openclaw_home, model, tools={"exec": {"security": "full", "ask": "off"}}) as chat:
        assert "security full, ask off" in await chat.asks("/exec")
        await chat.asks("/exec security=deny do it")
        assert "Not run" in chat.said()
        await chat.asks("do it")
        assert chat.said() == "hello"
        assert "cannot be chosen" in await chat.asks("/exec host=node do it")


@pytest.mark.parametrize(
    ("text", "rest"),
    [("Fresh start", ""), ("fresh start  hello there", "hello there"), ("fresh starts", None), ("a fresh start", None)],
)
def test_words_that_begin_a_new_conversation(text: str, rest: str | None) -> None:
    found = parse_trigger(text, ("/anew", "fresh start"))
    assert (found and found.args) == rest and (found is None or found.name == "new")


async def test_other_words_begin_a_new_conversation(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel(says("one"), says("two"), says("three"))
    async with chat_window(openclaw_home, model, session={"resetTriggers": ["fresh start", "/anew"]}) as chat:
        await chat.asks("first")
        assert "A new conversation" in await chat.asks("Fresh start")
        await chat.asks("second")
        await chat.end_of(await chat.sends("/anew third"))
    assert [[each.text for each in request.messages] for request in model.requests] == [
        ["first"],
        ["second"],
        ["third"],
    ]


async def test_new_with_a_model_and_a_soft_reset(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel(says("one"), says("two"), says("three"), says("four"))
    async with chat_window(openclaw_home, model) as chat:
        await chat.asks("remember the heron")
        end = await chat.end_of(await chat.sends("/new scripted/other hello there"))
        assert model.requests[-1].model.id == "other" and not model.requests[-1].messages[:-1]
        assert chat.said().endswith("hello there") and "A new conversation" in end["notices"][0]
        await chat.asks("/reset soft go on")
        assert chat.said().endswith("go on") and any("hello there" in each.text for each in model.requests[-1].messages)
        assert "What was said is kept" in await chat.asks("/reset soft")
        await chat.asks("/new soft landing")
        assert chat.said().endswith("soft landing") and len(model.requests[-1].messages) == 1


async def test_skills_are_listed_and_called_by_name(openclaw_home: TemporaryHome) -> None:
    skill = openclaw_home.workspace / "skills" / "tidy"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies a room.\n---\nTidy it.\n")
    model = ScriptedModel(says("a"), says("b"), says("c"))
    async with chat_window(openclaw_home, model) as chat:
        assert "/tidy: Tidies a room." in await chat.asks("/skill")
        for text in ("/skill tidy the attic", "/skill:tidy the attic", "/tidy the attic"):
            await chat.asks(text)
            assert 'Use the skill "tidy" now' in chat.said() and chat.said().endswith("the attic")
        assert "there is no skill 'mess'" in await chat.asks("/skill mess")
    assert len(model.requests) == 3


async def test_a_skill_named_on_the_way_in_is_there_for_that_message(openclaw_home: TemporaryHome) -> None:
    place = openclaw_home.root / "elsewhere" / "knots"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text("---\nname: knots\ndescription: Ties knots.\n---\nTie it.\n")
    model = ScriptedModel(says("a"), says("b"), says("c"))
    async with chat_window(openclaw_home, model) as chat:
        with pytest.raises(CallFailed, match="give the path of the directory"):
            await chat.client.call("skills.offer", {"paths": [str(place / "nothing")]})
        await chat.client.call("skills.offer", {"paths": [str(place)]})
        await chat.asks("tie")
        assert "Ties knots." in model.requests[-1].system.text
        await chat.asks("/skill:knots a bow")
        assert 'Use the skill "knots" now' in chat.said()
        await chat.client.call("skills.offer", {"paths": []})
        await chat.asks("tie")
        assert "Ties knots." not in model.requests[-1].system.text


async def test_the_configuration_from_a_chat_is_off_until_it_is_allowed(openclaw_home: TemporaryHome) -> None:
    async with chat_window(openclaw_home, ScriptedModel()) as chat:
        assert "openclaw config set commands.config true" in await chat.asks("/config show")
    async with chat_window(openclaw_home, ScriptedModel(), commands={"config": True}) as chat:
        assert "scripted/scripted" in await chat.asks("/config get agents.defaults.model")
        assert await chat.asks("/config set session.mainKey home") == "session.mainKey is set."
        assert json.loads(openclaw_home.config_path.read_text())["session"] == {"mainKey": "home"}
        assert "not set any more" in await chat.asks("/config unset session.mainKey")
        assert "nothing was written" in await chat.asks("/config set session.scope nonsense")


async def test_what_only_the_owner_may_is_refused_to_a_client_without_the_right(openclaw_home: TemporaryHome) -> None:
    scopes = ("operator.read", "operator.write")
    async with chat_window(openclaw_home, ScriptedModel(), scopes=scopes, commands={"config": True}) as chat:
        for text in ("/config show", "/restart", "/send off", "/trust", "/exec ask=off do it"):
            assert "owner" in await chat.asks(text), text
        assert not chat.control.over.is_set()


async def test_restart(openclaw_home: TemporaryHome) -> None:
    async with chat_window(openclaw_home, ScriptedModel(), commands={"restart": False}) as chat:
        assert "commands.restart is false" in await chat.asks("/restart")
    async with chat_window(openclaw_home, ScriptedModel(), commands={"restart": True}) as chat:
        assert "The gateway restarts" in await chat.asks("/restart")
        async with asyncio.timeout(60):
            await chat.control.over.wait()
        assert chat.control.wish == "restart"


async def test_the_conversation_is_written_to_a_file(openclaw_home: TemporaryHome) -> None:
    async with chat_window(openclaw_home, ScriptedModel(says("It is blue."))) as chat:
        assert "nothing has been said" in await chat.asks("/export-session")
        await chat.asks("what colour is the heron?")
        assert "Written to" in await chat.asks("/export-session")
        assert "Written to" in await chat.asks("/export-session jsonl")
    (text,) = (path.read_text() for path in (openclaw_home.workspace / "exports").glob("*.md"))
    assert "what colour is the heron?" in text and "It is blue." in text
    assert len(list((openclaw_home.workspace / "exports").glob("*.jsonl"))) == 1


async def test_steering_needs_a_run(openclaw_home: TemporaryHome) -> None:
    go = asyncio.Event()
    model = ScriptedModel([stalls(go), calls("read", path="a.txt")], says("Blue, then."))
    async with chat_window(openclaw_home, model) as chat:
        assert "nothing is running" in await chat.asks("/steer left")
        first = await chat.sends("paint it red")
        await chat.until_asked(1)
        assert await chat.asks("/tell no, blue") == "The run is told."
        go.set()
        assert text_of(await chat.end_of(first)) == "Blue, then."
    assert model.saw("no, blue")


async def test_stopping_counts_the_sub_agents_it_ended(openclaw_home: TemporaryHome) -> None:
    model = ScriptedModel([stalls()])
    async with chat_window(openclaw_home, model) as chat:
        assert await chat.asks("/stop") == "Nothing is running."
        assert "Started: count the herons" in await chat.asks("/subagents spawn count the herons")
        await chat.until_asked(1)
        assert "1. count the herons: running" in await chat.asks("/subagents")
        assert "Task: count the herons" in await chat.asks("/subagents info 1")
        assert "count the herons" in await chat.asks("/subagents log last")
        assert "sub-agent: count the herons" in await chat.asks("/tasks")
        assert await chat.asks("stop") == "Stopped 1 sub-agent."
        assert "1. count the herons: killed" in await chat.asks("/subagents list")
        assert await chat.asks("stop!") == "Nothing is running."


def pirate(home: TemporaryHome) -> dict[str, Any]:
    plugin = write(home.root, "pirate", PIRATE, hooks=["before_prompt_build"])
    return {
        "plugins": {
            "load": {"paths": [str(plugin)]},
            "entries": {"pirate": {"enabled": True, "hooks": {"allowConversationAccess": True}}},
        }
    }


async def test_what_plugins_changed_is_told_when_traced(openclaw_home: TemporaryHome) -> None:
    settings = pirate(openclaw_home)
    async with chat_window(openclaw_home, ScriptedModel(says("Arr."), says("Arr.")), **settings) as chat:
        assert "notices" not in await chat.end_of(await chat.sends("hello"))
        assert "Trace: on" in await chat.asks("/trace on")
        end = await chat.end_of(await chat.sends("hello"))
        assert "pirate" in str(end.get("notices")), end


async def test_tracing_can_be_the_default(openclaw_home: TemporaryHome) -> None:
    usual: dict[str, Any] = {"agents": {"defaults": {"model": "scripted/scripted", "traceDefault": "on"}}}
    async with chat_window(openclaw_home, ScriptedModel(says("Arr.")), **pirate(openclaw_home), **usual) as chat:
        end = await chat.end_of(await chat.sends("hello"))
        assert "pirate" in str(end.get("notices")), end


PIRATE = """
def register(api):
    api.on("before_prompt_build", lambda event, context: {"appendContext": "Arr."})
"""


async def test_the_runtime_is_chosen_and_shown(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(acp={"agents": {"coder": {"command": "coder"}}})
    async with chat_window(openclaw_home, ScriptedModel()) as chat:
        assert (await chat.asks("/runtime")).startswith("Runtime: OpenClaw.")
        assert await chat.asks("/runtime acp/coder") == (
            "Runtime: ACP (coder) (chosen for the session), from the next message on."
        )
        assert "Runtime: ACP (coder)" in await chat.asks("/status")
        assert "nothing of our prompt" in await chat.asks("/context")
        assert await chat.asks("/runtime default") == "Runtime: OpenClaw, from the next message on."
        assert "There is no runtime" in await chat.asks("/runtime other")
