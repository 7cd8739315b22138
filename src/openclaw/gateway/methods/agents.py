"""`agents.*`, `models.*`, `tools.*`, `commands.list`: who answers, with what."""

import hashlib
from pathlib import Path
from typing import Any

from openclaw.config.edit import Editor
from openclaw.core.errors import Conflict, InvalidRequest
from openclaw.core.keys import normalise_agent
from openclaw.gateway import rows
from openclaw.gateway.app import Surroundings, workspace_of
from openclaw.gateway.commands import CATALOG
from openclaw.gateway.desk import Desk
from openclaw.models import thinking
from openclaw.policy.layers import GROUPS, PROFILES
from openclaw.store import atomic
from openclaw.turns.agents import agent_ids, default_agent, view
from openclaw.wire.caller import Caller
from openclaw.wire.params.agents import (
    AgentsCreateParams,
    AgentsFilesGetParams,
    AgentsFilesListParams,
    AgentsFilesSetParams,
)
from openclaw.wire.params.kinds import NoParams
from openclaw.wire.params.models import ModelsAuthStatusParams, ModelsListParams
from openclaw.wire.params.tools import CommandsListParams, ToolsCatalogParams, ToolsEffectiveParams
from openclaw.wire.rpc import Method
from openclaw.wire.scopes import ADMIN, READ
from openclaw.workspace.identity import parse
from openclaw.workspace.record import BOOTSTRAP_FILES

FILE_BYTES = 1024 * 1024


def methods(desk: Desk, surroundings: Surroundings) -> list[Method]:
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

    async def files(params: AgentsFilesListParams, caller: Caller) -> Any:
        place = workspace_of(desk.app.config.agents, params.agent_id, surroundings)
        found = [_file(place, name) for name in BOOTSTRAP_FILES]
        return {"agentId": params.agent_id, "workspace": str(place), "files": found}

    async def get_file(params: AgentsFilesGetParams, caller: Caller) -> Any:
        place = workspace_of(desk.app.config.agents, params.agent_id, surroundings)
        file = _file(place, _known(params.name), content=True)
        return {"agentId": params.agent_id, "workspace": str(place), "file": file}

    async def set_file(params: AgentsFilesSetParams, caller: Caller) -> Any:
        place = workspace_of(desk.app.config.agents, params.agent_id, surroundings)
        path = place / _known(params.name)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InvalidRequest(f"{path} is not a plain file: change it on the machine itself")
        if len(params.content.encode()) > FILE_BYTES:
            raise InvalidRequest("the file is too large: keep it under 1 MiB")
        before = _file(place, params.name)
        if params.expected_hash and before.get("hash") != params.expected_hash:
            raise Conflict(f"{params.name} has changed since you opened it: reload it first")
        atomic.replace(path, params.content.encode(), mode=0o644)
        file = _file(place, params.name, content=True)
        return {"ok": True, "agentId": params.agent_id, "workspace": str(place), "file": file}

    async def models(params: ModelsListParams, caller: Caller) -> Any:
        agent = desk.key(params.session_key or "main", params.agent_id).agent
        situation = desk.app.situation(agent)
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
        situation = desk.app.situation(desk.key("main", params.agent_id or None).agent)
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
        return {"agentId": agent.id, "profiles": profiles, "groups": _groups(desk)}

    async def effective(params: ToolsEffectiveParams, caller: Caller) -> Any:
        key = desk.key(params.session_key, params.agent_id)
        profile = desk.app.config.tools.profile or "full"
        return {"agentId": key.agent, "profile": profile, "groups": _groups(desk)}

    async def commands(params: CommandsListParams, caller: Caller) -> Any:
        return {"commands": [entry.shown() for entry in CATALOG]}

    return [
        Method("agents.list", NoParams, agents, READ),
        Method("agents.create", AgentsCreateParams, create, ADMIN),
        Method("agents.files.list", AgentsFilesListParams, files, READ),
        Method("agents.files.get", AgentsFilesGetParams, get_file, READ),
        Method("agents.files.set", AgentsFilesSetParams, set_file, ADMIN),
        Method("models.list", ModelsListParams, models, READ),
        Method("models.authStatus", ModelsAuthStatusParams, auth, READ),
        Method("tools.catalog", ToolsCatalogParams, catalog, READ),
        Method("tools.effective", ToolsEffectiveParams, effective, READ),
        Method("commands.list", CommandsListParams, commands, READ),
    ]


def _agent(desk: Desk, agent_id: str) -> dict[str, Any]:
    agent = view(desk.app.config.agents, agent_id)
    situation = desk.app.situation(agent_id)
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


def _known(name: str) -> str:
    if name not in BOOTSTRAP_FILES:
        raise InvalidRequest(f"{name!r} is not a workspace file: use one of {', '.join(BOOTSTRAP_FILES)}")
    return name


def _file(place: Path, name: str, *, content: bool = False) -> dict[str, Any]:
    path = place / name
    shown: dict[str, Any] = {"name": name, "path": str(path), "missing": True}
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_BYTES:
            return shown
        data = path.read_bytes()
    except OSError:
        return shown
    shown |= {
        "missing": False,
        "size": len(data),
        "updatedAtMs": round(path.stat().st_mtime * 1000),
        "hash": hashlib.sha256(data).hexdigest(),
    }
    return {**shown, **({"content": data.decode(errors="replace")} if content else {})}


def _groups(desk: Desk) -> list[dict[str, Any]]:
    """The available tools by group."""
    specs = {tool.spec.name: tool.spec for tool in desk.app.tools()}
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
