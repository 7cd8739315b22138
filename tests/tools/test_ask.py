"""`ask_user`: what is said, and what a press stands for."""

import pytest

from openclaw.channels.delivery import fit_buttons
from openclaw.core.channel import Address, ChannelFacts, Outbound
from openclaw.core.errors import InvalidRequest
from openclaw.core.messages import Assistant, Text, User
from openclaw.tools.ask import (
    TEXT_CHARS,
    QuestionArgs,
    QuestionOption,
    compose_question,
    find_choice,
    question_buttons,
    without_list,
)

COLOURS = (QuestionOption("Red"), QuestionOption("Blue"))
PAINT = QuestionArgs("Which colour?", options=COLOURS)


def test_options_are_a_numbered_list_and_buttons() -> None:
    asked = compose_question([PAINT], "ab")
    assert asked.text == "Which colour?\n\n1. Red\n2. Blue"
    rows = question_buttons(asked)
    assert [(button.label, button.data) for row in rows for button in row] == [
        ("Red", "ask:ab:0"),
        ("Blue", "ask:ab:1"),
    ]


def test_a_platform_gets_the_buttons_or_the_list() -> None:
    asked = compose_question([PAINT], "ab")
    message = Outbound(to=Address(channel="x", to="y"), text=asked.text, buttons=question_buttons(asked))
    with_buttons, without = (fit_buttons(message, ChannelFacts(buttons=there)) for there in (True, False))
    assert (with_buttons.text, with_buttons.buttons) == ("Which colour?", message.buttons)
    assert (without.text, without.buttons) == (asked.text, ())


def test_a_list_that_explains_stays_beside_the_buttons() -> None:
    warm = QuestionOption("Red", "warm,\nand loud")
    asked = compose_question([QuestionArgs("Which?", header="Paint", options=(warm, COLOURS[1]))], "ab")
    assert asked.text == "**Paint**\nWhich?\n\n1. Red: warm, and loud\n2. Blue"
    assert without_list(asked.text, asked.options) == asked.text


@pytest.mark.parametrize(
    "questions",
    [
        [QuestionArgs("Which?", options=COLOURS, multi_select=True)],
        [PAINT, QuestionArgs("And who?")],
        [QuestionArgs("What is your name?")],
    ],
)
def test_what_one_press_cannot_answer_has_no_buttons(questions: list[QuestionArgs]) -> None:
    assert question_buttons(compose_question(questions, "ab")) == ()


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [PAINT] * 4,
        [QuestionArgs(" ")],
        [QuestionArgs("Which?", options=COLOURS[:1])],
        [QuestionArgs("Which?", options=(*COLOURS, *COLOURS))],
        [QuestionArgs("Which?", options=(COLOURS[0], QuestionOption("Blue\nor not")))],
        [QuestionArgs("Which?", options=(COLOURS[0], QuestionOption("x" * 81)))],
        [QuestionArgs("x" * (TEXT_CHARS + 1))],
    ],
)
def test_what_cannot_be_asked_is_refused(questions: list[QuestionArgs]) -> None:
    with pytest.raises(InvalidRequest):
        compose_question(questions, "ab")


def test_a_press_finds_its_question_and_what_was_said_since() -> None:
    asked = compose_question([PAINT], "ab")
    question = Assistant(content=(Text(asked.text),), asks=asked)
    found = find_choice([User("paint"), question, User("tick", idempotency_key="beat:user")], "ask:ab:1")
    assert found is not None and found.option == "Blue" and found.since == ("beat:user",)
    for data in ("ask:ab:2", "ask:cd:0", "ask:ab:-1", "ask:ab:", "ask:"):
        assert find_choice([question], data) is None
