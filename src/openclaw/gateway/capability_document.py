"""The capabilities of an agent as lines of text, and as a saved document to compare with later."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from openclaw.core.deferred import difflib
from openclaw.core.errors import NotFound, StateError
from openclaw.storage import atomic


def lines(document: Any, at: str = "") -> Iterator[str]:
    """The document as one line per fact, for comparing two."""
    if isinstance(document, dict) and document:
        for name, value in document.items():
            yield from lines(value, f"{at}.{name}" if at else str(name))
    elif isinstance(document, list) and document:
        for value in document:
            yield f"{at}: {value}"
    else:
        shown = {True: "yes", False: "no"}.get(document, document) if isinstance(document, bool) else document
        yield f"{at}: {'none' if document in ({}, [], None, '') else shown}"


def diff_documents(before: Any, after: Any) -> list[str]:
    """The facts that were added and removed."""
    compared = difflib.unified_diff(list(lines(before)), list(lines(after)), "saved", "now", n=0, lineterm="")
    return [line for line in compared if not line.startswith("@@")]


def _place(state: Path, agent_id: str) -> Path:
    return state / "capabilities" / f"{agent_id}.json"


def save(state: Path, document: Mapping[str, Any]) -> Path:
    """Saves the document to compare with later."""
    place = _place(state, str(document["agent"]))
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic.replace_file(place, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return place


def load_saved(state: Path, agent_id: str) -> Any:
    place = _place(state, agent_id)
    try:
        return msgspec.json.decode(place.read_bytes())
    except FileNotFoundError as error:
        raise NotFound(
            f"nothing was saved for {agent_id}: openclaw agents capabilities --agent {agent_id} --save"
        ) from error
    except (OSError, ValueError) as error:
        raise StateError(f"{place} cannot be read ({error}): save it again with --save") from error
