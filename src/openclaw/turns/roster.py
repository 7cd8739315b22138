"""The roster of sub-agents: who was started by whom, how it ended, who has been told. Survives the process."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct, structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.keys import SessionKey, parse
from openclaw.store.db import Database

Status = Literal["running", "ok", "error", "timeout", "killed", "unknown"]
KEPT_MS = 7 * 86_400_000


class Subagent(Struct, frozen=True, kw_only=True):
    """One sub-agent."""

    run_id: str
    """Its first run; its name for ever."""
    current: str
    """The run whose end is its end: another one after it was steered or told of its own children's results."""
    key: str
    parent: str
    parent_run: str
    depth: int
    task: str
    label: str = ""
    task_name: str = ""
    tools: tuple[str, ...] | None = None
    """What the run that started it could call: it never gets more."""
    keeps: bool = True
    expected: bool = True
    """Whether whoever started it wants to hear of its end."""
    together: bool = False
    """Its parent waits for all of them at once."""
    files: str = ""
    created_at: int = 0
    ended_at: int = 0
    status: Status = "running"
    result: str = ""
    tokens: int = 0
    cost: float | None = None
    told: bool = False
    archived: bool = False

    @property
    def session(self) -> SessionKey:
        return parse(self.key)

    @property
    def name(self) -> str:
        return self.label or self.task_name or " ".join(self.task.split())[:60]


class SubagentStore:
    """All sub-agents of the last days, in memory and in the database."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._children: dict[str, Subagent] = {}

    async def load(self) -> None:
        """Reads what earlier processes wrote; what ended long ago is dropped."""
        await self._db.write(
            "DELETE FROM subagents WHERE state = 'over' AND updated_at < :before",
            {"before": millis(self._clock) - KEPT_MS},
        )
        rows = await self._db.read("SELECT record FROM subagents ORDER BY created_at, run_id")
        found = [msgspec.json.decode(row["record"], type=Subagent) for row in rows]
        self._children = {child.run_id: child for child in found}

    async def put(self, child: Subagent) -> Subagent:
        """Writes `child` down, new or changed."""
        self._children[child.run_id] = child
        await self._db.write(
            "INSERT INTO subagents (run_id, parent_key, child_key, state, record, created_at, updated_at) "
            "VALUES (:run, :parent, :key, :state, :record, :created, :now) ON CONFLICT (run_id) DO UPDATE SET "
            "state = excluded.state, record = excluded.record, updated_at = excluded.updated_at",
            {
                "run": child.run_id,
                "parent": child.parent,
                "key": child.key,
                "state": "over" if child.told and child.archived else "open",
                "record": msgspec.json.encode(child).decode(),
                "created": child.created_at,
                "now": millis(self._clock),
            },
        )
        return child

    async def change(self, run_id: str, **changes: object) -> Subagent:
        return await self.put(structs.replace(self._children[run_id], **changes))

    def get(self, run_id: str) -> Subagent:
        return self._children[run_id]

    def all(self) -> list[Subagent]:
        return list(self._children.values())

    def of(self, parent: str) -> list[Subagent]:
        """The children of a session, the oldest first."""
        return [child for child in self._children.values() if child.parent == parent]

    def running(self, parent: str) -> list[Subagent]:
        return [child for child in self.of(parent) if child.status == "running"]

    def by_key(self, key: str) -> Subagent | None:
        return next((child for child in self._children.values() if child.key == key), None)

    def depth(self, key: SessionKey) -> int:
        """How deep a session is: 0 for one that people talk to."""
        child = self.by_key(str(key))
        return child.depth if child else int(key.is_subagent)

    def below(self, key: str) -> list[Subagent]:
        """Everyone `key` started, and everyone they started."""
        found: list[Subagent] = []
        for child in self.of(key):
            found += [child, *self.below(child.key)]
        return found


def pick(children: Sequence[Subagent], target: str) -> list[Subagent]:
    """The children somebody means: `all`, `last`, a number from 1, a task name, a label, a run id or a session key."""
    wanted = target.strip()
    if wanted.lower() == "all":
        return list(children)
    if not children:
        raise NotFound("this session has no sub-agents")
    if wanted.lower() == "last":
        return [children[-1]]
    if wanted.isdigit() and len(wanted) < 6 and 1 <= int(wanted) <= len(children):
        return [children[int(wanted) - 1]]
    found = [each for each in children if wanted in (each.run_id, each.key, each.task_name, each.label)]
    found = found or [each for each in children if len(wanted) >= 4 and each.run_id.startswith(wanted)]
    if not found:
        raise NotFound(f"no sub-agent {wanted!r}: subagents list shows them")
    if len(found) > 1:
        raise InvalidRequest(f"{wanted!r} fits {len(found)} sub-agents: give its run id")
    return found
