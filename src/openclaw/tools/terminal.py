"""Program output made readable: escape sequences, overwritten lines and binary removed. No I/O."""

import re
from collections import deque

KEPT_CHARS = 200_000
DISCARDED = "[earlier output was discarded at the retention cap and cannot be recovered]"

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]"
    r"|\x1b"
)
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n|\Z)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_DAMAGE = re.compile("\ufffd{2,}")


def readable(data: bytes) -> str:
    """`data` as a person would have seen it scroll by."""
    text = _ESCAPES.sub("", data.decode("utf-8", "replace"))
    text = text.replace("\r\r\n", "\n").replace("\r\n", "\n")
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text).replace("\r", "")
    return _DAMAGE.sub("\ufffd", _CONTROLS.sub("", text))


class OutputTail:
    """The last of an output of any length; adding is cheap, reading is not."""

    def __init__(self, chars: int = KEPT_CHARS) -> None:
        self._chars = chars
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self.cut = False

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._held += len(chunk)
        # Four bytes are the longest character, so this many always hold enough of them.
        while self._held - len(self._chunks[0]) >= 4 * self._chars:
            self._held -= len(self._chunks.popleft())
            self.cut = True

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._held

    def last(self, chars: int) -> str:
        """Up to `chars` of the newest output, for showing progress."""
        found: list[bytes] = []
        held = 0
        for chunk in reversed(self._chunks):
            found.append(chunk)
            held += len(chunk)
            if held >= 8 * chars:
                break
        return readable(b"".join(reversed(found))[-8 * chars :]).rstrip()[-chars:]

    def text(self) -> str:
        """All that is kept, with a note when that is not everything."""
        text = readable(b"".join(self._chunks))
        if len(text) <= self._chars and not self.cut:
            return _trim(text)
        self.cut = True
        text = text[-self._chars :]
        # Begin at a line where one is near; the first is likely to be half of one.
        head, newline, rest = text.partition("\n")
        return f"{DISCARDED}\n{_trim(rest if newline and len(head) < 2000 else text)}"


def _trim(text: str) -> str:
    """Without empty lines at either end; the first line keeps its indentation."""
    return re.sub(r"\A(?:[ \t]*\n)+", "", text).rstrip()
