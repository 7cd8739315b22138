"""Tools that look at other sessions and at the configuration, as far as they may."""

import asyncio
import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from openclaw.channels.accounts import PluginChannel
from openclaw.channels.messages import MessageService
from openclaw.channels.tools import MessageTool
from openclaw.config.tools import ConfigTool, refuse_protected
from openclaw.core.channel import Receipt
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import parse_session_key
from openclaw.core.tool import ToolContext
from openclaw.process.environment import Environment
from openclaw.runs.inbox import Inbox
from openclaw.runs.outbox import Outbox
from openclaw.sessions import history
from openclaw.testing import FakeChannel, ScriptedModel, TemporaryHome, calls, says
from tests.runs.subagents.house import SETTINGS, Cast, Owner, house

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


async def test_by_default_the_owners_conversations_see_those_of_the_agent(home):
    listed = json.loads((await used(home, "sessions_list")).text)
    assert {row["key"] for row in listed["sessions"]} == {"agent:main:main", "agent:main:side"}
    assert not (await used(home, "sessions_history", sessionKey="agent:main:side")).is_error


@pytest.mark.parametrize("key", ["agent:main:telegram:direct:eve", "agent:main:telegram:group:club", "hook:bell"])
async def test_by_default_guests_groups_and_hooks_see_themselves_only(home, key):
    boss = ScriptedModel(
        calls("sessions_list"), calls("sessions_history", sessionKey="agent:main:side"), says("nothing there")
    )
    side = ScriptedModel(says("the side answer"))
    async with house(home, Cast(please=boss, side=side)) as it:
        for text, where in (("side talk", "agent:main:side"), ("please", key)):
            run_id = uuid.uuid4().hex
            await it.say(run_id, text, key=where)
            await it.outcome(run_id)
        listed = json.loads((await it.results("sessions_list", key))[-1].text)
        assert [row["key"] for row in listed["sessions"]] == [str(parse_session_key(key))]
        refused = (await it.results("sessions_history", key))[-1]
        assert refused.is_error and "tools.sessions.visibility" in refused.text


async def test_with_self_a_session_sees_nobody_else(home):
    open_up(home, sessions={"visibility": "self"})
    listed = json.loads((await used(home, "sessions_list")).text)
    assert [row["key"] for row in listed["sessions"]] == ["agent:main:main"]


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
    assert re.search(r"^Time: [A-Z][a-z]+day \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", card, re.MULTILINE)
    assert "Thinking: off, reasoning: off, verbose: off, elevated: off" in card
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
            return {tool.spec.name for tool in it.toolset.of(key=parse_session_key(key))}

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
        tools = {tool.spec.name: tool for tool in it.toolset.of()}
        assert "process" not in tools
        assert "background" not in tools["exec"].spec.parameters["properties"]


async def test_a_history_can_be_read_around_one_message(home):
    open_up(home, sessions={"visibility": "agent"})
    async with house(home, Cast(please=ScriptedModel(), side=(side := ScriptedModel()))) as it:
        for number in range(4):
            side.script(says(f"answer {number}"))
            await it.say(f"s{number}", f"side question {number}", key="agent:main:side")
            await it.outcome(f"s{number}")
        _, loaded = await it.sessions.load(it.sessions.key("agent:main:side"))
        assert loaded is not None
        middle = history.rows_of(loaded.entries)[4]
        tool = next(each for each in it.tools.tools(parse_session_key("main")) if each.spec.name == "sessions_history")
        context = ToolContext(call_id="1", workspace=home.workspace, session_key="agent:main:main")

        async def read(**args: Any) -> Any:
            return json.loads((await tool.call({"sessionKey": "agent:main:side", **args}, context)).text)

        shown = await read(messageId=middle.entry_id, limit=3)
        assert ["question 2" in json.dumps(each) for each in shown["messages"]] == [False, True, False]
        with pytest.raises(NotFound, match="no message"):
            await read(messageId="elsewhere")


