"""Long answers in several messages: nothing lost, no code torn apart."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.chunking import BreakPreference, Chunker, ChunkRules, fences
from openclaw.sessions.reply_text import is_duplicate, normalise_media


def cut(text: str, rules: ChunkRules, cuts: list[int] = []) -> list[str]:  # noqa: B006
    chunker = Chunker(rules)
    places = sorted({0, len(text), *(each % (len(text) + 1) for each in cuts)})
    blocks = [block for a, b in pairwise(places) for block in chunker.feed(text[a:b])]
    return [*blocks, *chunker.flush()]


@pytest.mark.parametrize(
    ("prefer", "first"),
    [
        ("paragraph", "One two three."),
        ("newline", "One two three.\n\nFour five six."),
        ("sentence", "One two three.\n\nFour five six.\nSeven."),
    ],
)
def test_a_text_breaks_where_it_is_preferred(prefer: BreakPreference, first: str) -> None:
    text = "One two three.\n\nFour five six.\nSeven. Eight nine ten eleven twelve"
    assert cut(text, ChunkRules(min_chars=5, max_chars=44, prefer=prefer))[0] == first


def test_paragraphs_go_out_one_by_one_when_that_is_wanted() -> None:
    rules = ChunkRules(min_chars=1, max_chars=100, every_paragraph=True)
    assert cut("one\n\ntwo\n\nthree", rules) == ["one", "two", "three"]


def test_little_text_waits_for_more() -> None:
    chunker = Chunker(ChunkRules(min_chars=10, max_chars=20))
    assert chunker.feed("short") == []
    assert chunker.flush() == ["short"]


def test_code_longer_than_a_message_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {number}" for number in range(20))
    blocks = cut(f"```py\n{code}\n```", ChunkRules(min_chars=20, max_chars=60))
    assert len(blocks) > 2
    for block in blocks:
        assert block.startswith("```py\n") and block.endswith("```") and len(block) <= 60
    assert "\n".join(re.sub(r"^```.*\n?|\n?```$", "", block, flags=re.MULTILINE) for block in blocks) == code


def test_an_emoji_is_not_torn() -> None:
    family = "👨\u200d👩\u200d👧"
    blocks = cut("x" * 18 + family + "y" * 30, ChunkRules(min_chars=5, max_chars=20))
    assert any(family in block for block in blocks) and "".join(blocks).count(family) == 1


TEXT = st.lists(
    st.sampled_from(
        ["word ", "Sentence. ", "\n", "\n\n", "x" * 30, "```\n", "~~~\n", "    indented\n", "- item\n", "ü", "🙂"]
    ),
    max_size=40,
).map("".join)
RULES = st.builds(
    ChunkRules,
    min_chars=st.integers(1, 40),
    max_chars=st.integers(30, 90),
    prefer=st.sampled_from(["paragraph", "newline", "sentence"]),
    every_paragraph=st.booleans(),
)


def bare(text: str) -> str:
    """What must survive: everything but blank space and fence markers."""
    return re.sub(r"[\s`~]+", "", text)


@given(TEXT, RULES, st.lists(st.integers(0, 400), max_size=8))
def test_no_word_is_lost_and_no_block_is_too_long(text: str, rules: ChunkRules, cuts: list[int]) -> None:
    blocks = cut(text, rules, cuts)
    assert bare("".join(blocks)) == bare(text)
    assert all(0 < len(block) <= rules.most for block in blocks)


@given(TEXT, RULES, st.lists(st.integers(0, 400), max_size=8))
def test_no_block_ends_inside_a_code_fence(text: str, rules: ChunkRules, cuts: list[int]) -> None:
    blocks = cut(text, rules, cuts)
    for block in blocks[:-1]:
        assert all(fence.closed for fence in fences(block)), blocks


@pytest.mark.parametrize(
    ("text", "sent", "same"),
    [
        ("The report is in your inbox.", "the report is in  your inbox. 🎉", True),
        ("I sent it: the report is in your inbox.", "The report is in your inbox.", True),
        ("Done.", "Done.", False),  # too short to be told from a coincidence
        ("The report is in your inbox, and there is a lot more to say about it than that.", "The report is in", False),
        ("Something else entirely", "The report is in your inbox.", False),
    ],
)
def test_an_answer_that_was_already_delivered_is_recognised(text: str, sent: str, same: bool) -> None:
    assert is_duplicate(text, [sent]) is same


def test_a_file_is_the_same_however_it_is_written() -> None:
    assert normalise_media("file:///tmp/a.png") == normalise_media(" `/tmp/a.png` ") == "/tmp/a.png"
