"""`agent:bootstrap`: hooks may add to the files of a prompt, take away and replace, within its limits and filters.

What each of them did is given beside the files, to go on record before the prompt is used.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from openclaw.core.clock import Clock
from openclaw.core.keys import SessionKey
from openclaw.gateway.internal_hooks.running import HookFiles
from openclaw.gateway.internal_hooks.telling import event
from openclaw.hooks.internal.events import BootstrapContext, BootstrapFile
from openclaw.trust.audit import AuditChange
from openclaw.workspace import files, filter  # noqa: A004
from openclaw.workspace.files import MAX_BYTES, FileCache
from openclaw.workspace.record import WorkspaceFile

log = logging.getLogger(__name__)

BY_HOOK = "put there by a hook"


async def bootstrap_files(
    hooks: HookFiles,
    clock: Clock,
    key: SessionKey,
    workspace: Path,
    cache: FileCache,
    session_id: str = "",
    *,
    shared: bool = False,
) -> tuple[tuple[WorkspaceFile, ...] | None, list[AuditChange]]:
    """The files of a prompt as hooks leave them, None when no hook has a say; and what each hook did to them."""
    if not hooks.on:
        return None, []
    asked = event(
        clock,
        "agent",
        "bootstrap",
        BootstrapContext(agent_id=key.agent, workspace_dir=str(workspace), session_id=session_id),
        str(key),
    )
    if not await hooks.listening(asked):
        return None, []
    loaded = filter.choose(files.load(workspace, cache=cache), filter.kind_of(key, group=shared))
    context = BootstrapContext(
        agent_id=key.agent,
        workspace_dir=str(workspace),
        session_id=session_id,
        bootstrap_files=tuple(_shown(file) for file in loaded),
    )
    left, done = context.bootstrap_files, list[AuditChange]()
    async with aclosing(hooks.answers(event(clock, "agent", "bootstrap", context, str(key)))) as answers:
        async for name, said in answers:
            if said.bootstrap_files is not None:
                done += deeds(name, left, said.bootstrap_files, lambda each: _text(each, workspace, cache))
                left = said.bootstrap_files
    if left is context.bootstrap_files:
        return None, []
    given, warnings = filter.merge((), [_taken(each, loaded, workspace, cache) for each in left])
    for line in warnings:
        log.warning("%s", line)
    # Our own files have the first claim on the room there is.
    ours = {file.path: place for place, file in enumerate(loaded)}
    ordered = sorted(given, key=lambda file: (ours.get(file.path, len(ours)), Path(file.path).name, file.path))
    return tuple(ordered), done


def deeds(
    hook: str, before: Sequence[BootstrapFile], after: Sequence[BootstrapFile], text: Callable[[BootstrapFile], str]
) -> list[AuditChange]:
    """What one hook did: a deed for every file it put in, took out or replaced."""
    was, now = {file.path: file for file in before}, {file.path: file for file in after}
    found = []
    for path in dict.fromkeys((*was, *now)):
        old, new = was.get(path), now.get(path)
        if old == new:
            continue
        verb = "put in" if old is None else "taken out" if new is None else "replaced"
        found.append(
            AuditChange(
                plugin=f"hook:{hook}",
                hook="agent:bootstrap",
                field="bootstrapFiles",
                before=text(old) if old else "",
                after=text(new) if new else "",
                note=f"{Path(path).name} {verb}",
            )
        )
    return found


def _text(file: BootstrapFile, workspace: Path, cache: FileCache) -> str:
    """What a file brings into the prompt; one that is only named is read."""
    if file.content is not None or file.missing or not file.path.strip():
        return file.content or ""
    return files.read(workspace, _place(file, workspace), cache=cache).content


def _place(file: BootstrapFile, workspace: Path) -> Path:
    path = Path(file.path).expanduser()
    return path if path.is_absolute() else workspace / path


def _shown(file: WorkspaceFile) -> BootstrapFile:
    content = None if file.missing or file.problem else file.content
    return BootstrapFile(name=file.name, path=file.path, content=content, missing=file.missing)


def _taken(given: BootstrapFile, loaded: Sequence[WorkspaceFile], workspace: Path, cache: FileCache) -> WorkspaceFile:
    """One file of a hook's answer. What it did not touch stays as it was found."""
    if not given.path.strip():
        return WorkspaceFile(name=given.name, path="")
    path = _place(given, workspace)
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