async def test_what_was_said_before_starting_over_is_found_under_its_own_id(home):
    open_up(home, sessions={"visibility": "agent"})
    side = ScriptedModel(says("the first answer"), says("the second answer"))
    async with house(home, Cast(side=side)) as it:
        key = it.sessions.key("agent:main:side")
        await it.say("s1", "side one", key=str(key))
        await it.outcome("s1")
        old = await it.app.index.get(key)
        assert old is not None
        await it.lifecycle.reset(key)
        await it.say("s2", "side two", key=str(key))
        await it.outcome("s2")
        tool = next(each for each in it.tools.tools(parse_session_key("main")) if each.spec.name == "sessions_history")
        context = ToolContext(call_id="1", workspace=home.workspace, session_key="agent:main:main")
        earlier = await tool.call({"sessionKey": str(key), "sessionId": old.session_id}, context)
        assert "the first answer" in earlier.text
        assert "the second answer" not in earlier.text
        for other in ("../../../main/sessions/x", "*", "0000"):
            with pytest.raises(NotFound, match="no conversation"):
                await tool.call({"sessionKey": str(key), "sessionId": other}, context)
        # Somebody who may read one session does not get another one's past by its id.
        with pytest.raises(NotFound, match="no conversation"):
            await tool.call({"sessionKey": "agent:main:main", "sessionId": old.session_id}, context)


async def test_sessions_are_listed_by_their_group_and_put_away_ones_beside_the_others(home):
    open_up(home, sessions={"visibility": "agent"})
    side = ScriptedModel(says("one"), says("two"))
    async with house(home, Cast(side=side)) as it:
        for name in ("side", "aside"):
            await it.say(name, "side talk", key=f"agent:main:{name}")
            await it.outcome(name)
        await it.lifecycle.prefer(it.sessions.key("agent:main:side"), {"category": "boat"})
        await it.lifecycle.prefer(it.sessions.key("agent:main:aside"), {"archived": True})
        tool = next(each for each in it.tools.tools(parse_session_key("main")) if each.spec.name == "sessions_list")
        context = ToolContext(call_id="1", workspace=home.workspace, session_key="agent:main:main")

        async def keys(**args: Any) -> set[str]:
            return {row["key"] for row in json.loads((await tool.call(args, context)).text)["sessions"]}

        assert await keys(group="boat") == {"agent:main:side"}
        assert await keys(archived=True) == {"agent:main:aside"}
        assert await keys(archived="all") == {"agent:main:side", "agent:main:aside"}


async def test_a_message_takes_several_files_along(home):
    async with house(home, Cast(please=ScriptedModel())) as it:
        outbox = Outbox(it.app.db, it.app.clock)
        platforms = {("pigeon", "default"): PluginChannel(FakeChannel())}
        messages = MessageService(platforms, outbox, it.app.run_hooks)
        attachments = it.tools.attachments
        tool = MessageTool(messages, attachments, Inbox(it.app.db, it.app.clock))
        for name in ("a.png", "b.png", "c.png"):
            (home.workspace / name).write_bytes(b"png")
        context = ToolContext(call_id="1", workspace=home.workspace, session_key="agent:main:main")
        files = [{"media": "a.png"}, {"media": "b.png", "type": "image"}]
        wanted = {"action": "send", "target": "bob", "media": "c.png", "attachments": files}
        sent = asyncio.create_task(tool.call(wanted, context))
        while not (waiting := await outbox.first_waiting([("pigeon", "default")])):
            await asyncio.sleep(0)
        assert waiting[0].message.media == tuple(str(home.workspace / name) for name in ("c.png", "a.png", "b.png"))
        await outbox.arrived(waiting[0], [Receipt(id="7")], last=True)
        (told,) = json.loads((await sent).text)["sent"]
        assert (told["target"], told["messageId"]) == ("bob", "7")
        refused = await tool.call({"action": "send", "target": "bob", "attachments": [{"name": "x"}]}, context)
        assert "every attachment needs media" in refused.text
        context = ToolContext(call_id="2", workspace=home.workspace, session_key="agent:main:main")
        picture = {"action": "send", "target": "bob", "media": "https://example.org/x.png"}
        sent = asyncio.create_task(tool.call(picture, context))
        while not (waiting := await outbox.first_waiting([("pigeon", "default")])):
            await asyncio.sleep(0)
        assert waiting[0].message.media == ("https://example.org/x.png",), "it is fetched when it is sent"
        await outbox.arrived(waiting[0], [Receipt(id="8")], last=True)
        await sent


