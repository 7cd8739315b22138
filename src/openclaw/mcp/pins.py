"""What was accepted of each server, and what it says now: a tool in other words is not the tool that was agreed to.

Pure. The first look at a server that its owner has just configured is the agreement; from then on every change asks.
"""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.toolserver import OfferedTool


class PinnedTool(Struct, frozen=True, kw_only=True, rename="camel"):
    """One server on the list."""

    identity: str
    accepted: tuple[OfferedTool, ...] = ()
    offered: tuple[OfferedTool, ...] | None = None
    """What it says now, when that is something else."""
    seen_at: int = 0
    accepted_at: int = 0

    @property
    def now(self) -> tuple[OfferedTool, ...]:
        return self.accepted if self.offered is None else self.offered


class ToolChanges(Struct, frozen=True, kw_only=True):
    """How what is offered differs from what was accepted, by name."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.gone)

    def __str__(self) -> str:
        parts = {"new": self.added, "changed": self.changed, "gone": self.gone}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)


class PinsDocument(Struct, frozen=True, kw_only=True):
    version: int = 1
    servers: Mapping[str, PinnedTool] = field(default_factory=dict)


def digest(tool: OfferedTool) -> str:
    return hashlib.sha256(msgspec.json.encode(tool, order="deterministic")).hexdigest()


def changes(record: PinnedTool) -> ToolChanges:
    was = {tool.name: digest(tool) for tool in record.accepted}
    now = {tool.name: digest(tool) for tool in record.now}
    return ToolChanges(
        added=tuple(sorted(now.keys() - was.keys())),
        changed=tuple(sorted(name for name in now.keys() & was.keys() if now[name] != was[name])),
        gone=tuple(sorted(was.keys() - now.keys())),
    )


def seen(record: PinnedTool | None, identity: str, offered: Sequence[OfferedTool], now: int) -> PinnedTool:
    """The record after a look at what a server offers."""
    tools = tuple(sorted(offered, key=lambda tool: tool.name))
    if record is None or record.identity != identity:
        return PinnedTool(identity=identity, accepted=tools, seen_at=now, accepted_at=now)
    looked = structs.replace(record, offered=tools, seen_at=now)
    return looked if changes(looked) else structs.replace(looked, offered=None)


def accept(record: PinnedTool, now: int, name: str | None = None) -> PinnedTool:
    """The record once its owner agreed to what is offered, to all of it or to one tool."""
    if name is None:
        return structs.replace(record, accepted=record.now, offered=None, accepted_at=now)
    fresh = {tool.name: tool for tool in record.now}
    kept = {tool.name: tool for tool in record.accepted}
    if name in fresh:
        kept[name] = fresh[name]
    else:
        kept.pop(name, None)
    agreed = structs.replace(record, accepted=tuple(kept[each] for each in sorted(kept)), accepted_at=now)
    return agreed if changes(agreed) else structs.replace(agreed, offered=None)
