"""Questions to the owner in a cluster: asked where the run is, answered wherever a person is."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec

from openclaw.core.errors import NotFound
from openclaw.core.keys import parse_session_key
from openclaw.security.pending import ApprovalOutcome, PendingApproval, PendingApprovals
from openclaw.storage.database import Row

Ask = Callable[[str, str, Any], Awaitable[Any]]
"""Calls a method of a node."""


class ClusterApprovals(PendingApprovals):
    """Those of this node can be waited for; those of the others can be listed and answered."""

    ask: Ask | None = None

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._elsewhere: dict[str, PendingApproval] = {}

    async def _take_over(self) -> None:
        """At the start nothing: what others left comes with the agents it is about."""
        await self.look()

    async def take_up(self, agents: Collection[str]) -> None:
        """Takes up what was left open for `agents`."""
        await self.take_left(lambda row: _agent(row) in agents)
        await self.look()

    async def look(self) -> list[PendingApproval]:
        """Reads what other nodes ask; gives what is new."""
        rows = await self._db.read(
            "SELECT question FROM approvals WHERE state = 'open' AND owner <> :me", {"me": self._owned.me}
        )
        found = [msgspec.json.decode(row["question"], type=PendingApproval) for row in rows]
        new = [question for question in found if question.request.id not in self._elsewhere]
        self._elsewhere = {question.request.id: question for question in found}
        return new

    def listed(self) -> tuple[PendingApproval, ...]:
        return (*self.list(), *self._elsewhere.values())

    def get(self, wanted: str) -> PendingApproval:
        try:
            return super().get(wanted)
        except NotFound:
            found = [each for name, each in self._elsewhere.items() if wanted and name.startswith(wanted)]
            if len(found) != 1:
                raise
            return found[0]

    async def resolve(self, wanted: str, decision: str, by: str = "") -> ApprovalOutcome:
        try:
            self._find(wanted)
        except NotFound:
            if (told := await self._pass_on(wanted, decision=decision, by=by)) is not None:
                return told
        return await super().resolve(wanted, decision, by)

    async def decline(self, wanted: str, why: str, by: str = "") -> ApprovalOutcome:
        try:
            self._find(wanted)
        except NotFound:
            if (told := await self._pass_on(wanted, why=why, by=by)) is not None:
                return told
        return await super().decline(wanted, why, by)

    async def _pass_on(self, wanted: str, **answer: str) -> ApprovalOutcome | None:
        """Answers a question at the node that has it; None when no other node has it."""
        rows = await self._db.read(
            "SELECT approval_id, owner FROM approvals WHERE state = 'open' AND owner <> :me "
            "AND substr(approval_id, 1, CAST(:size AS INTEGER)) = :wanted LIMIT 2",
            {"me": self._owned.me, "size": len(wanted), "wanted": wanted},
        )
        if len(rows) != 1 or not wanted or self.ask is None:
            return None
        told = await self.ask(rows[0]["owner"], "cluster.answer", {"id": rows[0]["approval_id"], **answer})
        self._elsewhere.pop(rows[0]["approval_id"], None)
        return msgspec.convert(told, ApprovalOutcome)


def _agent(row: Row) -> str:
    question = msgspec.json.decode(row["question"], type=PendingApproval)
    return parse_session_key(question.request.session_key or "main").agent
