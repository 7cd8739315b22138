"""`agent:bootstrap`: hooks may add to the files of a prompt, take away and replace, within its limits and filters."""

import logging
from collections.abc import Sequence
from pathlib import Path

from openclaw.core.clock import Clock
from openclaw.core.keys import SessionKey
from openclaw.gateway.internal_hooks.running import InternalHooks
from openclaw.gateway.internal_hooks.telling import event
from openclaw.hooks.internal.events import BootstrapContext, BootstrapFile
from openclaw.workspace import files, filter  # noqa: A004
from openclaw.workspace.files import MAX_BYTES, FileCache
from openclaw.workspace.record import WorkspaceFile

log = logging.getLogger(__name__)

BY_HOOK = "put there by a hook"


async def bootstrap_files(
    hooks: InternalHooks, clock: Clock, key: SessionKey, workspace: Path, cache: FileCache, session_id: str = ""
) -> tuple[WorkspaceFile, ...] | None:
    """The files of a prompt as hooks leave them; None when no hook has a say."""
    if not hooks.on:
        return None
    asked = event(
        clock,
        "agent",
        "bootstrap",
        BootstrapContext(agent_id=key.agent, workspace_dir=str(workspace), session_id=session_id),
        str(key),
    )
    if not await hooks.listening(asked):
        return None
    loaded = filter.choose(files.load(workspace, cache=cache), filter.kind_of(key))
    context = BootstrapContext(
        agent_id=key.agent,
        workspace_dir=str(workspace),
        session_id=session_id,
        bootstrap_files=tuple(_shown(file) for file in loaded),
    )
    answer = await hooks.fire(event(clock, "agent", "bootstrap", context, str(key)))
    if answer.bootstrap_files is None:
        return None
    given, warnings = filter.merge((), [_taken(each, loaded, workspace, cache) for each in answer.bootstrap_files])
    for line in warnings:
        log.warning("%s", line)
    # Our own files have the first claim on the room there is.
    ours = {file.path: place for place, file in enumerate(loaded)}
    return tuple(sorted(given, key=lambda file: (ours.get(file.path, len(ours)), Path(file.path).name, file.path)))


def _shown(file: WorkspaceFile) -> BootstrapFile:
    content = None if file.missing or file.problem else file.content
    return BootstrapFile(name=file.name, path=file.path, content=content, missing=file.missing)


def _taken(given: BootstrapFile, loaded: Sequence[WorkspaceFile], workspace: Path, cache: FileCache) -> WorkspaceFile:
    """One file of a hook's answer. What it did not touch stays as it was found."""
    if not given.path.strip():
        return WorkspaceFile(name=given.name, path="")
    path = Path(given.path).expanduser()
    path = path if path.is_absolute() else workspace / path
    known = next((file for file in loaded if file.path == str(path)), None)
    if known is not None and given == _shown(known):
        return known
    name = given.name.strip() or path.name
    if given.missing:
        return WorkspaceFile(name=name, path=str(path), missing=True, note=BY_HOOK)
    if given.content is None:
        found = files.read(workspace, path, cache=cache)
        return WorkspaceFile(
            name=name,
            path=found.path,
            content=found.content,
            missing=found.missing,
            problem=found.problem,
            note="; ".join(part for part in (BY_HOOK, found.note) if part),
            raw_chars=found.raw_chars,
            inode=found.inode,
        )
    return WorkspaceFile(
        name=name,
        path=str(path),
        content=given.content[:MAX_BYTES],
        note=BY_HOOK,
        inode=known.inode if known is not None else "",
    )
