"""`plugins.slots`: the built-in memory, none, or a plugin's; and nothing else without a word."""

import json
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess
from tests.e2e.test_command_line import run
from tests.plugins.support import write

pytestmark = pytest.mark.anyio

RECALL = """
from openclaw.plugin import Api; from openclaw.plugin import FunctionTool

def register(api: Api) -> None:
    query = {"type": "string", "description": "What to look for."}
    api.tool(FunctionTool("memory_search", "Recalls things.", {"query": query}, run))

def run(args, context):
    return "from the plugin"
"""
DECLARED: dict[str, Any] = {"contracts": {"tools": ["memory_search"]}, "description": "Recalls."}


def configure(home: TemporaryHome, server: MockModelServer, memory: str) -> None:
    plugins = {"load": {"paths": [str(home.root / "plugins")]}, "slots": {"memory": memory}}
    home.configure({**server.settings(), "plugins": plugins})


def offered(request: Any) -> set[str]:
    return {tool["function"]["name"] for tool in request["tools"]}


async def asked(home: TemporaryHome) -> str:
    with GatewayProcess(home) as gateway:
        async with gateway.client() as client:
            await client.call("agent", {"message": "hello", "idempotencyKey": "1"}, final=True)
    return gateway.output()


async def test_a_plugin_takes_the_place_of_the_memory(openclaw_home: TemporaryHome) -> None:
    write(openclaw_home.root / "plugins", "recall", RECALL, kind="memory", **DECLARED)
    with MockModelServer([calls("memory_search", query="boat"), says("Found.")]) as server:
        configure(openclaw_home, server, "recall")
        await asked(openclaw_home)
        assert "memory_get" not in offered(server.requests[0])
        assert "from the plugin" in json.dumps(server.requests[-1])
    assert not list((openclaw_home.state / "state").glob("memory/*"))  # nothing is indexed beside it
    done = run(openclaw_home, "memory", "search", "boat")
    assert done.returncode == 1 and "plugins.slots.memory is recall" in done.stderr
    assert run(openclaw_home, "plugins", "doctor").returncode == 0


async def test_without_the_place_the_same_plugin_does_not_run(openclaw_home: TemporaryHome) -> None:
    write(openclaw_home.root / "plugins", "recall", RECALL, kind="memory", **DECLARED)
    with MockModelServer([says("Hello.")]) as server:
        configure(openclaw_home, server, "memory-core")
        await asked(openclaw_home)
        assert {"memory_search", "memory_get"} <= offered(server.requests[0])
        assert "Recalls things." not in json.dumps(server.requests[0])


async def test_none_is_no_memory(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("Hello.")]) as server:
        configure(openclaw_home, server, "none")
        await asked(openclaw_home)
        assert not {"memory_search", "memory_get"} & offered(server.requests[0])


@pytest.mark.parametrize("kind", ["absent", "other"])
async def test_an_empty_place_is_said(openclaw_home: TemporaryHome, kind: str) -> None:
    if kind == "other":
        write(openclaw_home.root / "plugins", "recall", RECALL, **DECLARED)
    why = {"absent": "there is no such plugin", "other": "does not say that it is of kind memory"}[kind]
    with MockModelServer([says("Hello.")]) as server:
        configure(openclaw_home, server, "recall")
        told = await asked(openclaw_home)
        assert not {"memory_get"} & offered(server.requests[0])
    assert told.count("there is no memory. Set it to memory-core") == 1 and why in told
    done = run(openclaw_home, "plugins", "doctor")
    assert done.returncode == 1 and why in done.stdout


async def test_a_context_engine_that_cannot_be_is_refused(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"plugins": {"slots": {"contextEngine": "mine"}}})
    done = run(openclaw_home, "config", "validate")
    assert done.returncode == 1 and "plugins.slots.contextEngine: expected one of legacy" in done.stdout + done.stderr
    write(openclaw_home.root / "plugins", "mine", RECALL, kind="context-engine", **DECLARED)
    openclaw_home.configure({"plugins": {"load": {"paths": [str(openclaw_home.root / "plugins")]}}})
    assert "context engine, and those of plugins are not supported" in run(openclaw_home, "plugins", "list").stdout
