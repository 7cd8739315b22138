"""Lints the inputs of a prompt: sizes, duplicates, unknown tools, hidden characters, privacy. For a person to fix."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal

from msgspec import Struct

from openclaw.core.text import ContextFile, estimate_tokens, find_hidden, find_markers, utf16_length
from openclaw.prompt.build import build
from openclaw.prompt.facts import PromptFacts, tool_names
from openclaw.prompt.fit import SMALL_WINDOW
from openclaw.prompt.sections.tools import KNOWN_TOOLS

Kind = Literal[
    "over-budget",
    "costly",
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

BUDGETS = {"schemas": 9_500, "instructions": 4_500, "files": 2_300, "all": 6_800}
"""Of a first request: characters of schemas; tokens of instructions with schemas, of workspace files, and of all."""
SMALL_BUDGETS = {"all": 2_500}
LONG_ENOUGH = 40
"""Shorter lines repeat by chance."""
MAX_PER_RULE = 20

_QUOTED = re.compile(r"`([a-z][a-z_]{1,40})(?:\([^`]*\))?`")
_COMMENT = re.compile(r"^\s*(?:#|<!--.*-->\s*$|$)")


class LintFinding(Struct, frozen=True):
    kind: Kind
    where: str
    message: str
    line: int = 0
    """Counted from 1 within the file as injected; 0 for the file as a whole."""

    def __str__(self) -> str:
        return f"{self.where}{f':{self.line}' if self.line else ''}: {self.message}"


def lint(
    facts: PromptFacts, *, max_file_chars: int = 20_000, schemas: int = 0, window: int = 200_000
) -> tuple[LintFinding, ...]:
    """Finds problems in the inputs of a prompt; `schemas` are the characters of tool schemas sent with it."""
    rules = (
        _costs(facts, schemas, window),
        _sizes(facts, max_file_chars),
        _duplicates(facts),
        _tools(facts),
        _characters(facts),
        _heartbeats(facts),
        _privacy(facts),
        _skills(facts),
    )
    return tuple(finding for rule in rules for finding in islice(rule, MAX_PER_RULE))


def _costs(facts: PromptFacts, schemas: int, window: int) -> Iterator[LintFinding]:
    """The budgets of a first request; the owner may pass them, but should know."""
    sections = build(facts).sections
    files = sum(piece.chars for piece in sections if piece.id.startswith("file:"))
    rest = sum(piece.chars for piece in sections) - files
    limits = SMALL_BUDGETS if window <= SMALL_WINDOW else BUDGETS
    costs = {
        "schemas": (schemas, "keep tools.toolSearch on, or take tools away with tools.deny"),
        "instructions": (estimate_tokens(rest + schemas), "fewer tools and skills make it cheaper"),
        "files": (estimate_tokens(files), "shorten the workspace files, or move details to memory/"),
        "all": (estimate_tokens(rest + schemas + files), "every request costs that much"),
    }
    for name, most in limits.items():
        cost, remedy = costs[name]
        if cost > most:
            unit = "characters" if name == "schemas" else "tokens"
            yield LintFinding("costly", f"prompt {name}", f"{cost:,} {unit}, above {most:,}; {remedy}")


def _sizes(facts: PromptFacts, limit: int) -> Iterator[LintFinding]:
    for file in facts.context_files:
        if file.missing:
            yield LintFinding("missing", file.name, f"not there; create {file.path}")
        elif file.problem:
            yield LintFinding("unreadable", file.name, file.problem)
        elif file.truncated:
            sizes = f"{file.raw_chars:,} characters, {file.injected_chars:,} of them sent"
            yield LintFinding("over-budget", file.name, f"{sizes}; shorten it or move details to memory/")
        elif file.raw_chars * 100 >= limit * 85:
            yield LintFinding("near-limit", file.name, f"{file.raw_chars:,} of at most {limit:,} characters")


def _duplicates(facts: PromptFacts) -> Iterator[LintFinding]:
    first: dict[str, tuple[str, int]] = {}
    for file, number, line in _file_lines(facts):
        plain = re.sub(r"[\W_]+", " ", line).strip().lower()
        if utf16_length(plain) < LONG_ENOUGH:
            continue
        name, at = first.setdefault(plain, (file.name, number))
        if (name, at) != (file.name, number):
            yield LintFinding("duplicate", file.name, f"says again what {name}:{at} says; keep one", number)


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
                message = f"names the tool {name}, which this run does not have; check the tool policy"
                yield LintFinding("unavailable-tool", file.name, message, number)


def _characters(facts: PromptFacts) -> Iterator[LintFinding]:
    for file in facts.context_files:
        text = file.content.text
        hidden = list(find_hidden(text))
        if hidden:
            codes = ", ".join(sorted({code for _, code, _ in hidden})[:5])
            line = text.count("\n", 0, hidden[0][0]) + 1
            message = f"{len(hidden)} hidden characters ({codes}); they are not sent"
            yield LintFinding("hidden-characters", file.name, message, line)
        for start, _, _ in find_markers(text):
            message = "imitates one of our markers; it is sent in a harmless form"
            yield LintFinding("forged-marker", file.name, message, text.count("\n", 0, start) + 1)


def _heartbeats(facts: PromptFacts) -> Iterator[LintFinding]:
    if facts.heartbeat is not None and facts.mode == "full":
        return
    for file in facts.context_files:
        lines = file.content.text.split("\n")
        if file.name.lower() == "heartbeat.md" and not file.missing and not all(map(_COMMENT.match, lines)):
            message = "has tasks, but this run gets no heartbeats; set agents.defaults.heartbeat.every"
            yield LintFinding("heartbeat-off", file.name, message)


def _privacy(facts: PromptFacts) -> Iterator[LintFinding]:
    if facts.runtime.chat_type not in ("group", "channel"):
        return
    for file in facts.context_files:
        if file.name.lower() == "memory.md":
            yield LintFinding("private-in-group", file.name, "private memory is loaded in a shared conversation")


def _skills(facts: PromptFacts) -> Iterator[LintFinding]:
    if facts.skills and "read" not in tool_names(facts):
        message = "skills are installed, but without the read tool none can be used; allow read"
        yield LintFinding("no-read-tool", "skills", message)


def _file_lines(facts: PromptFacts) -> Iterator[tuple[ContextFile, int, str]]:
    for file in facts.context_files:
        if file.missing or file.problem:
            continue
        for number, line in enumerate(file.content.text.split("\n"), 1):
            yield file, number, line
