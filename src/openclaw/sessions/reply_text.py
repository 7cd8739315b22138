"""Shapes replies for delivery: duplicates, silence tokens, payloads, unverified citations. Pure."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from openclaw.core.messages import ToolCall, ToolResult
from openclaw.core.text import compile_lazily
from openclaw.sessions.reply_parse import (
    HEARTBEAT,
    SILENT,
    AnswerText,
    DirectiveParser,
    Directives,
    ReasoningText,
    ThinkParser,
)

# Duplicates.

LEAST_CHARS = 10
LEAST_SHARE = 0.5


def normalise(text: str) -> str:
    """Normalises `text` for comparison: no case, no emoji, no spacing."""
    plain = "".join(
        char for char in text.lower() if unicodedata.category(char) not in ("So", "Sk", "Cs") and char != "\ufe0f"
    )
    return re.sub(r"\s+", " ", plain).strip()


def is_duplicate(text: str, sent: Sequence[str]) -> bool:
    """Whether `text` duplicates one of the `sent` texts."""
    if not sent:
        return False
    said = normalise(text)
    if len(said) < LEAST_CHARS:
        return False
    for other in map(normalise, sent):
        shorter, longer = sorted((said, other), key=len)
        if len(shorter) >= LEAST_CHARS and shorter in longer and len(shorter) >= LEAST_SHARE * len(longer):
            return True
    return False


def normalise_media(source: str) -> str:
    """Normalises a file or address for comparison."""
    cleaned = source.strip().strip("`\"'").removeprefix("file://")
    return cleaned.partition("#")[0].rstrip("/")


# Silence tokens.


class Visible(Struct, frozen=True):
    """Text to deliver."""

    text: str


class Silence(Struct, frozen=True):
    """The model chose to say nothing."""


Utterance = Visible | Silence

_TOKEN = rf"(?:{SILENT}|{HEARTBEAT})"
_PAD = r"[\s\"'`*_~.,;:!?()\[\]{}<>|…。！？—–-]"
_ALONE = compile_lazily(rf"{_PAD}*(?:{_TOKEN}(?:{_PAD}+|(?={_TOKEN})|\Z))+", re.IGNORECASE)
_ACTION = compile_lazily(rf'\s*\{{\s*"action"\s*:\s*"{SILENT}"\s*\}}\s*', re.IGNORECASE)
_AFTER = r"[*_]{0,3}[.!…]{0,3}"
# A token at an edge counts only when bare: in quotes or backticks the text is about the token.
_HEAD = compile_lazily(
    rf"\s*(?:[*_]{{0,3}}{HEARTBEAT}\b{_AFTER}\s*|[*_]{{0,3}}{SILENT}{_AFTER}[ \t]*\n\s*)+", re.IGNORECASE
)
_TAIL = compile_lazily(rf"(?:(?:(?<=[^\w`\"'])|\A)[*_]{{0,3}}{_TOKEN}{_AFTER}\s*)+\Z", re.IGNORECASE)
_REASONED = compile_lazily(r"\s*(?:reasoning|thinking|thoughts?)\s*:", re.IGNORECASE)

_BEGUN: Final = "|".join(
    sorted({token[:size] for token in (SILENT, HEARTBEAT) for size in range(1, len(token))}, key=len)
)
_MAYBE_ALONE = compile_lazily(rf"{_PAD}*(?:{_TOKEN}{_PAD}*)*(?:{_BEGUN})?", re.IGNORECASE)
_MAYBE_TAIL = compile_lazily(rf"(?:[*_]{{0,3}}{_TOKEN}{_AFTER}\s*)*[*_]{{0,3}}(?:{_BEGUN})?\Z", re.IGNORECASE)
_ACTION_TEXT = f'{{"action":"{SILENT}"}}'.lower()
_REASONED_WORDS = ("reasoning", "thinking", "thoughts", "thought")
_WINDOW = 512


def strip_tokens(text: str) -> Utterance:
    """Removes the silence tokens from a whole message."""
    if _alone(text) or _ACTION.fullmatch(text):
        return Silence()
    if _REASONED.match(text) and _alone(text.rstrip().rpartition("\n")[2]):
        return Silence()
    head = _HEAD.match(text)
    body = text[head.end() :] if head else text
    tail = _TAIL.search(body)
    if tail is not None:
        body = body[: tail.start()]
    return Visible(body) if body.strip() else Visible("") if not text.strip() else Silence()


def _alone(text: str) -> bool:
    return _ALONE.fullmatch(text) is not None


class SilenceGate:
    """Streams a message without its silence tokens; the total output equals `settle` of the whole."""

    def __init__(self) -> None:
        self._text = ""
        """The held text."""
        self._before = ""
        """The last character passed on: whether a token counts depends on the one before it."""
        self._open = False
        self._waits = False
        """Whether everything is held until the message ends."""

    def feed(self, text: str) -> str:
        self._text += text
        if self._waits:
            return ""
        if not self._open:
            if _REASONED.match(self._text):
                self._waits = True
                return ""
            if _may_be_silent(self._text):
                return ""
            self._open = True
            head = _HEAD.match(self._text)
            self._text = self._text[head.end() :] if head else self._text
        return self._release()

    def _release(self) -> str:
        """Passes on all but a suffix that may be a token."""
        start = max(0, len(self._text) - _WINDOW)
        held = _MAYBE_TAIL.search(self._text, start)
        cut = held.start() if held else len(self._text)
        if cut == start > 0:
            return ""  # the suffix may begin before the window searched
        ready, self._text = self._text[:cut], self._text[cut:]
        self._before = ready[-1:] or self._before
        return ready

    def close(self) -> Utterance:
        """Ends the message: its rest, or `Silence` when it was only a token."""
        if not self._open:
            return strip_tokens(self._text)
        known = len(self._before)
        tail = _TAIL.search(self._before + self._text, known)
        return Visible(self._text if tail is None else self._text[: tail.start() - known])


def _may_be_silent(text: str) -> bool:
    if _MAYBE_ALONE.fullmatch(text):
        return True
    squeezed = "".join(text.split()).lower()
    if squeezed[:1] == "{" and (_ACTION_TEXT.startswith(squeezed)):
        return True
    start = text.lstrip().lower()
    return any(
        word.startswith(start) or (start.startswith(word) and not start[len(word) :].strip())
        for word in _REASONED_WORDS
    )


# Payloads.

ReasoningLevel = Literal["off", "on", "stream"]
VerboseLevel = Literal["off", "on", "full"]
REASONING: tuple[ReasoningLevel, ...] = ("off", "on", "stream")
VERBOSE: tuple[VerboseLevel, ...] = ("off", "on", "full")
Kind = Literal["answer", "reasoning", "tool", "error"]

ARGUMENT_CHARS = 120
OUTPUT_CHARS = 2_000
REASONING_CHARS = 8_000


class ReplyOptions(Struct, frozen=True, kw_only=True):
    """What a conversation shows besides answers."""

    reasoning: ReasoningLevel = "off"
    verbose: VerboseLevel = "off"
    enforce_final: bool = False
    """Only text in `<final>` is the answer."""

    @classmethod
    def of(cls, reasoning: str | None, verbose: str | None, *, enforce_final: bool = False) -> "ReplyOptions":
        """The options of a session; an invalid level counts as unset."""
        return cls(
            reasoning=next((level for level in REASONING if level == reasoning), "off"),
            verbose=next((level for level in VERBOSE if level == verbose), "off"),
            enforce_final=enforce_final,
        )


class ReplyPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One message to deliver. Its kind is explicit, so that nobody has to parse the text."""

    text: str = ""
    kind: Kind = "answer"
    media: tuple[str, ...] = ()
    reply_to: str | None = None
    reply_to_current: bool = False
    voice: bool = False

    def shown(self) -> dict[str, Any]:
        """The payload on the wire."""
        body: dict[str, Any] = {"text": self.text, "mediaUrl": self.media[0] if self.media else None}
        if len(self.media) > 1:
            body["mediaUrls"] = list(self.media)
        if self.reply_to:
            body["replyToId"] = self.reply_to
        flags = {
            "replyToCurrent": self.reply_to_current,
            "audioAsVoice": self.voice,
            "isError": self.kind == "error",
            "isReasoning": self.kind == "reasoning",
        }
        return {**body, **{name: True for name, holds in flags.items() if holds}}


