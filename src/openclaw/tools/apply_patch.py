"""Applying a patch: files added, changed, moved and deleted, each wholly or not at all."""

from collections.abc import Mapping
from pathlib import Path
from stat import S_IMODE
from threading import Event
from typing import Any

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest, OpenClawError, StateError
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools.answer import answers, parse_args
from openclaw.tools.files import encoded, failure, opened, read_text, replace
from openclaw.tools.finishing import offload
from openclaw.tools.patch import AddFile, DeleteFile, Section, UpdateFile, apply_hunks, parse_patch, paths_of
from openclaw.tools.paths import confine, exists, locate, lock_name, missing, real, shown


class PatchArgs(Struct, frozen=True):
    input: str


class ApplyPatch:
    """The `apply_patch` tool."""

    spec = ToolSpec(
        name="apply_patch",
        label="Apply patch",
        summary="apply multi-file patches",
        description=(
            "Change several files with one patch: '*** Begin Patch', then sections '*** Add File: p' (lines with +), "
            "'*** Delete File: p', '*** Update File: p' (optional '*** Move to: q', hunks '@@ context' with lines "
            "prefixed by space, - or +), then '*** End Patch'."
        ),
        parameters={
            "type": "object",
            "required": ["input"],
            "properties": {"input": {"type": "string", "description": "The whole patch"}},
        },
        aliases={"patch": "input"},
    )

    def __init__(self, *, workspace_only: bool = True) -> None:
        self.workspace_only = workspace_only

    def effects(self, args: Mapping[str, Any]) -> Effects:
        deletes = "*** Delete File:" in str(args.get("input", ""))
        return Effects.READS_FILES | Effects.WRITES_FILES | (Effects.DELETES if deletes else Effects.NONE)

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        try:
            paths = paths_of(parse_patch(parse_args(args, PatchArgs).input))
            return frozenset(lock_name(locate(path, context.workspace, creating=True)) for path in paths)
        except OpenClawError:
            return frozenset()  # the call itself will say what is wrong

    @answers
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        text = parse_args(args, PatchArgs).input
        encoded(text, "input")
        sections = parse_patch(text)
        desk = _Desk(context.workspace, self.workspace_only)
        done, error = await offload(lambda stop: _apply(desk, sections, stop))
        if error is None:
            return Output.of("Success. Updated the following files:\n" + "\n".join(done), files=done)
        applied = "These were already changed:\n" + "\n".join(done) if done else "No file was changed."
        return Output.failed(f"{error.message}\n{applied}", files=done)


def _apply(desk: "_Desk", sections: tuple[Section, ...], stop: Event) -> tuple[list[str], OpenClawError | None]:
    """Applies file by file up to the first that fails; says what was done and why it stopped."""
    done: list[str] = []
    for section in sections:
        if stop.is_set():
            break
        try:
            done.append(desk.apply(section))
        except OpenClawError as error:
            return done, error
    return done, None


class _Desk:
    """Where the paths of a patch lie, and the hands that change them."""

    def __init__(self, workspace: Path, workspace_only: bool) -> None:
        self._workspace = workspace
        self._workspace_only = workspace_only

    def apply(self, section: Section) -> str:
        """Makes one change; the line that reports it."""
        match section:
            case AddFile(path, content):
                target = self._free(path)
                replace(target, content.encode())
                return f"A {shown(path)}"
            case DeleteFile(path):
                self._delete(self._path(path, follow=False))
                return f"D {shown(path)}"
            case UpdateFile(path):
                self._update(section)
                return f"M {shown(section.move_to or path)}"

    def _update(self, section: UpdateFile) -> None:
        source = self._path(section.path)
        if section.move_to is not None and real(self._path(section.move_to)) != real(source):
            self._move(source, self._free(section.move_to), section)
        elif section.hunks:
            replace(source, _patched(source, section))
        elif not exists(source):
            raise missing(source)

    def _path(self, raw: str, *, follow: bool = True) -> Path:
        path = locate(raw, self._workspace, creating=True)
        if self._workspace_only:
            confine(path, self._workspace, follow=follow)
        return path

    def _free(self, raw: str) -> Path:
        path = self._path(raw)
        if exists(path):
            raise InvalidRequest(f"{shown(raw)} already exists: use '*** Update File:', or delete it first.")
        return path

    def _move(self, source: Path, target: Path, section: UpdateFile) -> None:
        data = _patched(source, section) if section.hunks else _bytes(source)
        replace(target, data, mode=S_IMODE(source.stat().st_mode))
        try:
            source.unlink()
        except OSError as error:
            target.unlink(missing_ok=True)
            raise failure(source, "move", error) from error

    def _delete(self, path: Path) -> None:
        if not exists(path):
            raise missing(path)
        if path.is_dir() and not path.is_symlink():
            raise InvalidRequest(f"{shown(path)} is a directory: a patch deletes files only.")
        try:
            path.unlink()
        except OSError as error:
            raise failure(path, "delete", error) from error


def _patched(path: Path, section: UpdateFile) -> bytes:
    file = read_text(path, "patch")
    return structs.replace(file, text=apply_hunks(file.text, section.hunks, section.path)).encode()


def _bytes(path: Path) -> bytes:
    with opened(path) as stream:
        data = stream.readall()
    if data is None:
        raise StateError(f"Could not read {shown(path)}.")
    return data
