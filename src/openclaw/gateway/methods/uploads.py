"""Files that come with a message: they are put into the workspace, and the message says where."""

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.core.errors import InvalidRequest
from openclaw.gateway.methods.inputs import IMAGE_TYPES, read_attachment
from openclaw.store import atomic

MOST_FILES = 10
FILE_BYTES = 18 * 1024 * 1024
"""What still fits into one frame as base64."""
_NAME = re.compile(r"[^\x00-\x1f\x7f/\\:]{1,128}\Z")


class ChatUpload(Struct, frozen=True):
    name: str
    kind: str
    data: bytes


def sorted_out(attachments: Sequence[Any]) -> tuple[list[Any], list[ChatUpload]]:
    """The images, which a model looks at, and the other files, which it opens."""
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


def deliver(files: Sequence[ChatUpload], workspace: Path, run_id: str) -> str:
    """Writes the files of one message and gives the lines that tell the assistant of them."""
    # The same message sent twice is the same files in the same place.
    folder = Path(".openclaw") / "attachments" / hashlib.sha256(run_id.encode()).hexdigest()[:16]
    lines = []
    for file in files:
        atomic.replace(workspace / folder / file.name, file.data)
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
