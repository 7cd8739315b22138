"""Scans text for hidden characters, prompt-injection patterns, forged markers and control tokens. Never changes it."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Literal

from msgspec import Struct

from openclaw.core.text import compile_lazily, find_hidden, find_markers, fold
from openclaw.security.external import CONTROL_TOKENS

Kind = Literal["hidden", "bidi", "pattern", "marker", "token"]
Severity = Literal["warn", "critical"]

# Each pattern as it is documented, and an equivalent that runs in linear time on any input.
_PATTERNS: tuple[tuple[str, str], ...] = (
    (
        r"ignore\s+(all\s+)?(previous|prior|above)\s+(instructions?|prompts?)",
        r"ignore\s++(?:all\s++)?(?:previous|prior|above)\s++(?:instruction|prompt)",
    ),
    (r"disregard\s+(all\s+)?(previous|prior|above)", r"disregard\s++(?:all\s++)?(?:previous|prior|above)"),
    (
        r"forget\s+(everything|all|your)\s+(instructions?|rules?|guidelines?)",
        r"forget\s++(?:everything|all|your)\s++(?:instruction|rule|guideline)",
    ),
    (r"you\s+are\s+now\s+(a|an)\s+", r"you\s++are\s++now\s++an?\s"),
    (r"new\s+instructions?:", r"new\s++instructions?:"),
    (r"system\s*:?\s*(prompt|override|command)", r"system\s*+:?\s*+(?:prompt|override|command)"),
    (r"\bexec\b.*command\s*=", ""),
    (r"elevated\s*=\s*true", r"elevated\s*+=\s*+true"),
    (r"rm\s+-rf", r"rm\s++-rf"),
    (r"delete\s+all\s+(emails?|files?|data)", r"delete\s++all\s++(?:email|file|data)"),
    (r"</?system>", r"</?system>"),
    (r"\]\s*\n\s*\[?(system|assistant|user)\]?:", r"\][^\S\n]*+\n\s*+\[?(?:system|assistant|user)\]?:"),
    (
        r"\[\s*(System\s*Message|System|Assistant|Internal)\s*\]",
        r"\[\s*+(?:System\s*+Message|System|Assistant|Internal)\s*+\]",
    ),
    (r"^\s*System:\s+", r"^[^\S\n]*+System:\s"),
)
SUSPICIOUS = tuple(source for source, _ in _PATTERNS)
_COMPILED = tuple((source, compile_lazily(safe, re.I | re.M)) for source, safe in _PATTERNS if safe)
_EXEC = compile_lazily(r"\bexec\b", re.I)
_COMMAND = compile_lazily(r"command\s*+=", re.I)

# These override the prompt; the others may be honest notes about commands.
_OVERRIDES = frozenset((*SUSPICIOUS[:3], SUSPICIOUS[10], SUSPICIOUS[11]))

_TOKENS = compile_lazily(CONTROL_TOKENS)


class TextFinding(Struct, frozen=True):
    """One finding for a person to review."""

    kind: Kind
    severity: Severity
    line: int
    detail: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.detail}"


def scan(text: str) -> tuple[TextFinding, ...]:
    """All findings in `text`, by line."""
    folded = fold(text)
    line_of, folded_line_of = _line_counter(text), _line_counter(folded)
    found = [*_unseen(text, line_of)]
    for start, end, _ in find_markers(text):
        found.append(TextFinding("marker", "critical", line_of(start), f"imitates a marker: {text[start:end]!r}"))
    for source, at in _matches(folded):
        severity: Severity = "critical" if source in _OVERRIDES else "warn"
        found.append(TextFinding("pattern", severity, folded_line_of(at), f"matches {source}"))
    for token in _TOKENS.finditer(text):
        found.append(TextFinding("token", "warn", line_of(token.start()), f"model control token {token.group()!r}"))
    return tuple(sorted(found, key=attrgetter("line")))


def suspicious_patterns(text: str) -> tuple[str, ...]:
    """The patterns `text` matches, each by its documented source, in their documented order."""
    matched = {source for source, _ in _matches(fold(text))}
    return tuple(source for source in SUSPICIOUS if source in matched)


def is_critical(findings: tuple[TextFinding, ...]) -> bool:
    """Whether a file with these findings should be withheld where the settings say so."""
    return any(finding.severity == "critical" for finding in findings)


def _unseen(text: str, line_of: Callable[[int], int]) -> Iterator[TextFinding]:
    seen = (
        (line_of(at), "bidi" if bidi else "hidden", code)
        for at, code, bidi in find_hidden(text)
        if not _joins(text, at)
    )
    for (line, kind), group in groupby(seen, key=itemgetter(0, 1)):
        codes = [code for _, _, code in group]
        names = ", ".join(dict.fromkeys(codes))
        if kind == "bidi":
            yield TextFinding("bidi", "critical", line, f"{len(codes)} characters that reorder text ({names})")
        else:
            yield TextFinding("hidden", "warn", line, f"{len(codes)} hidden characters ({names})")


def _joins(text: str, at: int) -> bool:
    """Whether a joiner is between two symbols, where it is part of an emoji."""
    return text[at] == "\u200d" and 0 < at < len(text) - 1 and not text[at - 1].isascii() and ord(text[at + 1]) > 0x2000


def _matches(text: str) -> Iterator[tuple[str, int]]:
    for source, pattern in _COMPILED:
        for found in pattern.finditer(text):
            yield source, found.start() + len(found.group()) - len(found.group().lstrip())
    start = 0
    for line in text.splitlines(keepends=True):
        opened = _EXEC.search(line)
        if opened and _COMMAND.search(line, opened.end()):
            yield SUSPICIOUS[6], start + opened.start()
        start += len(line)


def _line_counter(text: str) -> Callable[[int], int]:
    """Gives the line of a position; the lines are counted once."""
    ends = [found.start() for found in re.finditer("\n", text)]
    return lambda at: bisect_left(ends, at) + 1
