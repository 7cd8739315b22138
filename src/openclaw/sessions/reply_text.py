"""Shapes replies for delivery: duplicates, silence tokens, payloads, unverified citations. Pure."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct, structs

from openclaw.core.messages import AskedQuestion, ToolCall, ToolResult
from openclaw.core.text import compile_lazily
from openclaw.sessions.reply_parse import HEARTBEAT, SILENT, DirectiveParser, Directives, ThinkParser, beginnings

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
_BEGUN = beginnings(SILENT, HEARTBEAT)
_ACTION_BEGUN = beginnings(f'{{"action":"{SILENT}"}}', between=r"\s*")
_MAYBE_TAIL = compile_lazily(rf"(?:[*_]{{0,3}}{_TOKEN}{_AFTER}\s*)*[*_]{{0,3}}(?:{_BEGUN})?\Z", re.IGNORECASE)
# The beginning of a message that may turn out to be silence, or to be kept until its end.
_MAYBE_SILENT = compile_lazily(
    rf"{_PAD}*(?:{_TOKEN}{_PAD}*)*(?:{_BEGUN})?"
    rf"|\s*(?:{_ACTION_BEGUN})\s*"
    rf"|\s*(?:{beginnings('reasoning', 'thinking', 'thoughts')}|(?:reasoning|thinking|thoughts?)\s*)",
    re.IGNORECASE,
)
_WINDOW = 512


def strip_tokens(text: str) -> str | None:
    """A whole message without its silence tokens; None when the model chose to say nothing."""
    if _ALONE.fullmatch(text) or _ACTION.fullmatch(text):
        return None
    if _REASONED.match(text) and _ALONE.fullmatch(text.rstrip().rpartition("\n")[2]):
        return None
    head = _HEAD.match(text)
    body = text[head.end() :] if head else text
    tail = _TAIL.search(body)
    if tail is not None:
        body = body[: tail.start()]
    return body if body.strip() else None if text.strip() else ""


class SilenceGate:
    """Streams the beginning of what `strip_tokens` leaves of the message; holds back what may be a token."""

    def __init__(self) -> None:
        self._text = ""
        """The held text."""
        self._open = False
        self._waits = False
        """Whether everything is held until the message ends."""

    def feed(self, text: str) -> str:
        self._text += text
        if not self._open:
            self._waits = self._waits or _REASONED.match(self._text) is not None
            if self._waits or _MAYBE_SILENT.fullmatch(self._text):
                return ""
            self._open = True
            head = _HEAD.match(self._text)
            self._text = self._text[head.end() :] if head else self._text
        start = max(0, len(self._text) - _WINDOW)
        held = _MAYBE_TAIL.search(self._text, start)
        cut = held.start() if held else len(self._text)
        if cut == start > 0:
            return ""  # the suffix may begin before the window searched
        ready, self._text = self._text[:cut], self._text[cut:]
        return ready


# Payloads.

ReasoningLevel = Literal["off", "on", "stream"]
VerboseLevel = Literal["off", "on", "full"]
REASONING: tuple[ReasoningLevel, ...] = get_args(ReasoningLevel)
VERBOSE: tuple[VerboseLevel, ...] = get_args(VerboseLevel)
Kind = Literal["reasoning", "tool", "answer", "notice", "error"]
KINDS: tuple[Kind, ...] = get_args(Kind)

ARGUMENT_CHARS = 120
OUTPUT_CHARS = 2_000
REASONING_CHARS = 8_000


class ReplyOptions(Struct, frozen=True, kw_only=True):
    """What a conversation shows besides answers."""

    reasoning: ReasoningLevel = "off"
    verbose: VerboseLevel = "off"
    enforce_final: bool = False
    """Only text in `<final>` is the answer."""
    by_tool: bool = False
    """People see only what the `message` tool sends."""

    @classmethod
    def of(
        cls, reasoning: str | None, verbose: str | None, *, enforce_final: bool = False, by_tool: bool = False
    ) -> "ReplyOptions":
        """The options of a session; an invalid level counts as unset. What people do not see needs no comment."""
        if by_tool:
            reasoning = verbose = "off"
        return cls(
            reasoning=next((level for level in REASONING if level == reasoning), "off"),
            verbose=next((level for level in VERBOSE if level == verbose), "off"),
            enforce_final=enforce_final,
            by_tool=by_tool,
        )


class ReplyPayload(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One message to deliver. Its kind is explicit, so that nobody has to parse the text."""

    text: str = ""
    kind: Kind = "answer"
    media: tuple[str, ...] = ()
    reply_to: str | None = None
    reply_to_current: bool = False
    voice: bool = False
    asks: AskedQuestion | None = None
    """The question it is."""

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
            "isNotice": self.kind == "notice",
        }
        return {**body, **{name: True for name, holds in flags.items() if holds}}


class ShapedReply(Struct, frozen=True, kw_only=True):
    """A whole message split into answer, reasoning and directives."""

    text: str
    silent: bool = False
    """Whether the model chose to say nothing."""
    reasoning: str = ""
    directives: Directives = Directives()


