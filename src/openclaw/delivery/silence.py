"""Whether a message has anything to say. Silence is a value, so that no reader can print it by mistake.

Pure but for what the gate has read so far: it lets a message through piece by piece and holds back whatever may yet be
a token that only the runtime should see.
"""

import re
from typing import Final

from msgspec import Struct

from openclaw.core.patterns import lazy
from openclaw.delivery.directives import HEARTBEAT, SILENT


class Visible(Struct, frozen=True):
    """Words for people."""

    text: str


class Silence(Struct, frozen=True):
    """The model chose to say nothing."""


Utterance = Visible | Silence

_TOKEN = rf"(?:{SILENT}|{HEARTBEAT})"
_PAD = r"[\s\"'`*_~.,;:!?()\[\]{}<>|…。！？—–-]"
_ALONE = lazy(rf"{_PAD}*(?:{_TOKEN}(?:{_PAD}+|(?={_TOKEN})|\Z))+", re.IGNORECASE)
_ACTION = lazy(rf'\s*\{{\s*"action"\s*:\s*"{SILENT}"\s*\}}\s*', re.IGNORECASE)
_AFTER = r"[*_]{0,3}[.!…]{0,3}"
# A token at an edge counts when it stands bare: in quotes or backticks somebody is writing about it.
_HEAD = lazy(rf"\s*(?:[*_]{{0,3}}{HEARTBEAT}\b{_AFTER}\s*|[*_]{{0,3}}{SILENT}{_AFTER}[ \t]*\n\s*)+", re.IGNORECASE)
_TAIL = lazy(rf"(?:(?:(?<=[^\w`\"'])|\A)[*_]{{0,3}}{_TOKEN}{_AFTER}\s*)+\Z", re.IGNORECASE)
_REASONED = lazy(r"\s*(?:reasoning|thinking|thoughts?)\s*:", re.IGNORECASE)

_BEGUN: Final = "|".join(
    sorted({token[:size] for token in (SILENT, HEARTBEAT) for size in range(1, len(token))}, key=len)
)
_MAYBE_ALONE = lazy(rf"{_PAD}*(?:{_TOKEN}{_PAD}*)*(?:{_BEGUN})?", re.IGNORECASE)
_MAYBE_TAIL = lazy(rf"(?:[*_]{{0,3}}{_TOKEN}{_AFTER}\s*)*[*_]{{0,3}}(?:{_BEGUN})?\Z", re.IGNORECASE)
_ACTION_TEXT = f'{{"action":"{SILENT}"}}'.lower()
_REASONED_WORDS = ("reasoning", "thinking", "thoughts", "thought")
_WINDOW = 512


def settle(text: str) -> Utterance:
    """What a whole message says once the runtime's tokens are taken out."""
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
    """Lets a message through as it is written; what came out at the end is what `settle` says of the whole."""

    def __init__(self) -> None:
        self._text = ""
        """What was read and not given out."""
        self._before = ""
        """The last character that was given out: a token counts by what stands before it."""
        self._open = False
        self._waits = False
        """Whether only the end of the message can tell."""

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
        """All but an end that may be a token."""
        start = max(0, len(self._text) - _WINDOW)
        held = _MAYBE_TAIL.search(self._text, start)
        cut = held.start() if held else len(self._text)
        if cut == start > 0:
            return ""  # the end may go back further than we look
        ready, self._text = self._text[:cut], self._text[cut:]
        self._before = ready[-1:] or self._before
        return ready

    def close(self) -> Utterance:
        """The rest of the message; `Silence` when there is none because the model said so."""
        if not self._open:
            return settle(self._text)
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
