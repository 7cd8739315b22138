"""What must outlive a summary word for word: standing rules, identifiers, files worked on. Pure."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.messages import Assistant, Message, ToolCall, User
from openclaw.core.patterns import lazy
from openclaw.core.text import markers

RULE_CHARS = 300
MOST_RULES_CHARS = 4_000
MOST_IDENTIFIERS = 12
IDENTIFIERS_FROM = 12
"""Identifiers are looked for in so many of the latest messages."""
MOST_FILES_CHARS = 2_000

_RULE = lazy(
    r"\b(?:never|always|from now on|under no circumstances|at no time|in future|in the future|every time|"
    r"(?:do not|don't|dont|must not|mustn't|may not) (?:ever|again|under)|"
    r"(?:must|do not|don't|must not|shall not|only) .{0,80}\b(?:without|unless|until|before)\b|"
    r"(?:remember|make sure|be sure) (?:to|that|not to)|ask (?:me )?(?:first|before)|"
    r"niemals|immer|nie wieder|jamais|toujours|nunca|siempre|mai|sempre)\b"
    r"|никогда|всегда|永远不|绝不|总是|必须先|絶対に|必ず|कभी नहीं|हमेशा",
    re.IGNORECASE,
)
_SENTENCE = lazy(r"(?<=[.!?。！？])\s+|\n+")
_FENCE = lazy(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)
_BULLET = lazy(r"^(?:[-*•]|\d{1,3}[.)])\s+")
_IDENTIFIER = lazy(
    r"https?://[^\s<>\"'`)\]]+"
    r"|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|(?<![\w/])(?:~|\.{1,2})?/(?:[\w.@+-]{1,128}/){0,32}[\w.@+-]{1,128}"
    r"|\b[A-Za-z]:\\[\w.\\-]+"
    r"|\b[\w-]{1,64}(?:\.[\w-]{1,64}){0,8}:\d{2,5}\b"
    r"|\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?Z?)?\b"
    r"|\b[A-Z][A-Z0-9]{1,9}-\d+\b"
    r"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"
    r"|\b\d{6,}\b",
)
_PATCHED = lazy(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_READERS = frozenset({"read"})
_WRITERS = frozenset({"write", "edit"})


class EssentialDetails(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a compaction entry keeps beside its summary."""

    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


def details_of(raw: Any) -> EssentialDetails:
    """The details of an entry, whoever wrote it; what is not in our shape is not there."""
    try:
        return msgspec.convert(raw, EssentialDetails) if raw is not None else EssentialDetails()
    except msgspec.ValidationError:
        return EssentialDetails()


def rules(messages: Iterable[Message]) -> tuple[str, ...]:
    """The sentences in which a person laid down how things are to be done, in their own words, oldest first."""
    found: dict[str, None] = {}
    for message in messages:
        if not isinstance(message, User) or message.origins or any(markers(message.text)):
            continue  # between markers is what others wrote, and others lay down nothing
        for part in _SENTENCE.split(_FENCE.sub("\n", message.text)):
            sentence = _BULLET.sub("", " ".join(part.split()))
            if 0 < len(sentence) <= RULE_CHARS and sentence[0] not in ">|" and _RULE.search(sentence):
                found.setdefault(sentence)
    return tuple(found)


def merge_rules(before: Sequence[str], new: Sequence[str], budget: int = MOST_RULES_CHARS) -> tuple[str, ...]:
    """Rules old and new within `budget` characters. A rule said again moves to the end, where it weighs most.

    When there are too many, the first and the latest stay.
    """
    again = set(new)
    together = [rule for rule in before if rule not in again] + list(dict.fromkeys(new))
    if sum(map(len, together)) <= budget:
        return tuple(together)
    first = _within(together, budget // 2)
    latest = _within(together[len(first) :][::-1], budget - sum(map(len, first)))
    return (*first, *reversed(latest))


def _within(texts: Sequence[str], budget: int) -> list[str]:
    kept: list[str] = []
    for text in texts:
        budget -= len(text)
        if budget < 0:
            break
        kept.append(text)
    return kept


def identifiers(messages: Sequence[Message]) -> tuple[str, ...]:
    """Addresses, paths, ids, hashes, dates that people and the assistant spoke of last, the latest first."""
    found: dict[str, None] = {}
    spoken = [m for m in messages if isinstance(m, User | Assistant)][-IDENTIFIERS_FROM:]
    for message in reversed(spoken):
        for match in _IDENTIFIER.finditer(message.text[:20_000]):
            value = match.group().rstrip(".,;:!?")
            if len(value) >= 4:
                found.setdefault(value)
            if len(found) == MOST_IDENTIFIERS:
                return tuple(found)
    return tuple(found)


def files(messages: Iterable[Message], before: EssentialDetails) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files that were read and files that were changed, over all compactions."""
    read, changed = dict.fromkeys(before.read_files), dict.fromkeys(before.modified_files)
    for message in messages:
        for call in message.calls if isinstance(message, Assistant) else ():
            if call.name in _READERS:
                read.update(dict.fromkeys(_path(call)))
            elif call.name in _WRITERS:
                changed.update(dict.fromkeys(_path(call)))
            elif call.name == "apply_patch":
                patch = " ".join(value for value in call.arguments.values() if isinstance(value, str))
                changed.update(dict.fromkeys(name.strip() for name in _PATCHED.findall(patch)))
    return _newest(name for name in read if name not in changed), _newest(changed)


def _path(call: ToolCall) -> list[str]:
    found = (call.arguments.get(name) for name in ("path", "file_path", "filePath"))
    return [value for value in found if isinstance(value, str) and value][:1]


def _newest(names: Iterable[str]) -> tuple[str, ...]:
    """The latest of `names` that fit the list."""
    return tuple(reversed(_within(list(names)[::-1], MOST_FILES_CHARS // 2)))
