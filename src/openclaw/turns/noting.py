"""Notes carry their labels inside: marks round the lines that a run wrote after reading text from elsewhere."""

import os
from collections.abc import Sequence
from pathlib import Path

from openclaw.core.origin import UNTRUSTED, Origin, merge_origins, origin
from openclaw.memory import labels as notes
from openclaw.store import atomic

NOTE_BYTES = 1 << 20


def is_note(path: str, workspace: Path) -> bool:
    """Whether `path`, without links, is one of the notes that memory searches."""
    root, place = workspace.resolve(), Path(path)
    return place.suffix == ".md" and (
        place.is_relative_to(root / "memory") or (place.parent == root and place.name.lower() == "memory.md")
    )


def note_origins(path: str) -> tuple[Origin, ...]:
    """The labels that stand in a note itself."""
    if not path.endswith(".md") or not os.path.exists(path):  # noqa: PTH110 (asked twice in every turn)
        return ()
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            marked = notes.by_line(file.read(NOTE_BYTES))
    except OSError:
        return ()
    return merge_origins(origin(label, f"note {path}") for label in UNTRUSTED if label in marked)


def mark_note(path: Path, before: str, origins: Sequence[Origin]) -> None:
    """Puts the label round the lines a labelled run added to a note."""
    try:
        after = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    worst = min(merge_origins(origins), key=lambda each: UNTRUSTED.index(each.label)).label
    marked = notes.marked(before, after, worst)
    if marked != after:
        atomic.replace(path, marked.encode(), mode=path.stat().st_mode & 0o777)
