"""Label marks in notes: text from untrusted sources carries one, and keeps it when the note is read again.

A mark is an invisible Markdown comment: `<!-- label: external -->` before the lines, `<!-- /label -->` after them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from openclaw.core.deferred import difflib
from openclaw.core.text import UNTRUSTED, Label, Origin, compile_lazily, make_origin, merge_origins
from openclaw.storage import atomic

END = "<!-- /label -->"

_MARK = compile_lazily(r"^<!--\s*label:\s*([a-z]+)\s*-->\s*$|^<!--\s*(/)label\s*-->\s*$")
_NAMES = frozenset(get_args(Label))


def wrap_lines(text: str, label: Label) -> str:
    """`text` between the marks of `label`; imitated marks inside are defused."""
    inner = "\n".join("\\" + line if _MARK.match(line.strip()) else line for line in text.split("\n"))
    return f"<!-- label: {label} -->\n{inner}\n{END}"


def by_line(text: str) -> list[str]:
    """The label of each line; empty where there is none."""
    if "<!--" not in text:
        return []
    current = ""
    found = []
    for line in text.split("\n"):
        mark = _MARK.match(line.strip())
        if mark and mark[1] in _NAMES:
            current = mark[1]
        found.append(current)
        if mark and mark[2]:
            current = ""
    return found


def least_trusted(labels: Sequence[str], first: int, last: int) -> str:
    """The least trusted label of lines `first` to `last`."""
    return less_trusted(*labels[first - 1 : last])


def mark_lines(before: str, after: str, label: Label) -> str:
    """`after` with marks around every line that is not in `before`; existing lines keep their label.

    Marks are written anew from the lines' labels, so an edit can neither remove one nor close it early.
    """
    old, old_labels = _lines(before)
    new, new_labels = _lines(after)
    found = list(new_labels)
    for kind, first, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for place in range(start, end):
            here = old_labels[first + place - start] if kind == "equal" else label
            found[place] = less_trusted(found[place], here) if new[place].strip() else ""
    if not any(found):
        return "\n".join(new)
    out: list[str] = []
    current = ""
    for line, here in zip(new, found, strict=True):
        if here != current and line.strip():
            out += [END] if current else []
            out += [f"<!-- label: {here} -->"] if here else []
            current = here
        out.append("\\" + line if _MARK.match(line.strip()) else line)
    if current:
        at = len(out) if out[-1].strip() else len(out) - 1
        out.insert(at, END)
    return "\n".join(out)


def _lines(text: str) -> tuple[list[str], list[str]]:
    """The lines of a note without its marks, and the label of each."""
    lines = text.split("\n")
    found = by_line(text) or [""] * len(lines)
    kept = [(line, label) for line, label in zip(lines, found, strict=True) if not _MARK.match(line.strip())]
    return [line for line, _ in kept], [label for _, label in kept]


def less_trusted(*labels: str) -> str:
    """The least trusted of `labels`."""
    return next((label for label in UNTRUSTED if label in labels), "")


# Notes on disk.

NOTE_BYTES = 1 << 20


def is_note(path: str, workspace: Path) -> bool:
    """Whether `path`, without links, is one of the notes that memory searches."""
    root, place = workspace.resolve(), Path(path)
    return place.suffix == ".md" and (
        place.is_relative_to(root / "memory") or (place.parent == root and place.name.lower() == "memory.md")
    )


def may_have_marks(path: str) -> bool:
    """Whether a file, without links, is text that may have marks."""
    return path.endswith(".md")


def note_origins(path: str) -> tuple[Origin, ...]:
    """The labels in a note itself."""
    if not may_have_marks(path):
        return ()
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            marked = by_line(file.read(NOTE_BYTES))
    except OSError:
        return ()
    return merge_origins(make_origin(label, f"note {path}") for label in UNTRUSTED if label in marked)


def mark_note(path: Path, before: str, origins: Sequence[Origin]) -> None:
    """Marks the lines that a run with untrusted text added to a note."""
    try:
        after = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    labels = {each.label for each in merge_origins(origins)}
    marked = mark_lines(before, after, next(label for label in UNTRUSTED if label in labels))
    if marked != after:
        atomic.replace_file(path, marked.encode(), mode=path.stat().st_mode & 0o777)
