"""What goes through the pipe: every kind of thing a plugin can bring, with nothing of ours leaking in."""

import asyncio
import json
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.embedder import EmbedderEndpoint
from openclaw.core.errors import InvalidRequest, OpenClawError, RateLimited
from openclaw.core.events import Done, TextDelta
from openclaw.core.messages import User
from openclaw.core.provider import Endpoint, Model, ModelRequest
from openclaw.core.secret import Secret
from openclaw.core.tool import Effects, ToolContext
from openclaw.testing.plugins import running_plugin
from tests.plugins.support import DEADLINE, bench, tool_plugin, write

pytestmark = pytest.mark.anyio


async def test_a_plugin_starts_with_what_it_was_given_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ours")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    body = "import json, os, sys\nreturn json.dumps([dict(os.environ), os.getcwd(), sys.path])"
    tool_plugin(tmp_path / "p", "looks", body, permissions={"env": ["THEIR_KEY"]})
    entries = {"looks": {"env": {"THEIR_KEY": Secret("sk-theirs")}}}
    async with bench(tmp_path, tmp_path / "p", entries=entries) as here:
        environ, cwd, path = json.loads((await here.call("looks")).text)
        assert {name: value for name, value in environ.items() if not name.startswith("LC_")} == {
            "THEIR_KEY": "sk-theirs"
        }
        assert cwd == str(tmp_path / "state" / "plugins" / "looks")
        assert str(tmp_path) not in path


async def test_what_a_plugin_logs_is_in_our_log_without_its_secrets(tmp_path, caplog):
    caplog.set_level("INFO")
    body = (
        "import logging, os\nprint('printed', os.environ['KEY'])\n"
        "logging.getLogger('x').warning('warned %s', 5)\nreturn ''"
    )
    tool_plugin(tmp_path / "p", "talks", body, permissions={"env": ["KEY"]})
    async with bench(tmp_path, tmp_path / "p", entries={"talks": {"env": {"KEY": Secret("sk-secret-1")}}}) as here:
        await here.call("talks")
        async with asyncio.timeout(DEADLINE):
            while not {"printed", "warned"} <= {line.split()[0] for line in caplog.messages if line}:
                await asyncio.sleep(0.01)
    assert "warned 5" in caplog.messages
    assert "sk-secret-1" not in caplog.text


async def test_settings_that_do_not_fit_keep_a_plugin_from_running(tmp_path):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool_plugin(tmp_path / "p", "strict", "return ''", configSchema=schema)
    for config, why in (({"n": "x"}, "n"), ({}, "n"), ({"n": 1, "m": 2}, "m")):
        async with bench(tmp_path, tmp_path / "p", entries={"strict": {"config": config}}) as here:
            status = await here.until("strict", "quarantined")
            assert "plugins.entries.strict.config" in status.why and why in status.why
    async with bench(tmp_path, tmp_path / "p", entries={"strict": {"config": {"n": 1}}}) as here:
        assert here.status("strict").state == "running"


@pytest.mark.parametrize("ref", ["http://127.0.0.1:9/schema.json", "file:///etc/passwd", "other.json"])
async def test_a_schema_fetches_nothing(tmp_path, ref):
    tool_plugin(tmp_path / "p", "far", "return ''", configSchema={"type": "object", "properties": {"a": {"$ref": ref}}})
    async with bench(tmp_path, tmp_path / "p", entries={"far": {"config": {"a": 1}}}) as here:
        assert "configSchema" in (await here.until("far", "quarantined")).why


