"""Sources are looked up before they are shown, however an answer is cut into pieces."""

from functools import partial
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from openclaw.memory.citations import remove_dangling
from openclaw.sessions.reply_text import CitationGate

LINES = {"memory/teeth.md": 2, "MEMORY.md": 9}
check = partial(remove_dangling, length=LINES.get)
PARTS = (
    "The dentist is on Tuesday.",
    " Use C# or #L4 ",
    "\n",
    "\n\n",
    "Source: memory/teeth.md#L2",
    "Source: memory/dreams.md#L1-L3",
    "Source: the newspaper",
    "(memory/teeth.md#L40)",
    "see MEMORY.md#L3-L5,",
    " MEMORY.md#L3-L50",
    "logs/day.jsonl#L7.",
    "a.mp3 S",
    "So",
    " ",
    "x ",
)


def streamed(pieces: list[str]) -> list[str]:
    gate = CitationGate(check)
    return [gate.feed(piece) for piece in pieces]


def test_a_source_that_does_not_exist_is_never_shown() -> None:
    text = "The dentist is on Tuesday.\n\nSource: memory/dreams.md#L1-L3\nMia (memory/teeth.md#L40) is the cat."
    shown = streamed(list(text))
    assert "".join(shown) == "The dentist is on Tuesday.\nMia (memory/teeth.md) is the cat."
    assert not any("#" in "".join(shown[:count]) for count in range(len(shown)))


def test_words_without_sources_wait_for_nothing() -> None:
    assert streamed(["Painting it ", "red", ", So", " far."]) == ["Painting it ", "red", ", So", " far."]


def test_a_source_in_the_middle_of_a_line_is_no_line_of_its_own() -> None:
    pieces = ["see ", "Source: memory/dreams.md#L1", "\nand more"]
    assert "".join(streamed(pieces)) == check("".join(pieces)) == "see Source: memory/dreams.md\nand more"


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.lists(st.integers(0, 400), max_size=30))
def test_what_is_let_through_is_the_beginning_of_the_checked_whole(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert check(text).startswith("".join(streamed(pieces)))
