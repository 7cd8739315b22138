"""`skills.*` and `memory.*`: what the assistant can do by file, and what it wrote down."""

from typing import Any

import msgspec

from openclaw.core.errors import InvalidRequest
from openclaw.gateway.desk import SessionService
from openclaw.skills.shelf import ListedSkill
from openclaw.wire.caller import Caller
from openclaw.wire.params.memory import MemorySearchParams, MemoryStatusParams
from openclaw.wire.params.skills import SkillsStatusParams
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import READ


def methods(desk: SessionService) -> list[RpcMethod]:
    async def status(params: SkillsStatusParams, caller: Caller) -> Any:
        key = desk.key(params.session_key or "main", params.agent_id)
        shelf = desk.app.shelf(key.agent)
        return {
            "workspaceDir": str(desk.app.workspace(key.agent)),
            "managedSkillsDir": str(desk.app.home.state / "skills"),
            "agentId": key.agent,
            "skills": [_skill(item) for item in shelf.items],
        }

    async def search(params: MemorySearchParams, caller: Caller) -> Any:
        from openclaw.memory.tools import result

        agent = desk.key("main", params.agent_id).agent
        memory = desk.app.memory(agent)
        if memory is None:
            raise InvalidRequest(f"memory search is off for {agent}: set agents.defaults.memorySearch.enabled to true")
        found = await memory.search(params.query, max_results=params.max_results, min_score=params.min_score)
        return {
            "agentId": agent,
            "provider": found.provider,
            "model": found.model,
            "mode": found.mode,
            "syncing": found.syncing,
            "results": [result(each, cite=True) for each in found.results],
            **({"reason": found.reason} if found.reason else {}),
        }

    async def about(params: MemoryStatusParams, caller: Caller) -> Any:
        from openclaw.memory.describe import status_document

        agent = desk.key("main", params.agent_id).agent
        memory = desk.app.memory(agent)
        if memory is None:
            return {"agentId": agent, "enabled": False}
        return {"agentId": agent, "enabled": True, **status_document(await memory.status(), memory, None)}

    return [
        RpcMethod("skills.status", SkillsStatusParams, status, READ),
        RpcMethod("memory.search", MemorySearchParams, search, READ),
        RpcMethod("memory.status", MemoryStatusParams, about, READ),
    ]


def _skill(item: ListedSkill) -> dict[str, Any]:
    manifest, verdict = item.skill.manifest, item.verdict
    shown: dict[str, Any] = {
        "name": item.skill.name,
        "description": manifest.description,
        "source": item.skill.source,
        "bundled": item.skill.bundled,
        "filePath": item.skill.file_path,
        "baseDir": item.skill.base_dir,
        "skillKey": manifest.key,
        "always": manifest.always,
        "disabled": verdict.disabled,
        "blockedByAllowlist": verdict.blocked_by_allowlist,
        "blockedByAgentFilter": verdict.blocked_by_agent,
        "eligible": verdict.eligible,
        "platformIncompatible": bool(verdict.missing.os),
        "modelVisible": item.model_visible,
        "userInvocable": item.user_invocable,
        "commandVisible": item.user_invocable,
        "requirements": msgspec.to_builtins(manifest.requires),
        "missing": msgspec.to_builtins(verdict.missing),
        "configChecks": [],
        "install": [],
        "trust": item.trust.state,
    }
    optional = {"emoji": manifest.emoji, "homepage": manifest.homepage, "primaryEnv": manifest.primary_env}
    return {**shown, **{name: value for name, value in optional.items() if value}}