RICH = """
import asyncio
from openclaw.plugin import *

class Writes:
    spec = ToolSpec(name="writes", label="Writes", description="Writes.", parameters={"type": "object"})
    busy = 0
    def effects(self, args): return Effects.WRITES_FILES | Effects.FETCHES
    def resources(self, args, context): return frozenset({"/one/file"})
    async def call(self, args, context):
        Writes.busy += 1
        context.report("half way")
        await asyncio.sleep(0.05)
        alone = Writes.busy == 1
        Writes.busy -= 1
        return Output.of("alone" if alone else "crowded", files=["a"])

class Unsure(Writes):
    spec = ToolSpec(name="unsure", label="Unsure", description="Unsure.", parameters={"type": "object"})
    def effects(self, args): return Effects.RUNS_CODE if args["command"] else Effects.NONE

class Echo:
    def __init__(self, endpoint): self.endpoint = endpoint
    async def stream(self, request):
        if self.endpoint.key is None: raise RateLimited("slow down")
        text = request.messages[-1].text
        for letter in text * 100:
            yield TextDelta(letter)
        said = Assistant(content=(Text(text),), api="plugin", provider="echo", model="m", stop_reason="stop")
        yield Done(said)
    async def close(self): pass

class Lengths:
    model = "lengths"
    def __init__(self, endpoint): pass
    async def embed(self, texts): return [(float(len(text)), 1.0) for text in texts]
    async def close(self): pass

class Ticker:
    def __init__(self, path): self.path = path
    async def start(self): self.path.write_text("started")
    async def stop(self): self.path.write_text("stopped")

class Slow:
    async def start(self): raise RuntimeError("cannot")
    async def stop(self): pass

def wrong(params):
    raise InvalidRequest("say please")

def register(api):
    api.tool(Writes())
    api.tool(Unsure())
    api.tool(FunctionTool("extra", "Extra.", {}, lambda args, context: "extra"), optional=True)
    api.provider("echo", Echo)
    api.embedder("lengths", Lengths)
    api.service("ticker", Ticker(api.state / "ticker"))
    api.service("slow", Slow())
    api.method(Method(name="rich.wrong", run=wrong))
"""
RICH_DECLARED: dict[str, Any] = {
    "contracts": {
        "tools": ["writes", "unsure", "extra"],
        "embedders": ["lengths"],
        "services": ["ticker", "slow"],
        "gatewayMethods": ["rich.wrong"],
    },
    "providers": ["echo"],
}
WHERE = Endpoint(provider="echo", api="plugin", base_url="", key=Secret("sk-1"))
REQUEST = ModelRequest(
    model=Model(provider="echo", id="m", api="plugin"), messages=(User(content="hello", timestamp=0),)
)


async def test_tools_keep_their_promises_over_the_pipe(tmp_path):
    write(tmp_path / "p", "rich", RICH, **RICH_DECLARED)
    async with bench(tmp_path, tmp_path / "p") as here:
        tool = here.tool("rich", "writes")
        assert tool.effects({}) == Effects.WRITES_FILES | Effects.FETCHES
        assert here.tool("rich", "unsure").effects({}) == ~Effects.NONE
        reports: list[str] = []
        context = ToolContext(call_id="1", workspace=tmp_path, report=reports.append, env={"SECRET": "x"})
        outputs = await asyncio.gather(*(tool.call({}, context) for _ in range(4)))
        assert [output.text for output in outputs] == ["alone"] * 4
        assert outputs[0].details == {"files": ["a"]} and reports == ["half way"] * 4
        assert here.here["rich"].optional_tools == {"extra"}
        ticker = tmp_path / "state" / "plugins" / "rich" / "ticker"
        async with asyncio.timeout(DEADLINE):
            while not ticker.exists() or ticker.read_text() != "started":
                await asyncio.sleep(0.01)
    assert ticker.read_text() == "stopped"


async def test_models_and_vectors_come_through_whole(tmp_path):
    directory = write(tmp_path / "p", "rich", RICH, **RICH_DECLARED)
    async with asyncio.timeout(DEADLINE), running_plugin(directory) as plugin:
        provider: Any = plugin.provider("echo", WHERE)
        events = [event async for event in provider.stream(REQUEST)]
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "hello" * 100
        assert isinstance(events[-1], Done) and events[-1].message.text == "hello"
        async with aclosing(provider.stream(REQUEST)) as stopped:
            await anext(stopped)
        keyless: Any = plugin.provider("echo", Endpoint(provider="echo", api="plugin", base_url=""))
        with pytest.raises(RateLimited, match="slow down"):
            await anext(keyless.stream(REQUEST))
        embedder = plugin.embedder("lengths", EmbedderEndpoint(provider="lengths"))
        assert [tuple(vector) for vector in await embedder.embed(["a", "abc"])] == [(1.0, 1.0), (3.0, 1.0)]
        with pytest.raises(InvalidRequest, match="say please"):
            await plugin.method("rich.wrong")


