"""Blames each line of a prompt on its source, and compares two prompts: sections changed, cached prefix kept."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.text import CACHE_BOUNDARY, Label
from openclaw.prompt.build import Prompt
from openclaw.prompt.facts import OWN_SOURCE, Section
from openclaw.prompt.report import PromptReport

# Blame.


class BlamedLine(Struct, frozen=True, kw_only=True):
    """A line of the prompt's text, counted from 1."""

    number: int = 0
    text: str
    section: str
    source: str
    label: Label
    stable: bool


def blame(prompt: Prompt) -> tuple[BlamedLine, ...]:
    """Every line of `prompt.text` with its source."""
    stable = _lines(piece for piece in prompt.sections if piece.stable)
    # The stable part is trimmed at its end, and so are its lines.
    traced = stable[: prompt.stable.count("\n") + 1]
    if prompt.dynamic:
        mark = Section(id="boundary", heading="", text=CACHE_BOUNDARY.strip())
        traced += _lines((mark, *(piece for piece in prompt.sections if not piece.stable)))
    return tuple(structs.replace(line, number=number) for number, line in enumerate(traced, 1))


def blame_line(prompt: Prompt, number: int) -> BlamedLine:
    """Line `number` of the prompt."""
    lines = blame(prompt)
    if not 1 <= number <= len(lines):
        raise InvalidRequest(f"the prompt has {len(lines):,} lines; there is no line {number}")
    return lines[number - 1]


def _lines(sections: Iterable[Section]) -> list[BlamedLine]:
    return [line for piece in sections for line in _section_lines(piece)]


def _section_lines(piece: Section) -> Iterator[BlamedLine]:
    # Headings are ours even when the text is not.
    ours = piece.heading.count("\n") + 1 if piece.heading else 0
    for place, text in enumerate(piece.rendered.split("\n")):
        line = BlamedLine(text=text, section=piece.id, source=piece.source, label=piece.label, stable=piece.stable)
        yield structs.replace(line, source=OWN_SOURCE, label="system") if place < ours else line


# Comparison.


class PromptDifference(Struct, frozen=True, kw_only=True):
    """One section that differs."""

    id: str
    kind: Literal["added", "removed", "changed", "moved"]
    stable: bool
    before_chars: int = 0
    after_chars: int = 0
    source: str = ""


class PromptDiff(Struct, frozen=True, kw_only=True):
    changes: tuple[PromptDifference, ...]
    prefix_kept: bool
    """Whether the text above the boundary is the same, byte for byte."""
    broken_at: str = ""
    """The first section above the boundary that differs."""
    broken_at_byte: int | None = None
    """The first differing UTF-8 byte of the prefix; between reports, the start of the differing section."""
    prefix_bytes: int = 0
    """The size of the earlier prefix."""

    def __str__(self) -> str:
        lines = [f"{each.kind} {each.id} ({each.before_chars:,} → {each.after_chars:,} chars)" for each in self.changes]
        if self.prefix_kept:
            verdict = "the cached prefix is unchanged"
        else:
            verdict = (
                f"the cached prefix broke in {self.broken_at or 'its end'} at byte {self.broken_at_byte:,} "
                f"of {self.prefix_bytes:,}"
            )
        return "\n".join((*lines, verdict))


class _Print(Struct, frozen=True):
    """A section reduced to hash and size."""

    id: str
    hash: str
    chars: int
    bytes: int
    stable: bool
    source: str


def diff(before: Prompt | PromptReport, after: Prompt | PromptReport) -> PromptDiff:
    """Compares two prompts or reports; `broken_at_byte` is exact between two prompts only."""
    old, new = _prints(before), _prints(after)
    above_old, above_new = [one for one in old if one.stable], [one for one in new if one.stable]
    part = _parting(above_old, above_new)
    at = ""
    byte = None
    if part is not None:
        here = (above_new[part : part + 1] or above_old[part : part + 1])[0]
        at = here.id
        byte = sum(one.bytes + 1 for one in above_old[:part])
        if isinstance(before, Prompt) and isinstance(after, Prompt):
            byte = _first_difference(before.stable.encode(), after.stable.encode())
    return PromptDiff(
        changes=tuple(_changes(old, new)),
        prefix_kept=part is None,
        broken_at=at,
        broken_at_byte=byte,
        prefix_bytes=max(0, sum(one.bytes + 1 for one in above_old) - 1),
    )


def _prints(prompt: Prompt | PromptReport) -> list[_Print]:
    if isinstance(prompt, PromptReport):
        return [
            _Print(line.id, line.hash, line.injected_chars, line.bytes, line.side == "stable", line.source)
            for line in prompt.sections
        ]
    made = ((piece, piece.rendered.encode()) for piece in prompt.sections)
    return [
        _Print(piece.id, hashlib.sha256(raw).hexdigest(), piece.chars, len(raw), piece.stable, piece.source)
        for piece, raw in made
    ]


def _parting(old: Sequence[_Print], new: Sequence[_Print]) -> int | None:
    """The position of the first section that differs."""
    for place, (one, other) in enumerate(zip_longest(old, new)):
        if one is None or other is None or one.hash != other.hash:
            return place
    return None


def _changes(old: Sequence[_Print], new: Sequence[_Print]) -> list[PromptDifference]:
    before = {one.id: one for one in old}
    after = {one.id: one for one in new}
    # Positions count only sections in both prompts, so that an addition is not reported as moves.
    was_at = {name: place for place, name in enumerate(name for name in before if name in after)}
    is_at = {name: place for place, name in enumerate(name for name in after if name in before)}
    changes = [
        PromptDifference(id=one.id, kind="removed", stable=one.stable, before_chars=one.chars, source=one.source)
        for one in old
        if one.id not in after
    ]
    for now in new:
        was = before.get(now.id)
        if was is None:
            kind: Literal["added", "changed", "moved"] = "added"
        elif was.hash != now.hash:
            kind = "changed"
        elif was.stable != now.stable or was_at[now.id] != is_at[now.id]:
            kind = "moved"
        else:
            continue
        changes.append(
            PromptDifference(
                id=now.id,
                kind=kind,
                stable=now.stable,
                before_chars=was.chars if was else 0,
                after_chars=now.chars,
                source=now.source,
            )
        )
    return changes


def _first_difference(one: bytes, other: bytes) -> int:
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))
