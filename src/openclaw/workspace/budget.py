"""Selects the workspace files of a prompt, and shortens them to a limit per file and in total. Pure."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct, structs

from openclaw.core.keys import SessionKey
from openclaw.core.text import ContextFile, PromptText, head, tail, utf16_length
from openclaw.workspace.files import WorkspaceFile

# Shortening.

PER_FILE = 20_000
TOTAL = 60_000
UNTRUSTED = 4_000
LEAST_REMAINING = 64
NEAR = 0.85
SIGNATURES_KEPT = 32
UNTRUSTED_LABELS = ("external", "stranger", "tool")


class FileBudget(Struct, frozen=True, kw_only=True):
    """Characters in UTF-16 units; a limit that is not positive means the default."""

    per_file: int = PER_FILE
    total: int = TOTAL
    untrusted: int = UNTRUSTED
    """Most characters of a file with an untrusted label."""

    def effective(self) -> "FileBudget":
        return FileBudget(**{name: limit for name, limit in structs.asdict(self).items() if limit > 0})


DEFAULT_LIMITS = FileBudget()


class FileCut(Struct, frozen=True, kw_only=True):
    """The shortened files, and what the report says about them."""

    files: tuple[ContextFile, ...]
    """All files; one beyond the total has no content."""
    near_limit: tuple[str, ...] = ()
    total_near_limit: bool = False
    limits: FileBudget = DEFAULT_LIMITS

    @property
    def shortened(self) -> bool:
        return any(file.truncated for file in self.files)

    @property
    def signature(self) -> str:
        """A hash of the cut, so that a warning is given once."""
        cut = [file for file in self.files if file.truncated]
        rows = sorted((file.path, file.raw_chars, file.injected_chars, sorted(file.causes)) for file in cut)
        keys = ("path", "rawChars", "injectedChars", "causes")
        files = [dict(zip(keys, row, strict=True)) for row in rows]
        limits = {"bootstrapMaxChars": self.limits.per_file, "bootstrapTotalMaxChars": self.limits.total}
        return msgspec.json.encode({**limits, "files": files}).decode()


def fit(files: Sequence[WorkspaceFile], limits: FileBudget = DEFAULT_LIMITS) -> FileCut:
    """Shortens `files`, in order, to the limits."""
    limits = limits.effective()
    remaining = limits.total
    kept: list[ContextFile] = []
    near: list[str] = []
    for file in files:
        own = min(limits.per_file, limits.untrusted) if file.label in UNTRUSTED_LABELS else limits.per_file
        one = _fit_one(file, own, remaining)
        if one.raw_chars >= -(-own * 85 // 100) and not (file.missing or file.problem):
            near.append(file.name)
        kept.append(one)
        remaining -= one.injected_chars
    used = limits.total - remaining
    full = used >= NEAR * limits.total
    return FileCut(files=tuple(kept), near_limit=tuple(near), total_near_limit=full, limits=limits)


def _fit_one(file: WorkspaceFile, own: int, remaining: int) -> ContextFile:
    text = missing_file_text(file) or file.content.rstrip()
    raw = utf16_length(text) if file.raw_chars is None else max(file.raw_chars, utf16_length(text))
    # This little room would only hold a marker.
    limit = min(own, remaining) if remaining >= LEAST_REMAINING else 0
    shown = shorten(text, file.name, limit, raw) if limit else ""
    over = {"per-file-limit": raw > own, "total-limit": min(raw, own) > min(limit, remaining)}
    causes = [cause for cause, exceeded in over.items() if exceeded and shown != text]
    if file.raw_chars is not None and not causes:
        causes = ["per-file-limit"]
    return ContextFile(
        name=file.name,
        path=file.path,
        content=PromptText(shown, file.path, file.label),
        raw_chars=raw,
        missing=file.missing,
        problem=file.problem,
        truncated=bool(causes),
        causes=tuple(causes),
    )


def should_warn(
    cut: FileCut, mode: Literal["off", "once", "always"], seen: tuple[str, ...] = ()
) -> tuple[bool, tuple[str, ...]]:
    """Whether to warn the model that files were shortened, and the signatures warned of so far."""
    if mode == "off" or not cut.shortened:
        return False, seen
    signature = cut.signature
    others = tuple(each for each in seen if each != signature)
    return mode == "always" or signature not in seen, (*others, signature)[-SIGNATURES_KEPT:]


def missing_file_text(file: WorkspaceFile) -> str:
    """The text in place of a missing or unreadable file."""
    if file.missing:
        return f"[MISSING] Expected at: {file.path}"
    return f"[UNREADABLE: {file.problem[:300]}]" if file.problem else ""


def shorten(text: str, name: str, limit: int, total: int | None = None) -> str:
    """Cuts `text` to `limit` units: 70 % from its beginning, 20 % from its end, a marker between."""
    size = utf16_length(text)
    if size <= limit:
        return text
    total = size if total is None else total
    front, back = limit * 7 // 10, limit * 2 // 10
    marker = (
        f"[...truncated, read {name} for full content...]\n…(truncated {name}: kept {front}+{back} chars of {total})…"
    )
    cut = f"{head(text, front)}\n\n{marker}\n\n{tail(text, back)}"
    return cut if utf16_length(cut) <= limit else _shorten_tightly(text, limit, front, back, total)


def _shorten_tightly(text: str, limit: int, front: int, back: int, total: int) -> str:
    """Cuts to a small limit: a one-line marker, dropping the end first, then the beginning."""
    while True:
        marker = f"[…truncated {front}+{back}/{total}]"
        over = front + back + utf16_length(marker) - limit
        if over <= 0:
            return head(text, front) + marker + tail(text, back)
        if back:
            back = max(0, back - over)
        elif front:
            front = max(0, front - over)
        else:
            return head(text, max(0, limit - 1)) + "…"


# Selection by kind of session.

Kind = Literal["direct", "group", "subagent", "cron", "light-job", "light-heartbeat"]

SUBAGENT_FILES = ("agents.md", "tools.md")


def kind_of(key: SessionKey, *, light: bool = False, group: bool | None = None) -> Kind:
    """The kind of session; `group` is the channel's knowledge, for keys that do not tell."""
    if key.is_subagent:
        return "subagent"
    if key.is_cron:
        return "light-job" if light else "cron"
    if key.is_group or group:
        return "group"
    return "light-heartbeat" if light else "direct"


