"""Reading: a page of a text file, or an image."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.messages import Image, Text
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools.answer import answers, parse_args
from openclaw.tools.bitmap import to_png
from openclaw.tools.files import SNIFFED, opened, refuse_binary
from openclaw.tools.finishing import offload
from openclaw.tools.page import MAX_BYTES, MAX_LINES, BeyondEnd, TextPage, turn_to
from openclaw.tools.paths import place, shown, size

MAX_IMAGE_BYTES = 5 * 1024 * 1024


class ReadArgs(Struct, frozen=True):
    path: str
    offset: int = 1
    limit: int | None = None
    cursor: int = 0
    optional: bool = False


class Read:
    """The `read` tool."""

    spec = ToolSpec(
        name="read",
        label="Read",
        summary="read file contents",
        description=(
            f"Read a file. Text comes by whole lines, at most {MAX_LINES} lines or {size(MAX_BYTES)} a call; "
            "follow the note at the end to read on. Images (jpg, png, gif, webp, bmp) are shown to you."
        ),
        parameters={
            "type": "object",
            "required": ["path"],
            "properties": {
                "path": {"type": "string", "description": "File path, absolute or from the workspace"},
                "offset": {"type": "integer", "minimum": 1, "description": "First line, counted from 1"},
                "limit": {"type": "number", "description": "Most lines to return"},
                "cursor": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Characters of the first line to skip, to read on in a long line",
                },
                "optional": {"type": "boolean", "const": True, "description": "A missing file is not an error"},
            },
        },
        aliases={"file_path": "path", "filePath": "path"},
    )

    def __init__(self, *, workspace_only: bool = False) -> None:
        self.workspace_only = workspace_only

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.READS_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    @answers
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse_args(args, ReadArgs)
        if wanted.offset < 1 or wanted.cursor < 0 or (wanted.limit is not None and wanted.limit < 1):
            raise InvalidRequest("offset and limit start at 1, cursor at 0.")
        path = place(wanted.path, context.workspace, workspace_only=self.workspace_only)
        try:
            return await offload(lambda stop: _read(path, wanted, context, stop))
        except NotFound:
            if wanted.optional:
                return Output.of(f"Optional file not found: {shown(wanted.path)}.", found=False)
            raise


def _read(path: Path, wanted: ReadArgs, context: ToolContext, stop: Event) -> Output:
    with opened(path) as stream:
        head = stream.read(SNIFFED) or b""
        total = os.fstat(stream.fileno()).st_size
        if mime := image_type(head):
            if total <= MAX_IMAGE_BYTES and context.accepts_images:
                data = head + (stream.readall() or b"")
                return _image(path, "image/png", to_png(data)) if mime == "image/bmp" else _image(path, mime, data)
            return _unseen_image(path, mime, total, context.accepts_images)
        refuse_binary(path, head, total, "read")
        page = turn_to(stream, head, offset=wanted.offset, cursor=wanted.cursor, limit=wanted.limit, stop=stop)
    if isinstance(page, BeyondEnd):
        return _beyond(page, wanted)
    refuse_binary(path, page.data, total, "read")
    output = Output.of(_text(page, wanted), **_details(path, page, wanted))
    return structs.replace(output, touched=(str(path),))


def _text(page: TextPage, wanted: ReadArgs) -> str:
    notes = []
    if page.next_offset is not None and page.remaining is not None:
        notes.append(f"[{page.remaining} more lines in file. Use offset={page.next_offset} to continue.]")
    elif page.next_offset is not None:
        cursor = f", cursor={page.next_cursor}" if page.next_cursor else ""
        notes.append(
            f"[Read output capped at {size(MAX_BYTES)} for this call. "
            f"Use offset={page.next_offset}{cursor} to continue.]"
        )
    if page.damaged:
        notes.append("[Bytes that are not valid UTF-8 are shown as \ufffd.]")
    return "\n\n".join([page.text, *notes])


def _details(path: Path, page: TextPage, wanted: ReadArgs) -> dict[str, Any]:
    details: dict[str, Any] = {"path": str(path), "offset": wanted.offset, "truncated": page.next_offset is not None}
    if page.next_offset is not None:
        details["nextOffset"] = page.next_offset
    if page.next_cursor:
        details["nextCursor"] = page.next_cursor
    return details


def _beyond(end: BeyondEnd, wanted: ReadArgs) -> Output:
    if not end.lines:
        return Output.of("[The file is empty.]")
    if end.columns is not None:
        return Output.of(
            f"Cursor {wanted.cursor} is beyond the end of line {wanted.offset} ({end.columns} characters). "
            "Retry with a smaller cursor or the next offset."
        )
    return Output.of(
        f"Offset {wanted.offset} is beyond end of file ({end.lines} lines total). Retry with offset <= {end.lines}."
    )


def _image(path: Path, mime: str, data: bytes) -> Output:
    note = f"Image file {shown(path.name)} ({mime}, {size(len(data))})."
    return Output(
        content=(Text(note), Image(base64.b64encode(data).decode("ascii"), mime)),
        details={"path": str(path), "mimeType": mime, "bytes": len(data)},
        touched=(str(path),),
    )


def _unseen_image(path: Path, mime: str, total: int, accepted: bool) -> Output:
    what = f"{shown(path.name)} is an image ({mime}, {size(total)})"
    if not accepted:
        return Output.of(f"{what}, and the current model cannot see images.", path=str(path), mimeType=mime)
    raise InvalidRequest(
        f"{what}; the limit is {size(MAX_IMAGE_BYTES)}. Make a smaller copy first, for example with "
        "exec: convert IN -resize 2000x2000 OUT.jpg."
    )


def image_type(head: bytes) -> str | None:
    """The media type of an image, told by its first bytes and never by its name."""
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    # "BM" alone also begins ordinary text; the reserved fields and the header size settle it.
    if head[:2] == b"BM" and head[6:10] == bytes(4) and head[14:18] in (b"\x28\0\0\0", b"\x6c\0\0\0", b"\x7c\0\0\0"):
        return "image/bmp"
    return None
