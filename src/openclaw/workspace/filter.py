"""Which of an agent's files a session gets to see."""

from collections.abc import Sequence
from typing import Literal

from openclaw.core.keys import SessionKey
from openclaw.workspace.record import WorkspaceFile

Kind = Literal["direct", "group", "subagent", "cron", "light-heartbeat"]

WORKERS = ("agents.md", "tools.md")


def kind_of(key: SessionKey, *, light_heartbeat: bool = False, group: bool | None = None) -> Kind:
    """The kind of session behind `key`; `group` is what the channel knows when the key does not tell."""
    if key.is_subagent:
        return "subagent"
    if key.is_cron:
        return "cron"
    if key.is_group or group:
        return "group"
    return "light-heartbeat" if light_heartbeat else "direct"


def choose(
    files: Sequence[WorkspaceFile],
    kind: Kind,
    *,
    heartbeats: bool = True,
    skip: bool = False,
    known: Sequence[WorkspaceFile] = (),
) -> tuple[WorkspaceFile, ...]:
    """The files a session of `kind` may carry.

    Run it again after hooks with `known` the files as they were loaded: private memory stays out of a shared session
    whatever name a hook gives it.
    """
    if skip:
        return ()
    private = {mark for file in (*known, *files) if _is_memory(file) for mark in (file.path, file.inode) if mark}
    return tuple(file for file in files if _allowed(file, kind, heartbeats, private))


def _allowed(file: WorkspaceFile, kind: Kind, heartbeats: bool, private: set[str]) -> bool:
    name = _base(file.path) or file.name.lower()
    if kind in ("subagent", "cron"):
        return name in WORKERS and not private & {file.path, file.inode}
    if kind == "light-heartbeat":
        return name == "heartbeat.md"
    if name == "heartbeat.md" and not heartbeats:
        return False
    return kind == "direct" or not (_is_memory(file) or private & {file.path, file.inode})


def _is_memory(file: WorkspaceFile) -> bool:
    return "memory.md" in (_base(file.path), file.name.lower())


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].lower()


def merge(
    files: Sequence[WorkspaceFile], added: Sequence[WorkspaceFile]
) -> tuple[tuple[WorkspaceFile, ...], list[str]]:
    """`files` with what a hook returned in their place or behind them, and a line for each unusable entry."""
    by_path = {file.path: file for file in files}
    warnings = []
    for file in added:
        if not file.path.strip() or not file.name.strip():
            warnings.append("a hook added a workspace file without a path; it was skipped")
        else:
            by_path[file.path] = file
    return tuple(by_path.values()), warnings