class ShapedReply(Struct, frozen=True, kw_only=True):
    """A whole message split into answer, reasoning and directives."""

    said: Utterance
    reasoning: str = ""
    directives: Directives = Directives()

    @property
    def text(self) -> str:
        return self.said.text if isinstance(self.said, Visible) else ""

    @property
    def silent(self) -> bool:
        return isinstance(self.said, Silence)


def shape(raw: str, *, enforce_final: bool = False, finished: bool = True) -> ShapedReply:
    """Splits a message into what people may see and what they may not."""
    if "<" in raw or enforce_final:
        parser = ThinkParser(enforce_final)
        pieces = [*parser.feed(raw), *parser.close(finished)]
        words = "".join(piece.text for piece in pieces if isinstance(piece, AnswerText))
        reasoning = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningText))
    else:
        words, reasoning = raw, ""
    directives = DirectiveParser()
    plain = directives.feed(words) + directives.close()
    return ShapedReply(said=strip_tokens(plain), reasoning=reasoning, directives=directives.found)


def answer_payload(text: str, directives: Directives) -> ReplyPayload | None:
    """The payload of one message; None when it has neither text nor attachments."""
    if not text.strip() and not directives.media:
        return None
    return ReplyPayload(
        text=text.strip(),
        media=directives.media,
        reply_to=directives.reply_to,
        reply_to_current=directives.reply_to_current,
        voice=directives.voice,
    )


