"""Looking through a conversation: for words, and for the plan that was made last. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from openclaw.core.messages import Assistant, ToolCall, ToolResult, User
from openclaw.sessions.history import HistoryRow

BEFORE = 60
SNIPPET = 200


class SearchHit(Struct, frozen=True, kw_only=True):
    """A message that says what was looked for."""

    row: HistoryRow
    snippet: str
    score: float
    """How much of what was asked for it has: 1 is the very words in their order."""


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
            at = low.find(phrase if exact else words[0])
            hits.append(SearchHit(row=row, snippet=_around(text, at), score=1.0 if exact else 0.5))
    return hits


def plan(rows: Sequence[HistoryRow]) -> LastPlan | None:
    """The newest plan that was accepted."""
    refused = {row.message.tool_call_id for row in rows if isinstance(row.message, ToolResult) and row.message.is_error}
    found = [
        (row.message.timestamp, call)
        for row in rows
        if isinstance(row.message, Assistant)
        for call in row.message.calls
        if call.name == "update_plan" and call.id not in refused
    ]
    return LastPlan(revision=len(found), at=found[-1][0], call=found[-1][1]) if found else None


def _around(text: str, at: int) -> str:
    start = max(0, at - BEFORE)
    end = start + SNIPPET
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
