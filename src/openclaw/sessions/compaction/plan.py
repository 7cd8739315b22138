"""Decides when and where to compact a conversation, and prunes old tool results. Pure; sizes are estimated tokens.

A cut keeps every call with its results, keeps a tail within a budget, and removes something. When no such cut exists
there is nothing to compact.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import takewhile
from typing import Literal

import msgspec
from msgspec import Struct, structs

from openclaw.core.messages import (
    Assistant,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    grow,
)
from openclaw.core.text import compile_lazily
from openclaw.sessions.settings import PruningSettings, ToolFilter
from openclaw.sessions.transcript import AnyEntry, Compaction, Custom, ResetEntry, message_of, visible_entries

# Compaction.

RESERVE = 20_000
RESERVE_SHARE = 4
"""The reserve is at most the window divided by this."""
IMAGE_TOKENS = 2_000
MESSAGE_TOKENS = 4
"""Tokens of a message's role and separators."""
HARD_MINIMUM = 4_000
COMFORTABLE = 8_000

_WIDE = compile_lazily(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)

_LIMIT = compile_lazily(
    r"(?:maximum (?:context|prompt) length|context (?:size|length|window)|maximum number of tokens"
    r"|token limit|n_ctx|> )[^\d\n]{0,40}?(\d[\d,]{2,8})(?!\d)",
    re.IGNORECASE,
)


