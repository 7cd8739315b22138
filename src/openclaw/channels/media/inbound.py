"""Files that people send: streamed to disk under a limit; images are shown to the model, the rest it can open."""

import base64
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from openclaw.core.channel import FetchesFiles, Inbound, InboundFile, MessageRefused, Platform, TryLater
from openclaw.core.clock import Clock
from openclaw.core.deferred import mimetypes
from openclaw.core.messages import Image
from openclaw.core.text import Origin, sanitize_line
from openclaw.runs.uploads import IMAGE_BYTES, IMAGE_TYPES, MOST_FILES, MOST_IMAGES
from openclaw.security.file_labels import LabelledFiles

log = logging.getLogger("openclaw.channels")

ATTEMPTS = 3
PAUSE = 1.0
_NOT_IN_NAME = re.compile(r"[^\w.() -]")
_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (4, b"ftyp", "video/mp4"),
    (0, b"PK\x03\x04", "application/zip"),
)


class ReceivedMedia(Struct, frozen=True):
    """What came with a message: what the model sees, and a line about every file."""

    images: tuple[Image, ...] = ()
    lines: tuple[str, ...] = ()


def sniff(head: bytes) -> str:
    """The type of a file by its first bytes; empty when they say nothing."""
    return next((kind for at, mark, kind in _SIGNATURES if head[at : at + len(mark)] == mark), "")


class IncomingMedia:
    """Fetches what people sent into the workspace of the agent that is asked."""

    def __init__(self, platforms: Mapping[tuple[str, str], Platform], labels: LabelledFiles, clock: Clock) -> None:
        self._platforms = platforms
        self._labels = labels
        self._clock = clock

    async def receive(
        self, message: Inbound, run_id: str, workspace: Path, limit: int, origins: Sequence[Origin] = ()
    ) -> ReceivedMedia:
        """Fetches the files of a message. What cannot be had is said, and keeps nothing from being answered."""
        images: list[Image] = []
        lines = []
        # The path follows from the run id: the same message dealt with again writes the same files.
        folder = Path(".openclaw") / "attachments" / hashlib.sha256(run_id.encode()).hexdigest()[:16]
        for number, file in enumerate(message.files[:MOST_FILES], 1):
            shown = f"<media:{file.kind}>"
            try:
                target = folder / _file_name(file, number)
                kind, size = await self._fetch(message, file, workspace / target, limit)
            except (MessageRefused, TryLater) as error:
                log.warning("channel %s: a file of %s was not fetched: %s", message.channel, message.sender, error)
                lines.append(f"{shown} [media unavailable: {sanitize_line(error.message)}]")
                continue
            if origins:
                self._labels.mark([str(workspace / target)], origins)
            if kind in IMAGE_TYPES and size <= IMAGE_BYTES and len(images) < MOST_IMAGES and file.kind != "document":
                images.append(Image(base64.b64encode((workspace / target).read_bytes()).decode(), kind))
            lines.append(f"{shown} [attached: {target.as_posix()} ({kind}, {size:,} bytes)]")
        if left := len(message.files) - MOST_FILES:
            lines += [f"[media unavailable: {left} more files]"] if left > 0 else []
        return ReceivedMedia(tuple(images), tuple(lines))

    async def _fetch(self, message: Inbound, file: InboundFile, path: Path, limit: int) -> tuple[str, int]:
        platform = self._platforms.get((message.channel, message.account))
        if platform is None or not isinstance(platform, FetchesFiles):
            raise MessageRefused(f"{message.channel} hands out no files")
        if file.size > limit:
            raise MessageRefused(f"it has {file.size:,} bytes; {limit:,} is the most (mediaMaxMb)")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await _save(platform, file, path, limit)
            except TryLater:
                if attempt == ATTEMPTS:
                    raise
                await self._clock.sleep(PAUSE * attempt)
        raise AssertionError("unreachable")


async def _save(platform: FetchesFiles, file: InboundFile, path: Path, limit: int) -> tuple[str, int]:
    """Streams a file to disk; gives its type, by its bytes before its name, and its size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part, size, head = path.with_name(f"{path.name}.part"), 0, b""
    try:
        with part.open("wb") as written:
            async for piece in platform.fetch(file):
                size += len(piece)
                if size > limit:
                    raise MessageRefused(f"it has more than {limit:,} bytes (mediaMaxMb)")
                head = head if len(head) >= 16 else head + piece[:16]
                written.write(piece)
        if not size:
            raise MessageRefused("it is empty")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    known = sniff(head)
    told = file.mime or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    # Only the bytes make something an image: a model is not shown what merely claims to be one.
    return known or (told if told not in IMAGE_TYPES else "application/octet-stream"), size


def _file_name(file: InboundFile, number: int) -> str:
    """A name of ours with the ending of theirs: unique, and never hidden."""
    name = _NOT_IN_NAME.sub("_", file.name.replace("\\", "/").rpartition("/")[2]).strip(". ")[-80:]
    if not name:
        name = f"{file.kind}{mimetypes.guess_extension(file.mime) or ''}"
    return f"{number}-{name}"
