"""Which line of a prompt comes from where."""

from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.text import CACHE_BOUNDARY, Label
from openclaw.prompt.build import Prompt
from openclaw.prompt.section import OURS, Section


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
    # The stable half is trimmed at its end, and so are its lines.
    traced = stable[: prompt.stable.count("\n") + 1]
    if prompt.dynamic:
        mark = Section(id="boundary", heading="", text=CACHE_BOUNDARY.strip())
        traced += _lines((mark, *(piece for piece in prompt.sections if not piece.stable)))
    return tuple(structs.replace(line, number=number) for number, line in enumerate(traced, 1))


def at(prompt: Prompt, number: int) -> BlamedLine:
    """Line `number` of the prompt."""
    lines = blame(prompt)
    if not 1 <= number <= len(lines):
        raise InvalidRequest(f"the prompt has {len(lines):,} lines; there is no line {number}")
    return lines[number - 1]


def _lines(sections: Iterable[Section]) -> list[BlamedLine]:
    return [line for piece in sections for line in _section_lines(piece)]


def _section_lines(piece: Section) -> Iterator[BlamedLine]:
    # A heading is ours even where what follows is not.
    ours = piece.heading.count("\n") + 1 if piece.heading else 0
    for place, text in enumerate(piece.rendered.split("\n")):
        line = BlamedLine(text=text, section=piece.id, source=piece.source, label=piece.label, stable=piece.stable)
        yield structs.replace(line, source=OURS, label="system") if place < ours else line
