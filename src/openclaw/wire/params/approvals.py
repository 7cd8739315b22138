"""Approvals of commands."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openclaw.wire.params.kinds import NonEmpty, NonNegative, Params, Positive


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


class ApprovalsFile(Params, frozen=True, kw_only=True):
    version: Literal[1]
    socket: ApprovalsSocket | None = None
    defaults: ApprovalsDefaults | None = None
    agents: dict[str, AgentApprovalsParam] | None = None


class ExecApprovalsSetParams(Params, frozen=True, kw_only=True):
    """Params of `exec.approvals.set`."""

    file: ApprovalsFile
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
