"""A transcript as values: entries in a file, and the messages a model should see of them.

The invariant: in what goes to a model, every tool call is followed by exactly one result for it, and no result
stands alone. It is established here and nowhere else.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from openclaw.core.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, Usage, User

VERSION = 3
INTERRUPTED = "No result: the run ended before this call finished. Check whether it took effect before repeating it."


class Header(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type", tag="session"):
    """The first line of a transcript."""

    version: int = VERSION
    id: str
    timestamp: str
    cwd: str = ""
    session_key: str | None = None
    parent_session: str | None = None


class _Entry(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    id: str = ""
    parent_id: str | None = None
    timestamp: str | int = ""


class MessageEntry(_Entry, frozen=True, tag="message"):
    message: Message


class ModelChange(_Entry, frozen=True, tag="model_change"):
    provider: str
    model_id: str


class ThinkingChange(_Entry, frozen=True, tag="thinking_level_change"):
    thinking_level: str


class Compaction(_Entry, frozen=True, tag="compaction"):
    summary: str
    first_kept_entry_id: str
    tokens_before: int = 0
    details: Any = None


class BranchSummary(_Entry, frozen=True, tag="branch_summary"):
    from_id: str
    summary: str


class Custom(_Entry, frozen=True, tag="custom"):
    custom_type: str
    data: Any = None


class CustomMessage(_Entry, frozen=True, tag="custom_message"):
    custom_type: str
    content: str | tuple[Text | Image, ...]
    display: bool = False


class Labelled(_Entry, frozen=True, tag="label"):
    target_id: str
    label: str | None = None


class SessionInfo(_Entry, frozen=True, tag="session_info"):
    name: str


class Leaf(_Entry, frozen=True, tag="leaf"):
    """Where the conversation goes on; a rewind without rewriting."""

    target_id: str | None = None


class Reset(_Entry, frozen=True, tag="reset"):
    """Everything before this is out of sight, except what is kept."""

    first_kept_entry_id: str | None = None


class Opaque(Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of a kind we do not know: it keeps its place in the tree and is never shown to a model."""

    type: str = ""
    id: str = ""
    parent_id: str | None = None


Entry = (
    MessageEntry
    | ModelChange
    | ThinkingChange
    | Compaction
    | BranchSummary
    | Custom
    | CustomMessage
    | Labelled
    | SessionInfo
    | Leaf
    | Reset
)
AnyEntry = Entry | Opaque

_decoder: msgspec.json.Decoder[Header | Entry] = msgspec.json.Decoder(Header | Entry)
_KNOWN_BLOCKS = {"text", "thinking", "image", "toolCall"}


