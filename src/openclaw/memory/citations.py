"""Saying where a remembered fact stands, and noticing when it stands nowhere. Pure."""

import re
from collections.abc import Callable

from openclaw.memory.rank import RankedPiece
from openclaw.memory.settings import Citations

_CITED = re.compile(r"(?<![\w/])((?:[\w.\-]+/)*[\w.\-]+\.(?:md|jsonl))#L?(\d+)(?:-L?(\d+))?")


def wanted(mode: Citations, session_key: str) -> bool:
    """Whether results are cited: always, never, or in direct chats, where the files are the reader's own."""
    if mode == "auto":
        return "group" not in session_key and "channel" not in session_key
    return mode == "on"


def citation(piece: RankedPiece) -> str:
    """`memory/x.md#L3` or `memory/x.md#L3-L9`."""
    lines = f"#L{piece.start}" if piece.start == piece.end else f"#L{piece.start}-L{piece.end}"
    return piece.path + lines


def cited(snippet: str, piece: RankedPiece) -> str:
    return f"{snippet.rstrip()}\n\nSource: {citation(piece)}"


def cites(text: str) -> bool:
    """Whether there may be a citation in `text`."""
    return ".md#" in text or ".jsonl#" in text


def dangling(reply: str, length: Callable[[str], int | None]) -> list[str]:
    """The citations in `reply` that lead nowhere; `length` gives a file's number of lines, if there is one."""
    lost = []
    for found in _CITED.finditer(reply):
        path, first, last = found[1], int(found[2]), int(found[3] or found[2])
        lines = length(path)
        if lines is None or not 1 <= first <= last <= lines:
            lost.append(found[0])
    return lost


def checked(reply: str, length: Callable[[str], int | None]) -> str:
    """`reply` without the line numbers or sources that do not exist."""
    for lost in dangling(reply, length):
        path = lost.partition("#")[0]
        if length(path) is None:
            reply = re.sub(rf"(?:\A|\n+)Source: {re.escape(lost)}(?=\n|\Z)", "", reply)
        reply = reply.replace(lost, path)
    return reply
