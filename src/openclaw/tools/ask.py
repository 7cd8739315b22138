"""The `ask_user` tool: asks the person a question, and ends the turn with it.

Nothing waits: the question is the run's answer, so it goes where answers go and stays in the transcript, and what the
person says next is the reply. Buttons below it hold its id; `find_choice` finds what a press of one stands for.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct, structs

from openclaw.core.channel import Button
from openclaw.core.errors import InvalidRequest
from openclaw.core.messages import AskedQuestion, Assistant, Message, User
from openclaw.core.tool import Output, ToolContext, param, tool_spec
from openclaw.tools.base import ArgsTool

NAME = "ask_user"
PRESS = "ask:"
MOST_QUESTIONS = 3
LEAST_OPTIONS, MOST_OPTIONS = 2, 4
LABEL_CHARS = 80
"""The longest label of a button on Discord."""
TEXT_CHARS = 1_500
"""A question is one message everywhere, so that its buttons are below all of it."""


class QuestionOption(Struct, frozen=True):
    label: Annotated[str, param("what the person chooses", minLength=1)]
    description: Annotated[str, param("what it means")] = ""


class QuestionArgs(Struct, frozen=True, rename="camel"):
    question: Annotated[str, param("the whole question", minLength=1)]
    id: Annotated[str, param("a name for it", pattern="^[a-z][a-z0-9_]*$")] = ""
    header: Annotated[str, param("a word or two above it", minLength=1)] = ""
    options: Annotated[
        tuple[QuestionOption, ...],
        param("leave out when it takes words", minItems=LEAST_OPTIONS, maxItems=MOST_OPTIONS),
    ] = ()
    multi_select: Annotated[bool, param("several options may be chosen")] = False


class AskUserArgs(Struct, frozen=True):
    questions: Annotated[tuple[QuestionArgs, ...], param("usually one", minItems=1, maxItems=MOST_QUESTIONS)]


class AskUser(ArgsTool[AskUserArgs]):
    """The `ask_user` tool."""

    args_type = AskUserArgs
    spec = tool_spec(
        NAME,
        "Ask",
        "ask with options",
        "Ask the person something you need to know before you can go on. Your turn ends with the question; the next "
        "message here is the answer. Do not repeat the question in words.",
        AskUserArgs,
        absent={"timeoutSeconds": "a question does not expire: the next message answers it"},
    )

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({NAME})

    async def run(self, wanted: AskUserArgs, context: ToolContext) -> Output:
        asked = compose_question(wanted.questions, secrets.token_hex(8))
        output = Output.of("The question is put to the person now, and your turn ends. The next message answers it.")
        return structs.replace(output, ends_run=True, asks=asked)


def compose_question(questions: Sequence[QuestionArgs], name: str) -> AskedQuestion:
    """The questions as one message; a single choice can be made with a press."""
    if not 0 < len(questions) <= MOST_QUESTIONS:
        raise InvalidRequest(f"Ask 1 to {MOST_QUESTIONS} questions at once.")
    for each in questions:
        labels = [option.label.strip() for option in each.options]
        if not each.question.strip():
            raise InvalidRequest("A question needs words.")
        if labels and not LEAST_OPTIONS <= len(labels) <= MOST_OPTIONS:
            raise InvalidRequest(f"Give {LEAST_OPTIONS} to {MOST_OPTIONS} options, or none.")
        if any(not label or "\n" in label or len(label) > LABEL_CHARS for label in labels):
            raise InvalidRequest(f"A label is one line of at most {LABEL_CHARS} characters; the rest is description.")
        if len(set(labels)) < len(labels):
            raise InvalidRequest("Every option needs a label of its own.")
    text = "\n\n".join(map(_render, questions))
    if len(text) > TEXT_CHARS:
        raise InvalidRequest(
            f"That is {len(text)} characters; a question has at most {TEXT_CHARS}. Say the rest before."
        )
    single = len(questions) == 1 and not questions[0].multi_select
    options = tuple(option.label.strip() for option in questions[0].options) if single else ()
    return AskedQuestion(name, text, options)


def _render(asked: QuestionArgs) -> str:
    question = (
        f"**{asked.header.strip()}**\n{asked.question.strip()}" if asked.header.strip() else asked.question.strip()
    )
    if not asked.options:
        return question
    if asked.multi_select:
        question += " (several are possible)"
    return question + render_list([f"{each.label.strip()}{_described(each)}" for each in asked.options])


def _described(option: QuestionOption) -> str:
    about = " ".join(option.description.split())
    return f": {about}" if about else ""


def render_list(options: Sequence[str]) -> str:
    """The end of a question: its options, numbered."""
    return "\n\n" + "\n".join(f"{number}. {option}" for number, option in enumerate(options, 1))


def without_list(text: str, options: Sequence[str]) -> str:
    """A question as it is said where its options are buttons; a list that explains them stays."""
    return text.removesuffix(render_list(options))


def question_buttons(asked: AskedQuestion) -> tuple[tuple[Button, ...], ...]:
    """A row for every option: labels may be long."""
    return tuple((Button(label, f"{PRESS}{asked.id}:{place}"),) for place, label in enumerate(asked.options))


class QuestionChoice(Struct, frozen=True):
    """What a press stands for."""

    asked: AskedQuestion
    option: str
    since: tuple[str, ...]
    """The keys of messages that came after the question."""


def find_choice(messages: Sequence[Message], data: str) -> QuestionChoice | None:
    """The question a press answers, and the option it stands for; None when there is no such question here."""
    name, _, place = data.removeprefix(PRESS).partition(":")
    since: list[str] = []
    for message in reversed(messages):
        if isinstance(message, User):
            since.append(message.idempotency_key or "")
        asked = message.asks if isinstance(message, Assistant) else None
        if asked is not None and asked.id == name and place.isdecimal() and int(place) < len(asked.options):
            return QuestionChoice(asked, asked.options[int(place)], tuple(since))
    return None
