"""The examples of docs/hooks.md do what the page says."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from openclaw.core.channel import Address
from openclaw.core.hook_points import POINTS
from openclaw.core.hooks import (
    BeforeDispatch,
    BeforeInstall,
    ChannelPairingRequested,
    HookContext,
    HookName,
    InboundClaim,
)
from openclaw.core.plugin import Api
from openclaw.gateway import app as application
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.points import HookRegistration
from openclaw.plugins.settings import HookSettings
from openclaw.process.tasks import SystemClock
from openclaw.runs.events import RunAccepted, RunPublisher
from openclaw.runs.hooks.calls import ChildHooks
from openclaw.testing import ScriptedModel, TemporaryHome, ask, calls, says, stalls
from tests.channels.fake_platform import Slate
from tests.plugins.hooks.test_messages import place
from tests.runs.subagents.house import Cast, house

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs" / "hooks.md").read_text()
SECTION = re.compile(r"^## ([a-z_]+)\n(.*?)(?=^#{1,2} |\Z)", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECTIONS: dict[str, str] = dict(SECTION.findall(PAGE))
FREE = HookSettings(allow_conversation_access=True, allow_prompt_replace=True, allow_model_override=True)


def example(name: str) -> str:
    (code,) = CODE.findall(SECTIONS[name])
    return str(code)


def plug(app: application.App, code: str) -> Any:
    """Registers what a page's example registers; gives its `api`, where the observers keep what they heard."""
    api = Api("example")
    space: dict[str, Any] = {}
    exec(compile(code, "docs/hooks.md", "exec"), space)
    space["register"](api)
    for hook in api.brought().hooks:
        registration = HookRegistration(
            plugin="example",
            hook=msgspec.convert(hook.point, HookName),
            handler=hook.run,
            priority=hook.priority,
            settings=FREE,
            tools=hook.matcher,
            providers=tuple(api.brought().providers),
        )
        assert app.run_hooks.hooks.add(registration) == ""
    return api


