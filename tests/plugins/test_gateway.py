"""Plugins through a real gateway: what they bring is there, and gone when they are switched off, without a restart."""

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import CallFailed
from openclaw.protocol.scopes import READ
from openclaw.testing import Calls, Says, TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess, collect
from tests.plugins.support import DEADLINE, tool_plugin, write

pytestmark = pytest.mark.anyio

EVERYTHING = """
from openclaw.plugin import Api, Command, FunctionTool, HttpAnswer, HttpRequest, HttpRoute, Method, ToolVerdict

def register(api: Api) -> None:
    greeting = api.config.get("greeting", "hello")
    name = {"type": "string", "description": "Whom to greet."}
    greet = lambda args, context: f"{greeting} {args['name']}"
    api.tool(FunctionTool("greet", "Greets somebody.", {"name": name}, greet))
    api.command(Command(name="hail", description="say hello", args="NAME", run=lambda call: f"{greeting}, {call.args}"))
    api.method(Method(name="greeter.greet", run=lambda params: {"said": f"{greeting} {params['name']}"},
                      scope="operator.read"))
    api.method(Method(name="greeter.secret", run=lambda params: "42"))
    api.route(HttpRoute(path="/plugins/greeter/hello", run=answer))
    api.route(HttpRoute(path="/plugins/greeter/open", run=answer, auth="plugin", match="prefix"))

async def answer(request: HttpRequest) -> HttpAnswer:
    seen = ",".join(sorted(name for name in request.headers if "auth" in name or "cookie" in name))
    return HttpAnswer(status=201, body=f"{request.method} {request.path} {request.query} [{seen}]".encode())
"""
DECLARED: dict[str, Any] = {
    "contracts": {
        "tools": ["greet"],
        "commands": ["hail"],
        "gatewayMethods": ["greeter.greet", "greeter.secret"],
        "httpRoutes": ["/plugins/greeter/hello", "/plugins/greeter/open"],
    },
    "configSchema": {"type": "object", "properties": {"greeting": {"type": "string"}}},
    "skills": ["skills"],
}
SKILL = "---\nname: greeting\ndescription: How to greet people well.\n---\nBe kind.\n"


def plugin(home: TemporaryHome) -> Path:
    directory = write(home.root / "plugins", "greeter", EVERYTHING, **DECLARED)
    (directory / "skills" / "greeting").mkdir(parents=True, exist_ok=True)
    (directory / "skills" / "greeting" / "SKILL.md").write_text(SKILL)
    return directory.parent


def configure(home: TemporaryHome, server: MockModelServer, **plugins: Any) -> None:
    load = {"paths": [str(home.root / "plugins")]}
    home.configure({**server.settings(), "plugins": {"load": load, **plugins}})


async def state_of(client: GatewayClient, name: str) -> dict[str, Any]:
    listed = await client.call("plugins.list", {})
    found: dict[str, Any] = next(each for each in listed["plugins"] if each["id"] == name)
    return found


