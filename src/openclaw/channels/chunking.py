"""Cuts a long answer into messages. Pure.

Nothing is lost: the messages put end to end are the text, but for the blank space at a break and the markers that close
and reopen a code fence which is longer than a message may be.
"""

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_SENTENCE = re.compile(r"[.!?](?=\s|\Z)")
_SENTENCE_BEFORE = re.compile(r"[.!?](?=\s)")
"""As the text may go on, its end is not the end of a sentence."""
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_LINE = re.compile("\n")
LEAST = 16
"""A piece is not made shorter than this to make it fit."""


class CodeFence(Struct, frozen=True):
    """A code fence: from the start of its first line to the end of its last."""

    start: int
    end: int
    opener: str
    marker: str
    closed: bool


def fences(text: str) -> list[CodeFence]:
    """The code fences of `text`; the last may be open."""
    found: list[CodeFence] = []
    start, opener, marker = -1, "", ""
    for line in _FENCE_LINE.finditer(text):
        run, info = line[1], line[2]
        if not marker:
            if run[0] == "`" and "`" in info:
                continue
            start, opener, marker = line.start(), line[0], run
        elif run[0] == marker[0] and len(run) >= len(marker) and not info.strip():
            found.append(CodeFence(start, line.end(), opener, marker, closed=True))
            marker = ""
    if marker:
        found.append(CodeFence(start, len(text), opener, marker, closed=False))
    return found


def break_place(rest: str, least: int, most: int, spans: list[CodeFence]) -> int:
    """The best break between `least` and `most` characters: a paragraph, a line, a sentence, a blank, a character."""
    window = rest[:most]
    for pattern, behind in ((_PARAGRAPH, 0), (_LINE, 0), (_SENTENCE, 1)):
        places = [found.start() + behind for found in pattern.finditer(window)]
        if place := next((at for at in reversed(places) if at >= least and _inside(at, spans) is None), 0):
            return place
    for at in range(len(window), least - 1, -1):
        if at < len(rest) and rest[at].isspace() and _inside(at, spans) is None:
            return at
    return _whole_character(rest, most)


def first_break(rest: str, least: int, most: int, preference: str, spans: list[CodeFence]) -> int:
    """The first break of the preferred kind between `least` and `most` characters; 0 when there is none."""
    pattern, behind = {"newline": (_LINE, 0), "sentence": (_SENTENCE_BEFORE, 1)}.get(preference, (_PARAGRAPH, 0))
    places = (found.start() + behind for found in pattern.finditer(rest, 0, most + 2))
    return next((at for at in places if least <= at <= most and _inside(at, spans) is None), 0)


def cut_at(rest: str, place: int, most: int, spans: list[CodeFence]) -> tuple[str, str]:
    """Splits before `place`. A fence that must be cut is closed, and reopened behind the cut."""
    fence = _inside(place, spans)
    if fence is None:
        left = rest[place:]
        left = left[1:] if left[:1].isspace() else left
        return rest[:place], left.lstrip("\n")
    body = fence.start + len(fence.opener) + 1
    closing = f"\n{fence.marker}"
    room = most - len(closing)
    if room <= body:  # no space for a line of the code: break before it, or give up on the fence
        if fence.start > 0:
            return rest[: fence.start].rstrip("\n"), rest[fence.start :]
        room = max(1, most)
        closing = ""
    at = rest.rfind("\n", body, room + 1)
    newline = at > body
    at = at if newline else _whole_character(rest, room)
    opener = fence.opener if len(fence.opener) <= most // 4 else fence.marker
    left = rest[at + 1 :] if newline else rest[at:]
    if not closing:
        return rest[:at], left
    return rest[:at] + closing, f"{opener}\n{left}"


def _inside(place: int, spans: list[CodeFence]) -> CodeFence | None:
    """The fence that a break at `place` would split."""
    for fence in spans:
        if fence.start < place < fence.end or (not fence.closed and fence.start < place <= fence.end):
            return fence
    return None


def _whole_character(text: str, place: int) -> int:
    """Moves `place` back when it would split a character made of several code points."""
    at = place
    while 1 < at < len(text) and place - at < 16 and (_joins(text[at]) or text[at - 1] == "\u200d"):
        at -= 1
    return at if at > 1 else place


def _joins(char: str) -> bool:
    """Whether `char` combines with the one before it."""
    return char in "\u200d\ufe0f\u20e3" or "\u0300" <= char <= "\u036f" or "\U0001f3fb" <= char <= "\U0001f3ff"


Unit = Literal["utf16", "chars", "bytes"]


def measure(text: str, unit: Unit) -> int:
    """The length of `text` as a platform counts it."""
    match unit:
        case "utf16":
            return len(text.encode("utf-16-le", errors="surrogatepass")) // 2
        case "bytes":
            return len(text.encode(errors="surrogatepass"))
        case "chars":
            return len(text)


def cut_text(text: str, limit: int, unit: Unit = "chars") -> list[str]:
    """The messages a long text becomes: none longer than `limit`, fences closed and reopened, no character split."""
    pieces = []
    rest = text
    while measure(rest, unit) > limit:
        most = _fitting(rest, limit, unit)
        spans = fences(rest)
        piece, rest = cut_at(rest, break_place(rest, max(1, most // 2), most, spans), most, spans)
        if piece.strip():
            pieces.append(piece)
    return [*pieces, rest] if rest.strip() else pieces


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs of `text`, each to be a message of its own; a code fence stays whole."""
    spans = fences(text)
    places = [found for found in _PARAGRAPH.finditer(text) if _inside(found.start(), spans) is None]
    starts, ends = [0, *(found.end() for found in places)], [*(found.start() for found in places), len(text)]
    parts = [text[start:end].strip("\n") for start, end in zip(starts, ends, strict=True)]
    return [part for part in parts if part.strip()]


def cut_to_fit(text: str, limit: int, unit: Unit, length: Callable[[str], int]) -> list[str]:
    """The messages a long text becomes on a platform that counts it with `length`, by which it may be longer."""
    return [part for piece in cut_text(text, limit, unit) for part in _fit(piece, limit, unit, length)]


def _fit(piece: str, limit: int, unit: Unit, length: Callable[[str], int]) -> list[str]:
    size, long = measure(piece, unit), length(piece)
    smaller = min(limit * size // max(long, 1), size - 1)
    if long <= limit or smaller < LEAST:
        return [piece]
    return [part for half in cut_text(piece, smaller, unit) for part in _fit(half, limit, unit, length)]


def _fitting(text: str, limit: int, unit: Unit) -> int:
    """How many characters from the front fit into `limit`; at least one."""
    low, high = 1, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[:middle], unit) <= limit:
            low = middle
        else:
            high = middle - 1
    return low
