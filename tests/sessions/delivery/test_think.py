"""Reasoning never passes for an answer, however the message arrives."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.sessions.reply_parse import ThinkParser


def read(text: str, cuts: tuple[int, ...] = (), *, enforce: bool = False, finished: bool = True) -> tuple[str, str]:
    parser = ThinkParser(enforce)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [*(parser.feed(text[a:b]) for a, b in pairwise(places)), parser.close(finished)]
    return "".join(words for words, _ in pieces), "".join(reasoning for _, reasoning in pieces)


@pytest.mark.parametrize(
    ("text", "words", "reasoning"),
    [
        ("<think>secret</think>Hello", "Hello", "secret"),
        ("<THINKING>a</Thinking>\n\nHello", "Hello", "a"),
        ("<thinking>a</thinking>b", "b", "a"),
        ("<mm:think>a</mm:think>b", "b", "a"),
        ("<thought a='1'>x</thought>y<antthinking>z</antthinking>", "y", "xz"),
        ("one <think>two</think>three", "one three", "two"),
        ("<final>Hello</final>", "Hello", ""),
        ("a < b and <b>bold</b>", "a < b and <b>bold</b>", ""),
        ("the tag `<think>` is literal", "the tag `<think>` is literal", ""),
        ("``a ` <think>`` stays", "``a ` <think>`` stays", ""),
        ("```\n<think>x</think>\n```\n<think>s</think>ok", "```\n<think>x</think>\n```\nok", "s"),
        ("~~~\n<think>\n~~~", "~~~\n<think>\n~~~", ""),
        ("a stray ` before <think>secret</think> it", "a stray ` before  it", "secret"),
        ("left over</think> tag", "left over tag", ""),
        ("<think>never closed", "", "never closed"),
        ("shown <think>never closed", "shown ", "never closed"),
        ("<think>a</think><think>the answer", "the answer", "athe answer"),
        ("  plain  ", "  plain  ", ""),
        ("<thinker>no tag</thinker>", "<thinker>no tag</thinker>", ""),
    ],
)
def test_tags_decide_what_is_shown(text: str, words: str, reasoning: str) -> None:
    assert read(text) == (words, reasoning)


def test_a_message_that_was_cut_off_shows_no_fallback() -> None:
    assert read("<think>a</think><think>half a th", finished=False)[0] == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("thoughts <final>Hello</final> more thoughts", "Hello"),
        ("<think>a</think> no final tag", "no final tag"),
        ("a model that knows no tags", "a model that knows no tags"),
        ("<think>only thoughts</think>", ""),
    ],
)
def test_when_it_is_demanded_only_the_final_part_is_shown(text: str, words: str) -> None:
    assert read(text, enforce=True)[0] == words


PARTS = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<final>",
            "</final>",
            "<",
            ">",
            "`",
            "``",
            "```",
            "\n",
            "\n\n",
            "~~~",
            " ",
            "a",
            "bc",
            "/",
        ]
    ),
    max_size=25,
).map("".join)


@given(PARTS, st.lists(st.integers(0, 200), max_size=12), st.booleans())
def test_how_a_message_is_cut_into_pieces_changes_nothing(text: str, cuts: list[int], enforce: bool) -> None:
    assert read(text, tuple(cuts), enforce=enforce) == read(text, enforce=enforce)


@given(st.text(st.characters(exclude_characters="<"), max_size=200), st.lists(st.integers(0, 300), max_size=8))
def test_text_without_tags_comes_out_as_it_went_in(text: str, cuts: list[int]) -> None:
    assert read(text, tuple(cuts)) == (text, "")


@given(st.text("ab \n", min_size=1, max_size=40), st.lists(st.integers(0, 80), max_size=6))
def test_what_stands_in_tags_is_never_shown(secret: str, cuts: list[int]) -> None:
    words, reasoning = read(f"<think>{secret}</think>X", tuple(cuts))
    assert (words, reasoning) == ("X", secret)


def test_ten_megabytes_of_thoughts_are_read_in_good_time() -> None:
    parser = ThinkParser()
    parser.feed("<think>")
    total = sum(len(parser.feed("x" * 1_000 + " < " + "y" * 21)[1]) for _ in range(10_240))
    assert total > 10_000_000
    assert parser.feed("</think>done")[0] == "done"