async def the_first_example(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(calls("exec", command="rm -rf /"), says("ok"))
    async with home.assistant(model) as app:
        plug(app, code)
        heard = await ask(app, "tidy up")
    assert heard.results[0].text == "Not run: the plugin example objects: it deletes too much."


async def before_model_resolve(home: TemporaryHome, code: str) -> None:
    home.use_model("one/small", "two/large")
    models = {"one": ScriptedModel(says("small")), "two": ScriptedModel(says("large"))}
    async with home.assistant(models) as app:
        plug(app, code)
        assert (await ask(app, "hi")).text == "small"
        assert (await ask(app, "please think hard")).text == "large"


async def before_prompt_build(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(says("ok"))
    async with home.assistant(model) as app:
        plug(app, code)
        await ask(app, "hi")
    assert "It rains in Bern." in model.requests[0].messages[-1].text
    assert "Mention the weather only when asked." in model.requests[0].system.stable


async def provider_prompt_contribution(home: TemporaryHome, code: str) -> None:
    providers = {"parrot": {"api": "plugin", "models": [{"id": "polly"}]}}
    home.configure({"models": {"providers": providers}, "agents": {"defaults": {"model": "parrot/polly"}}})
    model = ScriptedModel(says("ok"))
    async with home.assistant(model) as app:
        plug(app, code)
        await ask(app, "hi")
    system = model.requests[0].system
    assert "## Execution Bias\n- Repeat, then stop.\n" in system.stable
    assert "You speak through polly." in system.dynamic


async def before_agent_start(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(says("ok"))
    async with home.assistant(model) as app:
        plug(app, code)
        await ask(app, "hi")
        assert [entry.field for entry in app.audit.entries()] == ["prependContext"]
    assert "The user prefers short answers." in model.requests[0].messages[-1].text


async def before_agent_reply(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(says("the model"))) as app:
        plug(app, code)
        assert (await ask(app, "ping")).text == "pong"
        assert (await ask(app, "pong")).text == "the model"


async def before_tool_call(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(calls("write", path=".env", content="x"), calls("write", path="a", content="x"), says("ok"))
    async with home.assistant(model) as app:
        plug(app, code)
        heard = await ask(app, "go")
    assert [result.is_error for result in heard.results] == [True, False]


async def after_tool_call(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(calls("read", path="x"), says("ok"))) as app:
        api = plug(app, code)
        await ask(app, "go")
    assert api.calls == ["read"]


async def tool_result_persist(home: TemporaryHome, code: str) -> None:
    (home.workspace / "key").write_text("hunter2")
    async with home.assistant(ScriptedModel(calls("read", path="key"), says("ok"))) as app:
        plug(app, code)
        await ask(app, "go")
    (path,) = home.transcripts()
    assert "hunter2" not in path.read_text() and "•••" in path.read_text()


async def before_install(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel()) as app:
        plug(app, code)
        event = BeforeInstall(
            target_type="skill", target_name="s", source_path=str(home.root), spec="s", tree_sha256="0"
        )
        merged = await app.run_hooks.hooks.ask(points.INSTALL, event, HookContext())
        assert merged.blocked is not None and merged.blocked.text == "it has no license"
        (home.root / "LICENSE").write_text("MIT")
        assert (await app.run_hooks.hooks.ask(points.INSTALL, event, HookContext())).blocked is None


async def message_received(home: TemporaryHome, code: str) -> None:
    async with place(home, ScriptedModel(says("ok"))) as here:
        api = plug(here.app, code)
        await here.say("hi")
        await here.app.run_hooks.hooks.close(30)
    assert api.heard == ["hi"]


async def message_sending(home: TemporaryHome, code: str) -> None:
    async with place(home, ScriptedModel(says("it is hunter2"))) as here:
        plug(here.app, code)
        assert (await here.say("hi")).texts == ("it is •••",)


async def message_sent(home: TemporaryHome, code: str) -> None:
    async with place(home, ScriptedModel(says("hello"))) as here:
        api = plug(here.app, code)
        await here.say("hi")
        await here.app.run_hooks.hooks.close(30)
    assert api.sent == ["hello"]


async def agent_end(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(says("ok"))) as app:
        api = plug(app, code)
        await ask(app, "hi")
    assert api.ends == [(True, "ok")]


async def compactions(home: TemporaryHome, code: str) -> None:
    from tests.sessions.compaction.support import Model, configure

    configure(home)
    model = Model()
    async with home.assistant(model) as app:
        api = plug(app, code)
        model.talk.script(says("one"), says("two"))
        await ask(app, "first " + "word " * 24_000)
        await ask(app, "second " + "word " * 12_000)
    (tokens,) = api.sizes if hasattr(api, "sizes") else api.left
    assert tokens > 0


async def session_start(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(says("ok"), says("ok"))) as app:
        api = plug(app, code)
        await ask(app, "hi")
        await ask(app, "hi again")
    assert api.begun == ["agent:main:main"]


async def session_end(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(says("ok"))) as app:
        api = plug(app, code)
        await ask(app, "hi")
        await app.lifecycle.reset(app.key("main", None), why="new")
    assert api.over == [("new", 2)]


async def agent_turn_prepare(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(says("ok"))
    async with home.assistant(model) as app:
        plug(app, code)
        await ask(app, "hi")
        assert [entry.hook for entry in app.audit.entries()] == ["agent_turn_prepare"]
    assert "The user is in a hurry." in model.requests[0].messages[-1].text


async def before_agent_run(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(says("fine"))
    async with home.assistant(model) as app:
        plug(app, code)
        assert (await ask(app, "my card number is 4111")).text == "Please do not send card numbers."
        assert model.requests == []
        assert (await ask(app, "good morning")).text == "fine"
    (path,) = home.transcripts()
    assert "4111" not in path.read_text() and not model.saw("4111")


async def model_calls(home: TemporaryHome, code: str) -> None:
    (home.workspace / "a").write_text("blue")
    model = ScriptedModel([says("Looking."), calls("read", path="a")], says("Blue."))
    async with home.assistant(model) as app:
        api = plug(app, code)
        await ask(app, "which colour?")
        await app.run_hooks.hooks.close(30)
    expected: dict[str, Any] = {
        "asked": [("scripted", 1), ("scripted", 3)],
        "answered": ["Looking.", "Blue."],
        "ended": ["completed", "completed"],
    }
    name = next(name for name in ("asked", "answered", "started", "ended") if hasattr(api, name))
    heard = getattr(api, name)
    assert heard == expected[name] if name in expected else len(set(heard)) == 2


async def before_message_write(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(says("ok"))
    async with home.assistant(model) as app:
        plug(app, code)
        await ask(app, "it is hunter2")
    (path,) = home.transcripts()
    assert "hunter2" not in path.read_text() and "•••" in path.read_text()
    assert model.saw("hunter2")


async def reply_payload_sending(home: TemporaryHome, code: str) -> None:
    async with place(home, ScriptedModel(says("Here.\nMEDIA:/tmp/cat.png"))) as here:
        plug(here.app, code)
        (payload,) = (await here.say("hi")).payloads
    assert payload.text == "Here." and payload.media == ()


async def subagents(home: TemporaryHome, code: str) -> None:
    boss = ScriptedModel(calls("sessions_spawn", task="alpha"), says("ok"), says("It said A."))
    worker = ScriptedModel([stalls(go := asyncio.Event()), says("A")])
    async with house(home, Cast(please=boss, alpha=worker)) as it:
        api = plug(it.app, code)
        publisher = RunPublisher()
        ChildHooks(it.app.run_hooks.hooks, publisher)
        await it.say("r1", "please")
        await it.outcome("r1")
        go.set()
        await it.until(lambda: boss.left == 0)
        for event in it.events:
            publisher(event)
        await it.app.run_hooks.hooks.close(30)
    if hasattr(api, "outcomes"):
        assert api.outcomes == ["ok"]
    else:
        (task,) = api.tasks
        assert "alpha" in task


async def cron_changed(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(), clock=SystemClock()) as app:
        api = plug(app, code)
        following = asyncio.create_task(ChildHooks(app.run_hooks.hooks, RunPublisher()).follow_jobs(app.bus))
        await asyncio.sleep(0)
        app.bus.publish("cron", {"action": "added", "jobId": "j", "job": {"id": "j"}})
        while not api.jobs:
            await asyncio.sleep(0)
        following.cancel()
    assert api.jobs == ["added"]


async def lifetimes(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(), clock=SystemClock()) as app:
        api = plug(app, code)
        assert app.run_hooks is not None
        app.run_hooks.gateway_started(18789)
        await app.run_hooks.gateway_stops("stop", app.index)
        await asyncio.sleep(0)
    assert (api.ports if hasattr(api, "ports") else api.reasons) in ([18789], ["stop"])


async def before_dispatch(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel()) as app:
        plug(app, code)
        event = BeforeDispatch(content="ping", channel="slate", sender_id="ada")
        key = app.key("main", None)
        claim = await app.run_hooks.messages.dispatch(event, key, "r1")
        other = await app.run_hooks.messages.dispatch(structs.replace(event, content="hello"), key, "r2")
    assert (claim.plugin, claim.reply, other.plugin) == ("example", "pong, ada", "")


async def inbound_claim(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel()) as app:
        plug(app, code)
        event = InboundClaim(plugin_id="example", message_id="1", content="!ping", channel="slate", sender_id="ada")
        events = (event, structs.replace(event, content="ping"), structs.replace(event, plugin_id="other"))
        key = app.key("main", None)
        claims = [await app.run_hooks.messages.dispatch(each, key, "r1") for each in events]
    assert [each.plugin for each in claims] == ["example", "", ""]


async def channel_pairing_requested(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(), clock=SystemClock()) as app:
        api = plug(app, code)
        event = ChannelPairingRequested(channel="slate", sender_id="eve", code="ABCD2345")
        app.run_hooks.messages.pairing(event)
        await app.run_hooks.hooks.close(30)
    assert api.asking == [("slate", "eve")]


async def heartbeat_prompt_contribution(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(says("ok"), says("HEARTBEAT_OK"))
    async with place(home, model) as here:
        plug(here.app, code)
        await here.say("hi")
        await here.say("look around", trigger="heartbeat")
    talk, beat = (request.messages[-1].text for request in model.requests)
    assert talk == "hi" and beat.endswith("look around") and "The door is open." in beat


async def before_agent_finalize(home: TemporaryHome, code: str) -> None:
    model = ScriptedModel(says("Shut the door."), says("Shut the door, please."), says("Go."), says("Go!"))
    async with home.assistant(model) as app:
        plug(app, code)
        assert (await ask(app, "hi")).text == "Shut the door, please."
        assert (await ask(app, "hi again")).text == "Go!"  # asked once, then it is given as it is
    assert model.saw("Say please.")
    (path,) = home.transcripts()
    assert "Shut the door." not in path.read_text() and "Say please" not in path.read_text()


async def resolve_exec_env(home: TemporaryHome, code: str) -> None:
    home.use_model(tools={"exec": {"security": "full", "ask": "off"}})
    model = ScriptedModel(calls("exec", command='echo "$HOUSE $PATH"'), says("ok"))
    async with home.assistant(model) as app:
        plug(app, code)
        heard = await ask(app, "go")
        refused = {entry.field: entry.refused for entry in app.audit.entries()}
    assert heard.results[0].text.startswith("green /") and not heard.results[0].text.startswith("green /tmp\n")
    assert refused["env.HOUSE"] == "" and "which program runs" in refused["env.PATH"]


async def subagent_delivery_target(home: TemporaryHome, code: str) -> None:
    boss = ScriptedModel(calls("sessions_spawn", task="alpha"), says("ok"), says("It said A."))
    worker = ScriptedModel([stalls(go := asyncio.Event()), says("A")])
    async with house(home, Cast(please=boss, alpha=worker)) as it:
        plug(it.app, code)
        it.app.accounts["slate", "default"] = Slate()
        await it.say("r1", "please")
        await it.outcome("r1")
        go.set()
        await it.until(lambda: boss.left == 0)
        accepted = [each.event for each in it.events if each.run_id.startswith("announce:")]
        (told,) = (each.request for each in accepted if isinstance(each, RunAccepted))
        assert told.reply_to == Address(channel="slate", to="bob")


async def before_reset(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(says("ok"))) as app:
        api = plug(app, code)
        await ask(app, "hello")
        (path,) = home.transcripts()
        await app.lifecycle.reset(app.key("main", None))
    assert api.resets == [("reset", str(path))]


SCENES: dict[HookName, Callable[[TemporaryHome, str], Awaitable[None]]] = {
    "before_model_resolve": before_model_resolve,
    "before_prompt_build": before_prompt_build,
    "provider_prompt_contribution": provider_prompt_contribution,
    "before_agent_start": before_agent_start,
    "before_agent_reply": before_agent_reply,
    "agent_turn_prepare": agent_turn_prepare,
    "before_agent_run": before_agent_run,
    "llm_input": model_calls,
    "llm_output": model_calls,
    "model_call_started": model_calls,
    "model_call_ended": model_calls,
    "before_message_write": before_message_write,
    "reply_payload_sending": reply_payload_sending,
    "subagent_spawned": subagents,
    "subagent_ended": subagents,
    "cron_changed": cron_changed,
    "before_agent_finalize": before_agent_finalize,
    "resolve_exec_env": resolve_exec_env,
    "inbound_claim": inbound_claim,
    "channel_pairing_requested": channel_pairing_requested,
    "heartbeat_prompt_contribution": heartbeat_prompt_contribution,
    "subagent_delivery_target": subagent_delivery_target,
    "agent_end": agent_end,
    "before_compaction": compactions,
    "after_compaction": compactions,
    "before_tool_call": before_tool_call,
    "after_tool_call": after_tool_call,
    "before_install": before_install,
    "tool_result_persist": tool_result_persist,
    "message_received": message_received,
    "before_dispatch": before_dispatch,
    "before_reset": before_reset,
    "message_sending": message_sending,
    "message_sent": message_sent,
    "session_start": session_start,
    "session_end": session_end,
    "gateway_start": lifetimes,
    "gateway_stop": lifetimes,
}


@pytest.mark.parametrize("name", POINTS)
async def test_the_example_of_every_point_does_what_the_page_says(name: HookName, openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    await SCENES[name](openclaw_home, example(name))


async def test_the_first_example_guards(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(tools={"exec": {"security": "full", "ask": "off"}})
    await the_first_example(openclaw_home, CODE.findall(PAGE)[0])


@pytest.mark.parametrize("name", POINTS)
def test_the_page_names_every_field_of_every_point(name: HookName) -> None:
    point, body = POINTS[name], SECTIONS[name]
    if name == "before_agent_start":  # it says that it is the union of two others
        return
    kinds = [kind for kind in (point.event, point.answer) if kind is not None]
    for field in (field for kind in kinds for field in msgspec.structs.fields(kind)):
        assert f"`{field.encode_name}`" in body, f"{name}: {field.encode_name}"


@pytest.mark.parametrize("name", POINTS)
def test_the_table_has_every_points_time(name: HookName) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}`" in line.split("|")[1])
    _, _, kind, seconds, _, _ = row.split("|")
    point = POINTS[name]
    assert kind.strip() == point.kind
    if point.seconds:
        assert f"{point.seconds:g}" in seconds
    assert ("fails closed" in seconds) is (point.fails == "closed")
