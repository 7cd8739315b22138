"""The `read`, `ls` and `write` tools."""

import base64
import codecs
import heapq
import json
import os
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from io import RawIOBase
from itertools import accumulate
from os.path import lexists
from pathlib import Path
from threading import Event
from typing import Annotated, Any

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError
from openclaw.core.messages import Image, Text
from openclaw.core.tool import Effects, Output, ToolContext, param, tool_spec
from openclaw.process.tasks import run_in_thread
from openclaw.tools.base import ChangingFileTool, FileTool
from openclaw.tools.paths import (
    SNIFFED,
    encode_text,
    format_size,
    missing_error,
    open_regular,
    quote_path,
    refuse_binary,
    replace,
    resolve_links,
    resolve_path,
    translate_os_error,
)

# Bitmaps.

_HEADER = struct.Struct("<10xI4xiiHHI")
_MASKED = 3


def to_png(data: bytes) -> bytes:
    """Converts an uncompressed 24- or 32-bit bitmap to PNG; others are refused with advice."""
    start, width, height, _, bits, compression = _HEADER.unpack_from(data.ljust(_HEADER.size, b"\0"))
    channels = bits // 8
    stride = (width * channels + 3) // 4 * 4
    supported = (bits in (24, 32) and compression == 0) or (bits == 32 and compression == _MASKED)
    if not supported or width <= 0 or height == 0 or start + stride * abs(height) > len(data):
        raise InvalidRequest("This kind of bitmap cannot be shown: convert it to PNG first and read that.")
    starts = range(start, start + stride * abs(height), stride)
    rows = [data[at : at + width * channels] for at in starts]
    if height > 0:
        rows.reverse()  # bitmaps are stored bottom-up, unless their height is negative
    pixels = b"".join(b"\0" + _rgb(row, channels) for row in rows)
    header = struct.pack(">IIBBBBB", width, abs(height), 8, 2, 0, 0, 0)
    return b"".join(
        (b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(pixels)), _chunk(b"IEND", b""))
    )


