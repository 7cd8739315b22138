"""Images inside a request: data URLs, checked before they go anywhere. Pure."""

import base64
import binascii
import re

from openclaw.core.messages import Image
from openclaw.gateway.http.problems import HttpProblem

MOST_IMAGES = 8
MOST_BYTES = 10 * 1024 * 1024
KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DATA_URL = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)((?:;[a-z0-9-]+=[^;,]*)*);base64,", re.IGNORECASE | re.ASCII)


def image(url: str) -> Image:
    """The image in a data URL."""
    found = _DATA_URL.match(url)
    if found is None:
        raise HttpProblem(400, "an image must be a data: URL with base64 content; addresses are not fetched")
    kind = found[1].lower().replace("image/jpg", "image/jpeg")
    if kind not in KINDS:
        raise HttpProblem(400, f"{kind} images are not supported: send {', '.join(KINDS)}")
    try:
        data = base64.b64decode("".join(url[found.end() :].split()), validate=True)
    except (binascii.Error, ValueError):
        raise HttpProblem(400, "the content of an image is not base64") from None
    if not data:
        raise HttpProblem(400, "an image is empty")
    if len(data) > MOST_BYTES:
        raise HttpProblem(400, f"an image is larger than {MOST_BYTES} bytes: send a smaller one")
    return Image(base64.b64encode(data).decode(), kind)
