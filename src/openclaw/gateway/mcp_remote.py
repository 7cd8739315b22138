"""Tools that only a running gateway has, lent by another process of the same home."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Image, Text
from openclaw.core.origin import Origin
from openclaw.core.tool import Effects, Output, Tool, ToolContext, ToolSpec
from openclaw.cron.tool import CronTool
from openclaw.gateway.reach import find, introduction
from openclaw.gateway.surroundings import Environment
from openclaw.gateway.tools import hall
from openclaw.wire.client import GatewayClient, connect

KINDS: tuple[Any, ...] = (*hall.TOOLS, CronTool)
"""What a gateway has and a process by itself has not."""


AFRESH = "Do it in a chat with the assistant, or over a new connection."


class RemoteTool:
    """A tool of the gateway. What a call does is judged here too, by the arguments alone."""

    def __init__(self, kind: Any, client: GatewayClient, key: SessionKey) -> None:
        self._kind = kind
        self._client = client
        self._key = key
        self.spec: ToolSpec = kind.spec

    def effects(self, args: Mapping[str, Any]) -> Effects:
        found: Effects = self._kind.effects(self, args)
        return found

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        if context.origins and self.effects(args) != Effects.NONE:
            # A label cannot go along through the socket, and without it the words would pass for the owner's.
            return Output.failed(f"Not done: {self.spec.name} after text from elsewhere was read here. {AFRESH}")
        asked = {"name": self.spec.name, "args": dict(args), "sessionKey": str(self._key)}
        try:
            answer = await self._client.call("tools.invoke", asked, timeout=None)
        except OpenClawError as error:
            return Output.failed(f"The gateway did not do it: {error.message}")
        if "output" not in answer:
            return Output.failed(str((answer.get("error") or {}).get("message") or "The gateway refused it."))
        content = msgspec.convert(answer["output"].get("content") or (), tuple[Text | Image, ...])
        origins = msgspec.convert(answer.get("origins") or (), tuple[Origin, ...])
        # The gateway has cleaned and enclosed what strangers wrote.
        return Output(content=content, is_error=not answer.get("ok"), origins=origins, enclosed=True)


@asynccontextmanager
async def lent(surroundings: Environment, key: SessionKey) -> AsyncIterator[list[Tool]]:
    """The gateway's own tools that a session has there, for as long as the block lasts."""
    target = find(surroundings)
    async with connect(target.url, introduction(target), pinned=target.fingerprint) as client:
        there = await client.call("tools.effective", {"sessionKey": str(key)})
        names = {tool["id"] for group in there["groups"] for tool in group["tools"]}
        yield [RemoteTool(kind, client, key) for kind in KINDS if kind.spec.name in names]
