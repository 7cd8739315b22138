"""How hard to think: words, limits, and who decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest
from openclaw.core.provider import Compat, Model
from openclaw.models.thinking import LEVELS, choose, clamp, parse, supported_levels

THINKS = Model(provider="p", id="m", api="openai-completions", reasoning=True)
PLAIN = Model(provider="p", id="m", api="openai-completions")
MAPPED = Model(
    provider="p",
    id="m",
    api="openai-completions",
    reasoning=True,
    compat=Compat(reasoning_effort_map={"low": "low", "high": "high"}),
)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("off", "off"), ("NONE", "off"), ("on", "low"), ("enable", "low"), ("enabled", "low"), ("think hard", "low"),
        ("min", "minimal"), ("minimal", "minimal"), ("mid", "medium"), ("med", "medium"), ("think-harder", "medium"),
        ("harder", "medium"), ("ultrathink", "high"), ("highest", "high"), ("x-high", "xhigh"), ("X_HIGH", "xhigh"),
        ("extra high", "xhigh"), ("max", "max"), ("ultra", "max"), ("auto", "adaptive"), ("adaptive", "adaptive"),
        ("default", None), ("inherit", None), ("clear", None), ("reset", None), ("unpin", None),
    ],
)  # fmt: skip
def test_words_for_levels(text, level):
    assert parse(text) == level


@pytest.mark.parametrize("text", ["", "lots", "highhigh", "11"])
def test_an_unknown_word_is_refused_with_the_valid_ones(text):
    with pytest.raises(InvalidRequest, match="off, minimal, low, medium, high, xhigh, max or adaptive"):
        parse(text)


def test_what_a_model_can_be_asked_for():
    assert supported_levels(PLAIN) == ("off",)
    assert supported_levels(THINKS) == (*LEVELS, "adaptive")
    assert supported_levels(MAPPED) == ("off", "low", "high")


@pytest.mark.parametrize(
    ("level", "becomes"),
    [("off", "off"), ("minimal", "off"), ("low", "low"), ("medium", "low"), ("high", "high"), ("max", "high"),
     ("adaptive", "low")],
)  # fmt: skip
def test_a_stored_level_bends_to_the_model(level, becomes):
    assert clamp(level, supported_levels(MAPPED)) == becomes


def test_a_model_that_cannot_turn_thinking_off_gets_its_least():
    assert clamp("off", ("low", "high")) == "low"


@given(st.sampled_from((*LEVELS, "adaptive")), st.lists(st.sampled_from(LEVELS), min_size=1, unique=True))
def test_clamping_always_gives_something_supported(level, supported):
    supported.sort(key=LEVELS.index)
    assert clamp(level, supported) in supported


@pytest.mark.parametrize("first", range(3))
def test_the_nearest_word_counts(first):
    assert choose(THINKS, None, *[None] * first, "low", "high", "high") == "low"


def test_a_word_in_the_message_beats_everything_and_off_is_a_word():
    assert choose(THINKS, "off", "max") == "off"
    assert choose(THINKS, None, "off", "max") == "off"


def test_without_a_word_only_models_that_can_do_think():
    assert choose(THINKS, None) == "medium"
    assert choose(PLAIN, None) == "off"
    assert choose(MAPPED, None) == "low"


def test_a_typed_level_the_model_lacks_is_refused_but_a_stored_one_bends():
    with pytest.raises(InvalidRequest, match="p/m cannot think at 'max': use off, low, high"):
        choose(MAPPED, "max")
    assert choose(MAPPED, None, "max") == "high"
    assert choose(PLAIN, None, "high") == "off"
