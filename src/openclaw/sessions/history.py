"""A conversation as clients page through it: the newest rows first asked for, within a size. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.core.errors import NotFound
from openclaw.core.messages import Message
from openclaw.sessions.transcript import NOTICE, AnyEntry, Custom, MessageEntry, path_to_leaf

BLOCK_CHARS = 4_000
TOTAL_BYTES = 262_144
PLACEHOLDER = "[this message is too large to show here]"


class HistoryRow(Struct, frozen=True):
    """One message with its place: `number` counts from 1 over the whole conversation."""

    entry_id: str
    number: int
    message: Message
    notices: tuple[str, ...] = ()
    """What the person was told beside it."""


class HistoryPage(Struct, frozen=True, kw_only=True):
    rows: tuple[HistoryRow, ...]
    total: int
    next_offset: int | None
    leaf: str | None


def rows_of(entries: Sequence[AnyEntry]) -> list[HistoryRow]:
    """The messages of a conversation, in order, each with the notices that follow it."""
    rows: list[HistoryRow] = []
    for entry in path_to_leaf(entries):
        match entry:
            case MessageEntry(message=message):
                rows.append(HistoryRow(entry.id, len(rows) + 1, message))
            case Custom(custom_type=kind, data={"text": str(text)}) if kind == NOTICE and rows:
                rows[-1] = structs.replace(rows[-1], notices=(*rows[-1].notices, text))
    return rows


def page(entries: Sequence[AnyEntry], *, limit: int, offset: int = 0) -> HistoryPage:
    """The `limit` rows that end `offset` rows before the newest."""
    rows = rows_of(entries)
    end = max(0, len(rows) - offset)
    start = max(0, end - limit)
    path = path_to_leaf(entries)
    return HistoryPage(
        rows=tuple(rows[start:end]),
        total=len(rows),
        next_offset=offset + (end - start) if start > 0 else None,
        leaf=path[-1].id if path else None,
    )


def around(entries: Sequence[AnyEntry], entry_id: str, *, limit: int) -> HistoryPage:
    """The `limit` rows in whose middle one message stands."""
    place = next((each.number for each in rows_of(entries) if each.entry_id == entry_id), None)
    if place is None:
        raise NotFound(f"there is no message {entry_id} in this conversation")
    total = len(rows_of(entries))
    after = min(total - place, limit // 2)
    return page(entries, limit=limit, offset=total - place - after)


def within(rows: Sequence[dict[str, Any]], max_bytes: int, max_chars: int = BLOCK_CHARS) -> list[dict[str, Any]]:
    """Rows cut to size: long texts shortened, and the oldest left out once the total is reached."""
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
        return {**row, "content": _cut(content, most)}
    if not isinstance(content, list):
        return row
    return {
        **row,
        "content": [
            {**block, **{name: _cut(block[name], most) for name in ("text", "thinking") if name in block}}
            for block in content
        ],
    }


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n…(truncated)…"
