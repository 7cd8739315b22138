"""A source that an answer names is looked up before the answer leaves."""

import uuid

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess, collect

ANSWER = """The dentist is on Tuesday.

Source: memory/teeth.md#L2

Your cat is called Mia (memory/teeth.md#L40), and the code is in docs/guide.md#L7.

Source: memory/dreams.md#L1-L3"""

SENT = """The dentist is on Tuesday.

Source: memory/teeth.md#L2

Your cat is called Mia (memory/teeth.md), and the code is in docs/guide.md#L7."""


@pytest.mark.anyio
async def test_a_source_that_does_not_exist_is_not_sent(openclaw_home: TemporaryHome) -> None:
    notes = openclaw_home.workspace / "memory"
    notes.mkdir(parents=True, exist_ok=True)
    (notes / "teeth.md").write_text("# Teeth\nThe dentist: Tuesday.\n")
    with MockModelServer([says(ANSWER)]) as model:
        openclaw_home.configure(model.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("sessions.messages.subscribe", {"key": "main"})
                params = {"message": "when?", "sessionKey": "main", "idempotencyKey": str(uuid.uuid4())}
                done = await client.call("agent", params, final=True, timeout=60)
                assert [each["text"] for each in done["result"]["payloads"]] == [SENT]
                seen = await collect(client, lambda name, data: name == "chat" and data["state"] == "final")
                history = await client.call("chat.history", {"sessionKey": "main"})
    # Nobody saw it for a moment either: not in the stream, not in the message on record.
    streamed = "".join(data["data"]["delta"] for name, data in seen if name == "agent" and "delta" in data["data"])
    rows = [data["message"] for name, data in seen if name == "session.message"]
    assert streamed == SENT
    assert rows[-1]["content"] == history["messages"][-1]["content"] == [{"type": "text", "text": SENT}]
