"""What is delivered at the end of a run: payloads, in their order. Pure."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from openclaw.core.messages import ToolCall, ToolResult
from openclaw.delivery.directives import DirectiveParser, Directives
from openclaw.delivery.silence import Silence, Utterance, Visible, settle
from openclaw.delivery.think import AnswerText, ReasoningText, ThinkParser

ReasoningLevel = Literal["off", "on", "stream"]
VerboseLevel = Literal["off", "on", "full"]
REASONING: tuple[ReasoningLevel, ...] = ("off", "on", "stream")
VERBOSE: tuple[VerboseLevel, ...] = ("off", "on", "full")
Kind = Literal["answer", "reasoning", "tool", "error"]

ARGUMENT_CHARS = 120
OUTPUT_CHARS = 2_000
REASONING_CHARS = 8_000


class ReplyOptions(Struct, frozen=True, kw_only=True):
    """How much a conversation wants to see besides answers."""

    reasoning: ReasoningLevel = "off"
    verbose: VerboseLevel = "off"
    enforce_final: bool = False
    """Only what stands in `<final>` is the answer."""

    @classmethod
    def of(cls, reasoning: str | None, verbose: str | None, *, enforce_final: bool = False) -> "ReplyOptions":
        """The manner a session chose; what is not a level counts as not chosen."""
        return cls(
            reasoning=next((level for level in REASONING if level == reasoning), "off"),
            verbose=next((level for level in VERBOSE if level == verbose), "off"),
            enforce_final=enforce_final,
        )


class ReplyPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One message to deliver. Its kind says what it is, so that nothing has to be read out of its text."""

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
    """A whole message taken apart."""

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
    """A message as people may see it, and apart from it what they may not."""
    if "<" in raw or enforce_final:
        parser = ThinkParser(enforce_final)
        pieces = [*parser.feed(raw), *parser.close(finished)]
        words = "".join(piece.text for piece in pieces if isinstance(piece, AnswerText))
        reasoning = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningText))
    else:
        words, reasoning = raw, ""
    directives = DirectiveParser()
    plain = directives.feed(words) + directives.close()
    return ShapedReply(said=settle(plain), reasoning=reasoning, directives=directives.found)


def answer(text: str, directives: Directives) -> ReplyPayload | None:
    """What is delivered of one message; None when it has neither words nor attachments."""
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
    """One line for a call, and its output when everything is wanted."""
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
    """The word that is left when a run ends in a failed tool and says nothing."""
    detail = result.text.strip() if level == "full" else ""
    detail = detail if len(detail) <= OUTPUT_CHARS else f"{detail[:OUTPUT_CHARS]}…"
    return ReplyPayload(text=f"⚠️ {call.name} failed" + (f": {detail}" if detail else "."), kind="error")


def ordered(payloads: Sequence[ReplyPayload]) -> tuple[ReplyPayload, ...]:
    """Reasoning first, then tools, answers and errors; each kind as it came."""
    rank: dict[Kind, int] = {"reasoning": 0, "tool": 1, "answer": 2, "error": 3}
    return tuple(sorted(payloads, key=lambda payload: rank[payload.kind]))


def _longest_run(text: str, char: str) -> int:
    longest = run = 0
    for each in text:
        run = run + 1 if each == char else 0
        longest = max(longest, run)
    return longest
