"""The examples of docs/hooks.md do what the page says."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclaw.core.hooks import POINTS, BeforeInstall, HookContext, HookName, HookRegistration, HookSettings
from openclaw.core.plugin import Api
from openclaw.gateway import app as application
from openclaw.plugins.hooks import points
from openclaw.process.tasks import SystemClock
from openclaw.testing import ScriptedModel, TemporaryHome, ask, calls, says
from tests.plugins.hooks.test_messages import place

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


async def lifetimes(home: TemporaryHome, code: str) -> None:
    async with home.assistant(ScriptedModel(), clock=SystemClock()) as app:
        api = plug(app, code)
        assert app.run_hooks is not None
        app.run_hooks.gateway_started(18789)
        await app.run_hooks.gateway_stops("stop", app.index)
        await asyncio.sleep(0)
    assert (api.ports if hasattr(api, "ports") else api.reasons) in ([18789], ["stop"])


SCENES: dict[HookName, Callable[[TemporaryHome, str], Awaitable[None]]] = {
    "before_model_resolve": before_model_resolve,
    "before_prompt_build": before_prompt_build,
    "before_agent_start": before_agent_start,
    "before_agent_reply": before_agent_reply,
    "agent_end": agent_end,
    "before_compaction": compactions,
    "after_compaction": compactions,
    "before_tool_call": before_tool_call,
    "after_tool_call": after_tool_call,
    "before_install": before_install,
    "tool_result_persist": tool_result_persist,
    "message_received": message_received,
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
