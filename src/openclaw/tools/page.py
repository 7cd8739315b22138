"""One page of a text stream of any length, found and cut while only a page is held in memory."""

import codecs
from collections.abc import Iterator
from io import RawIOBase
from threading import Event

from msgspec import Struct, structs

MAX_LINES = 2000
MAX_BYTES = 50 * 1024
CHUNK = 256 * 1024


class TextPage(Struct, frozen=True, kw_only=True):
    """Whole lines, or a piece of one line that is longer than a page."""

    data: bytes
    text: str
    damaged: bool = False
    next_offset: int | None = None
    next_cursor: int = 0
    remaining: int | None = None
    """Lines after this page; only counted when the page is full of lines, not of bytes."""


class BeyondEnd(Struct, frozen=True):
    """The place asked for does not exist: the file has only `lines`, or the line only `columns`."""

    lines: int
    columns: int | None = None


class _Source:
    """A stream one can push back into."""

    def __init__(self, stream: RawIOBase, head: bytes, stop: Event) -> None:
        self._stream = stream
        self._pushed = head
        self._stop = stop

    def push(self, data: bytes) -> None:
        self._pushed = data + self._pushed

    def chunks(self) -> Iterator[bytes]:
        while not self._stop.is_set():
            chunk, self._pushed = self._pushed, b""
            # A file that never ends answers None when it has nothing yet; that is an end for us.
            chunk = chunk or self._stream.read(CHUNK) or b""
            if not chunk:
                return
            yield chunk


def turn_to(
    stream: RawIOBase, head: bytes, *, offset: int, cursor: int, limit: int | None, stop: Event
) -> TextPage | BeyondEnd:
    """The page that begins `cursor` characters into line `offset`; `head` was already read from `stream`."""
    source = _Source(stream, head.removeprefix(codecs.BOM_UTF8), stop)
    if end := _skip_lines(source, offset - 1):
        return end
    damaged = False
    if cursor:
        skipped = _skip_characters(source, cursor)
        if isinstance(skipped, int):
            return BeyondEnd(offset, skipped)
        damaged = skipped.damaged
    return _cut(source, offset, cursor, min(limit or MAX_LINES, MAX_LINES), damaged)


def _skip_lines(source: _Source, lines: int) -> BeyondEnd | None:
    """Leaves `source` at the line after `lines` lines; the end when there is none."""
    seen, open_line = 0, False
    for chunk in source.chunks():
        here = chunk.count(b"\n")
        if seen + here < lines:
            seen += here
            open_line = not chunk.endswith(b"\n")
            continue
        position = 0
        while seen < lines:
            position = chunk.index(b"\n", position) + 1
            seen += 1
        if position < len(chunk):
            source.push(chunk[position:])
            return None
        open_line = False
    return BeyondEnd(seen + open_line)


class _Skipped(Struct, frozen=True):
    damaged: bool


def _skip_characters(source: _Source, cursor: int) -> _Skipped | int:
    """Leaves `source` after `cursor` characters of its line; the line's length when it is shorter."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = cursor
    for chunk in source.chunks():
        text = decoder.decode(chunk)
        line_end = text.find("\n", 0, left)
        if line_end >= 0:
            return cursor - left + line_end
        if len(text) > left:
            source.push(text[left:].encode() + decoder.getstate()[0])
            return _Skipped("\ufffd" in text)
        left -= len(text)
    return cursor - left


def _cut(source: _Source, offset: int, cursor: int, limit: int, damaged: bool) -> TextPage:
    held = bytearray()
    lines = 0
    for chunk in source.chunks():
        held += chunk
        lines += chunk.count(b"\n")
        if lines >= limit or len(held) > MAX_BYTES:
            break
    end = _line_end(held, limit) if lines >= limit else len(held)
    if end > MAX_BYTES + 1 or (end == MAX_BYTES + 1 and held[end - 1 : end] != b"\n"):
        return _full_of_bytes(held, offset, cursor, damaged)
    source.push(bytes(held[end:]))
    remaining = _count_lines(source) if lines >= limit else 0
    return _page(
        bytes(held[:end]), damaged, next_offset=offset + limit if remaining else None, remaining=remaining or None
    )


def _full_of_bytes(held: bytearray, offset: int, cursor: int, damaged: bool) -> TextPage:
    end = held.rfind(b"\n", 0, MAX_BYTES + 1) + 1
    if end:
        data = bytes(held[:end])
        return _page(data, damaged, next_offset=offset + data.count(b"\n"))
    end = MAX_BYTES
    while end > MAX_BYTES - 4 and held[end] & 0xC0 == 0x80:
        end -= 1  # do not cut inside a character
    page = _page(bytes(held[:end]), damaged, next_offset=offset)
    return structs.replace(page, next_cursor=cursor + len(page.text))


def _page(data: bytes, damaged: bool, *, next_offset: int | None, remaining: int | None = None) -> TextPage:
    text = data.decode("utf-8", "replace")
    damaged = damaged or text.encode() != data
    text = text.replace("\r\n", "\n").removesuffix("\n")
    return TextPage(data=data, text=text, damaged=damaged, next_offset=next_offset, remaining=remaining)


def _line_end(data: bytearray, lines: int) -> int:
    position = 0
    for _ in range(lines):
        position = data.index(b"\n", position) + 1
    return position


def _count_lines(source: _Source) -> int:
    count, last = 0, b"\n"
    for chunk in source.chunks():
        count += chunk.count(b"\n")
        last = chunk[-1:]
    return count + (last != b"\n")
