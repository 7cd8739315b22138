"""The list of conversations as `openclaw sessions list` shows it, made here or by the running gateway."""

from pathlib import Path
from typing import Any

from openclaw.core.text import strip_unprintable
from openclaw.sessions.index import SessionIndex, SessionRow


async def list_document(
    index: SessionIndex, state: Path, now: int, *, agent_id: str | None = None, limit: int = 50
) -> dict[str, Any]:
    """The latest conversations, after a look for transcripts that other programs wrote."""
    rebuilt = await index.rebuild()
    rows = await index.list(agent_id=agent_id)
    shown = rows[:limit]
    return {
        "path": str(state / "agents"),
        "count": len(shown),
        "totalCount": len(rows),
        "problems": [strip_unprintable(problem) for problem in rebuilt.problems],
        "sessions": [row_to_json(row, now) for row in shown],
    }


def row_to_json(row: SessionRow, now: int) -> dict[str, Any]:
    return {
        "key": row.session_key,
        "sessionId": row.session_id,
        "agentId": row.agent_id,
        "title": row.title,
        "status": row.status,
        "updatedAt": row.updated_at,
        "ageMs": max(0, now - row.updated_at),
        "messages": row.messages,
        "inputTokens": row.input_tokens,
        "outputTokens": row.output_tokens,
        "cacheRead": row.cache_read_tokens,
        "cacheWrite": row.cache_write_tokens,
        "totalTokens": row.total_tokens,
        "contextTokens": row.context_tokens,
        "estimatedCostUsd": row.cost_usd,
        "model": row.model,
        "modelProvider": row.provider,
    }
