"""Pages of a conversation for clients, cached conversations for turns, and search in one conversation."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.errors import NotFound
from openclaw.core.messages import Assistant, Message, Text, Thinking, ToolCall, ToolResult, User
from openclaw.core.text import Origin
from openclaw.sessions.compaction.plan import ConversationSize, measure
from openclaw.sessions.reply_text import shape
from openclaw.sessions.transcript import (
    NOTICE,
    AnyEntry,
    ConversationTotals,
    Custom,
    MessageEntry,
    ModelContext,
    conversation_origins,
    pair,
    path_context,
    path_to_leaf,
    total_of,
    walk_path,
)
from openclaw.storage.atomic import Identity, identity_at

# Pages.

BLOCK_CHARS = 4_000
TOTAL_BYTES = 262_144
PLACEHOLDER = "[this message is too large to show here]"
_SIGNATURES = ("thinkingSignature", "textSignature", "signature")
"""For the provider alone."""


class HistoryRow(Struct, frozen=True):
    """One message; `number` counts from 1 over the whole conversation."""

    entry_id: str
    number: int
    message: Message
    notices: tuple[str, ...] = ()
    """Notices to the person that follow the message."""


class HistoryPage(Struct, frozen=True, kw_only=True):
    rows: tuple[HistoryRow, ...]
    total: int
    next_offset: int | None


def rows_of(entries: Sequence[AnyEntry]) -> list[HistoryRow]:
    """The messages of a conversation, in order, each with the notices that follow it."""
    return _rows(path_to_leaf(entries))


def _rows(path: Sequence[AnyEntry], first: int = 1) -> list[HistoryRow]:
    rows: list[HistoryRow] = []
    for entry in path:
        match entry:
            case MessageEntry(message=message):
                rows.append(HistoryRow(entry.id, len(rows) + first, message))
            case Custom(custom_type=kind, data={"text": str(text)}) if kind == NOTICE and rows:
                rows[-1] = structs.replace(rows[-1], notices=(*rows[-1].notices, text))
    return rows


def page(entries: Sequence[AnyEntry], *, limit: int, offset: int = 0) -> HistoryPage:
    """The `limit` rows that end `offset` rows before the newest."""
    path = path_to_leaf(entries)
    places = [place for place, entry in enumerate(path) if isinstance(entry, MessageEntry)]
    total = len(places)
    end = max(0, total - offset)
    start = max(0, end - limit)
    next_offset = offset + (end - start) if start > 0 else None
    shown = path[places[start] : places[end] if end < total else None] if start < end else []
    return HistoryPage(rows=tuple(_rows(shown, start + 1)), total=total, next_offset=next_offset)


def around(entries: Sequence[AnyEntry], entry_id: str, *, limit: int) -> HistoryPage:
    """The `limit` rows around one message."""
    rows = rows_of(entries)
    after = next((len(rows) - each.number for each in rows if each.entry_id == entry_id), None)
    if after is None:
        raise NotFound(f"there is no message {entry_id} in this conversation")
    return page(entries, limit=limit, offset=after - min(after, limit // 2))


def limit_rows(rows: Sequence[dict[str, Any]], max_bytes: int, max_chars: int = BLOCK_CHARS) -> list[dict[str, Any]]:
    """Limits rows: shortens long texts, and drops the oldest beyond `max_bytes`."""
    kept: list[dict[str, Any]] = []
    left = max_bytes
    for row in reversed(rows):
        shown = _shortened(row, max_chars)
        size = len(msgspec.json.encode(shown))
        if size > max_bytes:
            shown = {**shown, "content": [{"type": "text", "text": PLACEHOLDER}]}
            size = len(msgspec.json.encode(shown))
        if size > left:
            break
        left -= size
        kept.append(shown)
    kept.reverse()
    return kept


def _shortened(row: dict[str, Any], most: int) -> dict[str, Any]:
    content = row.get("content")
    if isinstance(content, str):
        content = _cut(content, most)
    elif isinstance(content, list):
        texts = ("text", "thinking")
        content = [{k: _cut(v, most) if k in texts else v for k, v in block.items()} for block in content]
    return {**row, "content": content} if content is not None else row


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n…(truncated)…"


def stored_row_to_json(each: HistoryRow, proofread: Callable[[str], str]) -> dict[str, Any]:
    """A stored message as a row for clients, with its notices."""
    made = message_to_json(each.message, each.entry_id, each.number, proofread=proofread)
    if each.notices:
        made["__openclaw"]["notices"] = list(each.notices)
    return made


def message_to_json(
    message: Any,
    entry_id: str,
    number: int,
    run_id: str | None = None,
    proofread: Callable[[str], str] = lambda text: text,
) -> dict[str, Any]:
    """A message as a row of history and `session.message`, without runtime details and image data."""
    if isinstance(message, Assistant):
        shaped = shape(message.text)
        text = proofread(shaped.text) if "#" in shaped.text else shaped.text  # most answers cite nothing
        if text != message.text:
            message = _reshaped(message, text, shaped.reasoning)
    made: dict[str, Any] = msgspec.to_builtins(message)
    made.pop("details", None)
    if not isinstance(made.get("content"), str):
        made["content"] = [
            {"type": "text", "text": f"[image {block.get('mimeType', '')}]"}
            if block.get("type") == "image"
            else {key: value for key, value in block.items() if key not in _SIGNATURES}
            for block in made.get("content", ())
        ]
    made["__openclaw"] = {"id": entry_id, "seq": number, **({"runId": run_id} if run_id else {})}
    if key := made.get("idempotencyKey"):
        made["__openclaw"]["idempotencyKey"] = key
    return made


def _reshaped(message: Assistant, text: str, reasoning: str) -> Assistant:
    """`message` with `text` instead of its own, which had tags, directives, tokens or dangling citations."""
    before = [block for block in message.content if isinstance(block, Thinking)]
    tagged = [Thinking(reasoning)] if reasoning.strip() else []
    said = [Text(text)] if text else []
    return structs.replace(message, content=(*before, *tagged, *said, *message.calls))


def visible_text(message: Message) -> str:
    """The text of a message, for previews."""
    return shape(message.text).text if isinstance(message, Assistant) else message.text


# Cached conversations.

MOST_BYTES = 8 << 20
"""Most memory of all cached conversations, about; and the longest transcript of one, which may take more alone."""
ENTRY_BYTES = 200
"""What an entry takes beside its text, which is there twice: in the message, and encoded for the model."""
CONVERSATION_BYTES = 2_000
"""What a conversation takes beside its entries."""


def spoken_lines(message: Message, tools: bool) -> Iterator[tuple[str, str]]:
    """Speaker and text of each line, for people."""
    match message:
        case Assistant():
            if message.text.strip():
                yield "assistant", message.text
            if message.error_message:
                yield "error", message.error_message
            if tools:
                yield from (("call", f"{call.name} {call.arguments}") for call in message.calls)
        case ToolResult():
            if tools:
                yield f"{message.tool_name} result", message.text
        case _:
            yield "you", message.text


def to_markdown(title: str, messages: Sequence[Message], when: Callable[[int], str]) -> str:
    """A conversation as one document to read, tool calls included."""
    parts = [f"# {title}\n"]
    for message in messages:
        parts += [f"**{who}** ({when(message.timestamp)})\n\n{said}\n" for who, said in spoken_lines(message, True)]
    return "\n".join(parts)


class Conversation(Struct, frozen=True):
    """What a turn needs to know of a transcript; `extend_conversation` brings it up to date after a turn."""

    leaf: str | None = None
    """The id of its last entry."""
    said: tuple[Message, ...] = ()
    """Its messages. The same tuple as in `context`, unless some of them are hidden from the model."""
    context: ModelContext = ModelContext(messages=())
    total: ConversationTotals = ConversationTotals()
    size: ConversationSize = ConversationSize()
    origins: tuple[Origin, ...] = ()
    """Where the untrusted parts of it came from, since its last reset or `/trust`."""
    questions: set[str] = field(default_factory=set)
    """The keys of the messages that runs answer; shared with what the conversation is extended to."""
    marks: tuple[AnyEntry, ...] = ()
    """The entries that are no messages."""

    def since(self, run_id: str) -> Iterator[Message] | None:
        """What was said after the question of a run; None when it was not asked yet."""
        key = f"{run_id}:user"
        if key not in self.questions:
            return None
        for place in range(len(self.said) - 1, -1, -1):
            message = self.said[place]
            if isinstance(message, User) and message.idempotency_key == key:
                return iter(self.said[place + 1 :])
        return None


def build_conversation(entries: Sequence[AnyEntry]) -> Conversation:
    """Derives a conversation from the entries of a transcript."""
    path, broken = walk_path(entries)
    context = path_context(path, broken)
    said = tuple([entry.message for entry in path if isinstance(entry, MessageEntry)])
    return Conversation(
        path[-1].id if path else None,
        context.messages if said == context.messages else said,
        context,
        total_of(said),
        measure(path),
        conversation_origins(path),
        {message.idempotency_key for message in said if isinstance(message, User) and message.idempotency_key},
        tuple(entry for entry in path if not isinstance(entry, MessageEntry)),
    )


def extend_conversation(known: Conversation, added: Sequence[AnyEntry]) -> Conversation | None:
    """Extends a conversation incrementally; None when it must be derived from all entries again."""
    if known.context.unanswered or not all(isinstance(entry, MessageEntry | Custom) for entry in added):
        return None
    said = [entry.message for entry in added if isinstance(entry, MessageEntry)]
    paired = pair(said)
    if paired.problems or paired.unanswered:
        return None
    total, size = known.total, known.size
    # The empty one is the same for every new conversation.
    questions = known.questions if known.leaf else set()
    for message in said:
        total = total.plus(message)
        if isinstance(message, User) and message.idempotency_key:
            questions.add(message.idempotency_key)
    for entry in added:
        size = size.plus(entry)
    context = structs.replace(known.context, messages=(*known.context.messages, *paired.messages))
    whole = known.said is known.context.messages and paired.messages == tuple(said)
    return Conversation(
        added[-1].id if added else known.leaf,
        context.messages if whole else (*known.said, *said),
        context,
        total,
        size,
        conversation_origins(added, known.origins),
        questions,
        (*known.marks, *(entry for entry in added if not isinstance(entry, MessageEntry))),
    )


class CachedConversation(Struct, frozen=True):
    """The state the next turn starts from, without reading the file."""

    conversation: Conversation
    ids: set[str]
    """The ids of every entry in the file, also of abandoned branches."""
    identity: Identity
    memory: int
    """What it takes, about."""


class ConversationCache:
    """Caches the conversations of recent turns; valid while nobody else writes to their files."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._held: dict[str, CachedConversation] = {}
        self.memory = 0
        """What the cached conversations take, about."""

    def take(self, path: Path) -> CachedConversation | None:
        """Removes and returns the entry of an unchanged file; a turn that fails so leaves nothing cached."""
        held = self._pop(str(path))
        return held if held is not None and held.identity == identity_at(path) else None

    def keep(self, path: Path, left: Conversation | None, ids: set[str]) -> None:
        """Caches the conversation after a turn, and evicts the oldest entries; the newest stays in any case."""
        self._pop(str(path))
        identity = identity_at(path)
        if left is None or left.context.problems or identity is None or identity[2] > self._most:
            return
        memory = CONVERSATION_BYTES + ENTRY_BYTES * (len(left.said) + len(left.marks)) + 2 * identity[2]
        self._held[str(path)] = CachedConversation(left, ids, identity, memory)
        self.memory += memory
        while self.memory > self._most and len(self._held) > 1:
            self._pop(next(iter(self._held)))

    def _pop(self, path: str) -> CachedConversation | None:
        held = self._held.pop(path, None)
        if held is not None:
            self.memory -= held.memory
        return held


