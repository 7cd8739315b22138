"""RPC methods `tools.*`, `commands.list` and `skills.offer`, with their parameter types.

Tools of a session are lent to another program, and skills of a client are used, for as long as the connection lasts:
`tools.borrow` answers with the tools and stays open; `tools.call` uses one of them. What the borrower has read counts,
call after call, as it does in a run.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import msgspec

from openclaw.agent.settings import AgentsSettings, resolve_agent
from openclaw.agent.tool_runner import ToolRunner
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.events import ToolEnded, ToolUpdated
from openclaw.core.keys import SessionKey
from openclaw.core.messages import ToolCall
from openclaw.core.settings import Live
from openclaw.plugins.registry import PluginRegistry
from openclaw.protocol.params import NonEmpty, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ, WRITE
from openclaw.runs.commands.catalog import catalog as command_catalog
from openclaw.runs.prepare import TurnPreparer
from openclaw.runs.toolset import DENIED, Toolset, find_tool, invoke_tool
from openclaw.security.pending import unattended
from openclaw.security.tool_policy import GROUPS, PROFILES
from openclaw.sessions.service import SessionService
from openclaw.tools.settings import ToolsSettings

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


# Listing and calling tools.


class ToolsCatalogParams(Params, frozen=True, kw_only=True):
    """Params of `tools.catalog`."""

    agent_id: NonEmpty | None = None
    include_plugins: bool | None = None


class ToolsEffectiveParams(Params, frozen=True, kw_only=True):
    """Params of `tools.effective`."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None


class ToolsInvokeParams(Params, frozen=True, kw_only=True):
    """Params of `tools.invoke`."""

    name: NonEmpty
    args: dict[str, Any] | None = None
    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    confirm: bool | None = None
    idempotency_key: NonEmpty | None = None
    conversation_read_origin: Literal["direct-operator"] | None = None


class CommandsListParams(Params, frozen=True, kw_only=True):
    """Params of `commands.list`."""

    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    provider: NonEmpty | None = None
    scope: Literal["text", "native", "both"] | None = None
    include_args: bool | None = None


def tool_methods(
    sessions: SessionService,
    plugins: PluginRegistry,
    toolset: Toolset,
    preparer: TurnPreparer,
    agents_settings: Live[AgentsSettings],
    tools_settings: Live[ToolsSettings],
) -> list[RpcMethod]:
    """The methods that list and call tools, and list commands."""

    async def catalog(params: ToolsCatalogParams, caller: Caller) -> Any:
        agent = resolve_agent(agents_settings.current, params.agent_id or sessions.key("main").agent)
        profiles = [{"id": name, "label": name.capitalize()} for name in PROFILES]
        return {"agentId": agent.id, "profiles": profiles, "groups": _groups(toolset, None)}

    async def effective(params: ToolsEffectiveParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key, params.agent_id)
        profile = tools_settings.current.profile or "full"
        return {"agentId": key.agent, "profile": profile, "groups": _groups(toolset, key)}

    async def invoke(params: ToolsInvokeParams, caller: Caller) -> Any:
        box = preparer.tool_runner(
            toolset,
            sessions.key(params.session_key or "main", params.agent_id),
            without=() if caller.may(ADMIN) else DENIED,
        )
        try:
            spec = find_tool(params.name, box)
        except NotFound as error:
            return {"ok": False, "toolName": params.name, "error": {"code": "not_found", "message": error.message}}
        result = await invoke_tool(box, spec, params.args or {})
        shown = {
            "ok": not result.is_error,
            "toolName": spec.name,
            "source": "core",
            "output": {"content": msgspec.to_builtins(result.content), "details": result.details or {}},
        }
        if result.is_error:
            shown["error"] = {"code": "tool_error", "message": result.text}
        # What strangers wrote keeps its label wherever it goes.
        return {**shown, **({"origins": msgspec.to_builtins(result.origins)} if result.origins else {})}

    async def commands(params: CommandsListParams, caller: Caller) -> Any:
        return {"commands": [entry.shown() for entry in command_catalog(plugins)]}

    return [
        RpcMethod("tools.catalog", ToolsCatalogParams, catalog, READ),
        RpcMethod("tools.effective", ToolsEffectiveParams, effective, READ),
        RpcMethod("tools.invoke", ToolsInvokeParams, invoke, WRITE),
        RpcMethod("commands.list", CommandsListParams, commands, READ),
    ]


def _groups(toolset: Toolset, key: SessionKey | None) -> list[dict[str, Any]]:
    """The tools a session has, by group; those of the main one when none is named."""
    specs = {tool.spec.name: tool.spec for tool in toolset.of(key=key)}
    groups = []
    for group, names in GROUPS.items():
        tools = [
            {"id": name, "label": specs[name].label, "description": specs[name].description, "source": "core"}
            for name in names
            if name in specs
        ]
        if tools:
            groups.append({"id": group, "label": group, "source": "core", "tools": tools})
    return groups
