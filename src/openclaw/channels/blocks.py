"""Cuts an answer into blocks while it is written. Pure.

The same text gives the same blocks, in whatever pieces it arrives: an answer that is written again after a kill or a
failed attempt repeats the names of the blocks that were sent, and they are not sent twice.
"""

import hashlib

from openclaw.agent.settings import BlockChunkSettings
from openclaw.channels.chunking import break_place, cut_at, fences, first_break

LOOKAHEAD = 16
"""Characters behind a full block that must be there before it is cut: a character may consist of several."""
LEAST_NEW = 100
"""Characters that must have come before the text is looked at again."""


def cut_blocks(text: str, chunk: BlockChunkSettings, limit: int, *, ended: bool) -> tuple[list[str], str]:
    """The blocks that `text` begins with, and what is left: the last block, once the text has `ended`."""
    most = max(1, min(chunk.max_chars, limit))
    least = min(chunk.min_chars, most)
    blocks, rest = [], text
    while rest.strip():
        spans = fences(rest)
        place = first_break(rest, least, most, chunk.break_preference, spans)
        if not place and len(rest) > most + (0 if ended else LOOKAHEAD):
            place = break_place(rest, least, most, spans)
        if not place:
            break
        block, rest = cut_at(rest, place, most, spans)
        if block.strip():
            blocks.append(block)
    return blocks, rest


class BlockStream:
    """The blocks of one run's answer, message by message."""

    def __init__(self, chunk: BlockChunkSettings, limit: int, *, at_end: bool, coalesce: int) -> None:
        """`at_end`: blocks are cut when a message has ended; what is shorter than `coalesce` waits for the next."""
        self._chunk = chunk
        self._limit = limit
        self._at_end = at_end
        self._coalesce = coalesce
        self._kept = ""
        """The end of earlier messages, too short for a block of its own."""
        self._text = ""
        self._seen = 0
        self._first = 0
        """The number of the first block of the message being written."""
        self._given: set[str] = set()

    def add(self, text: str) -> list[tuple[str, str]]:
        """The blocks that `text` completes, each with its name."""
        self._text += text
        if self._at_end or len(self._text) - self._seen < LEAST_NEW:
            return []
        self._seen = len(self._text)
        return self._fresh(cut_blocks(self._whole(self._text), self._chunk, self._limit, ended=False)[0])

    def void(self) -> None:
        """What was written of the message does not count; it is written again."""
        self._text, self._seen = "", 0

    def end_message(self, text: str, *, last: bool = False) -> list[tuple[str, str]]:
        """The blocks that are left of a message; `last` gives also what is short."""
        blocks, rest = cut_blocks(self._whole(text), self._chunk, self._limit, ended=True)
        self._kept = ""
        if rest.strip() and (last or len(rest) >= self._coalesce):
            blocks.append(rest)
        elif rest.strip():
            self._kept = rest
        named = self._fresh(blocks)
        self._first += len(blocks)
        self.void()
        return named

    def _whole(self, text: str) -> str:
        return f"{self._kept}\n\n{text}" if self._kept and text else self._kept or text

    def _fresh(self, blocks: list[str]) -> list[tuple[str, str]]:
        named = [(f"{self._first + place}:{_digest(block)}", block) for place, block in enumerate(blocks)]
        fresh = [(name, block) for name, block in named if name not in self._given]
        self._given |= {name for name, _ in fresh}
        return fresh


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
