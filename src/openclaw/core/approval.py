"""The approval seam: a person is shown exactly what would run, and decides."""

from typing import Literal, Protocol

from msgspec import Struct

from openclaw.core.origin import Origin

Decision = Literal["allow-once", "allow-always", "deny"]


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """What a person must see before they can say yes."""

    id: str
    tool: str
    command: str
    cwd: str
    agent_id: str
    session_key: str
    why: str = ""
    origins: tuple[Origin, ...] = ()
    """The untrusted text that was read before, and may be what asked for it."""
    standing: bool = True
    """Whether "always" means anything for it."""


class ApprovalAnswer(Struct, frozen=True):
    decision: Decision
    by: str = ""
    why: str = ""
    nobody: bool = False
    """No person answered: it expired, or there was nobody to ask."""


class Approver(Protocol):
    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer: ...
