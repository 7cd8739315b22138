"""Tools of a session for another program, and skills from a client: lent for as long as the connection lasts.

`tools.borrow` answers with the tools and stays open; `tools.call` uses one of them. What the borrower has read counts,
call after call, as it does in a run.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from openclaw.agent.tool_runner import ToolRunner
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.events import ToolEnded, ToolUpdated
from openclaw.core.messages import ToolCall
from openclaw.protocol.params import NonEmpty, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN
from openclaw.runs.prepare import TurnPreparer
from openclaw.runs.toolset import Toolset
from openclaw.security.pending import unattended
from openclaw.sessions.service import SessionService

OfferedSkills = dict[str, tuple[str, ...]]
"""Skill directories that clients named, by connection."""
MOST_OFFERED = 200
"""So many connections are remembered; an older one has ended, or offers again."""


class SkillsOfferParams(Params, frozen=True, kw_only=True):
    """Params of `skills.offer`: directories with skills, for the messages of this connection."""

    paths: tuple[NonEmpty, ...]


def offer_methods(offered: OfferedSkills) -> list[RpcMethod]:
    """Skills named on the command line. They are trusted like the owner's own, so offering them takes an admin."""

    async def offer(params: SkillsOfferParams, caller: Caller) -> Any:
        missing = [path for path in params.paths if not (Path(path).is_absolute() and Path(path).is_dir())]
        if missing:
            raise InvalidRequest(f"{missing[0]} is no directory with a skill: give the path of the directory")
        offered.pop(caller.conn_id, None)
        while len(offered) >= MOST_OFFERED:
            offered.pop(next(iter(offered)))
        offered[caller.conn_id] = params.paths
        return {"ok": True, "paths": list(params.paths)}

    return [RpcMethod("skills.offer", SkillsOfferParams, offer, ADMIN)]


class ToolsBorrowParams(Params, frozen=True, kw_only=True):
    """Params of `tools.borrow`: the session whose policy holds, and tools or groups that are left out."""

    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    without: tuple[NonEmpty, ...] = ()


class ToolsCallParams(Params, frozen=True, kw_only=True):
    """Params of `tools.call`. With `unattended`, which says why, a question to a person is answered with no."""

    borrowed: NonEmpty
    name: NonEmpty
    args: dict[str, Any] | None = None
    unattended: NonEmpty | None = None


def lend_methods(sessions: SessionService, preparer: TurnPreparer, toolset: Toolset) -> list[RpcMethod]:
    lent: dict[tuple[str, str], ToolRunner] = {}
    """By connection and name: nobody uses what another borrowed."""

    async def borrow(params: ToolsBorrowParams, caller: Caller) -> AsyncIterator[Any]:
        key = sessions.key(params.session_key or "main", params.agent_id)
        box = preparer.tool_runner(toolset, key, without=params.without)
        name = str(uuid.uuid4())
        lent[caller.conn_id, name] = box
        try:
            tools = [
                {
                    "name": spec.name,
                    "label": spec.label,
                    "description": spec.description,
                    "parameters": spec.parameters,
                }
                for spec in box.specs
            ]
            yield {"borrowed": name, "sessionKey": str(key), "tools": tools}
            await asyncio.Event().wait()  # until the borrower leaves
        finally:
            del lent[caller.conn_id, name]

    async def call(params: ToolsCallParams, caller: Caller) -> AsyncIterator[Any]:
        box = lent.get((caller.conn_id, params.borrowed))
        if box is None:
            raise NotFound(f"{params.borrowed} was not borrowed here: call tools.borrow first")
        asked = ToolCall(id=f"call_{uuid.uuid4().hex}", name=params.name, arguments=params.args or {})
        with ExitStack() as stack:
            if params.unattended:
                stack.enter_context(unattended(params.unattended))
            ended: ToolEnded | None = None
            async for event in box.run_all([asked]):
                if isinstance(event, ToolUpdated):
                    yield {"status": "accepted", "text": event.text}
                elif isinstance(event, ToolEnded):
                    ended = event
        assert ended is not None
        content = msgspec.to_builtins(ended.result.content)
        yield {"status": "ok", "content": content, "isError": ended.result.is_error}

    return [
        RpcMethod("tools.borrow", ToolsBorrowParams, borrow, ADMIN),
        RpcMethod("tools.call", ToolsCallParams, call, ADMIN),
    ]