async def test_a_call_that_is_cancelled_is_cancelled_over_there(tmp_path):
    code = """
import asyncio
from openclaw.plugin import *

async def wait(args, context):
    try:
        await asyncio.sleep(3600)
    finally:
        (args["path"] and open(args["path"], "w").write("cancelled"))

def register(api):
    api.tool(FunctionTool("waits", "Waits.", {}, wait))
"""
    write(tmp_path / "p", "waits", code, contracts={"tools": ["waits"]})
    mark = tmp_path / "mark"
    async with bench(tmp_path, tmp_path / "p") as here:
        task = asyncio.create_task(here.call("waits", path=str(mark)))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(DEADLINE):
            while not mark.exists():
                await asyncio.sleep(0.01)
        assert here.status("waits").state == "running"


async def test_one_that_is_trusted_runs_inside_and_stops_like_the_others(tmp_path):
    body = "import os\nreturn str(os.getpid())"
    tool_plugin(tmp_path / "p", "inside", body)
    entries = {"inside": {"isolation": "inprocess"}}
    async with bench(tmp_path, tmp_path / "p", entries=entries) as here:
        assert (await here.call("inside")).text == str(os.getpid())
        await here.apply({"load": {"paths": [str(tmp_path / "p")]}, "entries": {"inside": {"isolation": "process"}}})
        assert (await here.call("inside")).text != str(os.getpid())
    write(tmp_path / "q", "broken", "raise ImportError('no such thing')")
    async with bench(tmp_path, tmp_path / "q", entries={"broken": {"isolation": "inprocess"}}) as here:
        assert "no such thing" in (await here.until("broken", "quarantined")).why


async def test_only_what_changed_is_started_again(tmp_path):
    for name in ("first", "second"):
        tool_plugin(tmp_path / "p", name, "import os\nreturn str(os.getpid())")
    async with bench(tmp_path, tmp_path / "p") as here:
        before = {name: (await here.call(name)).text for name in ("first", "second")}
        paths = {"load": {"paths": [str(tmp_path / "p")]}}
        await here.apply({**paths, "entries": {"second": {"hooks": {"timeoutMs": 5}}}})
        after = {name: (await here.call(name)).text for name in ("first", "second")}
        assert before["first"] == after["first"] and before["second"] != after["second"]
        await here.apply({**paths, "deny": ["first"]})
        assert set(here.here) == {"second"} and here.status("first").why == "it is in plugins.deny"


async def test_the_kit_says_what_keeps_a_plugin_from_running(tmp_path):
    from openclaw.testing.plugins import plugin_problems

    broken = write(tmp_path, "broken", "raise RuntimeError('no')")
    assert "no" in (await plugin_problems(broken))[0]
    with pytest.raises(OpenClawError, match="does not run"):
        async with running_plugin(broken):
            pass
    code = "from openclaw.plugin import *\ndef register(api):\n    api.tool(FunctionTool('t', '', {'a': {}}, print))\n"
    sloppy = write(tmp_path, "sloppy", code, contracts={"tools": ["t", "u"]}, hooks=["before_breakfast"], skills=["s"])
    said = "\n".join(await plugin_problems(sloppy))
    for problem in ("names u", "before_breakfast", "t has no description", "a of t", "SKILL.md", "no description"):
        assert problem in said, problem
    assert (await plugin_problems(Path(tmp_path / "nothing")))[0].startswith("there is no openclaw.plugin.json")


async def test_a_trusted_plugin_whose_service_cannot_start_is_put_away(tmp_path):
    code = """
class Broken:
    async def start(self): raise RuntimeError("no port left")
    async def stop(self): pass

def register(api):
    api.service("broken", Broken())
"""
    write(tmp_path / "p", "serves", code, contracts={"services": ["broken"]})
    async with bench(tmp_path, tmp_path / "p", entries={"serves": {"isolation": "inprocess"}}) as here:
        assert "no port left" in (await here.until("serves", "quarantined")).why


async def test_no_turn_runs_as_if_there_were_no_plugins(openclaw_home):
    from openclaw.core.errors import StateError
    from openclaw.testing import ScriptedModel, ask, says

    write(openclaw_home.state / "extensions", "guard", "", hooks=["before_tool_call"])
    (openclaw_home.state / "plugins-lock.json").write_text("{")
    openclaw_home.use_model()
    async with openclaw_home.assistant(ScriptedModel(says("hello"))) as app:
        for _ in range(2):
            with pytest.raises(StateError, match=r"plugins-lock\.json cannot be read"):
                await ask(app, "hi")
        (openclaw_home.state / "plugins-lock.json").unlink()
        assert (await ask(app, "hi")).text == "hello"
