"""Blames each line of a prompt on its source, and compares two prompts: sections changed, cached prefix kept."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Literal

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.text import CACHE_BOUNDARY, Label
from openclaw.prompt.build import Prompt, assemble
from openclaw.prompt.facts import OWN_SOURCE, Section

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
    traced = list(islice(stable, prompt.stable.count("\n") + 1))
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


def _lines(sections: Iterable[Section]) -> Iterator[BlamedLine]:
    for piece in sections:
        # Headings are ours even when the text is not.
        ours = piece.heading.count("\n") + 1 if piece.heading else 0
        for place, text in enumerate(piece.rendered.split("\n")):
            line = BlamedLine(text=text, section=piece.id, source=piece.source, label=piece.label, stable=piece.stable)
            yield structs.replace(line, source=OWN_SOURCE, label="system") if place < ours else line


# Comparison.


class PromptDifference(Struct, frozen=True, kw_only=True, rename="camel"):
    """One section that differs."""

    id: str
    kind: Literal["added", "removed", "changed", "moved"]
    stable: bool
    before_chars: int = 0
    after_chars: int = 0
    source: str = ""


class PromptDiff(Struct, frozen=True, kw_only=True, rename="camel"):
    changes: tuple[PromptDifference, ...]
    prefix_kept: bool
    """Whether the text above the boundary is the same, byte for byte."""
    broken_at: str = ""
    """The first section above the boundary that differs."""
    broken_at_byte: int | None = None
    """The first differing UTF-8 byte of the prefix."""
    prefix_bytes: int = 0
    """The size of the earlier prefix."""

    def __str__(self) -> str:
        lines = [f"{each.kind} {each.id} ({each.before_chars:,} → {each.after_chars:,} chars)" for each in self.changes]
        verdict = "is unchanged"
        if not self.prefix_kept:
            place = f"at byte {self.broken_at_byte:,} of {self.prefix_bytes:,}"
            verdict = f"broke in {self.broken_at or 'its end'} {place}"
        return "\n".join((*lines, f"the cached prefix {verdict}"))


def diff(before: Prompt, after: Prompt) -> PromptDiff:
    """Compares two prompts."""
    old, new = ([piece for piece in prompt.sections if piece.stable] for prompt in (before, after))
    broken = next(
        (
            now or was
            for was, now in zip_longest(old, new)
            if was is None or now is None or was.rendered != now.rendered
        ),
        None,
    )
    return PromptDiff(
        changes=tuple(_changes(before.sections, after.sections)),
        prefix_kept=broken is None,
        broken_at=broken.id if broken else "",
        broken_at_byte=_first_difference(before.stable.encode(), after.stable.encode()) if broken else None,
        prefix_bytes=len(assemble(old).encode()),
    )


def _changes(old: Sequence[Section], new: Sequence[Section]) -> Iterator[PromptDifference]:
    before = {one.id: one for one in old}
    after = {one.id: one for one in new}
    # Positions count only sections in both prompts, so that an addition is not reported as moves.
    was_at = {name: place for place, name in enumerate(name for name in before if name in after)}
    is_at = {name: place for place, name in enumerate(name for name in after if name in before)}
    for one in old:
        if one.id not in after:
            yield PromptDifference(
                id=one.id, kind="removed", stable=one.stable, before_chars=one.chars, source=one.source
            )
    for now in new:
        was = before.get(now.id)
        if was is None:
            kind: Literal["added", "changed", "moved"] = "added"
        elif was.rendered != now.rendered:
            kind = "changed"
        elif was.stable != now.stable or was_at[now.id] != is_at[now.id]:
            kind = "moved"
        else:
            continue
        yield PromptDifference(
            id=now.id,
            kind=kind,
            stable=now.stable,
            before_chars=was.chars if was else 0,
            after_chars=now.chars,
            source=now.source,
        )


def _first_difference(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
