"""What a person says while the assistant is busy reaches the model, whole, whatever the queue mode."""

import base64
from pathlib import Path
from typing import Any

import pytest

from openclaw.protocol.client import GatewayClient
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess, collect

pytestmark = pytest.mark.anyio

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # a red dot
PICTURE = {"type": "image", "mimeType": "image/png", "fileName": "dot.png", "content": PIXEL}


def busy_until(path: Path) -> Any:
    """A command that ends when `path` is there."""
    return calls("exec", command=f"while [ ! -e {path} ]; do sleep 0.05; done")


def configure(home: TemporaryHome, server: MockModelServer, **defaults: Any) -> None:
    settings = server.settings(input=["text", "image"])
    settings["tools"] = {"exec": {"security": "full", "ask": "off"}}
    settings["agents"]["defaults"] |= defaults
    home.configure(settings)


def tool_started(name: str, data: Any) -> bool:
    return name == "agent" and data["stream"] == "tool" and data["data"]["phase"] == "start"


async def say(client: GatewayClient, run_id: str, text: str, key: str = "main", **more: Any) -> None:
    await client.call("chat.send", {"sessionKey": key, "message": text, "idempotencyKey": run_id, **more})


def pictures(request: dict[str, Any]) -> list[str]:
    """The images in a request, as the model gets them."""
    blocks = [block for message in request["messages"] for block in _blocks(message) if block["type"] == "image_url"]
    return [block["image_url"]["url"] for block in blocks]


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message["content"] if isinstance(message["content"], list) else []


@pytest.mark.parametrize("mode", ["steer", "collect", "followup"])
async def test_a_picture_sent_while_a_run_is_going_reaches_the_model(openclaw_home: TemporaryHome, mode: str) -> None:
    go = openclaw_home.root / "go"
    with MockModelServer([busy_until(go), says("I see it.")]) as server:
        configure(openclaw_home, server)
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client(caps=("tool-events",)) as client:
                await say(client, "r1", "wait for it")
                await collect(client, tool_started)
                await say(client, "r2", "what is this?", queueMode=mode, attachments=[PICTURE])
                await say(client, "r3", "and this?", queueMode=mode, attachments=[PICTURE])
                go.touch()
                for run_id in ("r1", "r2", "r3"):
                    waited = await client.call("agent.wait", {"runId": run_id, "timeoutMs": 60_000})
                    assert waited["status"] == "ok"
                history = await client.call("chat.history", {"sessionKey": "main"})
    assert pictures(server.requests[-1]) == [f"data:image/png;base64,{PIXEL}"] * 2
    shown = [block for row in history["messages"] if row["role"] == "user" for block in _blocks(row)]
    assert sum(block["text"] == "[image image/png]" for block in shown) == 2
    assert base64.b64decode(PIXEL).startswith(b"\x89PNG")


async def test_interrupting_says_what_no_model_has_seen_yet(openclaw_home: TemporaryHome) -> None:
    go = openclaw_home.root / "go"
    with MockModelServer([busy_until(go), says("Done.")]) as server:
        configure(openclaw_home, server, maxConcurrent=1)
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client(caps=("tool-events",)) as client:
                await say(client, "other", "occupy the only place", key="elsewhere")
                await collect(client, tool_started)
                await say(client, "r1", "my address is Lime Street 9", attachments=[PICTURE])
                await say(client, "r2", "the door code is 4711", queueMode="followup")
                await say(client, "r3", "order a pizza", queueMode="interrupt")
                await say(client, "r4", "no, two pizzas", queueMode="interrupt")
                waits = await client.call("chat.history", {"sessionKey": "main"})
                go.touch()
                ends = [await client.call("agent.wait", {"runId": f"r{n}", "timeoutMs": 60_000}) for n in (1, 2, 3, 4)]
                history = await client.call("chat.history", {"sessionKey": "main"})
    assert [end["status"] for end in ends] == ["ok"] * 4
    said = ["my address is Lime Street 9", "the door code is 4711", "order a pizza", "no, two pizzas"]
    pending = [item["message"]["content"] for item in waits["pendingInputs"]["items"]]
    assert [text for text in said if text in pending] == said
    rows = history["messages"]
    assert [row["role"] for row in rows] == ["user"] * 4 + ["assistant"]
    assert [row["idempotencyKey"] for row in rows[:4]] == [f"r{n}:user" for n in (1, 2, 3, 4)]
    (request,) = [each for each in server.requests if "two pizzas" in str(each)]
    assert all(text in str(request["messages"]) for text in said) and len(pictures(request)) == 1


async def test_interrupting_a_run_that_the_model_has_seen_repeats_nothing(openclaw_home: TemporaryHome) -> None:
    never = openclaw_home.root / "never"
    with MockModelServer([busy_until(never), says("Fresh.")]) as server:
        configure(openclaw_home, server)
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client(caps=("tool-events",)) as client:
                await say(client, "r1", "dig a hole")
                await collect(client, tool_started)
                await say(client, "r2", "and a deep one")
                await say(client, "r3", "stop digging", queueMode="interrupt")
                first = await client.call("agent.wait", {"runId": "r1", "timeoutMs": 60_000})
                last = await client.call("agent.wait", {"runId": "r3", "timeoutMs": 60_000})
                history = await client.call("chat.history", {"sessionKey": "main"})
    assert first["stopReason"] == "aborted" and last["status"] == "ok"
    said = [row["content"] for row in history["messages"] if row["role"] == "user"]
    assert said == ["dig a hole", "and a deep one", "stop digging"]
