"""A person at the front door: a client of a whole gateway in this process, with a scripted model behind it."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec import structs

from openclaw.core.messages import Assistant, AssistantBlock
from openclaw.core.provider import ModelRequest, Provider
from openclaw.gateway.local import local_gateway
from openclaw.process.environment import Environment
from openclaw.protocol.client import GatewayClient
from openclaw.testing import ScriptedModel, TemporaryHome

PATIENCE = 120.0
FREELY = {"exec": {"security": "full", "ask": "off"}}
"""Settings of `tools` with which no command waits for an approval."""


class CutModel(ScriptedModel):
    """A model whose answers end at its output limit."""

    def _finished(self, request: ModelRequest, content: list[AssistantBlock]) -> Assistant:
        return structs.replace(super()._finished(request, content), stop_reason="length")


class FrontDoor:
    """Says things and hears what comes of them."""

    def __init__(self, client: GatewayClient) -> None:
        self.client = client
        self._ids = itertools.count(1)

    async def ask(self, text: str, **params: Any) -> dict[str, Any]:
        """The final answer to `agent`."""
        wanted = {"message": text, "idempotencyKey": f"ask-{next(self._ids)}", **params}
        async with asyncio.timeout(PATIENCE):
            final: dict[str, Any] = await self.client.call("agent", wanted, timeout=None, final=True)
        return final

    async def chat(self, text: str, session: str = "main") -> list[tuple[str, Any]]:
        """Every event up to the end of a chat message."""
        run_id = f"chat-{next(self._ids)}"
        await self.client.call("chat.send", {"sessionKey": session, "message": text, "idempotencyKey": run_id})
        return await self.until(
            lambda name, data: name == "chat" and data["runId"] == run_id and data["state"] not in ("delta", "status")
        )

    async def until(self, done: Any) -> list[tuple[str, Any]]:
        seen: list[tuple[str, Any]] = []
        async with asyncio.timeout(PATIENCE):
            async for event in self.client.events():
                name, payload = getattr(event, "event", "gap"), getattr(event, "payload", None)
                seen.append((name, payload))
                if done(name, payload):
                    break
        return seen


@asynccontextmanager
async def front_door(home: TemporaryHome, model: Provider) -> AsyncIterator[FrontDoor]:
    """A gateway on `home` whose models are all `model`; the client follows every session."""
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.workspace)
    async with local_gateway(environment, caps=("tool-events",), open_provider=lambda endpoint: model) as client:
        await client.call("sessions.subscribe", {})
        yield FrontDoor(client)


def texts(final: dict[str, Any]) -> list[str]:
    """The texts of a run's payloads."""
    return [payload["text"] for payload in final["result"]["payloads"]]


def said(seen: list[tuple[str, Any]]) -> str:
    """The text of the last chat event."""
    content = seen[-1][1].get("message", {}).get("content", [])
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def stream(seen: list[tuple[str, Any]], name: str) -> list[dict[str, Any]]:
    """The data of one stream of `agent` events."""
    return [payload["data"] for event, payload in seen if event == "agent" and payload["stream"] == name]
