"""`exec.approval*`: questions about commands, and what was allowed for good."""

from pathlib import Path
from typing import Any

import msgspec

from openclaw.approvals.grants import ApprovalFile
from openclaw.approvals.pending import ApprovalOutcome, PendingApproval, PendingApprovals
from openclaw.core.errors import NotFound
from openclaw.gateway.bus import EventBus
from openclaw.wire.caller import Caller
from openclaw.wire.params.approvals import ExecApprovalGetParams, ExecApprovalResolveParams, ExecApprovalsSetParams
from openclaw.wire.params.kinds import NoParams
from openclaw.wire.rpc import MethodRefusal, RpcMethod
from openclaw.wire.scopes import ADMIN, APPROVALS

DECISIONS = ["allow-once", "allow-always", "deny"]


def methods(approvals: PendingApprovals, granted: ApprovalFile, path: str) -> list[RpcMethod]:
    async def listed(params: NoParams, caller: Caller) -> Any:
        return [shown(question) for question in approvals.list()]

    async def get(params: ExecApprovalGetParams, caller: Caller) -> Any:
        return shown(approvals.get(params.id))

    async def resolve(params: ExecApprovalResolveParams, caller: Caller) -> Any:
        try:
            approvals.resolve(params.id, params.decision, by=caller.device_id or caller.client_id)
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
        RpcMethod("exec.approvals.get", NoParams, document, ADMIN),
        RpcMethod("exec.approvals.set", ExecApprovalsSetParams, put, ADMIN),
        RpcMethod("plugin.approval.list", NoParams, nothing, APPROVALS),
    ]


def _without_nothing(value: Any) -> Any:
    """`value` without what was left open: a document says only what somebody said."""
    if isinstance(value, dict):
        return {name: _without_nothing(each) for name, each in value.items() if each is not None}
    return [_without_nothing(each) for each in value] if isinstance(value, list | tuple) else value


def shown(question: PendingApproval) -> dict[str, Any]:
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
    bus.publish("exec.approval.requested", shown(question), question.request.session_key)


def tell_resolved(bus: EventBus, question: PendingApproval, resolution: ApprovalOutcome) -> None:
    payload = {"id": resolution.id, "decision": resolution.decision, "resolvedBy": resolution.by, "ts": resolution.at}
    bus.publish("exec.approval.resolved", payload, question.request.session_key)
