"""Transcript entries, and the context a model sees of them. Pure.

The invariant, established here and nowhere else: in a model's context every tool call is followed by exactly one
result for it, and no result is without a call.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, structs

from openclaw.core.messages import Assistant, Image, Message, Text, ToolCall, ToolResult, Usage, User
from openclaw.core.text import Origin, merge_origins
from openclaw.security.labels import message_origins

# Entries.

VERSION = 3
TITLE_CHARS = 60
INTERRUPTED = "No result: the run ended before this call finished. Check whether it took effect before repeating it."


class TranscriptHeader(
    Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type", tag="session"
):
    """The first line of a transcript; without a version it is version 1."""

    version: int = 1
    id: str
    timestamp: str
    cwd: str = ""
    session_key: str | None = None
    parent_session: str | None = None


class _Entry(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    id: str = ""
    parent_id: str | None = None
    timestamp: str | int | float = ""


class MessageEntry(_Entry, frozen=True, tag="message"):
    message: Message


class ModelChange(_Entry, frozen=True, tag="model_change"):
    provider: str
    model_id: str


class ThinkingChange(_Entry, frozen=True, tag="thinking_level_change"):
    thinking_level: str


class Compaction(_Entry, frozen=True, tag="compaction"):
    summary: str
    first_kept_entry_id: str = ""
    first_kept_entry_index: int | UnsetType = UNSET
    """In format version 1, instead of the id: the entry's position in the file, the header being 0."""
    tokens_before: int = 0
    tokens_after: int | UnsetType = UNSET
    details: Any = None


class BranchSummary(_Entry, frozen=True, tag="branch_summary"):
    from_id: str
    summary: str


class Custom(_Entry, frozen=True, tag="custom"):
    custom_type: str
    data: Any = None


NOTICE = "openclaw.notice"
"""Entry type of a notice to the person; no model sees it."""


def notice_entry(text: str) -> Custom:
    """A notice to the person, stored after the message it is about."""
    return Custom(custom_type=NOTICE, data={"text": text})


TRUST = "openclaw.trust"
"""Entry type of the owner's word that what was read so far may be trusted; no model sees it."""


def trust_entry(origins: Sequence[Origin], by: str) -> Custom:
    """Clears the labels of everything before it, and keeps which they were and from where it was said."""
    return Custom(custom_type=TRUST, data={"sources": [f"{each.label}: {each.source}" for each in origins], "by": by})


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
    """Moves the end of the conversation, to rewind without rewriting. None is before the first entry."""

    target_id: str | None


class ResetEntry(_Entry, frozen=True, tag="reset"):
    """Hides everything before it, except from `first_kept_entry_id` on."""

    first_kept_entry_id: str | None = None


