"""Files and images that come with a message: read from base64, checked, and written where the assistant finds them."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.core.errors import InvalidRequest
from openclaw.core.messages import Image
from openclaw.core.text import compile_lazily
from openclaw.storage import atomic

# Images.

MOST_IMAGES = 8
IMAGE_BYTES = 5 * 1024 * 1024
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def images_of(attachments: Sequence[Any]) -> tuple[Image, ...]:
    """The images among `attachments`, given as base64 text or data URLs."""
    images: list[Image] = []
    for attachment in attachments:
        kind, content, _ = read_attachment(attachment)
        if content.startswith("data:"):
            content = content.partition(",")[2]
        if kind not in IMAGE_TYPES:
            raise InvalidRequest(
                f"attachments of type {kind or 'unknown'} are not supported: send PNG, JPEG, GIF or WebP"
            )
        try:
            size = len(base64.b64decode(content, validate=True))
        except (binascii.Error, ValueError) as error:
            raise InvalidRequest("an attachment is not base64") from error
        if size > IMAGE_BYTES:
            raise InvalidRequest(f"an image has {size:,} bytes; at most {IMAGE_BYTES:,} are accepted: make it smaller")
        images.append(Image(data=content, mime_type=kind))
    if len(images) > MOST_IMAGES:
        raise InvalidRequest(f"{len(images)} images are too many: send at most {MOST_IMAGES}")
    return tuple(images)


def read_attachment(attachment: Any) -> tuple[str, str, str]:
    """The attachment's type, its content as it came, and its name when it is a file; the type in a data URL wins."""
    if isinstance(attachment, dict):
        kind, content, name = attachment.get("mimeType"), attachment.get("content"), attachment.get("fileName")
    else:
        kind, content, name = attachment.mime_type, attachment.content, attachment.file_name
    if not isinstance(content, str):
        raise InvalidRequest("an attachment has no content: send it as base64 text")
    if content.startswith("data:"):
        kind = content[5:200].partition(",")[0].partition(";")[0] or kind
    return str(kind or ""), content, str(name or "")


# Files.

MOST_FILES = 10
FILE_BYTES = 18 * 1024 * 1024
"""What still fits into one frame as base64."""
_NAME = compile_lazily(r"[^\x00-\x1f\x7f/\\:]{1,128}\Z")


class ChatUpload(Struct, frozen=True):
    name: str
    kind: str
    data: bytes


def split_attachments(attachments: Sequence[Any]) -> tuple[list[Any], list[ChatUpload]]:
    """Separates images, which the model sees, from other files, which it opens."""
    images: list[Any] = []
    files: list[ChatUpload] = []
    for attachment in attachments:
        kind, content, name = read_attachment(attachment)
        if kind in IMAGE_TYPES or not name:
            images.append(attachment)
        else:
            files.append(ChatUpload(_named(name), kind or "application/octet-stream", _bytes(content, name)))
    if len(files) > MOST_FILES:
        raise InvalidRequest(f"{len(files)} files are too many: send at most {MOST_FILES}")
    if len({file.name for file in files}) < len(files):
        raise InvalidRequest("two of the files have the same name: rename one")
    return images, files


def write_files(files: Sequence[ChatUpload], workspace: Path, run_id: str) -> str:
    """Writes the files of one message; gives the lines that name them to the assistant."""
    # The path follows from the run id: the same message sent twice writes the same files.
    folder = Path(".openclaw") / "attachments" / hashlib.sha256(run_id.encode()).hexdigest()[:16]
    lines = []
    for file in files:
        atomic.replace_file(workspace / folder / file.name, file.data)
        lines.append(f"[attached: {folder.as_posix()}/{file.name} ({file.kind}, {len(file.data):,} bytes)]")
    return "\n".join(lines)


def _named(name: str) -> str:
    last = name.replace("\\", "/").rpartition("/")[2].strip()
    if not _NAME.match(last) or last.startswith("."):
        raise InvalidRequest(f"{name[:60]!r} is not a usable file name: rename the file")
    return last


def _bytes(content: str, name: str) -> bytes:
    text = content.partition(",")[2] if content.startswith("data:") else content
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{name} is not base64") from error
    if len(data) > FILE_BYTES:
        raise InvalidRequest(f"{name} has {len(data):,} bytes; at most {FILE_BYTES:,} are accepted: make it smaller")
    return data
