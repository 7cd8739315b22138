"""Citations (`memory/x.md#L3`): makes them, removes dangling ones from replies; search and status documents. Pure."""

import re
from collections.abc import Callable
from typing import Any

from openclaw.memory.index import IndexStatus, MemoryIndex, SearchAnswer
from openclaw.memory.rank import IndexedChunk
from openclaw.memory.settings import Citations

_CITED = re.compile(r"(?<![\w/])((?:[\w.\-]+/)*[\w.\-]+\.(?:md|jsonl))#L?(\d+)(?:-L?(\d+))?")


def should_cite(mode: Citations, session_key: str) -> bool:
    """Whether results carry citations; `auto` means in direct chats, where the files are the reader's own."""
    if mode == "auto":
        return "group" not in session_key and "channel" not in session_key
    return mode == "on"


def format_citation(piece: IndexedChunk) -> str:
    """`memory/x.md#L3` or `memory/x.md#L3-L9`."""
    lines = f"#L{piece.start}" if piece.start == piece.end else f"#L{piece.start}-L{piece.end}"
    return piece.path + lines


def find_dangling(reply: str, length: Callable[[str], int | None]) -> list[str]:
    """The citations in `reply` of files or lines that do not exist; `length` gives a file's number of lines."""
    lost = []
    for found in _CITED.finditer(reply):
        path, first, last = found[1], int(found[2]), int(found[3] or found[2])
        lines = length(path)
        if lines is None or not 1 <= first <= last <= lines:
            lost.append(found[0])
    return lost


def remove_dangling(reply: str, length: Callable[[str], int | None]) -> str:
    """`reply` without the line numbers or sources that do not exist."""
    for lost in find_dangling(reply, length):
        path = lost.partition("#")[0]
        if length(path) is None:
            reply = re.sub(rf"(?:\A|\n+)Source: {re.escape(lost)}(?=\n|\Z)", "", reply)
        reply = reply.replace(lost, path)
    return reply


# JSON documents: the explanation of a search, the status of an index.

PARTS = ("score", "relevance", "vector", "cosine", "text", "age", "sure")


def explain_search(answer: SearchAnswer) -> dict[str, Any]:
    """Explains a search as JSON: the weight of every term, the parts of every result's score."""
    return {
        "mode": answer.mode,
        "reason": answer.reason,
        "terms": [
            {"term": item.term.text, "pieces": item.docs, "worth": round(item.worth, 2), "exact": item.term.exact}
            for item in answer.terms
        ],
        "results": [
            {part: getattr(found, part) for part in PARTS}
            | {"matched": list(found.matched), "citation": format_citation(found.piece)}
            for found in answer.results
        ],
    }


def status_to_json(found: IndexStatus, memory: MemoryIndex, tried: str | None) -> dict[str, Any]:
    """The index status as JSON; `tried` is why vectors do not work, empty when they do, None when untested."""
    document: dict[str, Any] = {
        "agentWorkspace": str(memory.plan.scope.workspace),
        "index": str(found.path),
        "provider": found.provider,
        "model": found.model,
        "sources": list(memory.plan.sources),
        "files": found.files,
        "pieces": found.pieces,
        "waiting": found.waiting,
        "bytes": found.bytes,
        "syncedAt": found.synced_at,
        "outdated": found.outdated,
        "vectorExtension": found.vectors or "loaded",
        "problems": list(found.problems),
    }
    if found.reason:
        document["reason"] = found.reason
    if tried is not None:
        document["meaning"] = tried or "works"
    return document
