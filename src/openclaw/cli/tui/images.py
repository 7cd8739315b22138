"""Pictures that go with a message: a path dropped on or pasted into a terminal becomes an attachment."""

import base64
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from openclaw.core.errors import InvalidRequest

MOST_BYTES = 5 * 1024 * 1024
MOST_IMAGES = 8
_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def dropped(text: str, cwd: Path) -> tuple[Path, ...]:
    """The pictures meant by a pasted text that consists of nothing but their paths; none when it says more."""
    text = text.strip()
    if not text or len(text) > 8_000 or not any(suffix in text.lower() for suffix in _SUFFIXES):
        return ()
    whole = _as_path(text, cwd)
    if whole is not None:
        return (whole,)
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    paths = [_as_path(word, cwd) for word in words]
    return tuple(path for path in paths if path is not None) if all(paths) else ()


def _as_path(text: str, cwd: Path) -> Path | None:
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    if not text.lower().endswith(_SUFFIXES) or "\n" in text or "\0" in text:
        return None
    path = cwd / Path(text).expanduser()
    try:
        return path if path.is_file() else None
    except OSError:
        return None


def attachment(path: Path) -> Mapping[str, str]:
    """A picture as the gateway takes it; says what is wrong with one it would not."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InvalidRequest(
                f"{path.name} has {size:,} bytes; at most {MOST_BYTES:,} are accepted: make it smaller"
            )
        data = path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if not kind:
        raise InvalidRequest(f"{path.name} is not a PNG, JPEG, GIF or WebP image")
    return {"mimeType": kind, "fileName": path.name, "content": base64.b64encode(data).decode()}
