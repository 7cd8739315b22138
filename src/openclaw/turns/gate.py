"""The gate between a model's wish and its effect: policy decides, a person is asked, the answer is kept."""

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from openclaw.approvals.grants import ApprovalFile
from openclaw.core.approval import ApprovalRequest, Approver
from openclaw.core.clock import Clock, millis
from openclaw.core.tool import Effects, Tool, ToolContext
from openclaw.policy.execution import Allow, Ask, AskFirst, Deny, Grant, Security, grants_for, rule, stricter


class ExecGate:
    """Admits every call except commands, which need the allowlist or a person."""

    def __init__(
        self,
        *,
        security: Security,
        ask: Ask,
        safe_bins: tuple[str, ...],
        approvals: ApprovalFile,
        approver: Approver,
        clock: Clock,
        path: str,
    ) -> None:
        self._security: Security = security
        self._ask: Ask = ask
        self._safe_bins = safe_bins
        self._approvals = approvals
        self._approver = approver
        self._clock = clock
        self._path = path

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        if Effects.RUNS_CODE not in tool.effects(args):
            return None
        command = str(args.get("command", ""))
        cwd = str(_workdir(args, context))
        match self._rule(command, cwd, context.agent_id):
            case Allow():
                return None
            case Deny(why):
                return f"Not run: {why}."
            case AskFirst(why):
                return await self._asked(tool, command, cwd, why, context)

    def _rule(self, command: str, cwd: str, agent_id: str) -> Allow | AskFirst | Deny:
        document = self._approvals.read()
        agent = document.agents.get(agent_id)
        security, ask = self._security, self._ask
        for layer in (document.defaults, agent):
            if layer is not None:
                security, ask = stricter((security, ask), (layer.security or "full", layer.ask or "off"))
        grants = [msgspec.convert(entry, Grant) for entry in (agent.allowlist if agent else ())]
        return rule(command, cwd, security, ask, grants, self._resolve, self._safe_bins)

    async def _asked(self, tool: Tool, command: str, cwd: str, why: str, context: ToolContext) -> str | None:
        answer = await self._approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=tool.spec.name,
                command=command,
                cwd=cwd,
                agent_id=context.agent_id,
                session_key=context.session_key,
                why=why,
            )
        )
        if answer.decision == "deny":
            return f"Not run: {answer.why or 'the user said no'}. Do not try to get round it; ask what to do instead."
        if answer.decision == "allow-always":
            grants = grants_for(command, cwd, self._resolve, lambda: secrets.token_hex(4))
            self._approvals.allow(
                context.agent_id, [msgspec.to_builtins(grant) for grant in grants], millis(self._clock)
            )
        return None

    def _resolve(self, word: str) -> str | None:
        found = shutil.which(word, path=self._path)
        return str(Path(found).resolve()) if found else None


def _workdir(args: Mapping[str, Any], context: ToolContext) -> Path:
    given = args.get("workdir")
    return (context.workspace / Path(given).expanduser()).resolve() if given else context.workspace