def _rgb(row: bytes, channels: int) -> bytes:
    out = bytearray(len(row) // channels * 3)
    out[0::3], out[1::3], out[2::3] = row[2::channels], row[1::channels], row[0::channels]
    return bytes(out)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


# `ls`.

LIMIT = 500
MAX_BYTES = 50 * 1024


class LsArgs(Struct, frozen=True):
    path: Annotated[str, param()] = "."
    limit: Annotated[int, param(f"default {LIMIT}", type="number")] = LIMIT
    after: Annotated[str, param("read on after this name")] = ""


class LsTool(FileTool[LsArgs]):
    """The `ls` tool."""

    args_type = LsArgs
    spec = tool_spec(
        "ls",
        "List",
        "list a directory",
        "List a directory, dotfiles included: one JSON-quoted name a line, sorted; directories end in /.",
        LsArgs,
    )

    async def run(self, wanted: LsArgs, context: ToolContext) -> Output:
        if wanted.limit < 1:
            raise InvalidRequest("limit starts at 1.")
        path = resolve_path(wanted.path or ".", context.workspace, workspace_only=self.workspace_only)
        return await run_in_thread(partial(_list, path, wanted))


def _list(path: Path, wanted: LsArgs, stop: Event) -> Output:
    if not lexists(path):
        raise missing_error(path, "Directory")
    if not path.is_dir():
        raise InvalidRequest(f"{quote_path(path)} is not a directory: use read for a file.")
    after = os.fsencode(wanted.after.removesuffix("/"))
    count = 0

    def later(entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """Counts the entries after a name as they pass, so that a huge directory is never held in memory."""
        nonlocal count
        for entry in entries:
            if stop.is_set():
                return
            if _order(entry) > after:
                count += 1
                yield entry

    try:
        with os.scandir(path) as entries:
            chosen = heapq.nsmallest(wanted.limit, later(entries), key=_order)
            lines = [_line(entry) for entry in chosen]
    except OSError as error:
        raise translate_os_error(path, "list", error) from error
    if not lines:
        nothing = Output.of("(no entries after that name)" if after else "(empty directory)", entries=0)
        return structs.replace(nothing, own=True)
    sizes = accumulate(len(line.encode("utf-8", "surrogateescape")) + 1 for line in lines)
    lines = lines[: sum(size <= MAX_BYTES for size in sizes)]
    left = count - len(lines)
    notice = []
    if left:
        name = json.dumps(chosen[len(lines) - 1].name, ensure_ascii=False)
        notice = ["", f"[{left} more entries. Use after={name} to continue.]"]
    text = "\n".join([*lines, *notice]).encode("utf-8", "backslashreplace").decode()
    output = Output.of(text, entries=len(lines), remaining=left)
    return structs.replace(output, listed=(str(path), *(entry.path for entry in chosen[: len(lines)])))


def _order(entry: os.DirEntry[str]) -> bytes:
    return os.fsencode(entry.name)


def _line(entry: os.DirEntry[str]) -> str:
    try:
        directory = entry.is_dir()
    except OSError:
        directory = False
    return json.dumps(entry.name + ("/" if directory else ""), ensure_ascii=False)


# `read`: pages of text.

MAX_LINES = 2000
CHUNK = 256 * 1024


class TextPage(Struct, frozen=True, kw_only=True):
    """Whole lines, or a part of a line that is longer than a page."""

    data: bytes
    text: str
    damaged: bool = False
    next_offset: int | None = None
    next_cursor: int = 0
    remaining: int | None = None
    """Lines after this page; counted only when the line limit ends the page, not the byte limit."""


class BeyondEnd(Struct, frozen=True):
    """The position does not exist: the file has only `lines`, or the line only `columns`."""

    lines: int
    columns: int | None = None


class _Source:
    """A stream with push-back."""

    def __init__(self, stream: RawIOBase, head: bytes, stop: Event) -> None:
        self._stream = stream
        self._pushed = head
        self._stop = stop

    def push(self, data: bytes) -> None:
        self._pushed = data + self._pushed

    def chunks(self) -> Iterator[bytes]:
        while not self._stop.is_set():
            chunk, self._pushed = self._pushed, b""
            # A non-blocking file returns None when it has no data; treat that as its end.
            chunk = chunk or self._stream.read(CHUNK) or b""
            if not chunk:
                return
            yield chunk


def read_page(
    stream: RawIOBase, head: bytes, *, offset: int, cursor: int, limit: int | None, stop: Event
) -> TextPage | BeyondEnd:
    """The page that starts `cursor` characters into line `offset`; `head` was already read from `stream`."""
    source = _Source(stream, head.removeprefix(codecs.BOM_UTF8), stop)
    if end := _skip_lines(source, offset - 1):
        return end
    damaged = _skip_characters(source, offset, cursor) if cursor else False
    if isinstance(damaged, BeyondEnd):
        return damaged
    return _cut(source, offset, cursor, min(limit or MAX_LINES, MAX_LINES), damaged)


def _skip_lines(source: _Source, lines: int) -> BeyondEnd | None:
    """Advances `source` past `lines` lines; returns the end when there are fewer."""
    seen, open_line = 0, False
    for chunk in source.chunks():
        here = chunk.count(b"\n")
        if seen + here < lines:
            seen += here
            open_line = not chunk.endswith(b"\n")
            continue
        end = _line_end(chunk, lines - seen)
        if end < len(chunk):
            source.push(chunk[end:])
            return None
        seen, open_line = lines, False
    return BeyondEnd(seen + open_line)


def _skip_characters(source: _Source, offset: int, cursor: int) -> bool | BeyondEnd:
    """Advances `source` past `cursor` characters of line `offset`; returns whether they held invalid bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    left = cursor
    for chunk in source.chunks():
        text = decoder.decode(chunk)
        line_end = text.find("\n", 0, left)
        if line_end >= 0:
            return BeyondEnd(offset, cursor - left + line_end)
        if len(text) > left:
            source.push(text[left:].encode() + decoder.getstate()[0])
            return "\ufffd" in text
        left -= len(text)
    return BeyondEnd(offset, cursor - left)


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


def _line_end(data: bytes | bytearray, lines: int) -> int:
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


# `read`: the tool.

MAX_IMAGE_BYTES = 5 * 1024 * 1024


class ReadArgs(Struct, frozen=True):
    path: Annotated[str, param()]
    offset: Annotated[int, param("first line, from 1", minimum=1)] = 1
    limit: Annotated[int | None, param("lines", type="number")] = None
    cursor: Annotated[int, param("characters of the first line to skip, to read on in a long one", minimum=0)] = 0
    optional: Annotated[bool, param("a missing file is not an error", const=True)] = False


class ReadTool(FileTool[ReadArgs]):
    """The `read` tool."""

    args_type = ReadArgs
    spec = tool_spec(
        "read",
        "Read",
        "read a file",
        f"Read a file, at most {MAX_LINES} lines or {format_size(MAX_BYTES)} a call; the note at the end says how to "
        "read on. Shows you images (jpg, png, gif, webp, bmp).",
        ReadArgs,
        rare=("cursor", "optional"),
        aliases={"file_path": "path", "filePath": "path"},
    )

    async def run(self, wanted: ReadArgs, context: ToolContext) -> Output:
        if wanted.offset < 1 or wanted.cursor < 0 or (wanted.limit is not None and wanted.limit < 1):
            raise InvalidRequest("offset and limit start at 1, cursor at 0.")
        path = resolve_path(wanted.path, context.workspace, workspace_only=self.workspace_only)
        try:
            return await run_in_thread(partial(_read, path, wanted, context))
        except NotFound:
            if wanted.optional:
                return Output.of(f"Optional file not found: {quote_path(wanted.path)}.", found=False)
            raise


def _read(path: Path, wanted: ReadArgs, context: ToolContext, stop: Event) -> Output:
    with open_regular(path) as stream:
        head = stream.read(SNIFFED) or b""
        total = os.fstat(stream.fileno()).st_size
        if mime := image_type(head):
            if total <= MAX_IMAGE_BYTES and context.accepts_images:
                return _image(path, mime, head + (stream.readall() or b""))
            return _unseen_image(path, mime, total, context.accepts_images)
        refuse_binary(path, head, total, "read")
        page = read_page(stream, head, offset=wanted.offset, cursor=wanted.cursor, limit=wanted.limit, stop=stop)
    if isinstance(page, BeyondEnd):
        return _beyond(page, wanted)
    refuse_binary(path, page.data, total, "read")
    return _shown(path, page, wanted)


def _shown(path: Path, page: TextPage, wanted: ReadArgs) -> Output:
    details: dict[str, Any] = {"path": str(path), "offset": wanted.offset, "truncated": page.next_offset is not None}
    if page.next_offset is not None:
        details["nextOffset"] = page.next_offset
    if page.next_cursor:
        details["nextCursor"] = page.next_cursor
    notes = []
    if page.next_offset is not None and page.remaining is not None:
        notes.append(f"[{page.remaining} more lines in file. Use offset={page.next_offset} to continue.]")
    elif page.next_offset is not None:
        cursor = f", cursor={page.next_cursor}" if page.next_cursor else ""
        notes.append(
            f"[Read output capped at {format_size(MAX_BYTES)} for this call. "
            f"Use offset={page.next_offset}{cursor} to continue.]"
        )
    if page.damaged:
        notes.append("[Bytes that are not valid UTF-8 are shown as \ufffd.]")
    output = Output.of("\n\n".join([page.text, *notes]), **details)
    return structs.replace(output, touched=(str(path),))


def _beyond(end: BeyondEnd, wanted: ReadArgs) -> Output:
    if not end.lines:
        return structs.replace(Output.of("[The file is empty.]"), own=True)
    if end.columns is not None:
        return Output.of(
            f"Cursor {wanted.cursor} is beyond the end of line {wanted.offset} ({end.columns} characters). "
            "Retry with a smaller cursor or the next offset."
        )
    return Output.of(
        f"Offset {wanted.offset} is beyond end of file ({end.lines} lines total). Retry with offset <= {end.lines}."
    )


def _image(path: Path, mime: str, data: bytes) -> Output:
    if mime == "image/bmp":
        mime, data = "image/png", to_png(data)
    note = f"Image file {quote_path(path.name)} ({mime}, {format_size(len(data))})."
    return Output(
        content=(Text(note), Image(base64.b64encode(data).decode("ascii"), mime)),
        details={"path": str(path), "mimeType": mime, "bytes": len(data)},
        touched=(str(path),),
    )


def _unseen_image(path: Path, mime: str, total: int, accepted: bool) -> Output:
    what = f"{quote_path(path.name)} is an image ({mime}, {format_size(total)})"
    if not accepted:
        return Output.of(f"{what}, and the current model cannot see images.", path=str(path), mimeType=mime)
    raise InvalidRequest(
        f"{what}; the limit is {format_size(MAX_IMAGE_BYTES)}. Make a smaller copy first, for example with "
        "exec: convert IN -resize 2000x2000 OUT.jpg."
    )


def image_type(head: bytes) -> str | None:
    """The media type of an image, detected from its first bytes, not its name."""
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    # "BM" also starts ordinary text; the reserved fields and the header size decide.
    if head[:2] == b"BM" and head[6:10] == bytes(4) and head[14:18] in (b"\x28\0\0\0", b"\x6c\0\0\0", b"\x7c\0\0\0"):
        return "image/bmp"
    return None


# `write`.


class WriteArgs(Struct, frozen=True):
    path: Annotated[str, param()]
    content: Annotated[str, param()]


class WriteTool(ChangingFileTool[WriteArgs]):
    """The `write` tool."""

    args_type = WriteArgs
    spec = tool_spec(
        "write",
        "Write",
        "create or overwrite a file",
        "Create a file or overwrite it whole; makes parent directories. Use edit to change a part.",
        WriteArgs,
        aliases={"file_path": "path", "filePath": "path"},
    )
    usual_effects = Effects.WRITES_FILES

    def changed(self, wanted: WriteArgs) -> tuple[str]:
        return (wanted.path,)

    async def run(self, wanted: WriteArgs, context: ToolContext) -> Output:
        path = resolve_path(wanted.path, context.workspace, workspace_only=self.workspace_only, creating=True)
        data = encode_text(wanted.content, "content")
        changed = await run_in_thread(partial(_write, path, data))
        return Output.of(
            f"Successfully wrote {len(data)} bytes to {quote_path(wanted.path)}",
            path=str(path),
            bytes=len(data),
            changed=changed,
        )


def _write(path: Path, data: bytes, stop: Event) -> bool:
    """Writes the file, to its end even when stopped; whether it had to be changed."""
    if _holds(path, data):
        return False
    replace(path, data)
    return True


def _holds(path: Path, data: bytes) -> bool:
    target = resolve_links(path)
    if not lexists(target) or not target.is_file() or target.stat().st_size != len(data):
        return False
    try:
        with open_regular(target) as stream:
            return stream.readall() == data
    except OpenClawError:
        return False  # writable but not readable
