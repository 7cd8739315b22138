"""The tool-call hook points: before a call plugins may change its arguments, require approval, or block it."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from openclaw.core.clock import Clock
from openclaw.core.hooks import AfterToolCall, BeforeToolCall, HookContext
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Approver, Output, ToolContext
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.dispatch import HookDispatcher, audit_change
from openclaw.plugins.hooks.points import ToolMerged
from openclaw.security.audit_log import AuditLog


class ToolHooks:
    """The interceptor of every tool runner."""

    def __init__(self, hooks: HookDispatcher, audit: AuditLog, approver: Approver, clock: Clock) -> None:
        self._hooks = hooks
        self._audit = audit
        self._approver = approver
        self._clock = clock

    async def before(self, tool: str, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | str:
        """The arguments to continue with, or why the call is blocked."""
        if not self._hooks.has("before_tool_call"):
            return args
        event = BeforeToolCall(tool_name=tool, params=args, tool_call_id=context.call_id, run_id=context.run_id)
        merged = await self._hooks.ask(points.TOOL, event, _where(context))
        if merged.changes:
            deeds = [audit_change("before_tool_call", change, note=f"tool {tool}") for change in merged.changes]
            await self._audit.record(deeds, run_id=context.run_id, session_key=context.session_key)
        if merged.blocked is not None:
            return f"Not run: the plugin {merged.blocked.plugin} objects: {merged.blocked.text}."
        if merged.approval is not None:
            refusal = await self._asked(tool, merged, context)
            if refusal:
                return refusal
        return merged.params

    def after(self, tool: str, args: Mapping[str, Any], context: ToolContext, output: Output, seconds: float) -> None:
        """Notifies plugins of a call's result."""
        if not self._hooks.has("after_tool_call"):
            return
        event = AfterToolCall(
            tool_name=tool,
            params=dict(args),
            tool_call_id=context.call_id,
            run_id=context.run_id,
            result="" if output.is_error else output.text,
            error=output.text if output.is_error else None,
            duration_ms=round(seconds * 1000),
        )
        self._hooks.tell("after_tool_call", event, _where(context))

    async def _asked(self, tool: str, merged: ToolMerged, context: ToolContext) -> str:
        """Asks a person for approval; gives why it was refused, or nothing."""
        wish = merged.approval
        assert wish is not None
        why = f"{merged.approval_by} asks: {wish.title}" + (f" ({wish.description})" if wish.description else "")
        request = ApprovalRequest(
            id=secrets.token_hex(4),
            tool=tool,
            command=f"{tool} {msgspec.json.encode(merged.params).decode()}",
            cwd=str(context.workspace),
            agent_id=context.agent_id,
            session_key=context.session_key,
            why=why,
        )
        answer = await self._decided(request, wish.timeout_ms)
        if answer.decision == "deny":
            return f"Not run: {answer.why or 'the user said no'}. Do not try to get round it; ask what to do instead."
        return ""

    async def _decided(self, request: ApprovalRequest, limit_ms: int | None) -> ApprovalAnswer:
        if limit_ms is None:
            return await self._approver.decide(request)
        asking = asyncio.ensure_future(self._approver.decide(request))
        timer = asyncio.ensure_future(self._clock.sleep(limit_ms / 1000))
        both: set[asyncio.Future[Any]] = {asking, timer}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else ApprovalAnswer("deny", why="nobody answered in time")
        finally:
            for each in both:
                each.cancel()
            await asyncio.gather(*both, return_exceptions=True)


def _where(context: ToolContext) -> HookContext:
    return HookContext(
        agent_id=context.agent_id,
        session_key=context.session_key,
        workspace_dir=str(context.workspace),
        run_id=context.run_id,
    )
