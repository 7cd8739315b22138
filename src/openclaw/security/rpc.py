"""RPC methods for approvals, with their params and the events about them; and for the audit log."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from openclaw.core.errors import NotFound
from openclaw.protocol.params import NonEmpty, NoParams, Params, Positive
from openclaw.protocol.rpc import Caller, MethodRefusal, RpcMethod
from openclaw.protocol.scopes import ADMIN, APPROVALS, READ
from openclaw.security.approvals import ApprovalFile
from openclaw.security.audit import AuditEntry, digest
from openclaw.security.audit_log import AuditLog
from openclaw.security.pending import PendingApproval, PendingApprovals, approval_to_json

# Params.


class ExecApprovalGetParams(Params, frozen=True, kw_only=True):
    """Params of `exec.approval.get`."""

    id: NonEmpty


class Reviewer(Params, frozen=True, kw_only=True):
    channel: NonEmpty
    account_id: NonEmpty
    sender_id: NonEmpty


class ExecApprovalResolveParams(Params, frozen=True, kw_only=True):
    """Params of `exec.approval.resolve`."""

    id: NonEmpty
    decision: NonEmpty
    reviewer: Reviewer | None = None
    grant_expires_in_days: Annotated[int, Meta(ge=1, le=3650)] | None = None


class ExecApprovalUnattendedParams(Params, frozen=True, kw_only=True):
    """Params of `exec.approval.unattended`: whoever started the run has nobody to ask, and why."""

    id: NonEmpty
    why: NonEmpty


class ApprovalsSocket(Params, frozen=True, kw_only=True):
    path: str | None = None
    token: str | None = None


class ApprovalsDefaults(Params, frozen=True, kw_only=True):
    security: str | None = None
    ask: str | None = None
    ask_fallback: str | None = None
    auto_allow_skills: bool | None = None


class AllowlistEntry(Params, frozen=True, kw_only=True):
    id: NonEmpty | None = None
    pattern: str
    source: Literal["allow-always"] | None = None
    command_text: str | None = None
    arg_pattern: str | None = None
    last_used_at: Annotated[float, Meta(ge=0)] | None = None
    last_used_command: str | None = None
    last_resolved_path: str | None = None


class McpToolGrant(Params, frozen=True, kw_only=True):
    server: Annotated[str, Meta(min_length=1, pattern=r"\S")]
    tool: Annotated[str, Meta(min_length=1, pattern=r"\S")]
    source: Literal["allow-always"]
    added_at: Annotated[float, Meta(ge=0)]
    last_used_at: Annotated[float, Meta(ge=0)] | None = None


class AgentApprovalsParam(Params, frozen=True, kw_only=True):
    security: str | None = None
    ask: str | None = None
    ask_fallback: str | None = None
    auto_allow_skills: bool | None = None
    allowlist: tuple[AllowlistEntry, ...] | None = None
    mcp_tools: tuple[McpToolGrant, ...] | None = None


class ApprovalsFileParam(Params, frozen=True, kw_only=True):
    version: Literal[1]
    socket: ApprovalsSocket | None = None
    defaults: ApprovalsDefaults | None = None
    agents: dict[str, AgentApprovalsParam] | None = None


class ExecApprovalsSetParams(Params, frozen=True, kw_only=True):
    """Params of `exec.approvals.set`."""

    file: ApprovalsFileParam
    base_hash: str | None = None
    """Empty for "there is no document yet", as `exec.approvals.get` tells it."""


# Methods and events.


def approvals_methods(
    approvals: PendingApprovals,
    granted: ApprovalFile,
    path: str,
    nobody_here: Callable[[PendingApproval, str], Awaitable[None]],
) -> list[RpcMethod]:
    """`nobody_here` hears that the client of a run has nobody to ask, and why."""

    async def listed(params: NoParams, caller: Caller) -> Any:
        return [approval_to_json(question) for question in approvals.listed()]

    async def get(params: ExecApprovalGetParams, caller: Caller) -> Any:
        return approval_to_json(approvals.get(params.id))

    async def resolve(params: ExecApprovalResolveParams, caller: Caller) -> Any:
        try:
            await approvals.resolve(params.id, params.decision, by=caller.device_id or caller.client_id)
        except NotFound as error:
            raise MethodRefusal("APPROVAL_NOT_FOUND", error.message) from error
        return {"ok": True}

    async def unattended(params: ExecApprovalUnattendedParams, caller: Caller) -> Any:
        try:
            await nobody_here(approvals.get(params.id), params.why)
        except NotFound as error:
            raise MethodRefusal("APPROVAL_NOT_FOUND", error.message) from error
        return {"ok": True}

    async def document(params: NoParams, caller: Caller) -> Any:
        return {"path": path, "exists": Path(path).exists(), "hash": granted.hash, "file": granted.shown()}

    async def put(params: ExecApprovalsSetParams, caller: Caller) -> Any:
        granted.put(_without_nothing(msgspec.to_builtins(params.file)), params.base_hash, approvals.now)
        return await document(NoParams(), caller)

    async def nothing(params: NoParams, caller: Caller) -> Any:
        return []

    return [
        RpcMethod("exec.approval.list", NoParams, listed, APPROVALS),
        RpcMethod("exec.approval.get", ExecApprovalGetParams, get, APPROVALS),
        RpcMethod("exec.approval.resolve", ExecApprovalResolveParams, resolve, APPROVALS),
        RpcMethod("exec.approval.unattended", ExecApprovalUnattendedParams, unattended, APPROVALS),
        RpcMethod("exec.approvals.get", NoParams, document, ADMIN),
        RpcMethod("exec.approvals.set", ExecApprovalsSetParams, put, ADMIN),
        RpcMethod("plugin.approval.list", NoParams, nothing, APPROVALS),
    ]


def _without_nothing(value: Any) -> Any:
    """`value` without unset fields."""
    if isinstance(value, dict):
        return {name: _without_nothing(each) for name, each in value.items() if each is not None}
    return [_without_nothing(each) for each in value] if isinstance(value, list | tuple) else value


# The audit log.

_FENCED = re.compile(r"<<<([A-Z_]+) [^\n]*>>>\n(.*?)\n<<<END_\1 ", re.DOTALL)


class AuditListParams(Params, frozen=True, kw_only=True):
    """Params of `audit.list`: entries of one run or plugin; with `include_text` also what was put into prompts."""

    run_id: NonEmpty | None = None
    plugin: NonEmpty | None = None
    limit: Positive = 50
    include_text: bool = False


def audit_methods(
    audit: AuditLog,
    prompt_texts: Callable[[str], Awaitable[list[str]]],
    witnessed: Callable[[], Awaitable[Sequence[tuple[int, str]]]],
) -> list[RpcMethod]:
    """`prompt_texts` gives the recorded pieces of a run's prompt, `witnessed` the entries that prompts refer to."""

    async def texts(entries: Sequence[AuditEntry]) -> dict[str, str]:
        """The texts that entries put into prompts, by digest."""
        runs = {entry.run_id for entry in entries if entry.run_id}
        pieces = [piece for run_id in runs for piece in await prompt_texts(run_id)]
        inside = [text for piece in pieces for _, text in _FENCED.findall(piece)]
        return {digest(text): text for text in (*pieces, *(piece.strip() for piece in pieces), *inside)}

    async def list_entries(params: AuditListParams, caller: Caller) -> Any:
        entries = await asyncio.to_thread(audit.entries, params.run_id)
        found = [entry for entry in entries if params.plugin in (None, entry.plugin)][: params.limit]
        known = await texts(found) if params.include_text else {}
        text = {each: {"text": text} for each, text in known.items()}
        return {"entries": [{**msgspec.to_builtins(each), **text.get(each.after_sha256, {})} for each in found]}

    async def verify(params: NoParams, caller: Caller) -> Any:
        checked = await asyncio.to_thread(audit.verify, await witnessed())
        return {"ok": not checked.problems, **msgspec.to_builtins(checked)}

    return [
        RpcMethod("audit.list", AuditListParams, list_entries, READ),
        RpcMethod("audit.verify", NoParams, verify, READ),
    ]