class UnknownEntry(Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry of an unknown kind: it keeps its position in the tree and is never shown to a model."""

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
    | ResetEntry
)
AnyEntry = Entry | UnknownEntry


class TranscriptProblem(Struct, frozen=True):
    """A defect found in a transcript."""

    kind: Literal["torn", "unreadable", "missing", "unanswered", "stray-result", "repeated-result"]
    detail: str


# The context.


class ModelContext(Struct, frozen=True, kw_only=True):
    """The messages a run starts from."""

    messages: tuple[Message, ...]
    summary: str | None = None
    problems: tuple[TranscriptProblem, ...] = ()
    unanswered: tuple[ToolCall, ...] = ()
    """The calls at the end of the conversation that have no result yet."""


def path_to_leaf(entries: Sequence[AnyEntry]) -> list[AnyEntry]:
    """The entries from the root to the leaf."""
    return walk_path(entries)[0]


def walk_path(entries: Sequence[AnyEntry]) -> tuple[list[AnyEntry], list[TranscriptProblem]]:
    """Like `path_to_leaf`, with a problem for each missing parent."""
    by_id: dict[str, int] = {}
    parents: list[int] = []
    lost: dict[int, TranscriptProblem] = {}
    leaf = -1
    for index, entry in enumerate(entries):
        named = entry.target_id if isinstance(entry, Leaf) else entry.parent_id
        parent = by_id.get(named, -1) if named else -1
        if named and named not in by_id:
            # The parent may be an unreadable line: go on with the entry before, so that the past stays visible.
            parent = leaf
            lost[index] = TranscriptProblem("missing", f"{entry.id} goes on from {named}, which is not in the file")
        parents.append(parent)
        leaf = parent if isinstance(entry, Leaf) else index
        by_id[entry.id] = leaf
    path: list[AnyEntry] = []
    problems: list[TranscriptProblem] = []
    while leaf >= 0:
        path.append(entries[leaf])
        if leaf in lost:
            problems.append(lost[leaf])
        leaf = parents[leaf]
    path.reverse()
    problems.reverse()
    return path, problems


def build_context(entries: Sequence[AnyEntry]) -> ModelContext:
    """Builds the model's context: applies resets and compactions, and pairs calls with results."""
    return path_context(*walk_path(entries))


def path_context(path: Sequence[AnyEntry], broken: Sequence[TranscriptProblem]) -> ModelContext:
    """The same for a path that was walked, with the problems that were found."""
    shown, summary = visible_entries(path)
    paired = pair(_messages(shown))
    return structs.replace(paired, summary=summary, problems=(*broken, *paired.problems))


def _messages(shown: Sequence[AnyEntry]) -> Iterable[Message]:
    """The messages of `shown`; those that the owner trusts say so instead of where they came from."""
    trusted = _trusted_until(shown)
    for index, entry in enumerate(shown):
        message = message_of(entry)
        if message is not None:
            cleared = index < trusted and message_origins(message)
            yield structs.replace(message, origins=(Origin("owner", "/trust"),)) if cleared else message


def _trusted_until(entries: Sequence[AnyEntry]) -> int:
    """The index of the last entry that clears labels; 0 when there is none."""
    places = (index for index, entry in enumerate(entries) if isinstance(entry, Custom) and entry.custom_type == TRUST)
    return max(places, default=0)


def visible_entries(path: Sequence[AnyEntry]) -> tuple[list[AnyEntry], str | None]:
    """The entries that resets and compactions leave of `path`, and the summary of the others."""
    shown: list[AnyEntry] = []
    summary: str | None = None
    for entry in path:
        if isinstance(entry, ResetEntry | Compaction):
            shown = _from(shown, entry.first_kept_entry_id)
            summary = entry.summary if isinstance(entry, Compaction) else None
        shown.append(entry)
    return shown, summary


def _from(shown: list[AnyEntry], first_kept: str | None) -> list[AnyEntry]:
    start = next((i for i, entry in enumerate(shown) if first_kept and entry.id == first_kept), len(shown))
    return shown[start:]


def settled_path(path: Sequence[AnyEntry]) -> list[AnyEntry]:
    """`path` up to the last message whose calls all have a result."""
    found = list(path)
    while pair(said for entry in found if (said := message_of(entry)) is not None).unanswered:
        asks = [place for place, entry in enumerate(found) if isinstance(message_of(entry), Assistant)]
        found = found[: asks[-1]]
    return found


def message_of(entry: AnyEntry) -> Message | None:
    """The message of `entry` for a model, if any."""
    match entry:
        case MessageEntry(message=message):
            return message
        case CustomMessage(content=content):
            return User(content=content)
        case BranchSummary(summary=summary):
            return User(content=f"Summary of a branch of this conversation that was left:\n{summary}")
        case _:
            return None


def pair(messages: Iterable[Message]) -> ModelContext:
    """Pairs calls with results: every call gets exactly one, directly after it, in the order of the calls."""
    steps: list[tuple[Assistant | None, list[ToolResult], list[User]]] = [(None, [], [])]
    for message in messages:
        match message:
            case Assistant():
                steps.append((message, [], []))
            case ToolResult():
                steps[-1][1].append(message)
            case User():
                steps[-1][2].append(message)
    out: list[Message] = []
    problems: list[TranscriptProblem] = []
    missing: list[ToolCall] = []
    for said, results, users in steps:
        asked = [call.id for call in said.calls] if said else []
        if said is not None:
            said = said if len(set(asked)) == len(asked) else _with_distinct_ids(said)
            out.append(said)
        calls = said.calls if said else ()
        answers: dict[str, ToolResult] = {}
        for result in results:
            ours = [call.id for call, own in zip(calls, asked, strict=True) if result.tool_call_id in (call.id, own)]
            free = next((call_id for call_id in ours if call_id not in answers), None)
            if free is not None:
                answers[free] = result if free == result.tool_call_id else structs.replace(result, tool_call_id=free)
                continue
            kind: Literal["repeated-result", "stray-result"] = "repeated-result" if ours else "stray-result"
            problems.append(TranscriptProblem(kind, f"{result.tool_name} ({result.tool_call_id})"))
        missing = [call for call in calls if call.id not in answers]
        problems.extend(TranscriptProblem("unanswered", f"{call.name} ({call.id})") for call in missing)
        out.extend(answers.get(call.id) or interrupted_result(call) for call in calls)
        out.extend(users)
    return ModelContext(messages=tuple(out), problems=tuple(problems), unanswered=tuple(missing))


def _with_distinct_ids(message: Assistant) -> Assistant:
    """Makes the call ids of `message` unique: some models give every call the same id."""
    taken = {call.id for call in message.calls}
    seen: set[str] = set()
    content = []
    for block in message.content:
        if isinstance(block, ToolCall):
            fresh, number = block.id, 2
            while fresh in seen or (fresh != block.id and fresh in taken):
                fresh, number = f"{block.id}-{number}", number + 1
            seen.add(fresh)
            block = structs.replace(block, id=fresh)
        content.append(block)
    return structs.replace(message, content=tuple(content))


def interrupted_result(call: ToolCall, text: str = INTERRUPTED, timestamp: int = 0) -> ToolResult:
    """A placeholder result for a call that was interrupted."""
    return ToolResult(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text),),
        details={"synthetic": True},
        is_error=True,
        timestamp=timestamp,
    )