def decode_line(line: bytes) -> Header | AnyEntry | None:
    """One line of a transcript; None when it cannot be read at all."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return _decode_leniently(line)


def _decode_leniently(line: bytes) -> Header | AnyEntry | None:
    """An entry written by another version: unknown blocks are left out, unknown kinds kept opaque."""
    try:
        raw = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        return None
    message = raw.get("message")
    if isinstance(message, dict) and isinstance(message.get("content"), list):
        kept = [block for block in message["content"] if isinstance(block, dict) and block.get("type") in _KNOWN_BLOCKS]
        raw = raw | {"message": message | {"content": kept}}
    try:
        known: Header | Entry = msgspec.convert(raw, Header | Entry, strict=False)
        return known
    except msgspec.ValidationError:
        parent = raw.get("parentId")
        return Opaque(
            type=raw["type"],
            id=str(raw.get("id") or ""),
            parent_id=parent if isinstance(parent, str) else None,
        )


class Problem(Struct, frozen=True):
    """Something a reader should know about a transcript."""

    kind: Literal["torn", "unreadable", "unanswered", "stray-result", "repeated-result"]
    detail: str


class Context(Struct, frozen=True, kw_only=True):
    """What a run starts from."""

    messages: tuple[Message, ...]
    summary: str | None = None
    model: tuple[str, str] | None = None
    thinking: str | None = None
    problems: tuple[Problem, ...] = ()


def path_to_leaf(entries: Sequence[AnyEntry]) -> list[AnyEntry]:
    """The entries from the root to the leaf. Entries without ids (old files) follow one another."""
    by_id: dict[str, int] = {}
    parents: list[int] = []
    leaf = -1
    for index, entry in enumerate(entries):
        named = by_id.get(entry.parent_id) if entry.parent_id else None
        linked = bool(entry.id)
        # A missing parent (an unreadable line) must not hide all that came before it.
        parents.append(named if named is not None else -1 if linked and entry.parent_id is None else index - 1)
        if entry.id:
            by_id[entry.id] = index
        if isinstance(entry, Leaf):
            leaf = by_id.get(entry.target_id, -1) if entry.target_id else -1
        else:
            leaf = index
    walk: list[AnyEntry] = []
    while leaf >= 0:
        walk.append(entries[leaf])
        leaf = parents[leaf]
    walk.reverse()
    return walk


def build_context(entries: Sequence[AnyEntry]) -> Context:
    """The messages a model should see: the newest reset and compaction applied, pairs made whole."""
    walk = path_to_leaf(entries)
    shown: list[AnyEntry] = walk
    summary: str | None = None
    for index in range(len(walk) - 1, -1, -1):
        entry = walk[index]
        if isinstance(entry, Reset):
            shown = _kept(walk, index, entry.first_kept_entry_id)
            break
        if isinstance(entry, Compaction):
            shown, summary = _kept(walk, index, entry.first_kept_entry_id), entry.summary
            break
    model: tuple[str, str] | None = None
    thinking: str | None = None
    for entry in walk:
        if isinstance(entry, ModelChange):
            model = (entry.provider, entry.model_id)
        elif isinstance(entry, ThinkingChange):
            thinking = entry.thinking_level
    messages, problems = pair(message for entry in shown if (message := _message(entry)) is not None)
    return Context(messages=tuple(messages), summary=summary, model=model, thinking=thinking, problems=tuple(problems))


def _kept(walk: Sequence[AnyEntry], at: int, first_kept: str | None) -> list[AnyEntry]:
    start = next((i for i, entry in enumerate(walk[:at]) if first_kept and entry.id == first_kept), at)
    return [*walk[start:at], *walk[at + 1 :]]


def _message(entry: AnyEntry) -> Message | None:
    match entry:
        case MessageEntry(message=message):
            return message
        case CustomMessage(content=content):
            return User(content=content)
        case BranchSummary(summary=summary):
            return User(content=f"Summary of a branch of this conversation that was left:\n{summary}")
        case _:
            return None


def pair(messages: Iterable[Message]) -> tuple[list[Message], list[Problem]]:
    """`messages` with every tool call answered exactly once, directly behind the call, in the call's order."""
    out: list[Message] = []
    problems: list[Problem] = []
    waiting: dict[str, ToolCall] = {}
    answers: dict[str, ToolResult] = {}

    def settle() -> None:
        for call_id, call in waiting.items():
            answer = answers.get(call_id)
            if answer is None:
                problems.append(Problem("unanswered", f"{call.name} ({call_id})"))
                answer = synthetic(call)
            out.append(answer)
        waiting.clear()
        answers.clear()

    for message in messages:
        match message:
            case ToolResult(tool_call_id=call_id, tool_name=name):
                if call_id not in waiting:
                    problems.append(Problem("stray-result", f"{name} ({call_id})"))
                elif call_id in answers:
                    problems.append(Problem("repeated-result", f"{name} ({call_id})"))
                else:
                    answers[call_id] = message
                    if len(answers) == len(waiting):
                        settle()
            case Assistant():
                settle()
                out.append(message)
                waiting.update({call.id: call for call in message.calls})
            case User():
                settle()
                out.append(message)
    settle()
    return out, problems


def synthetic(call: ToolCall, text: str = INTERRUPTED, timestamp: int = 0) -> ToolResult:
    """The result of a call whose own result never came."""
    return ToolResult(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text),),
        details={"synthetic": True},
        is_error=True,
        timestamp=timestamp,
    )


def unanswered(entries: Sequence[AnyEntry]) -> tuple[ToolCall, ...]:
    """The calls at the end of the conversation that still wait for their results."""
    open_calls: dict[str, ToolCall] = {}
    for entry in path_to_leaf(entries):
        message = _message(entry)
        if isinstance(message, Assistant):
            open_calls = {call.id: call for call in message.calls}
        elif isinstance(message, ToolResult):
            open_calls.pop(message.tool_call_id, None)
        elif isinstance(message, User):
            open_calls = {}
    return tuple(open_calls.values())


class Tally(Struct, frozen=True):
    """What a conversation amounts to."""

    messages: int = 0
    usage: Usage = Usage()
    last: Assistant | None = None

    def plus(self, message: Message) -> "Tally":
        if isinstance(message, Assistant):
            return Tally(self.messages + 1, self.usage + message.usage, message)
        return Tally(self.messages + 1, self.usage, self.last)


def tally(entries: Sequence[AnyEntry]) -> Tally:
    total = Tally()
    for entry in path_to_leaf(entries):
        if isinstance(entry, MessageEntry):
            total = total.plus(entry.message)
    return total


def title_of(entries: Iterable[AnyEntry]) -> str:
    """A name for the session: the one it was given, else the start of the first thing said."""
    first = ""
    for entry in entries:
        if isinstance(entry, SessionInfo) and entry.name:
            first = entry.name
        elif not first and isinstance(entry, MessageEntry) and isinstance(entry.message, User):
            first = entry.message.text
    line = re.sub(r"\s+", " ", first).strip()
    return line if len(line) <= 60 else line[:59].rstrip() + "…"
