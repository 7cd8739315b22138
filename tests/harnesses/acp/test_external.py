"""Work handed to an external coding agent, through the real runs of a gateway."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.testing import ScriptedModel, calls, says
from tests.commandline import forked
from tests.processes import is_alive
from tests.runs.subagents.house import SETTINGS, Cast, Owner, house

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "coder"
    made.mkdir()
    return made


def settings(place: Path, **acp: Any) -> dict[str, Any]:
    command, *args = forked("tests.harnesses.acp.coder", str(place))
    coder = {"command": command, "args": args, "env": {"CODER_KEY": "canary-key"}}
    return {**SETTINGS, "acp": {"agents": {"coder": coder}, **acp}}


async def test_it_does_the_work_and_its_answer_comes_back_as_foreign(openclaw_home, place):
    openclaw_home.configure(settings(place))
    starter = ScriptedModel(
        calls("sessions_spawn", task="write the code", runtime="acp", agentId="coder"),
        says("It is being written."),
        says("It is written."),
    )
    async with house(openclaw_home, Cast(please=starter)) as here:
        await here.say("r1", "please have it written")
        await here.outcome("r1")
        (result,) = await here.results("sessions_spawn")
        told = json.loads(result.text)
        assert told["status"] == "accepted"
        assert told["childSessionKey"].startswith("agent:main:acp:")
        assert told["resolvedModel"] == "acp/coder"
        await here.until(lambda: starter.left == 0)
        child = [each.text for each in await here.messages(told["childSessionKey"])]
        assert child[0] == "write the code"
        assert child[1].startswith("The code is written (turn 1).")
        pid = int((place / "pid").read_text())
    assert starter.saw("The code is written (turn 1).")
    assert starter.saw("<<<EXTERNAL_UNTRUSTED_CONTENT")
    assert not starter.saw("<|im_start|>")
    assert (place / "cwd").read_text() == str(openclaw_home.workspace)
    names = set((place / "environ").read_text().splitlines())
    assert "CODER_KEY" in names
    assert not names & {"OPENCLAW_STATE_DIR", "PYTHONPATH"}
    for _ in range(300):
        if not is_alive(pid):
            break
        await asyncio.sleep(0.1)
    assert not is_alive(pid)


@pytest.mark.parametrize(("decision", "option"), [("allow-once", "yes"), ("allow-always", "yes"), ("deny", "no")])
async def test_what_it_asks_for_is_asked_of_the_owner(openclaw_home, place, decision, option):
    openclaw_home.configure(settings(place, defaultAgent="coder"))
    owner = Owner(decision)
    starter = ScriptedModel(calls("sessions_spawn", task="ask permission", runtime="acp"), says("ok"), says("done"))
    async with house(openclaw_home, Cast(please=starter), owner) as here:
        await here.say("r1", "please")
        await here.until(lambda: starter.left == 0)
    assert starter.saw(f"outcome {option}.")
    (asked,) = owner.asked
    assert asked.tool == "acp:coder"
    assert asked.command == 'Delete the build {"path": "build"}'
    assert asked.standing is False


async def test_it_can_be_stopped(openclaw_home, place):
    openclaw_home.configure(settings(place))
    starter = ScriptedModel(
        calls("sessions_spawn", task="hang there", runtime="acp", agentId="coder"),
        says("Waiting."),
        calls("subagents", action="kill", target="last"),
        says("Stopped."),
    )
    async with house(openclaw_home, Cast(please=starter)) as here:
        await here.say("r1", "please")
        await here.until((place / "hanging").exists)
        await here.outcome("r1")
        await here.say("r2", "stop it, please")
        await here.outcome("r2")
        await here.until((place / "cancelled").exists)
        assert here.roster.all()[0].status == "killed"


async def test_one_that_dies_says_why(openclaw_home, place):
    openclaw_home.configure(settings(place))
    starter = ScriptedModel(
        calls("sessions_spawn", task="die now", runtime="acp", agentId="coder"), says("Waiting."), says("It failed.")
    )
    async with house(openclaw_home, Cast(please=starter)) as here:
        await here.say("r1", "please")
        await here.until(lambda: starter.left == 0)
        assert here.roster.all()[0].status == "error"
    assert starter.saw("segmentation fault of the coder")
    assert not starter.saw("canary-key")


@pytest.mark.parametrize(
    ("acp", "named", "told"),
    [
        ({"enabled": False}, "coder", "acp.enabled"),
        ({}, "codex", "one of coder"),
        ({}, "", "Say which"),
        ({"allowedAgents": ["other"]}, "coder", "acp.allowedAgents"),
        ({"agents": {}}, "coder", "acp.agents"),
    ],
)
async def test_what_is_not_there_says_what_to_set(openclaw_home, place, acp, named, told):
    openclaw_home.configure(settings(place, **acp))
    call = calls("sessions_spawn", task="write", runtime="acp", **({"agentId": named} if named else {}))
    async with house(openclaw_home, Cast(please=ScriptedModel(call, says("Not possible.")))) as here:
        await here.say("r1", "please")
        await here.outcome("r1")
        (result,) = await here.results("sessions_spawn")
    assert json.loads(result.text)["status"] == "error"
    assert told in result.text


async def test_a_session_of_the_agent_is_continued(openclaw_home, place):
    (place / "sessions.json").write_text(json.dumps({"earlier": ["build the boat"]}))
    command, *args = forked("tests.harnesses.acp.coder", str(place), "load")
    openclaw_home.configure({**SETTINGS, "acp": {"agents": {"coder": {"command": command, "args": args}}}})
    spawned = calls("sessions_spawn", task="recall", runtime="acp", agentId="coder", resumeSessionId="earlier")
    starter = ScriptedModel(spawned, says("Waiting."), says("Done."))
    async with house(openclaw_home, Cast(please=starter)) as here:
        await here.say("r1", "please")
        await here.until(lambda: starter.left == 0)
        (child,) = here.roster.all()
        said = [each.text for each in await here.messages(child.key)]
    assert said == ["recall", "Before: build the boat"]
    assert (place / "loaded").read_text() == "earlier\n"


async def test_a_session_the_agent_does_not_have_is_an_error(openclaw_home, place):
    openclaw_home.configure(settings(place))
    spawned = calls("sessions_spawn", task="recall", runtime="acp", agentId="coder", resumeSessionId="nothing")
    starter = ScriptedModel(spawned, says("Waiting."), says("It failed."))
    async with house(openclaw_home, Cast(please=starter)) as here:
        await here.say("r1", "please")
        await here.until(lambda: starter.left == 0)
        assert here.roster.all()[0].status == "error"
    assert starter.saw("cannot continue an earlier session")


async def test_only_an_external_agent_is_resumed(openclaw_home, place):
    openclaw_home.configure(settings(place))
    call = calls("sessions_spawn", task="recall", resumeSessionId="earlier")
    async with house(openclaw_home, Cast(please=ScriptedModel(call, says("Not possible.")))) as here:
        await here.say("r1", "please")
        await here.outcome("r1")
        (result,) = await here.results("sessions_spawn")
    assert "resumeSessionId needs runtime acp" in result.text


async def test_it_may_not_do_what_its_starter_may_not(openclaw_home, place):
    openclaw_home.configure(settings(place, defaultAgent="coder"))
    owner = Owner("allow-once")
    starter = ScriptedModel(calls("sessions_spawn", task="permit", runtime="acp"), says("ok"), says("done"))
    async with house(openclaw_home, Cast(please=starter), owner) as here:
        await here.say("r1", "please", tools_deny=("exec",))
        await here.until(lambda: starter.left == 0)
    assert starter.saw("refused")
    assert not owner.asked
    assert not (openclaw_home.workspace / "made.txt").exists()
