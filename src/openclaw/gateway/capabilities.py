"""Reports everything an agent can do and who can reach it, as one document that is stable while nothing changes."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openclaw.agent import settings as views
from openclaw.automation.cron.store import CronStore
from openclaw.automation.cron.tool import CronTool
from openclaw.core.keys import MAIN, SessionKey
from openclaw.gateway import services
from openclaw.gateway.app import App
from openclaw.gateway.capability_document import lines
from openclaw.runs.toolset import Toolset, exec_policy
from openclaw.security.sandboxes import policy
from openclaw.security.tool_policy import ToolLayer, apply_layers, identify_speaker, refuse_reason

NETWORK_TOOLS = frozenset(("web_fetch", "web_search", "browser", "message"))


async def capabilities(app: App, toolset: Toolset, agent_id: str) -> dict[str, Any]:
    """What `agent_id` can do, and who can make it do so."""
    agent = views.resolve_agent(app.live.config.agents, agent_id)
    key, models = SessionKey(agent.id, MAIN), app.models.model_set(agent.id)
    skills = [item.skill for item in app.preparer.skills_of(agent.id).usable]
    return {
        "agent": agent.id,
        "default": agent.is_default,
        "model": {"primary": str(models.default), "fallbacks": [str(ref) for ref in models.fallbacks]},
        "workspace": _workspace(app, agent.id),
        "skills": {skill.name: f"{skill.source}, {skill.content_hash[:16]}" for skill in skills},
        "tools": {name: _tools(app, toolset, session, extra) for name, session, extra in _sessions(key)},
        "exec": _exec(app, agent.id),
        "sandbox": _sandbox(app, key),
        "elevated": _elevated(app, key),
        "network": _network(app, toolset, key),
        "subagents": _subagents(app, agent),
        "reachable": await _reachable(app, agent.id),
        "mcpServers": sorted(_table(app.live.current.raw, "mcp", "servers")),
        "plugins": sorted(_table(app.live.current.raw, "plugins", "entries")),
    }


def _sessions(key: SessionKey) -> Iterator[tuple[str, SessionKey, tuple[ToolLayer, ...]]]:
    """The kinds of sessions whose tools differ."""
    owners_only = ToolLayer(name="owner only", deny=services.OWNER_ONLY)
    yield "main", key, ()
    yield "others", SessionKey(key.agent, "hook:any"), (owners_only,)
    yield "subagent", SessionKey(key.agent, "subagent:any"), (ToolLayer(name="sub-agents", deny=services.NEVER),)


def _tools(app: App, toolset: Toolset, key: SessionKey, extra: Sequence[ToolLayer]) -> dict[str, Any]:
    names = sorted({*toolset.offered(key), *services.NAMES, CronTool.spec.name})
    rules = toolset.rules(key)
    narrow = app.live.config.tools.subagents.tools
    if key.is_subagent:
        mine = ToolLayer(name="sub-agents", key="tools.subagents.tools", allow=narrow.allow or None, deny=narrow.deny)
        rules = [*rules, mine]
    kept, removed = apply_layers(names, [*rules, *extra])
    return {
        "available": list(kept),
        "removed": {each.tool: f"{each.by} ({each.key})" if each.key else each.by for each in removed},
    }


def _workspace(app: App, agent_id: str) -> dict[str, Any]:
    place = app.workspaces.of(agent_id)
    files = {}
    for path in sorted(place.glob("*.md")):
        try:
            files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        except OSError as error:
            files[path.name] = f"cannot be read: {error.strerror}"
    return {"path": str(place), "promptFiles": files}


def _exec(app: App, agent_id: str) -> dict[str, Any]:
    settings = app.live.config.tools.exec
    security, ask = exec_policy(settings, app.sandboxes.tool_settings(agent_id).exec)
    own = app.approvals.read().agents.get(agent_id)
    grants = []
    for entry in own.allowlist if own else ():
        arguments = str(entry.get("argPattern") or "any arguments")
        if arguments.startswith("sha256:"):
            arguments = f"exactly {entry.get('lastUsedCommand')}"
        grants.append(f"{entry.get('pattern')} ({arguments})")
    return {"security": security, "ask": ask, "safeBins": sorted(settings.safe_bins), "alwaysAllowed": sorted(grants)}


def _sandbox(app: App, key: SessionKey) -> dict[str, Any]:
    rules = app.sandboxes.rules(key.agent)
    return {
        "mode": rules.mode,
        "mainSession": policy.is_sandboxed(rules.mode, key),
        "otherSessions": policy.is_sandboxed(rules.mode, SessionKey(key.agent, "other")),
        "backend": rules.backend,
        "scope": rules.scope,
        "workspaceAccess": rules.access,
        "network": rules.network,
        "binds": list(rules.binds),
    }


def _elevated(app: App, key: SessionKey) -> dict[str, Any]:
    settings = app.live.config.tools.elevated
    who = identify_speaker(key, app.live.config.commands.owner_allow_from)
    return {
        "owner": refuse_reason(who, settings, app.sandboxes.tool_settings(key.agent).elevated) or "may use /elevated",
        "allowFrom": {name: sorted(map(str, ids)) for name, ids in sorted(settings.allow_from.items())},
        "default": app.live.config.agents.defaults.elevated_default or "off",
    }


def _network(app: App, toolset: Toolset, key: SessionKey) -> dict[str, Any]:
    tools = {tool.spec.name for tool in toolset.of(key=key)}
    boxed = app.sandboxes.of(key)
    free = boxed is None or boxed.box.network != "none"
    policy = app.live.config.tools.web.fetch.ssrf_policy
    return {
        "tools": sorted(tools & NETWORK_TOOLS),
        "commands": "any address" if free and "exec" in tools else "none",
        "privateAddresses": policy.dangerously_allow_private_network or list(policy.allowed_hostnames),
    }


def _subagents(app: App, agent: views.ResolvedAgent) -> dict[str, Any]:
    defaults = app.live.config.agents.defaults.subagents
    allowed = agent.entry.subagents.allow_agents
    allowed = defaults.allow_agents if allowed is None else allowed
    return {
        "mayStart": list(allowed) if allowed is not None else [agent.id],
        "depth": defaults.max_spawn_depth,
        "children": defaults.max_children_per_agent,
    }


async def _reachable(app: App, agent_id: str) -> dict[str, Any]:
    """Who and what can start a run of this agent."""
    config = app.live.config
    jobs = [job for job in await CronStore(app.db).all() if (job.agent_id or agent_id) == agent_id and job.enabled]
    hooks = config.hooks
    open_to = not hooks.allowed_agent_ids or agent_id in hooks.allowed_agent_ids
    return {
        "gateway": {"bind": config.gateway.bind, "auth": config.gateway.auth.mode or "token"},
        "channels": {
            name: _channel(section) for name, section in sorted(_table(app.live.current.raw, "channels").items())
        },
        "owners": len(config.commands.owner_allow_from),
        "cron": sorted(f"{job.name or job.id} ({job.session_target})" for job in jobs) if config.cron.enabled else [],
        "hooks": hooks.path if hooks.enabled and open_to else "none",
        "heartbeat": (config.agents.defaults.heartbeat.every if config.agents.defaults.heartbeat else "none"),
    }


def _channel(section: Any) -> dict[str, Any]:
    """Who may write to a channel. Ids are counted, not shown: the document is meant to be shared."""
    if not isinstance(section, dict):
        return {}
    names = section.get("allowFrom")
    return {
        "enabled": section.get("enabled", True),
        "dmPolicy": section.get("dmPolicy", "pairing"),
        "allowFrom": ("everyone" if "*" in names else len(names)) if isinstance(names, list) else 0,
        "groupPolicy": section.get("groupPolicy", "allowlist"),
    }


def _table(raw: Mapping[str, Any], *path: str) -> dict[str, Any]:
    value: Any = raw
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


async def describe_agent(app: App, toolset: Toolset, agent_id: str) -> list[str]:
    """What an agent can do, in lines for `/capabilities`."""
    return list(lines(await capabilities(app, toolset, agent_id)))
