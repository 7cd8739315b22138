"""Long answers in several messages: nothing lost, no code torn apart."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.chunking import cut_text, fences
from openclaw.sessions.reply_text import is_duplicate, normalise_media


@pytest.mark.parametrize(
    ("limit", "first"),
    [(25, "One two three."), (40, "One two three.\n\nFour five six."), (20, "One two three.")],
)
def test_a_text_breaks_at_a_paragraph_before_a_line(limit: int, first: str) -> None:
    text = "One two three.\n\nFour five six.\nSeven. Eight nine ten eleven twelve"
    assert cut_text(text, limit)[0] == first


def test_code_longer_than_a_message_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {number}" for number in range(20))
    blocks = cut_text(f"```py\n{code}\n```", 60)
    assert len(blocks) > 2
    for block in blocks:
        assert block.startswith("```py\n") and block.endswith("```") and len(block) <= 60
    assert "\n".join(re.sub(r"^```.*\n?|\n?```$", "", block, flags=re.MULTILINE) for block in blocks) == code


def test_an_emoji_is_not_torn() -> None:
    family = "👨\u200d👩\u200d👧"
    blocks = cut_text("x" * 18 + family + "y" * 30, 20)
    assert any(family in block for block in blocks) and "".join(blocks).count(family) == 1


TEXT = st.lists(
    st.sampled_from(
        ["word ", "Sentence. ", "\n", "\n\n", "x" * 30, "```\n", "~~~\n", "    indented\n", "- item\n", "ü", "🙂"]
    ),
    max_size=40,
).map("".join)
LIMITS = st.integers(30, 90)


def bare(text: str) -> str:
    """What must survive: everything but blank space and fence markers."""
    return re.sub(r"[\s`~]+", "", text)


@given(TEXT, LIMITS)
def test_no_word_is_lost_and_no_block_is_too_long(text: str, limit: int) -> None:
    blocks = cut_text(text, limit)
    assert bare("".join(blocks)) == bare(text)
    assert all(0 < len(block) <= limit for block in blocks)


@given(TEXT, LIMITS)
def test_no_block_ends_inside_a_code_fence(text: str, limit: int) -> None:
    blocks = cut_text(text, limit)
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
