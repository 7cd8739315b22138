"""One answer on every surface of a real gateway: what the model wrote for itself is on none of them."""

import json
from typing import Any

import pytest

from openclaw.testing import ScriptedModel, TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess, collect
from tests.e2e.test_command_line import run
from tests.gateway.http.support import house

pytestmark = pytest.mark.anyio

RAW = "<think>the sekrit plan</think>[[reply_to_current]] Hello there.\nMEDIA:/tmp/pic.png\nNO_REPLY"
INTERNAL = ("sekrit", "NO_REPLY", "reply_to_current", "MEDIA:", "think>")


def clean(shown: Any) -> bool:
    text = json.dumps(shown)
    return not any(word in text for word in INTERNAL)


async def test_internal_text_reaches_no_chat_and_stays_in_the_transcript(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says(RAW)]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client(caps=("tool-events",)) as client:
                await client.call("sessions.subscribe", {})
                sent = {"sessionKey": "main", "message": "hi", "idempotencyKey": "k1"}
                await client.call("chat.send", sent)
                seen = await collect(client, lambda name, data: name == "chat" and data["state"] == "final")
                chats = [data for name, data in seen if name == "chat"]
                assert "".join(data.get("deltaText", "") for data in chats).strip() == "Hello there."
                assert chats[-1]["message"]["content"] == [{"type": "text", "text": "Hello there."}]
                assert clean([data for name, data in seen if name in ("chat", "agent")])
                waited = await client.call("agent.wait", {"runId": "k1"})
                assert waited["terminalReply"] == {"disposition": "visible", "text": "Hello there."}
                final = await client.call(
                    "agent", {"message": "hi", "sessionKey": "main", "idempotencyKey": "k2"}, timeout=30, final=True
                )
                (payload,) = final["result"]["payloads"]
                assert (payload["text"], payload["mediaUrl"], payload["replyToCurrent"]) == (
                    "Hello there.",
                    "/tmp/pic.png",
                    True,
                )
                history = await client.call("chat.history", {"sessionKey": "main"})
                said = [row["content"] for row in history["messages"] if row["role"] == "assistant"]
                texts = [block["text"] for content in said for block in content if block["type"] == "text"]
                assert texts and all(text.strip() == "Hello there." for text in texts)
                preview = await client.call("sessions.preview", {"keys": ["main"]})
                assert clean(preview)

                await client.call("chat.send", {**sent, "message": "/reasoning on", "idempotencyKey": "c1"})
                await client.call("chat.send", {**sent, "message": "/verbose full", "idempotencyKey": "c2"})
                row = (await client.call("sessions.describe", {"key": "main"}))["session"]
                assert (row["reasoningLevel"], row["verboseLevel"]) == ("on", "full")
                await client.call("chat.send", {**sent, "idempotencyKey": "k3"})
                seen = await collect(
                    client, lambda name, data: name == "chat" and (data["runId"], data["state"]) == ("k3", "final")
                )
                thought, said_now = seen[-1][1]["message"]["content"]
                assert thought["type"] == "thinking" and "the sekrit plan" in thought["thinking"]
                assert said_now == {"type": "text", "text": "Hello there."}
        asked = run(openclaw_home, "agent", "--local", "-m", "hi", "--session-key", "agent:main:other")
        assert asked.returncode == 0 and asked.stdout.strip() == "Hello there."
    raw = "".join(path.read_text() for path in openclaw_home.transcripts())
    assert "the sekrit plan" in raw and "NO_REPLY" in raw


@pytest.mark.parametrize("stream", [False, True])
async def test_internal_text_is_in_no_http_answer(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, stream: bool
) -> None:
    scripted_model.script(says(RAW))
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        messages: Any = [{"role": "user", "content": "hi"}]
        answer: Any = await client.chat.completions.create(model="openclaw", messages=messages, stream=stream)
        if stream:
            heard = "".join([chunk.choices[0].delta.content or "" async for chunk in answer if chunk.choices])
        else:
            heard = answer.choices[0].message.content
    assert heard.strip() == "Hello there."
