"""When a conversation is too long for its model, and where to cut it. Pure; sizes are tokens, by estimate.

A cut keeps pairs whole (a call and its results are on the same side), keeps a tail within a budget, and takes
something away. When no such cut exists there is nothing to compact.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

import msgspec
from msgspec import Struct

from openclaw.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User, once
from openclaw.core.patterns import lazy
from openclaw.sessions.transcript import AnyEntry, Compaction, MessageEntry, ResetEntry, message_of, visible

RESERVE = 20_000
RESERVE_SHARE = 4
"""The reserve is at most one part in so many of the window."""
IMAGE_TOKENS = 2_000
MESSAGE_TOKENS = 4
"""What roles and separators cost."""
HARD_MINIMUM = 4_000
COMFORTABLE = 8_000

_WIDE = lazy(
    "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)

_LIMIT = lazy(
    r"(?:maximum (?:context|prompt) length|context (?:size|length|window)|maximum number of tokens"
    r"|token limit|n_ctx|> )[^\d\n]{0,40}?(\d[\d,]{2,8})(?!\d)",
    re.IGNORECASE,
)


def estimate_text(text: str) -> int:
    """Tokens of `text`: four characters each, but one for a character that stands for a syllable or a word."""
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return wide + -(-(len(text) - wide) // 4)


@once
def estimate(message: Message) -> int:
    """Tokens of one message; never 0, so that every message counts."""
    if isinstance(message, User) and isinstance(message.content, str):
        return MESSAGE_TOKENS + estimate_text(message.content)
    return MESSAGE_TOKENS + sum(_block(block) for block in message.content if not isinstance(block, str))


def _block(block: Text | Image | Thinking | ToolCall) -> int:
    match block:
        case Text(text=text):
            return estimate_text(text)
        case Thinking(thinking=thinking, thinking_signature=signature):
            return estimate_text(thinking) + estimate_text(signature or "")
        case ToolCall(name=name, arguments=arguments):
            return estimate_text(name) + -(-len(msgspec.json.encode(arguments)) // 4)
        case _:
            return IMAGE_TOKENS


def estimate_all(messages: Sequence[Message]) -> int:
    return sum(map(estimate, messages))


def measure(path: Sequence[AnyEntry], overhead: int = 0) -> int:
    """How much of its window a conversation takes, the system prompt included.

    The provider's own count of the last call, and an estimate of what came after; a count from before the newest
    compaction says nothing any more, then all of it is estimated on top of `overhead`. So it is when the count is
    too low to be true.
    """
    shown, summary = visible(path)
    estimated = estimate_text(summary or "") + estimate_all(
        [message for entry in shown if (message := message_of(entry)) is not None]
    )
    start = max((i for i, entry in enumerate(shown) if isinstance(entry, Compaction | ResetEntry)), default=-1)
    behind = 0
    for entry in reversed(shown[start + 1 :]):
        if isinstance(entry, MessageEntry) and _counts(entry.message):
            assert isinstance(entry.message, Assistant)
            counted = entry.message.usage.total_tokens + behind
            return counted if 2 * counted >= estimated else overhead + estimated
        message = message_of(entry)
        behind += estimate(message) if message is not None else 0
    return overhead + estimated


def _counts(message: Message) -> bool:
    return (
        isinstance(message, Assistant)
        and message.usage.total_tokens > 0
        and message.stop_reason not in ("error", "aborted")
    )


def window_in(error: str) -> int | None:
    """The size of the window as a provider names it when it refuses: a local server may have less than its model."""
    found = _LIMIT.search(error)
    return int(found[1].replace(",", "")) if found else None


def reserve(window: int) -> int:
    """What must stay free for the answer."""
    return min(RESERVE, window // RESERVE_SHARE)


def full(tokens: int, window: int) -> bool:
    """Whether a conversation of `tokens` is to be compacted before the next turn."""
    return tokens >= window - reserve(window)


def nearly_full(tokens: int, window: int, soft: int) -> bool:
    """Whether it is time to write down what should outlive a compaction."""
    free = window - reserve(window)
    return tokens >= free - min(soft, free // 2)


def keep_budget(wanted: int, window: int, tokens: int, overhead: int) -> int:
    """How much stays word for word: what was asked for, but never so much that the next turn is full again."""
    room = window - reserve(window) - overhead
    return max(0, min(wanted, room // 2, tokens // 2))


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """A cut: what a summary is to stand for, and what stays."""

    removed: tuple[Message, ...]
    kept: tuple[Message, ...]
    first_kept: str
    """The entry the tail starts with; empty when nothing stays."""
    split: int
    """Where in `removed` the turn begins that the cut goes through; its length when the cut is between turns."""
    previous: Compaction | None = None

    @property
    def unanswered(self) -> str:
        """The last request in `removed` when it got no final answer, there or in the tail, in its own words."""
        last = next((i for i in range(len(self.removed) - 1, -1, -1) if isinstance(self.removed[i], User)), None)
        if last is None:
            return ""
        rest = takewhile(lambda message: not isinstance(message, User), (*self.removed[last + 1 :], *self.kept))
        answered = any(isinstance(message, Assistant) and message.text and not message.calls for message in rest)
        return "" if answered else self.removed[last].text


def plan(path: Sequence[AnyEntry], keep: int) -> CompactionPlan | None:
    """Where to cut so that at most `keep` tokens stay; None when there is nothing to take away."""
    shown, _ = visible(path)
    said = [(entry.id, message) for entry in shown if (message := message_of(entry)) is not None]
    messages = [message for _, message in said]
    at = cut(messages, keep)
    if at == 0:
        return None
    return CompactionPlan(
        removed=tuple(messages[:at]),
        kept=tuple(messages[at:]),
        first_kept=said[at][0] if at < len(said) else "",
        split=_split(messages, at),
        previous=_previous(path),
    )


def compactions(path: Sequence[AnyEntry]) -> int:
    """How often a conversation was compacted."""
    return sum(isinstance(entry, Compaction) for entry in path)


def _previous(path: Sequence[AnyEntry]) -> Compaction | None:
    """The summary that stands for what came before; a reset leaves none."""
    for entry in reversed(path):
        if isinstance(entry, Compaction):
            return entry
        if isinstance(entry, ResetEntry):
            return None
    return None


def cut(messages: Sequence[Message], keep: int) -> int:
    """The first message to keep: the earliest from which all that follows takes at most `keep` tokens."""
    best, total = len(messages), 0
    for index, fits in zip(range(len(messages) - 1, -1, -1), _cuttable(messages), strict=True):
        total += estimate(messages[index])
        if total > keep:
            break
        if fits:
            best = index
    return best


def _cuttable(messages: Sequence[Message]) -> list[bool]:
    """From the last message to the first: whether a cut before it leaves every result with its call."""
    fits: list[bool] = []
    result_ahead = False
    """A result stands between here and the next reply: it answers a reply before here."""
    for message in reversed(messages):
        match message:
            case ToolResult():
                result_ahead = True
                fits.append(False)
            case Assistant():
                result_ahead = False
                fits.append(True)
            case User():
                fits.append(not result_ahead)
    return fits


def _split(messages: Sequence[Message], at: int) -> int:
    """The start of the turn that a cut at `at` goes through, or `at`."""
    if at < len(messages) and isinstance(messages[at], User):
        return at
    last = messages[at - 1]
    if at == len(messages) and isinstance(last, Assistant) and not last.calls:
        return at
    return next((i for i in range(at - 1, -1, -1) if isinstance(messages[i], User)), at)
