"""`/sessions/<key>/history`: what was said in a session, newest last."""

import asyncio

from openclaw.gateway.http.endpoint import HttpCall
from openclaw.gateway.http.problems import HttpProblem
from openclaw.gateway.http.target import KeyOf
from openclaw.gateway.projection import row
from openclaw.sessions.files import load
from openclaw.sessions.history import page
from openclaw.sessions.index import SessionIndex

DEFAULT_LIMIT = 200
MOST = 1_000


class HistoryEndpoint:
    def __init__(self, key_of: KeyOf, index: SessionIndex) -> None:
        self._key_of = key_of
        self._index = index

    async def __call__(self, call: HttpCall) -> None:
        limit = _limit(call.request.query_params.get("limit"))
        key = self._key_of(call.request.path_params["key"], None)
        found = await self._index.get(key)
        if found is None:
            raise HttpProblem(404, f"Session not found: {key}", "not_found")
        path = self._index.path(found.agent_id, found.session_id)
        entries = (await asyncio.to_thread(load, path)).entries if path.exists() else ()
        shown = page(entries, limit=limit)
        await call.answer(
            {
                "sessionKey": str(key),
                "sessionId": found.session_id,
                "items": [row(each.message, each.entry_id, each.number) for each in shown.rows],
                "hasMore": shown.next_offset is not None,
            }
        )


def _limit(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise HttpProblem(400, "limit must be a number from 1 on", param="limit")
    return min(int(text), MOST)