def select_files(
    files: Sequence[WorkspaceFile], kind: Kind, *, heartbeats: bool = True, known: Sequence[WorkspaceFile] = ()
) -> tuple[WorkspaceFile, ...]:
    """Selects the files for a session of `kind`.

    Call it again after hooks, with the loaded files as `known`: private memory stays out of a shared session whatever
    name a hook gives it.
    """
    private = {mark for file in (*known, *files) if _is_private(file) for mark in (file.path, file.inode) if mark}
    return tuple(file for file in files if _allowed(file, kind, heartbeats, private))


def _allowed(file: WorkspaceFile, kind: Kind, heartbeats: bool, private: set[str]) -> bool:
    name = _base(file.path) or file.name.lower()
    if kind in ("subagent", "cron"):
        return name in SUBAGENT_FILES and not private & {file.path, file.inode}
    if kind == "light-job":
        return False
    if kind == "light-heartbeat":
        return name == "heartbeat.md"
    if name == "heartbeat.md" and not heartbeats:
        return False
    return kind == "direct" or not (_is_private(file) or private & {file.path, file.inode})


def _is_private(file: WorkspaceFile) -> bool:
    """What the assistant knows of its owner, which is nothing for guests."""
    return bool({"memory.md", "user.md"} & {_base(file.path), file.name.lower()})


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].lower()


def merge(
    files: Sequence[WorkspaceFile], added: Sequence[WorkspaceFile]
) -> tuple[tuple[WorkspaceFile, ...], list[str]]:
    """Replaces and appends the files a hook returned; with a line for each unusable entry."""
    by_path = {file.path: file for file in files}
    warnings = []
    for file in added:
        if not file.path.strip() or not file.name.strip():
            warnings.append("a hook added a workspace file without a path; it was skipped")
        else:
            by_path[file.path] = file
    return tuple(by_path.values()), warnings
