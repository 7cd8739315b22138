"""Bytes of a streamed answer into frames: server-sent events and JSON lines, however the network cut them."""

from typing import Protocol

from msgspec import Struct

from openclaw.core.errors import BadResponse

MAX_FRAME_BYTES = 16 * 1024 * 1024
BOM = b"\xef\xbb\xbf"


class Frame(Struct, frozen=True):
    """One event: its name (empty when it has none) and its undecoded data."""

    name: str
    data: bytes


class FrameReader(Protocol):
    """Takes bytes as they come and gives the frames that are complete."""

    @property
    def foreign(self) -> tuple[bytes, ...]:
        """First bytes no stream of this kind has: what comes is a document."""
        ...

    def feed(self, chunk: bytes) -> list[Frame]: ...

    def end(self) -> list[Frame]:
        """What was left when the stream ended without its last line break."""
        ...


class _Lines:
    """Splits at CR, LF and CRLF; a line is given out as soon as its end is seen."""

    def __init__(self, provider: str, limit: int) -> None:
        self._provider = provider
        self._limit = limit
        self._parts: list[bytes] = []
        self._waiting = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        if not chunk:
            return []
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
            if not chunk:
                return []
        self._after_cr = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        lines = chunk.split(b"\n")
        lines[0] = self._take() + lines[0]
        self._keep(lines.pop())
        if self._first:
            self._first = False
            lines[0] = lines[0].removeprefix(BOM)
        return lines

    def end(self) -> list[bytes]:
        rest = self._take()
        if self._first:
            rest = rest.removeprefix(BOM)
        return [rest] if rest else []

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._waiting += len(part)
            self.check(self._waiting)

    def check(self, size: int) -> None:
        if size > self._limit:
            raise BadResponse(
                f"{self._provider} sent one event of more than {self._limit} bytes: "
                f"check that models.providers.{self._provider}.baseUrl is a model API"
            )

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts.clear()
        self._waiting = 0
        return line


class EventReader:
    """Server-sent events, as the HTML standard reads them; a last event without its blank line counts too."""

    foreign: tuple[bytes, ...] = (b"{", b"[", b"<")

    def __init__(self, provider: str, limit: int = MAX_FRAME_BYTES) -> None:
        self._lines = _Lines(provider, limit)
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        return self._read(self._lines.feed(chunk))

    def end(self) -> list[Frame]:
        return self._read([*self._lines.end(), b""])

    def _read(self, lines: list[bytes]) -> list[Frame]:
        frames: list[Frame] = []
        for line in lines:
            if line:
                self._field(line)
            elif self._data:
                frames.append(Frame(self._name, b"\n".join(self._data)))
                self._reset()
            else:
                self._reset()
        return frames

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
            self._lines.check(self._size)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")

    def _reset(self) -> None:
        self._name = ""
        self._data = []
        self._size = 0


class LineReader:
    """One JSON value a line."""

    foreign: tuple[bytes, ...] = (b"<",)

    def __init__(self, provider: str, limit: int = MAX_FRAME_BYTES) -> None:
        self._lines = _Lines(provider, limit)

    def feed(self, chunk: bytes) -> list[Frame]:
        return [Frame("", line) for line in self._lines.feed(chunk) if line.strip()]

    def end(self) -> list[Frame]:
        return [Frame("", line) for line in self._lines.end() if line.strip()]
