"""What clients attach to a message, and how their session queues."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Image
from openclaw.gateway.desk import SessionService
from openclaw.turns.queue import QueueRules, parse_mode

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
    """Its kind, its content as it came, and its name when it is a file; a data URL knows its kind best."""
    if isinstance(attachment, dict):
        kind, content, name = attachment.get("mimeType"), attachment.get("content"), attachment.get("fileName")
    else:
        kind, content, name = attachment.mime_type, attachment.content, attachment.file_name
    if not isinstance(content, str):
        raise InvalidRequest("an attachment has no content: send it as base64 text")
    if content.startswith("data:"):
        kind = content[5:200].partition(",")[0].partition(";")[0] or kind
    return str(kind or ""), content, str(name or "")


async def queue_rules(desk: SessionService, key: SessionKey, default: str, asked: str | None = None) -> QueueRules:
    """How a message queues: as asked, as the session was set, or as its way in does by default."""
    chosen = asked or (await desk.lifecycle.preferences(key)).queue_mode or default
    return QueueRules(mode=parse_mode(chosen))