# What sets text apart that has nothing to take out: no tag, directive, attachment, token or citation.
_SPECIAL = compile_lazily(rf"<|\[\[|^[ \t]*MEDIA:|^Source:|(?<![\s#])#|{_TOKEN}", re.IGNORECASE | re.MULTILINE)
# One of these is in each of them: text without any is told ten times as fast.
_MARK = compile_lazily(r"[<\[:#_]")
# A suffix of such text that may become one of them, with the blank space that would go too. What it may begin with is
# looked at first, because most places in a text are none.
_MAYBE_SPECIAL = compile_lazily(
    rf"(?:\A|(?=[\n*_\[{SILENT[0]}{HEARTBEAT[0]}]|\Z))"
    rf"(?:(?:\A|(?<!\n)\n)\s*+(?-i:{beginnings('MEDIA:', 'Source:')})?\Z|[*_]{{0,3}}(?:{_BEGUN})?\[?\Z)",
    re.IGNORECASE,
)

# What such a suffix ends with, unless it has a line end in it or is all there is.
_MAYBE_LAST = compile_lazily(rf"[{SILENT}{HEARTBEAT}*\[]", re.IGNORECASE)


def shape(raw: str, *, enforce_final: bool = False, finished: bool = True) -> ShapedReply:
    """Splits a message into what people may see and what they may not."""
    if not enforce_final and not (_MARK.search(raw) and _SPECIAL.search(raw)):
        return ShapedReply(text=raw if raw.strip() else "")
    words, reasoning = raw, ""
    if "<" in raw or enforce_final:
        parser = ThinkParser(enforce_final)
        begun, ended = parser.feed(raw), parser.close(finished)
        words, reasoning = begun[0] + ended[0], begun[1] + ended[1]
    directives = DirectiveParser()
    text = strip_tokens(directives.feed(words) + directives.close())
    return ShapedReply(text=text or "", silent=text is None, reasoning=reasoning, directives=directives.found)


class ReplyStream:
    """Streams the beginning of what `shape` and then `check` leave of a message, and its reasoning."""

    def __init__(self, enforce_final: bool, check: Callable[[str], str]) -> None:
        self._enforce_final = enforce_final
        self._check = check
        self._parsers: tuple[ThinkParser, DirectiveParser, SilenceGate, CitationGate] | None = None
        """Set from the first chunk on that may have something to take out."""
        self._chunks: list[str] = []
        self._given = 0
        """How many characters were let through without the parsers."""
        self._last = ""
        """The last of them: what follows depends on it."""
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """The words and the reasoning that `text` adds."""
        if self._parsers is not None:
            return self._parse(text)
        self._chunks.append(text)
        known, whole = len(self._last), self._last + self._held + text
        special = _MARK.search(whole) and _SPECIAL.search(whole)
        if self._enforce_final or special or (not known and _REASONED.match(whole)):
            self._parsers = (
                ThinkParser(self._enforce_final),
                DirectiveParser(),
                SilenceGate(),
                CitationGate(self._check),
            )
            return self._parse("".join(self._chunks))
        plain = known and "\n" not in whole and not _MAYBE_LAST.match(whole, len(whole) - 1)
        unsure = None if plain else _MAYBE_SPECIAL.search(whole, known)
        cut = unsure.start() if unsure else len(whole)
        if not known and _MAYBE_SILENT.fullmatch(whole, 0, cut):
            cut = 0
        ready, self._held = whole[known:cut], whole[cut:]
        self._last = ready[-1:] or self._last
        self._given += len(ready)
        return ready, ""

    def _parse(self, text: str) -> tuple[str, str]:
        assert self._parsers is not None
        think, directives, silence, citations = self._parsers
        words, thoughts = think.feed(text)
        shown = citations.feed(silence.feed(directives.feed(words))) if words else ""
        known = min(self._given, len(shown))
        self._given -= known
        return shown[known:], thoughts


def answer_payload(text: str, directives: Directives) -> ReplyPayload | None:
    """The payload of one message; None when it has neither text nor attachments."""
    if not text.strip() and not directives.media:
        return None
    return ReplyPayload(text=text.strip(), **structs.asdict(directives))


def _clip(text: str, most: int) -> str:
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]}…"


def reasoning(text: str) -> ReplyPayload:
    return ReplyPayload(text=f"Reasoning:\n{_clip(text, REASONING_CHARS)}", kind="reasoning")


def tool_summary(call: ToolCall, result: ToolResult, level: VerboseLevel) -> ReplyPayload:
    """One line for a call, with its output at the level `full`."""
    values = " ".join(str(value) for value in call.arguments.values()).replace("\n", " ")
    values = values if len(values) <= ARGUMENT_CHARS else f"{values[: ARGUMENT_CHARS - 1]}…"
    line = f"{'✗' if result.is_error else '·'} {call.name} {values}".rstrip()
    output = _clip(result.text, OUTPUT_CHARS)
    if level != "full" or not output:
        return ReplyPayload(text=line, kind="tool")
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", output)), default=0))
    return ReplyPayload(text=f"{line}\n{ticks}\n{output}\n{ticks}", kind="tool")


def tool_failure(call: ToolCall, result: ToolResult, level: VerboseLevel) -> ReplyPayload:
    """The payload for a run that ends with a failed tool and no text."""
    detail = _clip(result.text, OUTPUT_CHARS) if level == "full" else ""
    return ReplyPayload(text=f"⚠️ {call.name} failed" + (f": {detail}" if detail else "."), kind="error")


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
        last = _LAST_WORD.search(ready, max(0, len(ready) - _NAME_CHARS))
        self._word = last[0] if last else ""
        return ready[known:]
