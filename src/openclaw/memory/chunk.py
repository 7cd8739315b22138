"""Splits a note into overlapping chunks of whole lines, and a chunk into windows an embedder can read. Pure."""

import itertools
from collections.abc import Iterator
from hashlib import sha256

from msgspec import Struct

from openclaw.core.text import compile_lazily, utf16_length

LEAST_CHARS = 32
CHARS_PER_TOKEN = 4

# Common ideographs, kana and syllables are about a token each; rarer ones take two to four.
_COMMON = compile_lazily("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9d]")
_RARE = compile_lazily("[\U00020000-\U0003ffff]")
_SENTENCE = compile_lazily("(?<=[.!?。！？])[ \n]*|\n+")


class Chunk(Struct, frozen=True):
    """Lines `start` to `end` of a note, counted from 1."""

    start: int
    end: int
    text: str

    @property
    def hash(self) -> str:
        return digest(self.text)


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def estimate_size(text: str) -> int:
    """Estimates the token size of `text`, in characters of English."""
    if text.isascii():
        return len(text)
    common, rare = len(_COMMON.findall(text)), len(_RARE.findall(text))
    return utf16_length(text) + common * (CHARS_PER_TOKEN - 1) + rare * (4 * CHARS_PER_TOKEN - 2)


def chunks(text: str, tokens: int, overlap: int) -> list[Chunk]:
    """Splits `text` into chunks; blank ones are left out."""
    limit = max(LEAST_CHARS, tokens * CHARS_PER_TOKEN)
    carried = max(0, overlap * CHARS_PER_TOKEN)
    found: list[Chunk] = []
    piece: list[tuple[int, str, int]] = []
    total = 0
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        for segment in _segments(line, limit):
            cost = estimate_size(segment) + 1
            if piece and total + cost > limit:
                found.append(_joined(piece))
                piece = _tail(piece, min(carried, max(0, limit - cost)))
                total = sum(spent for _, _, spent in piece)
            piece.append((number, segment, cost))
            total += cost
    if piece:
        found.append(_joined(piece))
    return [chunk for chunk in found if chunk.text.strip()]


def windows(text: str, max_bytes: int) -> list[str]:
    """Splits `text` into pieces of at most `max_bytes`, after a sentence where possible."""
    if len(text) * 4 <= max_bytes or len(text.encode("utf-8", "replace")) <= max_bytes:
        return [text]
    found: list[str] = []
    current, used = "", 0
    for sentence in _sentences(text):
        for part in _by_bytes(sentence, max_bytes):
            length = len(part.encode("utf-8", "replace"))
            if current and used + length > max_bytes:
                found.append(current)
                current, used = "", 0
            current, used = current + part, used + length
    found.append(current)
    return [part for part in found if part.strip()] or [text[: max_bytes // 4]]


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for mark in _SENTENCE.finditer(text):
        if mark.end() > start:
            yield text[start : mark.end()]
            start = mark.end()
    if start < len(text):
        yield text[start:]


def _by_bytes(text: str, limit: int) -> Iterator[str]:
    while len(text.encode("utf-8", "replace")) > limit:
        head = text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
        space = head.rfind(" ")
        head = head[: space + 1] if space > len(head) // 2 else head
        yield head
        text = text[len(head) :]
    yield text


def _segments(line: str, limit: int) -> Iterator[str]:
    """`line` in pieces that fit; most lines are one."""
    if len(line) * 4 * CHARS_PER_TOKEN <= limit or estimate_size(line) <= limit:
        yield line
        return
    start, used = 0, 0
    if line.isascii():
        for start in range(0, len(line), limit):
            yield line[start : start + limit]
        return
    for at, char in enumerate(line):
        cost = estimate_size(char)
        if used + cost > limit:
            yield line[start:at]
            start, used = at, 0
        used += cost
    yield line[start:]


def _joined(piece: list[tuple[int, str, int]]) -> Chunk:
    parts = [piece[0][1]]
    for (before, _, _), (number, segment, _) in itertools.pairwise(piece):
        parts.append(segment if number == before else "\n" + segment)
    return Chunk(piece[0][0], piece[-1][0], "".join(parts))


def _tail(piece: list[tuple[int, str, int]], room: int) -> list[tuple[int, str, int]]:
    """The last whole lines that fit in `room`, or the end of the last one when it alone is too large."""
    kept: list[tuple[int, str, int]] = []
    for number, segment, cost in reversed(piece):
        if cost > room:
            if not kept and room > 1:
                end = segment[-(room - 1) :]
                while estimate_size(end) > room - 1:
                    end = end[len(end) // 2 + 1 :]
                kept = [(number, end, estimate_size(end) + 1)] if end else []
            break
        kept.insert(0, (number, segment, cost))
        room -= cost
    return kept
