"""What people allowed for good: `exec-approvals.json` in the state directory."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.errors import StateError
from openclaw.store import atomic
from openclaw.store.lock import Holder, KernelLock


class _Policy(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    security: Literal["deny", "allowlist", "full"] | None = None
    ask: Literal["off", "on-miss", "always"] | None = None
    ask_fallback: Literal["deny", "allowlist", "full"] | None = None
    auto_allow_skills: bool | None = None


class AgentApprovals(_Policy, frozen=True, kw_only=True):
    allowlist: tuple[dict[str, Any], ...] = ()


class Document(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    version: int = 1
    socket: dict[str, Any] | None = None
    defaults: _Policy = _Policy()
    agents: Mapping[str, AgentApprovals] = field(default_factory=dict)


class ApprovalFile:
    """Reads and extends the document; a change somebody else made in between is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Document:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return Document()
        except OSError as error:
            raise StateError(f"cannot read {self._path}: {error.strerror}") from error
        try:
            return msgspec.json.decode(data, type=Document)
        except msgspec.DecodeError as error:
            raise StateError(f"{self._path} cannot be read ({error}): mend it, or move it away") from error

    def allow(self, agent_id: str, grants: Sequence[Mapping[str, Any]], now: int) -> None:
        """Adds `grants` to the agent's allowlist."""
        with KernelLock(self._path.with_name(self._path.name + ".lock")) as lock:
            if not lock.take(Holder(pid=os.getpid(), created_at=now)):
                raise StateError(f"{self._path} is being changed by another process: try again")
            document = self.read()
            agent = document.agents.get(agent_id, AgentApprovals())
            grown = structs.replace(agent, allowlist=(*agent.allowlist, *(dict(grant) for grant in grants)))
            changed = structs.replace(document, agents={**document.agents, agent_id: grown})
            atomic.replace(self._path, msgspec.json.format(msgspec.json.encode(changed), indent=2))
