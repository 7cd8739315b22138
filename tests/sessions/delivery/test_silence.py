"""Tokens for the runtime, and what is left for people."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.sessions.reply_parse import DirectiveParser, Directives
from openclaw.sessions.reply_text import SilenceGate, strip_tokens


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in pairwise(places)]


def streamed(text: str, cuts: list[int]) -> str:
    gate = SilenceGate()
    return "".join(gate.feed(piece) for piece in pieces(text, cuts))


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        "no_reply",
        " NO_REPLY. ",
        "**NO_REPLY**",
        "`NO_REPLY`",
        '"NO_REPLY"',
        "NO_REPLY\nNO_REPLY",
        "NO_REPLYNO_REPLY",
        '{"action":"NO_REPLY"}',
        '{ "action": "no_reply" }',
        "HEARTBEAT_OK",
        "HEARTBEAT_OK.",
        "HEARTBEAT_OK NO_REPLY",
        "Reasoning: there is nothing to add.\n\nNO_REPLY",
    ],
)
def test_a_message_that_is_only_the_token_is_silence(text: str) -> None:
    assert strip_tokens(text) is None
    assert streamed(text, list(range(len(text)))) == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("All done. NO_REPLY", "All done."),
        ("All done.\n\nno_reply", "All done."),
        ("All done. **NO_REPLY**", "All done."),
        ("NO_REPLY\n\nBut there is news.", "But there is news."),
        ("HEARTBEAT_OK The disk is full.", "The disk is full."),
        ("The disk is full. HEARTBEAT_OK", "The disk is full."),
        ("NO_REPLY is the token for silence", "NO_REPLY is the token for silence"),
        ("the token is `NO_REPLY`", "the token is `NO_REPLY`"),
        ("SAY_NO_REPLY", "SAY_NO_REPLY"),
        ("HEARTBEAT_OKAY", "HEARTBEAT_OKAY"),
        ("No reply yet", "No reply yet"),
        ("Reasoning: two and two", "Reasoning: two and two"),
        ("", ""),
        ("  spaced  ", "  spaced  "),
    ],
)
def test_a_token_at_the_edge_is_taken_off_and_the_rest_stays(text: str, left: str) -> None:
    said = strip_tokens(text)
    assert said is not None and said.removesuffix("\n\n").rstrip(" ") == left.rstrip(" ")
    assert said.startswith(streamed(text, list(range(len(text)))))


def test_no_part_of_the_token_is_shown_while_it_may_still_become_one() -> None:
    gate = SilenceGate()
    assert [gate.feed(letter) for letter in "NO_REPL"] == [""] * 7
    assert gate.feed("ACE") == "NO_REPLACE"
    assert gate.feed(" it. NO_") == " it. "


WORDS = st.lists(
    st.sampled_from(
        ["NO_REPLY", "no_reply", "HEARTBEAT_OK", "NO_", "N", " ", "\n", ".", "*", "`", "{", '"', "word", "Reasoning:"]
    ),
    max_size=12,
).map("".join)


@given(WORDS, st.lists(st.integers(0, 150), max_size=12))
def test_streaming_says_the_beginning_of_what_the_whole_message_says(text: str, cuts: list[int]) -> None:
    assert (strip_tokens(text) or "").startswith(streamed(text, cuts))


def directed(text: str, cuts: list[int]) -> tuple[str, Directives]:
    parser = DirectiveParser()
    out = "".join(parser.feed(piece) for piece in pieces(text, cuts)) + parser.close()
    return out, parser.found


@pytest.mark.parametrize(
    ("text", "left", "found"),
    [
        ("[[reply_to_current]] Yes.", "Yes.", Directives(reply_to_current=True)),
        ("[[ reply_to : 42 ]]Yes.", "Yes.", Directives(reply_to="42")),
        ("Listen [[audio_as_voice]]", "Listen ", Directives(voice=True)),
        ("[[audio_as_voice]]\nHello", "Hello", Directives(voice=True)),
        ("Here:\nMEDIA:/tmp/a b.png\nDone", "Here:\nDone", Directives(media=("/tmp/a b.png",))),
        ("MEDIA: `https://x.y/z.png`", "", Directives(media=("https://x.y/z.png",))),
        ("the MEDIA: line is not alone", "the MEDIA: line is not alone", Directives()),
        ("```\nMEDIA:/tmp/a\n```\n", "```\nMEDIA:/tmp/a\n```\n", Directives()),
        ("an [[unknown]] tag", "an [[unknown]] tag", Directives()),
    ],
)
def test_directives_are_taken_out_and_kept(text: str, left: str, found: Directives) -> None:
    assert directed(text, []) == (left, found)
    assert directed(text, list(range(len(text)))) == (left, found)


TAGGED = st.lists(
    st.sampled_from(
        ["[[reply_to_current]]", "[[reply_to: 7]]", "[[", "]]", "[", "MEDIA:", "MEDIA:/a", "\n", " ", "```", "~~~", "x"]
    ),
    max_size=14,
).map("".join)


@given(TAGGED, st.lists(st.integers(0, 200), max_size=12))
def test_how_directives_arrive_changes_nothing(text: str, cuts: list[int]) -> None:
    assert directed(text, cuts) == directed(text, [])


@given(st.text(st.characters(exclude_characters="[M"), max_size=120), st.lists(st.integers(0, 150), max_size=6))
def test_text_without_directives_is_left_alone(text: str, cuts: list[int]) -> None:
    assert directed(text, cuts) == (text, Directives())