_Status = Literal["idle", "done", "failed", "killed"]


class ConversationTotals(Struct, frozen=True):
    """Totals of a conversation."""

    messages: int = 0
    usage: Usage = Usage()
    last: Assistant | None = None
    at: int = 0
    """The time of the latest message, in milliseconds."""
    status: _Status = "idle"
    """The status by its last message: anything but a finished answer means that the run was interrupted."""

    def plus(self, message: Message) -> "ConversationTotals":
        count, at = self.messages + 1, max(self.at, message.timestamp)
        if not isinstance(message, Assistant):
            return ConversationTotals(count, self.usage, self.last, at, "killed")
        broken = message.stop_reason == "aborted" or message.calls
        status: _Status = "killed" if broken else "failed" if message.stop_reason == "error" else "done"
        return ConversationTotals(count, self.usage + message.usage, message, at, status)


def tally(entries: Sequence[AnyEntry]) -> ConversationTotals:
    return total_of(entry.message for entry in path_to_leaf(entries) if isinstance(entry, MessageEntry))


def total_of(messages: Iterable[Message]) -> ConversationTotals:
    total = ConversationTotals()
    for message in messages:
        total = total.plus(message)
    return total


def title_of(entries: Iterable[AnyEntry]) -> str:
    """The session's title: its given name, else the start of its first message."""
    named = said = ""
    for entry in entries:
        if isinstance(entry, SessionInfo):
            named = entry.name
        elif not said and isinstance(entry, MessageEntry) and isinstance(entry.message, User):
            said = headline(entry.message.text)
    return headline(named) or said


def headline(text: str) -> str:
    """The start of `text` on one line, without control characters."""
    line = "".join(char for char in " ".join(text.split()) if char.isprintable())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"


def path_origins(path: Sequence[AnyEntry]) -> tuple[Origin, ...]:
    """The origins of a whole conversation since its last reset or `/trust`; a summary keeps those of what it replaced.

    Enclosed text without a label counts too.
    """
    return merge_origins(conversation_origins(path))


def conversation_origins(path: Sequence[AnyEntry], before: Sequence[Origin] = ()) -> tuple[Origin, ...]:
    """All of the origins that `path_origins` gives the most telling of; `before` are those of what `path` goes on from.

    What goes on from something is messages and notes, no reset.
    """
    kept: list[AnyEntry] = []
    trusted = 0
    for entry in path:
        if isinstance(entry, ResetEntry):
            left = _from(kept, entry.first_kept_entry_id)
            kept, trusted = left, max(0, trusted - (len(kept) - len(left)))
        kept.append(entry)
        if isinstance(entry, Custom) and entry.custom_type == TRUST:
            trusted = len(kept)
    said = (message for entry in kept[trusted:] if (message := message_of(entry)) is not None)
    found = [each for message in said for each in message_origins(message) if each.untrusted]
    return tuple(dict.fromkeys((*(() if trusted else before), *found)))