def reasoning(text: str) -> ReplyPayload:
    body = text.strip()
    shown = body if len(body) <= REASONING_CHARS else f"{body[:REASONING_CHARS]}…"
    return ReplyPayload(text=f"Reasoning:\n{shown}", kind="reasoning")


def tool_summary(call: ToolCall, result: ToolResult, level: VerboseLevel) -> ReplyPayload:
    """One line for a call, with its output at the level `full`."""
    values = " ".join(str(value) for value in call.arguments.values()).replace("\n", " ")
    values = values if len(values) <= ARGUMENT_CHARS else f"{values[: ARGUMENT_CHARS - 1]}…"
    line = f"{'✗' if result.is_error else '·'} {call.name} {values}".rstrip()
    output = result.text.strip()
    if level != "full" or not output:
        return ReplyPayload(text=line, kind="tool")
    output = output if len(output) <= OUTPUT_CHARS else f"{output[:OUTPUT_CHARS]}…"
    ticks = "`" * max(3, _longest_run(output, "`") + 1)
    return ReplyPayload(text=f"{line}\n{ticks}\n{output}\n{ticks}", kind="tool")


def tool_failure(call: ToolCall, result: ToolResult, level: VerboseLevel) -> ReplyPayload:
    """The payload for a run that ends with a failed tool and no text."""
    detail = result.text.strip() if level == "full" else ""
    detail = detail if len(detail) <= OUTPUT_CHARS else f"{detail[:OUTPUT_CHARS]}…"
    return ReplyPayload(text=f"⚠️ {call.name} failed" + (f": {detail}" if detail else "."), kind="error")


def sort_payloads(payloads: Sequence[ReplyPayload]) -> tuple[ReplyPayload, ...]:
    """Sorts payloads: reasoning, tools, answers, errors; stable within a kind."""
    rank: dict[Kind, int] = {"reasoning": 0, "tool": 1, "answer": 2, "error": 3}
    return tuple(sorted(payloads, key=lambda payload: rank[payload.kind]))


def _longest_run(text: str, char: str) -> int:
    longest = run = 0
    for each in text:
        run = run + 1 if each == char else 0
        longest = max(longest, run)
    return longest


# Unverified citations.

# A suffix that may become a citation: a line `Source: …` with the empty lines before it, or `#L…` after a file name.
# The file name itself is passed on, whether the line exists or not.
_UNSURE = compile_lazily(
    r"(?:\A|\n+)(?:S|So|Sou|Sour|Sourc|Source|Source:[^\n]*)?\Z"
    r"|(?:(?<=\.md)|(?<=\.jsonl))#[L\d-]*\Z"
)
_LAST_WORD = compile_lazily(r"\s?\S*\Z")
_NAME_CHARS = 300


class CitationGate:
    """Streams a message, but holds back a suffix that may be a citation until it can be checked."""

    def __init__(self, check: Callable[[str], str]) -> None:
        self._check = check
        """Removes citations of sources that do not exist."""
        self._held = ""
        self._word = ""
        """The last word passed on, with the blank before it: it may be a file name whose `#L…` comes next."""

    def feed(self, text: str) -> str:
        self._held += text
        known = len(self._word)
        whole = self._word + self._held
        unsure = _UNSURE.search(whole, known)
        cut = unsure.start() if unsure else len(whole)
        ready, self._held = whole[:cut], whole[cut:]
        if "#" in ready:
            ready = self._check(ready)
        self._word = _last_word(ready)
        return ready[known:]


def _last_word(text: str) -> str:
    found = _LAST_WORD.search(text, max(0, len(text) - _NAME_CHARS))
    return found[0] if found else ""
