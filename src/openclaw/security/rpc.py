"""RPC methods for approvals, with their params, and the events about them."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from openclaw.core.errors import NotFound
from openclaw.protocol.events import EventBus
from openclaw.protocol.params import NonEmpty, NonNegative, NoParams, Params, Positive
from openclaw.protocol.rpc import Caller, MethodRefusal, RpcMethod
from openclaw.protocol.scopes import ADMIN, APPROVALS
from openclaw.security.approvals import ApprovalFile, ApprovalOutcome, PendingApproval, PendingApprovals

# Params.


class AllowlistRule(Params, frozen=True, kw_only=True):
    pattern: str
    arg_pattern: str | None = None
    source: Literal["allow-always"] | None = None


class PolicySnapshot(Params, frozen=True, kw_only=True):
    security: Literal["deny", "allowlist", "full"]
    ask: Literal["off", "on-miss", "always"]
    ask_fallback: Literal["deny", "allowlist", "full"]
    auto_allow_skills: bool
    allowlist_rules: tuple[AllowlistRule, ...]


class MutableFileOperand(Params, frozen=True, kw_only=True):
    argv_index: NonNegative
    path: str
    sha256: str


class RunPlan(Params, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    cwd: str | None
    command_text: str
    command_preview: str | UnsetType | None = UNSET
    agent_id: str | None
    session_key: str | None
    policy_snapshot: PolicySnapshot | None = None
    mutable_file_operand: MutableFileOperand | UnsetType | None = UNSET


class MessageSendScope(Params, frozen=True, kw_only=True, tag_field="kind", tag="message-send"):
    target: Annotated[str, Meta(min_length=1, max_length=128)]
    recipient_count: Annotated[int, Meta(ge=1, le=1_000_000)]
    recipients: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=128)], ...], Meta(max_length=5)] | None = (
        None
    )
    audience: Literal["internal", "external"] | None = None


class PaymentScope(Params, frozen=True, kw_only=True, tag_field="kind", tag="payment"):
    amount: Annotated[str, Meta(min_length=1, max_length=40)]
    currency: Annotated[str, Meta(min_length=1, max_length=12)]
    target: Annotated[str, Meta(min_length=1, max_length=128)]


class ExternalPostScope(Params, frozen=True, kw_only=True, tag_field="kind", tag="external-post"):
    target: Annotated[str, Meta(min_length=1, max_length=128)]
    visibility: Literal["public", "restricted"]


class StandingGrantScope(Params, frozen=True, kw_only=True, tag_field="kind", tag="standing-grant"):
    automation: Annotated[str, Meta(min_length=1, max_length=128)]
    command: Annotated[str, Meta(min_length=1, max_length=256)]
    expires_in_days: Annotated[int, Meta(ge=1, le=3650)] | None = None


class CommandSpan(Params, frozen=True, kw_only=True):
    start_index: NonNegative
    end_index: Positive


class ExecApprovalRequestParams(Params, frozen=True, kw_only=True):
    """Params of `exec.approval.request`."""

    id: NonEmpty | None = None
    command: NonEmpty | None = None
    command_argv: tuple[str, ...] | None = None
    system_run_plan: RunPlan | None = None
    env: dict[str, str] | None = None
    cwd: str | UnsetType | None = UNSET
    node_id: NonEmpty | UnsetType | None = UNSET
    host: str | UnsetType | None = UNSET
    security: str | UnsetType | None = UNSET
    ask: str | UnsetType | None = UNSET
    warning_text: str | UnsetType | None = UNSET
    scope: MessageSendScope | PaymentScope | ExternalPostScope | StandingGrantScope | None = None
    unavailable_decisions: Annotated[tuple[Literal["allow-always"], ...], Meta(min_length=1, max_length=1)] | None = (
        None
    )
    command_spans: tuple[CommandSpan, ...] | None = None
    agent_id: str | UnsetType | None = UNSET
    resolved_path: str | UnsetType | None = UNSET
    session_key: str | UnsetType | None = UNSET
    session_id: str | UnsetType | None = UNSET
    run_id: str | UnsetType | None = UNSET
    tool_call_id: str | UnsetType | None = UNSET
    turn_source_channel: str | UnsetType | None = UNSET
    turn_source_to: str | UnsetType | None = UNSET
    turn_source_account_id: str | UnsetType | None = UNSET
    turn_source_thread_id: str | int | float | UnsetType | None = UNSET
    approval_reviewer_device_ids: tuple[NonEmpty, ...] | None = None
    require_delivery_route: bool | None = None
    suppress_delivery: bool | None = None
    deliver_to_approval_clients_only: bool | None = None
    timeout_ms: Positive | None = None
    two_phase: bool | None = None


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
    base_hash: NonEmpty | None = None


class ApprovalGetParams(Params, frozen=True, kw_only=True):
    """Params of `approval.get`."""

    id: Annotated[
        str, Meta(min_length=1, pattern=r"^(?!\.{1,2}$)(?:[^\uD800-\uDFFF]|[\uD800-\uDBFF][\uDC00-\uDFFF])+$")
    ]


class ApprovalResolveParams(Params, frozen=True, kw_only=True):
    """Params of `approval.resolve`."""

    id: Annotated[
        str, Meta(min_length=1, pattern=r"^(?!\.{1,2}$)(?:[^\uD800-\uDFFF]|[\uD800-\uDBFF][\uDC00-\uDFFF])+$")
    ]
    kind: Literal["exec", "plugin", "system-agent"]
    decision: Literal["allow-once", "allow-always", "deny"]
    reviewer: Reviewer | None = None
    grant_expires_in_days: Annotated[int, Meta(ge=1, le=3650)] | None = None


class ApprovalHistoryParams(Params, frozen=True, kw_only=True):
    """Params of `approval.history`."""

    cursor: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] | None = None
    kind: Literal["exec", "plugin", "system-agent"] | None = None


class ExecApprovalWaitDecisionParams(Params, frozen=True, kw_only=True):
    """Params of `exec.approval.waitDecision`."""

    id: NonEmpty


# Methods and events.

DECISIONS = ["allow-once", "allow-always", "deny"]


def approvals_methods(approvals: PendingApprovals, granted: ApprovalFile, path: str) -> list[RpcMethod]:
    async def listed(params: NoParams, caller: Caller) -> Any:
        return [approval_to_json(question) for question in approvals.list()]

    async def get(params: ExecApprovalGetParams, caller: Caller) -> Any:
        return approval_to_json(approvals.get(params.id))

    async def resolve(params: ExecApprovalResolveParams, caller: Caller) -> Any:
        try:
            approvals.resolve(params.id, params.decision, by=caller.device_id or caller.client_id)
        except NotFound as error:
            raise MethodRefusal("APPROVAL_NOT_FOUND", error.message) from error
        return {"ok": True}

    async def unattended(params: ExecApprovalUnattendedParams, caller: Caller) -> Any:
        try:
            approvals.decline(params.id, params.why, by=caller.device_id or caller.client_id)
        except NotFound as error:
            raise MethodRefusal("APPROVAL_NOT_FOUND", error.message) from error
        return {"ok": True}

    async def document(params: NoParams, caller: Caller) -> Any:
        return {"path": path, "exists": Path(path).exists(), "hash": granted.hash, "file": granted.shown()}

    async def put(params: ExecApprovalsSetParams, caller: Caller) -> Any:
        file = {name: value for name, value in msgspec.to_builtins(params.file).items() if value is not None}
        granted.put(_without_nothing(file), params.base_hash, approvals.now)
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


def approval_to_json(question: PendingApproval) -> dict[str, Any]:
    request = question.request
    return {
        "id": request.id,
        "request": {
            "command": request.command,
            "cwd": request.cwd,
            "host": "gateway",
            "agentId": request.agent_id,
            "sessionKey": request.session_key,
            "allowedDecisions": DECISIONS if request.standing else ["allow-once", "deny"],
            "warningText": request.why,
            **({"origins": msgspec.to_builtins(request.origins)} if request.origins else {}),
        },
        "createdAtMs": question.created_at,
        "expiresAtMs": question.expires_at,
    }


def tell_asked(bus: EventBus, question: PendingApproval) -> None:
    bus.publish("exec.approval.requested", approval_to_json(question), question.request.session_key)


def tell_resolved(bus: EventBus, question: PendingApproval, resolution: ApprovalOutcome) -> None:
    payload = {"id": resolution.id, "decision": resolution.decision, "resolvedBy": resolution.by, "ts": resolution.at}
    bus.publish("exec.approval.resolved", payload, question.request.session_key)