# Search.

BEFORE = 60
SNIPPET = 200


class SearchHit(Struct, frozen=True, kw_only=True):
    """A message that matches the query."""

    row: HistoryRow
    snippet: str
    score: float
    """1 for the exact phrase, less for its words."""


class LastPlan(Struct, frozen=True, kw_only=True):
    """The steps of an accepted `update_plan` call."""

    revision: int
    at: int
    call: ToolCall


def find(rows: Sequence[HistoryRow], query: str) -> list[SearchHit]:
    """The messages that have every word of `query`, newest first."""
    phrase = " ".join(query.lower().split())
    words = phrase.split()
    hits = []
    for row in reversed(rows):
        if not words or not isinstance(row.message, User | Assistant):
            continue
        text = " ".join(row.message.text.split())
        low = text.lower()
        if all(word in low for word in words):
            exact = phrase in low
            start = max(0, low.find(phrase if exact else words[0]) - BEFORE)
            end = start + SNIPPET
            snippet = f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
            hits.append(SearchHit(row=row, snippet=snippet, score=1.0 if exact else 0.5))
    return hits


def plan(rows: Sequence[HistoryRow]) -> LastPlan | None:
    """The newest accepted plan."""
    refused = {row.message.tool_call_id for row in rows if isinstance(row.message, ToolResult) and row.message.is_error}
    found = [
        (row.message.timestamp, call)
        for row in rows
        if isinstance(row.message, Assistant)
        for call in row.message.calls
        if call.name == "update_plan" and call.id not in refused
    ]
    return LastPlan(revision=len(found), at=found[-1][0], call=found[-1][1]) if found else None
