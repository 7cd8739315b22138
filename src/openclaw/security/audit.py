"""The audit of what plugins changed: hash-chained entries, and verifying the chain. Pure.

Each entry holds the digest of the one before it, so that altering, removing or inserting one is detected.

An entry has sizes and digests, never the text itself: it can be kept and shown without disclosing anything.
"""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct, structs

from openclaw.core.text import utf16_length

FIRST = "0" * 64
"""The predecessor digest of the first entry."""


class AuditChange(Struct, frozen=True, kw_only=True):
    """A change to record."""

    plugin: str
    hook: str
    field: str
    before: str = ""
    after: str = ""
    priority: int = 0
    refused: str = ""
    """Why it was refused; empty when it took effect."""
    note: str = ""
    """Further information: the tool, the sections that were dropped."""


class AuditEntry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of the audit."""

    seq: int
    at: int
    plugin: str
    hook: str
    field: str
    run_id: str = ""
    session_key: str = ""
    priority: int = 0
    before_chars: int = 0
    after_chars: int = 0
    before_sha256: str = ""
    after_sha256: str = ""
    refused: str = ""
    note: str = ""
    previous: str
    hash: str = ""

    @property
    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


def describe_entry(entry: AuditEntry) -> str:
    """An entry in one line, for people."""
    what = f"refused ({entry.refused})" if entry.refused else f"{entry.before_chars} to {entry.after_chars} characters"
    return f"{entry.plugin} at {entry.hook}: {entry.field} {what}{f', {entry.note}' if entry.note else ''}"


class AuditHead(Struct, frozen=True, rename="camel"):
    """The end of the chain; stored beside it, so that a truncated chain is detected."""

    seq: int = 0
    hash: str = FIRST
    first: int = 1
    """The oldest entry kept."""


class AuditCheck(Struct, frozen=True, kw_only=True):
    """The result of verifying a chain."""

    entries: int = 0
    first: int = 0
    last: int = 0
    problems: tuple[str, ...] = ()
    """Findings that only manual changes to the files explain."""
    notes: tuple[str, ...] = ()


def digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() if text else ""


def chain_entry(change: AuditChange, *, seq: int, previous: str, at: int, run_id: str, session_key: str) -> AuditEntry:
    """Makes the entry for a change, chained to the previous one."""
    told = structs.asdict(change)
    before, after = told.pop("before"), told.pop("after")
    told |= {"before_chars": utf16_length(before), "after_chars": utf16_length(after)}
    told |= {"before_sha256": digest(before), "after_sha256": digest(after)}
    entry = AuditEntry(seq=seq, at=at, previous=previous, run_id=run_id, session_key=session_key, **told)
    return structs.replace(entry, hash=_own_hash(entry))


def _own_hash(entry: AuditEntry) -> str:
    return hashlib.sha256(msgspec.json.encode(structs.replace(entry, hash=""))).hexdigest()


def parse_entry(line: bytes) -> AuditEntry | None:
    """Parses one line; None when it is not exactly an entry as written."""
    try:
        entry = msgspec.json.decode(line, type=AuditEntry)
    except msgspec.DecodeError:
        return None
    return entry if entry.line.rstrip(b"\n") == line.rstrip(b"\n") else None


def verify_chain(
    lines: Iterable[bytes], head: AuditHead | None, witnessed: Sequence[tuple[int, str]] = ()
) -> AuditCheck:
    """Verifies the chain from its oldest line to its newest.

    `witnessed` are entries (number and hash) recorded outside the chain.
    """
    problems: list[str] = []
    hashes: dict[int, str] = {}
    before: AuditEntry | None = None
    torn = 0
    for number, line in enumerate(lines, 1):
        entry = parse_entry(line)
        if entry is None:
            # A line truncated by a kill breaks nothing: the next entry names the last complete one. An altered line
            # does, because the next entry names its old digest.
            torn += 1
            continue
        problem = _problem(entry, before, head)
        if problem:
            problems.append(f"line {number} (entry {entry.seq}): {problem}")
        hashes[entry.seq] = entry.hash
        before = entry
    problems += _missing(hashes, before, head)
    problems += [
        f"entry {seq} is not the one that a recorded prompt remembers"
        for seq, known in witnessed
        if seq >= (min(hashes) if hashes else (head.first if head else 1)) and hashes.get(seq) != known
    ]
    notes = [f"{torn} line(s) were cut off: the program was killed while writing"] if torn else []
    if hashes and min(hashes) > 1:
        notes.append(f"entries before {min(hashes)} were forgotten with age")
    first, last = min(hashes, default=0), max(hashes, default=0)
    return AuditCheck(entries=len(hashes), first=first, last=last, problems=tuple(problems), notes=tuple(notes))


def _problem(entry: AuditEntry, before: AuditEntry | None, head: AuditHead | None) -> str:
    if _own_hash(entry) != entry.hash:
        return "it is not what was written"
    if before is None:
        if head is not None and entry.seq != head.first:
            return f"the oldest entry should be {head.first}: older ones were taken out"
        return "" if entry.seq > 1 or entry.previous == FIRST else "it is not the first entry that was written"
    if entry.seq != before.seq + 1:
        return f"it follows entry {before.seq}: what stood between them was taken out"
    return "" if entry.previous == before.hash else "the entry before it is not the one that was there"


def _missing(hashes: dict[int, str], last: AuditEntry | None, head: AuditHead | None) -> list[str]:
    """Entries that the head remembers and the chain lacks."""
    if head is None or head.seq == 0:
        return []
    end = last.seq if last else 0
    if end < head.seq:
        return [f"the chain ends with entry {end}, but {head.seq} were written: its end was cut off"]
    return [] if hashes.get(head.seq) == head.hash else [f"entry {head.seq} is not the one the head remembers"]
