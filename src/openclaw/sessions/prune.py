"""Old tool results shown shortened, and old images left out, in what a model sees; transcripts are not touched. Pure.

What was shortened once is shown the same way ever after, to the byte, so that a provider's cache stays good; new
cuts are made only when the cache is cold anyway.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from openclaw.core.messages import Assistant, Image, Message, Text, ToolResult, User
from openclaw.sessions.compact import IMAGE_TOKENS
from openclaw.sessions.transcript import AnyEntry, Custom

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


class Pruning(Struct, frozen=True, kw_only=True):
    """How to prune; `ttl` is how many seconds a provider's cache lives."""

    ttl: float = 300.0
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    hard_clear: bool = True
    placeholder: str = "[Old tool result content cleared]"

    def may(self, tool: str) -> bool:
        if any(fnmatchcase(tool, pattern) for pattern in self.deny):
            return False
        return not self.allow or any(fnmatchcase(tool, pattern) for pattern in self.allow)


class Pruned(Struct, frozen=True):
    """Messages as the model sees them, and how each shortened result is shown, by call id."""

    messages: tuple[Message, ...]
    shown: Mapping[str, Projection]


def recorded(path: Sequence[AnyEntry]) -> dict[str, Projection]:
    """How results were shown before, from the newest record of it."""
    for entry in reversed(path):
        if isinstance(entry, Custom) and entry.custom_type == CUSTOM_TYPE:
            return _read(entry.data)
    return {}


def _read(data: Any) -> dict[str, Projection]:
    try:
        return msgspec.convert(data.get("shown", {}) if isinstance(data, dict) else {}, dict[str, Projection])
    except msgspec.ValidationError:
        return {}


def prune(
    messages: Sequence[Message], shown: Mapping[str, Projection], rules: Pruning, *, window: int, idle: float
) -> Pruned:
    """`messages` with old results shortened; `idle` is how many seconds ago the model was last asked."""
    shown = dict(shown)
    if idle >= rules.ttl:
        room = window * CHARS_PER_TOKEN
        now = project(messages, shown, rules)
        if size(now) >= SOFT_SHARE * room:
            old = _candidates(messages, rules)
            shown |= {each.tool_call_id: "trim" for each in old if _is_long(each) and each.tool_call_id not in shown}
            now = project(messages, shown, rules)
            if rules.hard_clear and size(now) >= HARD_SHARE * room:
                shown |= _cleared(now, old, shown, HARD_SHARE * room)
    return Pruned(project(messages, shown, rules), shown)


def project(messages: Sequence[Message], shown: Mapping[str, Projection], rules: Pruning) -> tuple[Message, ...]:
    """`messages` as `shown` says."""
    how: dict[Projection, Callable[[ToolResult], ToolResult]] = {
        "trim": _trimmed,
        "clear": lambda result: structs.replace(result, content=(Text(rules.placeholder),)),
    }
    return tuple(
        how[shown[message.tool_call_id]](message)
        if isinstance(message, ToolResult) and message.tool_call_id in shown
        else message
        for message in messages
    )


def size(messages: Sequence[Message]) -> int:
    """Characters of a conversation, images at what they cost."""
    return sum(map(_chars, messages))


def _chars(message: Message) -> int:
    if isinstance(message, Assistant):
        calls = sum(len(msgspec.json.encode(call.arguments)) for call in message.calls)
        return len(message.text) + len(message.thinking) + calls
    images = 0 if isinstance(message.content, str) else sum(isinstance(block, Image) for block in message.content)
    return len(message.text) + images * IMAGE_TOKENS * CHARS_PER_TOKEN


def _candidates(messages: Sequence[Message], rules: Pruning) -> list[ToolResult]:
    """Results that may be shortened: behind the first question, before the latest replies, without images."""
    first = next((i for i, message in enumerate(messages) if isinstance(message, User)), len(messages))
    replies = [i for i, message in enumerate(messages) if isinstance(message, Assistant)]
    last = replies[-KEEP_REPLIES] if len(replies) >= KEEP_REPLIES else 0
    return [
        message
        for message in messages[first:last]
        if isinstance(message, ToolResult)
        and rules.may(message.tool_name)
        and not any(isinstance(block, Image) for block in message.content)
    ]


def _is_long(result: ToolResult) -> bool:
    return len(result.text) > SOFT_CHARS


def _trimmed(result: ToolResult) -> ToolResult:
    text = result.text
    note = (
        f"[Tool result shortened: the first {SOFT_EDGE} and the last {SOFT_EDGE} "
        f"of {len(text)} characters are shown. Run the tool again for the rest.]"
    )
    return structs.replace(result, content=(Text(f"{text[:SOFT_EDGE]}\n...\n{text[-SOFT_EDGE:]}\n\n{note}"),))


def _cleared(
    messages: Sequence[Message], old: Sequence[ToolResult], shown: Mapping[str, Projection], most: float
) -> dict[str, Projection]:
    """The oldest results, as many as it takes to get below `most` characters; none when that is not worth it."""
    by_id = {message.tool_call_id: message for message in messages if isinstance(message, ToolResult)}
    left = [by_id[each.tool_call_id] for each in old if shown.get(each.tool_call_id) != "clear"]
    if sum(len(each.text) for each in left) < HARD_CHARS:
        return {}
    total = size(messages)
    cleared: dict[str, Projection] = {}
    for result in left:
        if total < most:
            break
        cleared[result.tool_call_id] = "clear"
        total -= len(result.text)
    return cleared


def without_old_images(messages: Sequence[Message]) -> tuple[Message, ...]:
    """`messages` with a line in place of each image that is older than the latest turns."""
    asked = [i for i, message in enumerate(messages) if isinstance(message, User)]
    recent = asked[-KEEP_IMAGE_TURNS] if len(asked) > KEEP_IMAGE_TURNS else 0
    return (*(_imageless(message) for message in messages[:recent]), *messages[recent:])


def _imageless(message: Message) -> Message:
    if isinstance(message, Assistant) or isinstance(message.content, str):
        return message
    if not any(isinstance(block, Image) for block in message.content):
        return message
    content = tuple(Text(REMOVED_IMAGE) if isinstance(block, Image) else block for block in message.content)
    return structs.replace(message, content=content)
