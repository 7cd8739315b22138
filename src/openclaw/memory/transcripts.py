"""Reads transcripts as notes: one line per message, with a map back to the transcript's lines."""

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from openclaw.core.errors import InvalidRequest, StateError
from openclaw.core.keys import parse_session_key
from openclaw.core.text import compile_lazily
from openclaw.memory.chunk import Chunk
from openclaw.memory.files import MOST_BYTES
from openclaw.security.note_marks import less_trusted

LONGEST_LINE = 4 * 1024 * 1024
SILENT = frozenset({"NO_REPLY", "HEARTBEAT_OK"})
HIDDEN = "[redacted]"

_SECRETS = compile_lazily(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abprs]|hf|npm|pypi)[-_][A-Za-z0-9_\-]{16,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_\-]{30,}|\beyJ[\w\-]{10,}\.[\w\-]{10,}\.[\w\-]{5,}"
    r"|(?i:\b(?:bearer|password|passwd|secret|api[_-]?key|token)\b\s*[:=]?\s*)[\"']?(?=\S*\d)[^\s\"',;]{8,}",
    re.DOTALL,
)


class _Block(Struct, frozen=True):
    type: str = ""
    text: str = ""


class _Origin(Struct, frozen=True):
    label: str = ""


class _Said(Struct, frozen=True):
    role: str = ""
    content: str | tuple[_Block, ...] = ""
    origins: tuple[_Origin, ...] = ()


class _Line(Struct, frozen=True, rename="camel"):
    type: str = ""
    session_key: str | None = None
    message: _Said | None = None


class TranscriptNote(Struct, frozen=True, kw_only=True):
    """A conversation, ready to be split into chunks."""

    owner: str
    text: str
    lines: tuple[int, ...]
    labels: tuple[str, ...]
    """The trust label of each line; untrusted text taints every line after it."""
    hash: str
    mtime: int
    size: int

    def placed(self, chunk: Chunk) -> Chunk:
        """Maps `chunk` to the transcript's line numbers."""
        return Chunk(self.lines[chunk.start - 1], self.lines[chunk.end - 1], chunk.text)


def is_indexed(session_key: str) -> bool:
    """Whether a session is a conversation with people (and not cron, a sub-agent and the like)."""
    if not session_key:
        return True
    try:
        key = parse_session_key(session_key)
    except InvalidRequest:
        return False
    return not (key.is_cron or key.is_subagent or key.is_hook or key.is_acp or key.is_single)


def may_see(owner: str, asking: str) -> bool:
    """Whether the session `asking` may see what was said in the session `owner`.

    The main session is its owner's and sees everything; everybody else sees only their own conversation.
    """
    if owner == asking:
        return True
    try:
        return parse_session_key(asking).is_main
    except InvalidRequest:
        return False


def has_grown(path: Path, known_size: int, delta_bytes: int, delta_messages: int) -> bool:
    """Whether a transcript has grown enough to be read again."""
    try:
        size = path.stat().st_size
        if size < known_size or size - known_size >= delta_bytes:
            return size != known_size
        with path.open("rb") as file:
            file.seek(known_size)
            return file.read(delta_bytes).count(b"\n") >= max(1, delta_messages)
    except OSError:
        return False


def read(path: Path) -> TranscriptNote:
    """Reads the messages of the transcript `path`."""
    owner, said, lines = "", [], []
    marks: list[str] = []
    mark = ""
    hashed = sha256()
    try:
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            total = 0
            for number, line in enumerate(_lines(file), 1):
                hashed.update(line)
                try:
                    found = msgspec.json.decode(line, type=_Line, strict=False)
                except msgspec.DecodeError:
                    continue
                if found.message is not None and found.message.origins:
                    mark = less_trusted(mark, *(each.label for each in found.message.origins))
                if found.type == "session":
                    owner = found.session_key or owner
                elif (text := _spoken(found)) and total < MOST_BYTES:
                    said.append(text)
                    lines.append(number)
                    marks.append(mark)
                    total += len(text)
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from error
    return TranscriptNote(
        owner=owner,
        text="\n".join(said),
        lines=tuple(lines),
        labels=tuple(marks),
        hash=hashed.hexdigest(),
        mtime=info.st_mtime_ns,
        size=info.st_size,
    )


def redact(text: str) -> str:
    """Redacts what looks like a credential."""
    return _SECRETS.sub(HIDDEN, text)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines; an empty one in place of one that is too long."""
    while line := file.readline(LONGEST_LINE):
        part = line
        while not part.endswith(b"\n") and (part := file.readline(LONGEST_LINE)):
            line = b""
        yield line


def _spoken(line: _Line) -> str:
    """Renders a message as one line; empty for anything but user and assistant text."""
    message = line.message
    if line.type != "message" or message is None or message.role not in ("user", "assistant"):
        return ""
    if isinstance(message.content, str):
        text = message.content
    else:
        text = " ".join(block.text for block in message.content if block.type == "text")
    text = " ".join(text.split())
    heartbeat = message.role == "user" and text.startswith(("Read HEARTBEAT.md", "[heartbeat", "[inter-session"))
    if not text or text in SILENT or heartbeat or text.startswith("/"):
        return ""
    return f"{'User' if message.role == 'user' else 'Assistant'}: {redact(text)}"
