"""One tool of an MCP server, called like our own; whatever comes back is enclosed as foreign."""

import asyncio
import json
import secrets
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Protocol

from openclaw.core.approval import ApprovalRequest, Approver
from openclaw.core.errors import OpenClawError
from openclaw.core.messages import Image, Text
from openclaw.core.origin import origin
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.core.toolserver import OfferedTool, ServerResult, ToolServer
from openclaw.gateway.tools.wrapping import wrap
from openclaw.mcp.pins import digest
from openclaw.mcp.shape import shaped
from openclaw.trust.wrap import sanitize_external_text

SHOWN = 400
DESCRIPTION = 1_500


class McpLink(Protocol):
    """The server behind a tool."""

    async def current(self, tool: OfferedTool) -> OfferedTool | None: ...

    async def accept(self, tool: OfferedTool, now: int) -> None: ...

    @property
    def held(self) -> ToolServer: ...

    @property
    def alone(self) -> asyncio.Lock: ...

    @property
    def now(self) -> int: ...


class McpTool:
    """A tool as it was accepted. When its server describes it in other words by now, a person is asked first."""

    def __init__(
        self, *, server: str, name: str, offered: OfferedTool, parallel: bool, link: McpLink, approver: Approver
    ) -> None:
        self._server = server
        self._offered = offered
        self._parallel = parallel
        self._link = link
        self._approver = approver
        self._origins = (origin("external", f"MCP {server}: {offered.name}"),)
        said = sanitize_external_text(offered.description).strip()[:DESCRIPTION]
        self.spec = ToolSpec(
            name=name,
            label=sanitize_external_text(offered.title or offered.name)[:80],
            summary=f"a tool of the MCP server {sanitize_external_text(server)[:40]}",
            description=said or f"The tool {name}; its server does not say what it does.",
            parameters=shaped(offered.parameters, sanitize_external_text),
        )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.FETCHES if self._offered.read_only else Effects.FETCHES | Effects.SENDS_OUT

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset() if self._parallel else frozenset({f"mcp:{self._server}"})

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            now = await self._link.current(self._offered)
            if now is None:
                return Output.failed(f"The MCP server {self._server} does not offer this tool any more.")
            if digest(now) != digest(self._offered):
                refusal = await self._asked(now, args, context)
                if refusal is not None:
                    return Output.failed(refusal)
            # Other conversations use the same server.
            async with nullcontext() if self._parallel else self._link.alone:
                returned = await self._link.held.call(self._offered.name, args, context.report)
        except OpenClawError as error:
            # The reason may be in the server's own words.
            return Output(
                content=(Text(wrap(error.message, "mcp")),), is_error=True, origins=self._origins, enclosed=True
            )
        return self._shown(returned)

    async def _asked(self, now: OfferedTool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        """Asks whether the tool may be used although its server has changed its words; None when it may."""
        answer = await self._approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=self.spec.name,
                command=f"{self.spec.name} {json.dumps(dict(args), ensure_ascii=False)}",
                cwd=str(context.workspace),
                agent_id=context.agent_id,
                session_key=context.session_key,
                why=f"the MCP server {self._server} changed this tool since it was accepted. "
                + _difference(self._offered, now),
            )
        )
        if answer.decision == "allow-always":
            await self._link.accept(now, self._link.now)
        if answer.decision == "deny":
            return (
                f"Not called: the MCP server {self._server} changed this tool since it was accepted, and "
                f"{answer.why or 'the user said no'}. `openclaw mcp accept {self._server}` accepts the change."
            )
        return None

    def _shown(self, returned: ServerResult) -> Output:
        texts = [block.text for block in returned.content if isinstance(block, Text)]
        if not texts and returned.structured is not None:
            texts = [json.dumps(returned.structured, indent=2, ensure_ascii=False)]
        images = [block for block in returned.content if isinstance(block, Image)]
        body = "\n\n".join(texts) or ("(images)" if images else "(nothing)")
        return Output(
            content=(Text(wrap(body, "mcp")), *images),
            details={"mcpServer": self._server, "mcpTool": self._offered.name},
            is_error=returned.is_error,
            origins=self._origins,
            enclosed=True,
        )


def _difference(was: OfferedTool, now: OfferedTool) -> str:
    """What changed, as a person must see it."""
    if was.description != now.description:
        old, new = (sanitize_external_text(each.description)[:SHOWN] for each in (was, now))
        return f"It said: {old!r}. Now it says: {new!r}"
    if was.parameters != now.parameters:
        return "Its parameters are other ones."
    return "Its title or hints are other ones."
