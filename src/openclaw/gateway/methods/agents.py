"""`agents.*`, `models.*`, `tools.*`, `commands.list`: who answers, with what."""

from typing import Any

import msgspec

from openclaw.config.edit import Editor
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey, normalise_agent
from openclaw.gateway import rows
from openclaw.gateway.commands import catalog as command_catalog
from openclaw.gateway.desk import SessionService
from openclaw.gateway.surroundings import Environment
from openclaw.models import thinking
from openclaw.policy.layers import GROUPS, PROFILES
from openclaw.turns.agents import agent_ids, default_agent, view
from openclaw.wire.caller import Caller
from openclaw.wire.params.agents import AgentsCreateParams
from openclaw.wire.params.kinds import NoParams
from openclaw.wire.params.models import ModelsAuthStatusParams, ModelsListParams
from openclaw.wire.params.tools import CommandsListParams, ToolsCatalogParams, ToolsEffectiveParams, ToolsInvokeParams
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import ADMIN, READ, WRITE
from openclaw.workspace.identity import parse


def methods(desk: SessionService, surroundings: Environment) -> list[RpcMethod]:
    async def agents(params: NoParams, caller: Caller) -> Any:
        config = desk.app.config
        return {
            "defaultId": default_agent(config.agents),
            "mainKey": config.session.main_key,
            "scope": config.session.scope,
            "agents": [_agent(desk, agent_id) for agent_id in agent_ids(config.agents)],
        }

    async def create(params: AgentsCreateParams, caller: Caller) -> Any:
        wanted = normalise_agent(params.name.strip().replace(" ", "-"))
        config = desk.app.config
        if wanted in agent_ids(config.agents):
            raise InvalidRequest(f"there is an agent {wanted!r} already")
        entry: dict[str, Any] = {"id": wanted, "name": params.name}
        entry |= {name: value for name, value in (("workspace", params.workspace), ("model", params.model)) if value}
        first = [] if config.agents.list else [{"id": "main", "default": True}]
        Editor(desk.app.home, surroundings.environ).patch({"agents": {"list": [*first, entry]}})
        place = params.workspace or str(desk.app.home.state / f"workspace-{wanted}")
        return {"ok": True, "agentId": wanted, "name": params.name, "workspace": place}

    async def models(params: ModelsListParams, caller: Caller) -> Any:
        agent = desk.key(params.session_key or "main", params.agent_id).agent
        situation = desk.app.models.situation(agent)
        default = situation.default.key
        listed = []
        seen = set()
        for found in (situation.model(situation.default), *situation.registry.list()):
            if found.ref in seen or (params.provider and found.provider != params.provider):
                continue
            seen.add(found.ref)
            available = situation.has_key(found.provider, desk.now)
            if available or params.view == "all":
                tags = ("default",) if found.ref == default else ()
                listed.append(rows.model(found, available=available, tags=tags))
        return {"models": listed, "accountSelection": {"kind": "automatic", "label": "Automatic"}}

    async def auth(params: ModelsAuthStatusParams, caller: Caller) -> Any:
        situation = desk.app.models.situation(desk.key("main", params.agent_id or None).agent)
        providers: list[dict[str, Any]] = [
            {
                "provider": facts.id,
                "authProvider": facts.id,
                "displayName": facts.id,
                "status": "ok" if situation.has_key(facts.id, desk.now) else "missing",
                "profiles": [],
            }
            for facts in situation.registry.providers
        ]
        return {"ts": desk.now, "providers": providers, "providerCapabilities": []}

    async def catalog(params: ToolsCatalogParams, caller: Caller) -> Any:
        agent = view(desk.app.config.agents, params.agent_id or desk.key("main").agent)
        profiles = [{"id": name, "label": name.capitalize()} for name in PROFILES]
        return {"agentId": agent.id, "profiles": profiles, "groups": _groups(desk, None)}

    async def effective(params: ToolsEffectiveParams, caller: Caller) -> Any:
        key = desk.key(params.session_key, params.agent_id)
        profile = desk.app.config.tools.profile or "full"
        return {"agentId": key.agent, "profile": profile, "groups": _groups(desk, key)}

    async def invoke(params: ToolsInvokeParams, caller: Caller) -> Any:
        from openclaw.gateway.http.problems import HttpProblem
        from openclaw.gateway.http.tools import DENIED, find_tool, invoke_tool

        box = desk.app.toolbox(
            desk.key(params.session_key or "main", params.agent_id), without=() if caller.may(ADMIN) else DENIED
        )
        try:
            spec = find_tool(params.name, box)
        except HttpProblem as problem:
            return {"ok": False, "toolName": params.name, "error": {"code": problem.kind, "message": problem.message}}
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
        return {"commands": [entry.shown() for entry in command_catalog(desk.app.extensions)]}

    return [
        RpcMethod("agents.list", NoParams, agents, READ),
        RpcMethod("agents.create", AgentsCreateParams, create, ADMIN),
        RpcMethod("models.list", ModelsListParams, models, READ),
        RpcMethod("models.authStatus", ModelsAuthStatusParams, auth, READ),
        RpcMethod("tools.catalog", ToolsCatalogParams, catalog, READ),
        RpcMethod("tools.effective", ToolsEffectiveParams, effective, READ),
        RpcMethod("tools.invoke", ToolsInvokeParams, invoke, WRITE),
        RpcMethod("commands.list", CommandsListParams, commands, READ),
    ]


def _agent(desk: SessionService, agent_id: str) -> dict[str, Any]:
    agent = view(desk.app.config.agents, agent_id)
    situation = desk.app.models.situation(agent_id)
    chosen = situation.model(situation.default)
    place = desk.app.workspace(agent_id)
    written = place / "IDENTITY.md"
    own = parse(written.read_text(errors="replace")) if written.is_file() else parse("")
    identity = {
        "name": agent.entry.identity.name or own.name,
        "theme": agent.entry.identity.theme or own.vibe,
        "emoji": agent.entry.identity.emoji or own.emoji,
        "avatar": agent.entry.identity.avatar or own.avatar,
    }
    shown: dict[str, Any] = {
        "id": agent.id,
        "kind": "agent",
        "workspace": str(place),
        "workspaceGit": (place / ".git").exists(),
        "identity": {name: value for name, value in identity.items() if value},
        "model": {"primary": str(situation.default), "fallbacks": [str(ref) for ref in situation.fallbacks]},
        "agentRuntime": {"id": "openclaw", "source": "default"},
        "thinkingLevels": [{"id": level, "label": level} for level in thinking.levels(chosen)],
        "thinkingDefault": "medium" if chosen.reasoning else "off",
    }
    name = agent.entry.name or identity["name"]
    return {**shown, **({"name": name} if name else {})}


def _groups(desk: SessionService, key: SessionKey | None) -> list[dict[str, Any]]:
    """The tools a session has, by group; those of the main one when none is named."""
    specs = {tool.spec.name: tool.spec for tool in desk.app.tools.of(key=key)}
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
