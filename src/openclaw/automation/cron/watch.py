"""Watches: conditions that are checked before a model is asked. A check costs no tokens. Pure.

Each check gives a short fingerprint; a job or heartbeat runs when one differs from the last.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Annotated

from msgspec import Meta, Struct

from openclaw.automation.cron.schedule import JobPart
from openclaw.core.text import compile_lazily


class FileWatch(JobPart, frozen=True, kw_only=True, tag="file"):
    """A file or folder changed, appeared or disappeared. Relative paths are in the workspace."""

    path: Annotated[str, Meta(min_length=1)]


class CommandWatch(JobPart, frozen=True, kw_only=True, tag="command"):
    """A program's exit code or output changed."""

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    timeout_seconds: Annotated[float, Meta(gt=0, le=300)] = 30.0


class HttpWatch(JobPart, frozen=True, kw_only=True, tag="http"):
    """The status or the content of an address changed."""

    url: Annotated[str, Meta(pattern="^https?://")]


class SilenceWatch(JobPart, frozen=True, kw_only=True, tag="silence"):
    """Nobody has written in the main session for this long."""

    longer_than_ms: Annotated[int, Meta(ge=60_000)]


class MailWatch(JobPart, frozen=True, kw_only=True, tag="mail"):
    """New mail: in a Maildir on this machine, or in an IMAP mailbox."""

    path: str = ""
    """The Maildir. Relative paths are in the workspace."""
    host: str = ""
    """The IMAP server."""
    port: Annotated[int, Meta(ge=1, le=65535)] = 993
    tls: bool = True
    user: str = ""
    password_env: str = ""
    """The environment variable with the password; a job never contains one."""
    mailbox: str = "INBOX"

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.host):
            raise ValueError("a mail watch has either a path (a Maildir) or a host (IMAP)")
        if self.host and not (self.user and self.password_env):
            raise ValueError("a mail watch over IMAP needs user and passwordEnv")
        if self.host and not self.tls and self.host not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError("a password leaves this machine over TLS only: leave tls on")
        if re.search(r'[\r\n"\\\\]', self.mailbox + self.user):
            raise ValueError("a mailbox and a user have no quotes, backslashes and line ends in their names")


class DueWatch(JobPart, frozen=True, kw_only=True, tag="due"):
    """A line in the notes is due: MEMORY.md or memory/*.md say `due: 2027-03-01`, with a time of day if they like."""


Watch = FileWatch | CommandWatch | HttpWatch | SilenceWatch | MailWatch | DueWatch


class WatchResult(Struct, frozen=True):
    """The result of one check."""

    mark: str
    """The fingerprint; empty when there is nothing to see."""
    says: str
    """The same in words, for the model."""
    news: bool = True
    """Whether a change is reported; that somebody wrote again, or read the mail, is not."""
    adds: bool = False
    """The fingerprint is a list, and only new entries count, also at the first check."""
    name: str = ""


def watch_name(watch: Watch) -> str:
    match watch:
        case FileWatch():
            return f"file {watch.path}"
        case CommandWatch():
            return f"command {' '.join(watch.argv)}"
        case HttpWatch():
            return f"address {watch.url}"
        case SilenceWatch():
            return f"silence for {watch.longer_than_ms // 60_000} min"
        case MailWatch():
            return f"mail in {watch.path}" if watch.path else f"mail of {watch.user} in {watch.mailbox}"
        case DueWatch():
            return "notes that are due"


def make_fingerprint(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


def changed_results(looks: list[WatchResult], seen: Mapping[str, str]) -> list[WatchResult]:
    """The results that differ from `seen`. The first check of a thing only sets the baseline."""
    return [look for look in looks if look.mark and look.news and _differs(look, seen.get(look.name))]


def _differs(look: WatchResult, before: str | None) -> bool:
    if look.adds:
        return bool(set(look.mark.split(",")) - set((before or "").split(",")))
    return before is not None and look.mark != before


class DueLine(Struct, frozen=True, kw_only=True):
    """A line of a note and the time it is due."""

    where: str
    text: str
    at: int
    """In milliseconds."""


_DUE = compile_lazily(r"\bdue:?\s*\(?(\d{4}-\d{2}-\d{2})(?:[ T](\d{1,2}:\d{2}))?", re.IGNORECASE)
_DONE = compile_lazily(r"^\s*(?:[-*+]|\d+[.)])\s*\[[xX]\]|~~")


def due_lines(text: str, where: str, zone: tzinfo) -> list[DueLine]:
    """The lines with a due date that are not ticked off; without a time of day they are due when the day begins."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        named = _DUE.search(line)
        if named is None or _DONE.search(line):
            continue
        try:
            moment = datetime.fromisoformat(f"{named[1]} {(named[2] or '0:00').zfill(5)}").replace(tzinfo=zone)
        except ValueError:
            continue  # not a date, e.g. the 30th of February
        found.append(DueLine(where=f"{where}:{number}", text=line.strip()[:300], at=round(moment.timestamp() * 1000)))
    return found
