"""Whether an answer only repeats what a tool has already delivered. Pure."""

import re
import unicodedata
from collections.abc import Sequence

LEAST_CHARS = 10
LEAST_SHARE = 0.5


def normalise(text: str) -> str:
    """`text` as two people would call it the same: no case, no emoji, no spacing."""
    plain = "".join(
        char for char in text.lower() if unicodedata.category(char) not in ("So", "Sk", "Cs") and char != "\ufe0f"
    )
    return re.sub(r"\s+", " ", plain).strip()


def repeats(text: str, sent: Sequence[str]) -> bool:
    """Whether `text` says again what one of the `sent` texts said."""
    if not sent:
        return False
    said = normalise(text)
    if len(said) < LEAST_CHARS:
        return False
    for other in map(normalise, sent):
        shorter, longer = sorted((said, other), key=len)
        if len(shorter) >= LEAST_CHARS and shorter in longer and len(shorter) >= LEAST_SHARE * len(longer):
            return True
    return False


def same_media(source: str) -> str:
    """A file or address as it is compared: however it was written."""
    cleaned = source.strip().strip("`\"'").removeprefix("file://")
    return cleaned.partition("#")[0].rstrip("/")