async def test_a_group_has_the_tools_its_channel_leaves_it(home):
    quiet = {"groups": {"-100": {"tools": {"allow": ["session_status"]}}}}
    home.use_model(**SETTINGS, channels={"telegram": quiet})
    async with house(home, Cast(please=ScriptedModel())) as it:

        def names(key: str) -> set[str]:
            return {tool.spec.name for tool in it.toolset.of(key=it.sessions.key(key))}

        assert names("telegram:group:-100") == {"session_status"}
        assert "exec" in names("telegram:group:-200")
        assert "exec" in names("main")


async def test_what_was_said_is_found_in_sessions_that_may_be_seen_only(home):
    open_up(home, sessions={"visibility": "self"})
    own = json.loads((await used(home, "sessions_search", query="please")).text)
    assert [hit["sessionKey"] for hit in own["results"]] == ["agent:main:main"]
    assert json.loads((await used(home, "sessions_search", query="side answer")).text)["results"] == []
    refused = await used(home, "sessions_search", query="side", sessionKey="agent:main:side")
    assert refused.is_error and "tools.sessions.visibility" in refused.text
    open_up(home, sessions={"visibility": "agent"})
    found = json.loads((await used(home, "sessions_search", query="answer side")).text)
    hit = found["results"][-1]
    assert (hit["sessionKey"], hit["role"], hit["snippet"]) == ("agent:main:side", "assistant", "the side answer")
    assert hit["score"] == 0.5 and hit["messageId"]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ({"raw": '{"agents":{"defaults":{"timeoutSeconds":"soon"}}}'}, "timeoutSeconds"),
        ({"raw": '{"agents":{"defaults":{"userTimezone":"Europe/Oslo"}}}', "baseHash": ""}, "baseHash"),
        ({"raw": "{"}, "raw"),
        ({"raw": ""}, "raw is missing"),
    ],
)
async def test_nobody_is_asked_about_a_change_that_cannot_be_made(home, call, why):
    got = json.loads((await used(home, "gateway", action="config.get")).text)["result"]
    owner = Owner("allow-once")
    refused = await used(home, "gateway", owner, **{"action": "config.patch", "baseHash": got["hash"], **call})
    assert refused.is_error and why in refused.text and owner.asked == []


async def test_an_update_is_offered_where_it_can_be_made_and_restarts_when_there_was_one(tmp_path):
    restarts: list[str] = []
    versions = iter([("1.0", "1.1"), ("1.1", "1.1")])

    async def update() -> tuple[str, str]:
        return next(versions)

    home = TemporaryHome(tmp_path)
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.workspace)
    assert "update.run" not in json.dumps(ConfigTool(environment).spec.parameters)
    tool = ConfigTool(environment, restarts.append, update)
    assert "update.run" in json.dumps(tool.spec.parameters)
    context = ToolContext(call_id="c", workspace=tmp_path)
    done = json.loads((await tool.call({"action": "update.run"}, context)).text)
    assert done == {"ok": True, "before": "1.0", "after": "1.1", "restarting": True}
    assert restarts == ["updated from 1.0 to 1.1"]
    assert not json.loads((await tool.call({"action": "update.run"}, context)).text)["restarting"]
    with pytest.raises(InvalidRequest, match="cannot be updated"):
        ConfigTool(environment).check({"action": "update.run"})
