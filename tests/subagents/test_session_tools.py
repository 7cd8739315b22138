"""Tools that look at other sessions and at the configuration, as far as they may."""

import json
import uuid
from pathlib import Path

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import parse
from openclaw.gateway.tools.config import refuse_protected
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says
from tests.subagents.house import SETTINGS, Cast, Owner, house

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> TemporaryHome:
    made = TemporaryHome(tmp_path)
    made.use_model(**SETTINGS)
    return made


def open_up(home: TemporaryHome, **tools) -> None:
    home.use_model(tools={**SETTINGS["tools"], **tools})


async def used(home: TemporaryHome, tool: str, owner: Owner | None = None, **args):
    """The result of one call from the main session, beside a session `side` in which something was said."""
    boss = ScriptedModel(calls(tool, **args), says("so"))
    side = ScriptedModel(says("the side answer"), says("the second answer"))
    async with house(home, Cast(please=boss, side=side), owner) as it:
        for text, key in (("side talk", "agent:main:side"), ("please", "main")):
            run_id = uuid.uuid4().hex
            await it.say(run_id, text, key=key)
            await it.outcome(run_id)
        return (await it.results(tool))[-1]


async def test_by_default_a_session_sees_itself_and_its_own(home):
    listed = json.loads((await used(home, "sessions_list")).text)
    assert [row["key"] for row in listed["sessions"]] == ["agent:main:main"]
    refused = await used(home, "sessions_history", sessionKey="agent:main:side")
    assert refused.is_error
    assert "tools.sessions.visibility" in refused.text


async def test_an_agent_may_be_let_see_all_its_sessions(home):
    open_up(home, sessions={"visibility": "agent"})
    listed = json.loads((await used(home, "sessions_list", search="side")).text)
    (row,) = listed["sessions"]
    assert row["key"] == "agent:main:side"
    assert row["kind"] == "other"
    read = json.loads((await used(home, "sessions_history", sessionKey="agent:main:side")).text)
    assert [message["role"] for message in read["messages"]][:2] == ["user", "assistant"]


async def test_a_message_to_another_session_is_answered(home):
    open_up(home, sessions={"visibility": "agent"})
    answer = json.loads((await used(home, "sessions_send", sessionKey="agent:main:side", message="hello")).text)
    assert answer["status"] == "ok"
    assert answer["reply"] == "the second answer"
    hidden = await used(home, "sessions_send", sessionKey="agent:other:main", message="hello")
    assert hidden.is_error
    nobody = await used(home, "sessions_send", message="hello")
    assert "Name one session" in nobody.text


async def test_the_status_card_tells_and_sets_the_model(home):
    card = (await used(home, "session_status")).text
    assert "Session: agent:main:main" in card
    assert "Model: scripted/scripted" in card
    chosen = (await used(home, "session_status", model="scripted/scripted")).text
    assert "chosen for this session" in chosen


async def test_the_agents_that_may_be_started_are_listed(home):
    listed = json.loads((await used(home, "agents_list")).text)
    assert listed["allowAny"] is False
    assert [agent["id"] for agent in listed["agents"]] == ["main"]


async def test_the_configuration_is_shown_and_changed_only_with_the_owner(home):
    got = json.loads((await used(home, "gateway", action="config.get")).text)["result"]
    assert got["config"]["tools"]["exec"]["security"] == "full"
    change = {"action": "config.patch", "raw": '{"agents":{"defaults":{"userTimezone":"Europe/Oslo"}}}'}
    no, yes = Owner("deny"), Owner("allow-once")
    refused = await used(home, "gateway", no, **change, baseHash=got["hash"])
    assert "Not run" in refused.text
    assert no.asked[0].why == "it changes the configuration"
    assert "Oslo" not in home.config_path.read_text()
    done = await used(home, "gateway", yes, **change, baseHash=got["hash"])
    assert json.loads(done.text)["ok"] is True
    assert "Oslo" in home.config_path.read_text()


@pytest.mark.parametrize(
    "patch",
    [
        {"tools": {"exec": {"ask": "off"}}},
        {"tools": {"exec": {"security": "full"}}},
        {"tools": {"exec": {"mode": "full"}}},
        {"tools": {"bash": {"ask": "off"}}},
        {"tools": {"exec": None}},
        {"tools": None},
        {"agents": {"list": [{"id": "main", "tools": {"exec": {"security": "full"}}}]}},
        {"security": {"externalContent": {"taintTools": "off"}}},
        {"$include": "./other.json5"},
        {"commands": {"ownerAllowFrom": ["telegram:666"]}},
    ],
)
async def test_what_protects_the_owner_is_out_of_reach_even_with_a_yes(home, patch):
    home.use_model(tools={"exec": {"security": "deny", "ask": "always"}})
    before = home.config_path.read_text()
    got = json.loads((await used(home, "gateway", action="config.get")).text)["result"]
    result = await used(
        home, "gateway", Owner("allow-once"), action="config.patch", raw=json.dumps(patch), baseHash=got["hash"]
    )
    assert result.is_error
    assert "cannot be changed by an agent" in result.text
    assert home.config_path.read_text() == before


def test_a_whole_new_file_may_not_drop_protections():
    old = {"tools": {"exec": {"ask": "always"}}}
    with pytest.raises(InvalidRequest):
        refuse_protected(old, {})
    refuse_protected(old, {**old, "agents": {"defaults": {}}})


async def test_groups_and_strangers_do_not_have_the_gateway_tool(home):
    async with house(home, Cast(please=ScriptedModel())) as it:

        def names(key: str) -> set[str]:
            return {tool.spec.name for tool in it.desk.app.tools(key=parse(key))}

        assert "gateway" in names("agent:main:main")
        assert "gateway" not in names("agent:main:telegram:group:-100")
        assert "gateway" not in names("agent:main:telegram:direct:42")
        assert "gateway" not in names("agent:main:hook:gmail:1")
        for key in ("agent:main:main", "agent:main:telegram:group:-100"):
            assert {"exec", "process", "web_fetch", "web_search", "image", "sessions_spawn"} <= names(key)
            assert "update_plan" not in names(key)


async def test_without_process_exec_does_not_offer_the_background(home):
    open_up(home, deny=["process"])
    async with house(home, Cast(please=ScriptedModel())) as it:
        tools = {tool.spec.name: tool for tool in it.desk.app.tools()}
        assert "process" not in tools
        assert "background" not in tools["exec"].spec.parameters["properties"]
