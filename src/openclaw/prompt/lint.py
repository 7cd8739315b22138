"""Lints the inputs of a prompt: sizes, duplicates, unknown tools, hidden characters, privacy. For a person to fix."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal

from msgspec import Struct

from openclaw.core.text import ContextFile, find_hidden, find_markers, utf16_length
from openclaw.prompt.facts import PromptFacts, tool_names
from openclaw.prompt.sections.tools import KNOWN_TOOLS

Kind = Literal[
    "over-budget",
    "near-limit",
    "missing",
    "unreadable",
    "duplicate",
    "unavailable-tool",
    "hidden-characters",
    "forged-marker",
    "heartbeat-off",
    "private-in-group",
    "no-read-tool",
]

LONG_ENOUGH = 40
"""Shorter lines repeat by chance."""
MAX_PER_RULE = 20

_QUOTED = re.compile(r"`([a-z][a-z_]{1,40})(?:\([^`]*\))?`")
_COMMENT = re.compile(r"^\s*(?:#|<!--.*-->\s*$|$)")


class LintFinding(Struct, frozen=True, kw_only=True):
    kind: Kind
    where: str
    message: str
    line: int = 0
    """Counted from 1 within the file as injected; 0 for the file as a whole."""

    def __str__(self) -> str:
        return f"{self.where}{f':{self.line}' if self.line else ''}: {self.message}"


def lint(facts: PromptFacts, *, max_file_chars: int = 20_000) -> tuple[LintFinding, ...]:
    """Finds problems in the inputs of a prompt."""
    rules = (
        _sizes(facts, max_file_chars),
        _duplicates(facts),
        _tools(facts),
        _characters(facts),
        _heartbeats(facts),
        _privacy(facts),
        _skills(facts),
    )
    return tuple(finding for rule in rules for finding in islice(rule, MAX_PER_RULE))


def _sizes(facts: PromptFacts, limit: int) -> Iterator[LintFinding]:
    for file in facts.context_files:
        if file.missing:
            yield LintFinding(kind="missing", where=file.name, message=f"not there; create {file.path}")
        elif file.problem:
            yield LintFinding(kind="unreadable", where=file.name, message=file.problem)
        elif file.truncated:
            yield LintFinding(
                kind="over-budget",
                where=file.name,
                message=f"{file.raw_chars:,} characters, {file.injected_chars:,} of them sent; "
                "shorten it or move details to memory/",
            )
        elif file.raw_chars * 100 >= limit * 85:
            yield LintFinding(
                kind="near-limit", where=file.name, message=f"{file.raw_chars:,} of at most {limit:,} characters"
            )


def _duplicates(facts: PromptFacts) -> Iterator[LintFinding]:
    first: dict[str, tuple[str, int]] = {}
    for file, number, line in _file_lines(facts):
        plain = re.sub(r"[\W_]+", " ", line).strip().lower()
        if utf16_length(plain) < LONG_ENOUGH:
            continue
        name, at = first.setdefault(plain, (file.name, number))
        if (name, at) != (file.name, number):
            yield LintFinding(
                kind="duplicate", where=file.name, line=number, message=f"says again what {name}:{at} says; keep one"
            )


def _tools(facts: PromptFacts) -> Iterator[LintFinding]:
    available = tool_names(facts)
    seen: set[tuple[str, str]] = set()
    for file, number, line in _file_lines(facts):
        if file.name.lower() not in ("agents.md", "tools.md"):
            continue
        for found in _QUOTED.finditer(line):
            name = found[1]
            if name in KNOWN_TOOLS - available and (file.name, name) not in seen:
                seen.add((file.name, name))
                yield LintFinding(
                    kind="unavailable-tool",
                    where=file.name,
                    line=number,
                    message=f"names the tool {name}, which this run does not have; check the tool policy",
                )


def _characters(facts: PromptFacts) -> Iterator[LintFinding]:
    for file in facts.context_files:
        text = file.content.text
        codes = [code for _, code, _ in find_hidden(text)]
        if codes:
            first = next(find_hidden(text))[0]
            yield LintFinding(
                kind="hidden-characters",
                where=file.name,
                line=text.count("\n", 0, first) + 1,
                message=f"{len(codes)} hidden characters ({', '.join(sorted(set(codes))[:5])}); they are not sent",
            )
        for start, _, _ in find_markers(text):
            yield LintFinding(
                kind="forged-marker",
                where=file.name,
                line=text.count("\n", 0, start) + 1,
                message="imitates one of our markers; it is sent in a harmless form",
            )


def _heartbeats(facts: PromptFacts) -> Iterator[LintFinding]:
    if facts.heartbeat is not None and facts.mode == "full":
        return
    for file in facts.context_files:
        lines = file.content.text.split("\n")
        if file.name.lower() == "heartbeat.md" and not file.missing and not all(map(_COMMENT.match, lines)):
            yield LintFinding(
                kind="heartbeat-off",
                where=file.name,
                message="has tasks, but this run gets no heartbeats; set agents.defaults.heartbeat.every",
            )


def _privacy(facts: PromptFacts) -> Iterator[LintFinding]:
    if facts.runtime.chat_type not in ("group", "channel"):
        return
    for file in facts.context_files:
        if file.name.lower() == "memory.md":
            yield LintFinding(
                kind="private-in-group", where=file.name, message="private memory is loaded in a shared conversation"
            )


def _skills(facts: PromptFacts) -> Iterator[LintFinding]:
    if facts.skills and not facts.cli_backend and "read" not in tool_names(facts):
        yield LintFinding(
            kind="no-read-tool",
            where="skills",
            message="skills are installed, but without the read tool none can be used; allow read",
        )


def _file_lines(facts: PromptFacts) -> Iterator[tuple[ContextFile, int, str]]:
    for file in facts.context_files:
        if file.missing or file.problem:
            continue
        for number, line in enumerate(file.content.text.split("\n"), 1):
            yield file, number, line