def estimate_text(text: str) -> int:
    """Estimates the tokens of `text`: four characters each, one for an ideograph or syllable character."""
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return wide + -(-(len(text) - wide) // 4)


estimate_steady = lru_cache(maxsize=16)(estimate_text)
"""The same for a long text that is estimated again and again."""


def estimate(message: Message) -> int:
    """Estimates the tokens of a message; never 0."""
    tokens = MESSAGE_TOKENS
    for block in (Text(message.content),) if isinstance(message.content, str) else message.content:
        match block:
            case Text(text=text):
                tokens += estimate_text(text)
            case Thinking(thinking=thinking, thinking_signature=signature):
                tokens += estimate_text(thinking) + estimate_text(signature or "")
            case ToolCall(name=name, arguments=arguments):
                tokens += estimate_text(name) + -(-len(msgspec.json.encode(arguments)) // 4)
            case Image():
                tokens += IMAGE_TOKENS
    return tokens


def estimate_all(messages: Sequence[Message]) -> int:
    return grow(_Estimated, messages).tokens


class _Estimated(Struct):
    tokens: int = 0

    def add(self, message: Message) -> None:
        self.tokens += estimate(message)


class ConversationSize(Struct, frozen=True):
    """The tokens of a conversation."""

    estimated: int = 0
    """Of everything in it."""
    counted: int | None = None
    """The provider's count of the last call, and an estimate of what came after; none since a compaction."""
    bytes: int = 0
    """Its size on disk."""
    pictured: bool = False
    """Whether it has images."""

    def plus(self, entry: AnyEntry) -> "ConversationSize":
        size, pictured = self.bytes + len(msgspec.json.encode(entry)), self.pictured
        if isinstance(entry, Compaction | ResetEntry):
            return ConversationSize(self.estimated, None, size, pictured)
        message = message_of(entry)
        if message is None:
            return ConversationSize(self.estimated, self.counted, size, pictured)
        if not isinstance(message.content, str):
            pictured = pictured or any(isinstance(block, Image) for block in message.content)
        more = estimate(message)
        counted = None if self.counted is None else self.counted + more
        if isinstance(message, Assistant) and message.usage.total_tokens > 0:
            counted = counted if message.stop_reason in ("error", "aborted") else message.usage.total_tokens
        return ConversationSize(self.estimated + more, counted, size, pictured)

    def tokens(self, overhead: Callable[[], int] = int) -> int:
        """With the system prompt: as counted, unless that is too low to be true; else estimated, with `overhead`."""
        known = self.counted
        return known if known is not None and 2 * known >= self.estimated else overhead() + self.estimated


def measure(path: Sequence[AnyEntry]) -> ConversationSize:
    """The size of what a model sees of `path`."""
    shown, summary = visible_entries(path)
    size = ConversationSize(estimate_text(summary or ""))
    for entry in shown:
        size = size.plus(entry)
    return size


def parse_window(error: str) -> int | None:
    """The window size named in a provider's error: a local server may be configured with less than its model has."""
    found = _LIMIT.search(error)
    return int(found[1].replace(",", "")) if found else None


def capacity(window: int) -> int:
    """The tokens at which a conversation must be compacted: the rest is kept free for the answer."""
    return window - min(RESERVE, window // RESERVE_SHARE)


def flush_threshold(window: int, soft: int) -> int:
    """The tokens at which a memory flush is due: `soft` before a compaction."""
    most = capacity(window)
    return most - min(soft, most // 2)


def keep_budget(wanted: int, window: int, tokens: int, overhead: int) -> int:
    """The tokens of the kept tail: `wanted`, but never so many that the next turn is full again."""
    return max(0, min(wanted, (capacity(window) - overhead) // 2, tokens // 2))


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """A cut: the messages to summarise, and those to keep."""

    removed: tuple[Message, ...]
    kept: tuple[Message, ...]
    first_kept: str
    """The first entry of the tail; empty when nothing is kept."""
    split: int
    """The start in `removed` of the turn that the cut splits; `len(removed)` when it splits none."""
    previous: Compaction | None = None

    @property
    def unanswered(self) -> str:
        """The text of the last user message in `removed`, when it has no final answer yet."""
        last = next((i for i in range(len(self.removed) - 1, -1, -1) if isinstance(self.removed[i], User)), None)
        if last is None:
            return ""
        rest = takewhile(lambda message: not isinstance(message, User), (*self.removed[last + 1 :], *self.kept))
        answered = any(isinstance(message, Assistant) and message.text and not message.calls for message in rest)
        return "" if answered else self.removed[last].text


def plan(path: Sequence[AnyEntry], keep: int) -> CompactionPlan | None:
    """Plans a cut that keeps at most `keep` tokens; None when nothing can be removed."""
    shown, _ = visible_entries(path)
    said = [(entry.id, message) for entry in shown if (message := message_of(entry)) is not None]
    messages = [message for _, message in said]
    at = find_cut(messages, keep)
    if at == 0:
        return None
    newest = next((entry for entry in reversed(path) if isinstance(entry, Compaction | ResetEntry)), None)
    return CompactionPlan(
        removed=tuple(messages[:at]),
        kept=tuple(messages[at:]),
        first_kept=said[at][0] if at < len(said) else "",
        split=_turn_start(messages, at),
        previous=newest if isinstance(newest, Compaction) else None,
    )


def compactions(path: Sequence[AnyEntry]) -> int:
    """How often the conversation was compacted."""
    return sum(isinstance(entry, Compaction) for entry in path)


def find_cut(messages: Sequence[Message], keep: int) -> int:
    """The first message to keep: the earliest whose tail has at most `keep` tokens and every result with its call."""
    best, total = len(messages), 0
    result_ahead = False
    """A result follows before the next assistant message, so its call is earlier: no cut here."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        total += estimate(message)
        if total > keep:
            break
        result_ahead = isinstance(message, ToolResult) or (result_ahead and isinstance(message, User))
        if not result_ahead:
            best = index
    return best


def _turn_start(messages: Sequence[Message], at: int) -> int:
    """The start of the turn that a cut at `at` splits, or `at`."""
    if at < len(messages) and isinstance(messages[at], User):
        return at
    last = messages[at - 1]
    if at == len(messages) and isinstance(last, Assistant) and not last.calls:
        return at
    return next((i for i in range(at - 1, -1, -1) if isinstance(messages[i], User)), at)


# Pruning.

CUSTOM_TYPE = "openclaw.cache-ttl"
KEEP_REPLIES = 3
KEEP_IMAGE_TURNS = 3
SOFT_SHARE = 0.3
HARD_SHARE = 0.5
SOFT_CHARS = 4_000
SOFT_EDGE = 1_500
HARD_CHARS = 50_000
CHARS_PER_TOKEN = 4
REMOVED_IMAGE = "[image removed: it was shown earlier in this conversation]"

Projection = Literal["trim", "clear"]


class Pruned(Struct, frozen=True):
    """Pruned messages, and how each shortened result is shown, by call id."""

    messages: tuple[Message, ...]
    shown: Mapping[str, Projection]


def read_projections(path: Sequence[AnyEntry]) -> dict[str, Projection]:
    """Reads from the transcript's newest record how results were shown so far."""
    data = next((e.data for e in reversed(path) if isinstance(e, Custom) and e.custom_type == CUSTOM_TYPE), None)
    try:
        return msgspec.convert(data.get("shown", {}) if isinstance(data, dict) else {}, dict[str, Projection])
    except msgspec.ValidationError:
        return {}


def prune(
    messages: Sequence[Message], shown: Mapping[str, Projection], rules: PruningSettings, *, window: int, cold: bool
) -> Pruned:
    """Shortens old results as `shown` says; when the provider's cache is `cold`, more of them if they take much."""
    shown = dict(shown)
    if cold:
        room = window * CHARS_PER_TOKEN
        now = apply_projections(messages, shown, rules)
        if count_chars(now) >= SOFT_SHARE * room:
            old = _candidates(messages, rules.tools)
            long = [each.tool_call_id for each in old if len(each.text) > SOFT_CHARS]
            shown |= {call_id: "trim" for call_id in long if call_id not in shown}
            now = apply_projections(messages, shown, rules)
            if rules.hard_clear.enabled and count_chars(now) >= HARD_SHARE * room:
                shown |= _clear_oldest(now, old, shown, HARD_SHARE * room)
    return Pruned(apply_projections(messages, shown, rules), shown)


def apply_projections(
    messages: Sequence[Message], shown: Mapping[str, Projection], rules: PruningSettings
) -> tuple[Message, ...]:
    """Applies `shown` to `messages`."""
    if not shown:
        return tuple(messages)
    out: list[Message] = []
    for message in messages:
        how = shown.get(message.tool_call_id) if isinstance(message, ToolResult) else None
        if how is not None:
            text = rules.hard_clear.placeholder if how == "clear" else _trim(message.text)
            message = structs.replace(message, content=(Text(text),))
        out.append(message)
    return tuple(out)


def count_chars(messages: Sequence[Message]) -> int:
    """The characters of a conversation, images by their cost in tokens."""
    total = 0
    for message in messages:
        total += len(message.text)
        if isinstance(message, Assistant):
            total += len(message.thinking) + sum(len(msgspec.json.encode(call.arguments)) for call in message.calls)
        elif not isinstance(message.content, str):
            images = sum(isinstance(block, Image) for block in message.content)
            total += images * IMAGE_TOKENS * CHARS_PER_TOKEN
    return total


def _candidates(messages: Sequence[Message], tools: ToolFilter) -> list[ToolResult]:
    """Results that may be shortened: after the first user message, before the latest replies, without images."""
    first = next((i for i, message in enumerate(messages) if isinstance(message, User)), len(messages))
    replies = [i for i, message in enumerate(messages) if isinstance(message, Assistant)]
    last = replies[-KEEP_REPLIES] if len(replies) >= KEEP_REPLIES else 0
    return [
        message
        for message in messages[first:last]
        if isinstance(message, ToolResult)
        and not any(fnmatchcase(message.tool_name, pattern) for pattern in tools.deny)
        and (not tools.allow or any(fnmatchcase(message.tool_name, pattern) for pattern in tools.allow))
        and not any(isinstance(block, Image) for block in message.content)
    ]


def _trim(text: str) -> str:
    return (
        f"{text[:SOFT_EDGE]}\n...\n{text[-SOFT_EDGE:]}\n\n"
        f"[Tool result shortened: the first {SOFT_EDGE} and the last {SOFT_EDGE} "
        f"of {len(text)} characters are shown. Run the tool again for the rest.]"
    )


def _clear_oldest(
    messages: Sequence[Message], old: Sequence[ToolResult], shown: Mapping[str, Projection], most: float
) -> dict[str, Projection]:
    """Clears the oldest results until the total is below `most` characters; none when that gains too little."""
    by_id = {message.tool_call_id: message for message in messages if isinstance(message, ToolResult)}
    left = [by_id[each.tool_call_id] for each in old if shown.get(each.tool_call_id) != "clear"]
    if sum(len(each.text) for each in left) < HARD_CHARS:
        return {}
    total = count_chars(messages)
    cleared: dict[str, Projection] = {}
    for result in left:
        if total < most:
            break
        cleared[result.tool_call_id] = "clear"
        total -= len(result.text)
    return cleared


def without_old_images(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Replaces images older than the latest turns by a text."""
    asked = [i for i, message in enumerate(messages) if isinstance(message, User)]
    recent = asked[-KEEP_IMAGE_TURNS] if len(asked) > KEEP_IMAGE_TURNS else 0
    out = list(messages)
    for place, message in enumerate(messages[:recent]):
        if isinstance(message, Assistant) or isinstance(message.content, str):
            continue
        if any(isinstance(block, Image) for block in message.content):
            content = tuple(Text(REMOVED_IMAGE) if isinstance(block, Image) else block for block in message.content)
            out[place] = structs.replace(message, content=content)
    return tuple(out)