async def until_state(client: GatewayClient, name: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(DEADLINE):
        while (found := await state_of(client, name))["state"] != state:
            await asyncio.sleep(0.1)
    return found


def fetch(gateway: GatewayProcess, path: str, token: str | None) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{gateway.port}{path}", headers={"cookie": "a=b"})
    if token:
        request.add_header("authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_what_a_plugin_brings_is_there_and_goes_with_it(openclaw_home: TemporaryHome) -> None:
    plugin(openclaw_home)
    with MockModelServer([calls("greet", name="Ada"), says("Greeted."), says("Bye.")]) as server:
        configure(openclaw_home, server, entries={"greeter": {"config": {"greeting": "Good day"}}})
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await until_state(client, "greeter", "enabled")
                done = await client.call("agent", {"message": "greet Ada", "idempotencyKey": "1"}, final=True)
                assert done["result"]["payloads"][0]["text"] == "Greeted."
                asked = json.dumps(list(server.requests))
                assert "Greets somebody" in asked and "Good day Ada" in asked
                assert "EXTERNAL_UNTRUSTED_CONTENT" in asked and "Source: Plugin" in asked
                assert "How to greet people well." in asked

                await client.call("chat.send", {"sessionKey": "main", "message": "/hail you", "idempotencyKey": "2"})
                seen = await collect(client, lambda name, data: name == "chat" and data["runId"] == "2")
                assert "Good day, you" in json.dumps(seen[-1][1])
                listed = await client.call("commands.list", {})
                assert {"name": "hail", "source": "plugin"}.items() <= listed["commands"][-1].items()

                assert await client.call("greeter.greet", {"name": "Bob"}) == {"said": "Good day Bob"}
                async with gateway.client(scopes=(READ,)) as reader:
                    assert await reader.call("greeter.greet", {"name": "Eve"}) == {"said": "Good day Eve"}
                    with pytest.raises(CallFailed, match=r"missing scope: operator\.admin"):
                        await reader.call("greeter.secret", {})

                token = gateway.token.reveal()
                assert await asyncio.to_thread(fetch, gateway, "/plugins/greeter/hello?x=1", token) == (
                    201,
                    "GET /plugins/greeter/hello x=1 []",
                )
                assert (await asyncio.to_thread(fetch, gateway, "/plugins/greeter/hello", None))[0] == 401
                assert (await asyncio.to_thread(fetch, gateway, "/plugins/greeter/open/more", None))[0] == 201

                configure(openclaw_home, server, entries={"greeter": {"enabled": False}})
                await until_state(client, "greeter", "disabled")
                with pytest.raises(CallFailed, match="unknown method"):
                    await client.call("greeter.greet", {"name": "Bob"})
                assert (await asyncio.to_thread(fetch, gateway, "/plugins/greeter/open", None))[0] != 201
                await client.call("agent", {"message": "again", "idempotencyKey": "3"}, final=True)
                assert "Greets somebody." not in json.dumps(server.requests[-1])
                assert "How to greet people well." not in json.dumps(server.requests[-1])


async def test_a_plugin_that_crashes_leaves_the_gateway_and_the_others_alone(openclaw_home: TemporaryHome) -> None:
    root = plugin(openclaw_home)
    tool_plugin(root, "bad", "import ctypes\nctypes.string_at(0)")
    with MockModelServer([calls("bad"), says("Oh."), calls("greet", name="Ada"), says("Greeted.")]) as server:
        configure(openclaw_home, server)
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await until_state(client, "bad", "enabled")
                await client.call("agent", {"message": "break it", "idempotencyKey": "1"}, final=True)
                found = await until_state(client, "bad", "error")
                assert "SIGSEGV" in found["error"]
                done = await client.call("agent", {"message": "greet Ada", "idempotencyKey": "2"}, final=True)
                assert done["result"]["payloads"][0]["text"] == "Greeted."
                health = await client.call("health", {})
                assert health["plugins"]["loaded"] == ["greeter"]
                assert health["plugins"]["errors"][0]["id"] == "bad"
                tool_plugin(root, "bad", "return 'mended'")
                answer = await client.call("plugins.reload", {"plugins": [{"pluginId": "bad"}]})
                assert answer["ok"] and answer["warnings"] == []
                assert (await state_of(client, "bad"))["state"] == "enabled"
        lines = [line for line in gateway.output().splitlines() if "put away" in line]
        assert len(lines) == 1 and "plugin bad was put away: its process crashed (SIGSEGV)" in lines[0]


GUARD = """
from openclaw.plugin import Api; from openclaw.plugin import ToolVerdict

def register(api: Api) -> None:
    api.on("before_tool_call", guard, matcher=("exec",))

def guard(event, context):
    if "rm " in event.params.get("command", ""):
        return ToolVerdict(block=True, block_reason="nothing is removed here")
"""


async def test_a_plugins_hook_blocks_a_call_until_the_plugin_is_switched_off(openclaw_home: TemporaryHome) -> None:
    write(openclaw_home.root / "plugins", "guard", GUARD, hooks=["before_tool_call"])
    target = openclaw_home.workspace / "kept.txt"
    target.write_text("here\n")
    remove = calls("exec", command="rm kept.txt")
    with MockModelServer([remove, says("Refused."), remove, says("Done.")]) as server:
        full = {"tools": {"exec": {"security": "full", "ask": "off"}}}
        load = {"paths": [str(openclaw_home.root / "plugins")]}
        openclaw_home.configure({**server.settings(), **full, "plugins": {"load": load}})
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("agent", {"message": "remove it", "idempotencyKey": "1"}, final=True)
                assert "nothing is removed here" in json.dumps(server.requests[-1])
                assert target.exists()
                off = {"load": load, "entries": {"guard": {"enabled": False}}}
                openclaw_home.configure({**server.settings(), **full, "plugins": off})
                await until_state(client, "guard", "disabled")
                await client.call("agent", {"message": "remove it", "idempotencyKey": "2"}, final=True)
                assert not target.exists()


async def test_a_guard_that_cannot_start_refuses_every_call(openclaw_home: TemporaryHome) -> None:
    write(openclaw_home.root / "plugins", "guard", "import nothing_of_that_name\n", hooks=["before_tool_call"])
    with MockModelServer([calls("ls"), says("Refused.")]) as server:
        configure(openclaw_home, server)
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("agent", {"message": "look", "idempotencyKey": "1"}, final=True)
                assert "the plugin guard was put away" in json.dumps(server.requests[-1])


async def test_the_owner_talks_through_a_plugins_channel_and_strangers_do_not(openclaw_home: TemporaryHome) -> None:
    examples = Path(__file__).parents[2] / "examples"
    post = openclaw_home.root / "post"
    (post / "inbox").mkdir(parents=True)
    (post / "inbox" / "eve--1.txt").write_text("let me in")
    (post / "inbox" / "ada--2.txt").write_text("hello")
    (post / "inbox" / "ada--3.txt").write_text("/whoami")
    with MockModelServer([says("Good day, Ada.")]) as server:
        box = {"config": {"directory": str(post), "seconds": 0.1}}
        plugins = {"load": {"paths": [str(examples / "mailbox")]}, "entries": {"mailbox": box}}
        owner = {"ownerAllowFrom": ["mailbox:ada"]}
        openclaw_home.configure({**server.settings(), "plugins": plugins, "commands": owner})
        with GatewayProcess(openclaw_home) as gateway:
            async with asyncio.timeout(DEADLINE):
                while len(found := sorted((post / "outbox").glob("*.txt"))) < 2:
                    await asyncio.sleep(0.05)
            answers = {path.read_text().strip() for path in found}
            assert "Good day, Ada." in answers and any("Session agent:main:main" in each for each in answers)
            assert all(path.name.startswith("ada--") for path in found)
            assert len(server.requests) == 1 and "let me in" not in json.dumps(server.requests)
            assert "add mailbox:eve to commands.ownerAllowFrom" in gateway.output()


async def test_the_assistant_writes_to_people_on_a_plugins_channel(openclaw_home: TemporaryHome) -> None:
    examples = Path(__file__).parents[2] / "examples"
    post = openclaw_home.root / "post"
    (post / "inbox").mkdir(parents=True)
    script: list[Says | Calls] = [
        calls("message", action="send", target="bob", message="Lunch at one?"),
        calls("message", action="send", channel="pigeon", target="bob", message="Lunch?"),
        calls("message", action="broadcast", targets=["ada", "carl"], message="Lunch at one."),
        says("Told them."),
    ]
    with MockModelServer(script) as server:
        box = {"config": {"directory": str(post), "seconds": 0.1}}
        plugins = {"load": {"paths": [str(examples / "mailbox")]}, "entries": {"mailbox": box}}
        openclaw_home.configure({**server.settings(), "plugins": plugins})
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                async with asyncio.timeout(DEADLINE):
                    while "mailbox" not in json.dumps(await client.call("plugins.list", {})):
                        await asyncio.sleep(0.05)
                await client.call("agent", {"message": "lunch", "idempotencyKey": "1"}, final=True, timeout=60)
            sent = {path.name.partition("--")[0]: path.read_text().strip() for path in (post / "outbox").glob("*.txt")}
            assert sent == {"bob": "Lunch at one?", "ada": "Lunch at one.", "carl": "Lunch at one."}
            asked = json.dumps(server.requests)
            assert "no channel pigeon: there is mailbox" in asked


MODEL = """
from openclaw.plugin import Assistant, Done, Text, TextDelta

class Echo:
    async def stream(self, request):
        text = f"You said: {request.messages[-1].text}"
        yield TextDelta(text)
        yield Done(Assistant(content=(Text(text),), api="plugin", provider="echo", model="parrot", stop_reason="stop"))
    async def close(self):
        pass

def register(api):
    api.provider("echo", lambda endpoint: Echo())
"""


async def test_a_plugins_model_answers_when_the_configuration_names_it(openclaw_home: TemporaryHome) -> None:
    write(openclaw_home.root / "plugins", "echo", MODEL, providers=["echo"])
    openclaw_home.configure(
        {
            "models": {"providers": {"echo": {"api": "plugin", "models": [{"id": "parrot"}]}}},
            "agents": {"defaults": {"model": "echo/parrot"}},
            "plugins": {"load": {"paths": [str(openclaw_home.root / "plugins")]}},
        }
    )
    with GatewayProcess(openclaw_home) as gateway:
        async with gateway.client() as client:
            done = await client.call("agent", {"message": "polly", "idempotencyKey": "1"}, final=True)
            assert "polly" in done["result"]["payloads"][0]["text"]
            assert done["result"]["payloads"][0]["text"].startswith("You said: ")


MANNER = (
    MODEL.replace("import Assistant", "import ProviderContribution, Assistant")
    + """
    api.on("provider_prompt_contribution", manner)

def manner(event, context):
    return ProviderContribution(
        interaction_style="Squawk first.",
        tool_call_style="Never twice the same tool.",
        execution_bias="Repeat, then stop.",
        stable_prefix="You are a parrot.",
        dynamic_suffix=f"You speak through {event.model}.",
    )
"""
)


@pytest.mark.parametrize("isolation", ["process", "inprocess"])
async def test_a_plugins_provider_words_the_prompts_of_its_own_models(
    openclaw_home: TemporaryHome, isolation: str
) -> None:
    write(openclaw_home.root / "plugins", "echo", MANNER, providers=["echo"], hooks=["provider_prompt_contribution"])
    with MockModelServer([says("Fine.")]) as server:
        given = server.settings()
        given["models"]["providers"]["echo"] = {"api": "plugin", "models": [{"id": "parrot"}]}
        entry = {"echo": {"isolation": isolation}}
        openclaw_home.configure(
            {**given, "plugins": {"load": {"paths": [str(openclaw_home.root / "plugins")]}, "entries": entry}}
        )
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                run = {"message": "hi", "sessionKey": "polly", "model": "echo/parrot", "idempotencyKey": "1"}
                await client.call("agent", run, final=True)
                sent = (await client.call("prompt.preview", {"runId": "1"}))["prompt"]
                await client.call("agent", {"message": "hi", "idempotencyKey": "2"}, final=True)
                preview = await client.call("prompt.preview", {"sessionKey": "polly", "model": "echo/parrot"})
                audit = (await client.call("audit.list", {"runId": "1"}))["entries"]
    stable, dynamic = sent["stable"], sent["dynamic"]
    assert "## Interaction Style\nSquawk first.\n## Tool Call Style\nNever twice the same tool.\n- Approvals:" in stable
    assert "## Execution Bias\nRepeat, then stop.\nYou are a parrot.\n" in stable
    assert "You speak through parrot." in dynamic and "You speak" not in stable
    assert (preview["prompt"]["stable"], preview["prompt"]["dynamic"]) == (stable, dynamic)
    assert {entry["field"] for entry in audit} >= {"interactionStyle", "stablePrefix", "dynamicSuffix"}
    # Other providers are none of its business.
    assert "parrot" not in server.requests[0]["messages"][0]["content"]
