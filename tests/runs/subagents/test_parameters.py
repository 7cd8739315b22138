"""Parameters in a running house: older spellings, what cannot be done, and who may loosen what."""

import pytest

from openclaw.agent.arguments import ArgumentsAccepted, prepare_arguments
from openclaw.testing import ScriptedModel, calls, says
from tests.runs.subagents.house import SETTINGS, Cast, Owner, house

pytestmark = pytest.mark.anyio


async def test_older_spellings_are_taken(openclaw_home):
    openclaw_home.configure(SETTINGS)
    async with house(openclaw_home, Cast(please=ScriptedModel(says("x")))) as here:
        specs = {tool.spec.name: tool.spec for tool in here.toolset.of()}
    for name, given in (
        ("read", {"file_path": "a"}),
        ("edit", {"file_path": "a", "old_string": "x", "new_string": "y"}),
        ("exec", {"command": "true", "timeout": 5, "host": "gateway", "elevated": True}),
        ("image", {"path": "a.png"}),
        ("sessions_spawn", {"task": "x", "timeoutSeconds": 5, "context": "isolated"}),
    ):
        assert isinstance(
            prepare_arguments(name, specs[name].parameters, specs[name].aliases, given), ArgumentsAccepted
        ), name


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"thread": True}, "on no channel"),
        ({"thread": True, "mode": "run"}, "leave mode out"),
        ({"attachAs": {"mountPath": "../x"}, "attachments": [{"name": "a", "content": "b"}]}, "inside the workspace"),
    ],
)
async def test_what_a_spawn_cannot_do_says_so(openclaw_home, given, told):
    openclaw_home.configure(SETTINGS)
    model = ScriptedModel(calls("sessions_spawn", task="x", **given), says("no"))
    async with house(openclaw_home, Cast(please=model)) as here:
        await here.say("r1", "please")
        await here.outcome("r1")
        (result,) = await here.results("sessions_spawn")
    assert told in result.text


@pytest.mark.parametrize(
    ("given", "ran", "asked"),
    [
        ({}, True, 0),
        ({"ask": "always"}, False, 1),
        ({"security": "deny"}, False, 0),
        ({"host": "node"}, False, 0),
        ({"host": "sandbox"}, False, 0),
    ],
)
async def test_a_command_can_ask_to_be_held_tighter_but_never_looser(openclaw_home, tmp_path, given, ran, asked):
    openclaw_home.configure(SETTINGS)
    mark = tmp_path / "ran"
    owner = Owner("deny")
    model = ScriptedModel(calls("exec", command=f"touch {mark}", **given), says("done"))
    async with house(openclaw_home, Cast(please=model), owner) as here:
        await here.say("r1", "please")
        await here.outcome("r1")
    assert mark.exists() is ran
    assert len(owner.asked) == asked


async def test_a_policy_is_not_loosened_by_a_call(openclaw_home, tmp_path):
    openclaw_home.configure({"tools": {"exec": {"security": "allowlist", "ask": "on-miss"}}})
    mark = tmp_path / "ran"
    owner = Owner("deny")
    model = ScriptedModel(calls("exec", command=f"touch {mark}", security="full", ask="off"), says("done"))
    async with house(openclaw_home, Cast(please=model), owner) as here:
        await here.say("r1", "please")
        await here.outcome("r1")
    assert not mark.exists()
    assert len(owner.asked) == 1
