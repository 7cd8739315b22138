"""RPC methods `skills.*`, with their params."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import Conflict, InvalidRequest
from openclaw.core.keys import KeyResolver
from openclaw.core.settings import EditsSettings
from openclaw.protocol.params import NonEmpty, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ
from openclaw.skills.accepted import make_entry
from openclaw.skills.gate import ListedSkill
from openclaw.skills.service import SkillService
from openclaw.workspace.seed import Workspaces


class SkillsStatusParams(Params, frozen=True, kw_only=True):
    """Params of `skills.status`."""

    agent_id: NonEmpty | None = None
    session_key: NonEmpty | None = None


class SkillsUpdateParams(Params, frozen=True, kw_only=True):
    """Params of `skills.update`."""

    skill_key: NonEmpty | None = None
    enabled: bool | None = None
    api_key: str | None = None
    env: dict[str, str] | None = None
    agent_id: NonEmpty | None = None
    source: Literal["clawhub"] | None = None
    slug: NonEmpty | None = None
    all: bool | None = None
    force: bool | None = None

    def __post_init__(self) -> None:
        if self.source is None and self.skill_key is None:
            raise ValueError("must have required property 'skillKey'")


class SkillsTrustShowParams(Params, frozen=True, kw_only=True):
    """Params of `skills.trust.show`, an extension of ours."""

    name: NonEmpty
    agent_id: NonEmpty | None = None


class SkillsTrustSetParams(Params, frozen=True, kw_only=True):
    """Params of `skills.trust.set`, an extension of ours. The digest is that of the files the person reviewed."""

    name: NonEmpty
    decision: Literal["accept", "refuse"]
    tree_sha256: NonEmpty
    agent_id: NonEmpty | None = None


def status_methods(
    sessions: KeyResolver, state_dir: Path, workspaces: Workspaces, skills: SkillService
) -> list[RpcMethod]:
    async def status(params: SkillsStatusParams, caller: Caller) -> Any:
        key = sessions.key(params.session_key or "main", params.agent_id)
        shelf = skills.of(key.agent, workspaces.of(key.agent))
        return {
            "workspaceDir": str(workspaces.of(key.agent)),
            "managedSkillsDir": str(state_dir / "skills"),
            "agentId": key.agent,
            "skills": [_skill(item) for item in shelf.items],
        }

    return [RpcMethod("skills.status", SkillsStatusParams, status, READ)]


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


MOST_LINES = 2_000


def skill_methods(
    sessions: KeyResolver, workspaces: Workspaces, skills: SkillService, editor: EditsSettings, clock: Clock
) -> list[RpcMethod]:
    def item_of(name: str, agent_id: str | None) -> ListedSkill:
        return skills.of(agent := sessions.key("main", agent_id).agent, workspaces.of(agent)).get(name)

    def shown(item: ListedSkill) -> dict[str, Any]:
        library = skills.library
        known = library.ledger.read().get(item.skill.base_dir)
        lines = () if item.skill.bundled else library.ledger.diff(item.skill, known)
        found = () if item.skill.bundled else library.findings(item.skill)
        return {
            "name": item.skill.name,
            "trust": item.trust.state,
            "why": item.trust.why,
            "treeSha256": item.skill.tree.sha256 if item.skill.tree else "",
            "known": known is not None and not known.blocked,
            "diff": list(lines[:MOST_LINES]),
            "cut": len(lines) > MOST_LINES,
            "findings": [
                {"severity": each.severity, "message": each.message, "file": each.file, "line": each.line}
                for each in found
            ],
        }

    def decide(item: ListedSkill, params: SkillsTrustSetParams) -> None:
        if item.skill.bundled:
            raise InvalidRequest(f"{item.skill.name} comes with OpenClaw: switch it off instead")
        ledger = skills.library.ledger
        entry = make_entry(item.skill, "owner", millis(clock))
        # What is accepted is what was looked at; files that changed since are not.
        if entry.tree_sha256 != params.tree_sha256:
            raise Conflict(f"{item.skill.name} has changed since you looked at it: look again first")
        if params.decision == "accept":
            ledger.accept({item.skill.base_dir: entry})
        else:
            ledger.refuse(item.skill.base_dir, entry)

    async def show(params: SkillsTrustShowParams, caller: Caller) -> Any:
        item = await asyncio.to_thread(item_of, params.name, params.agent_id)
        return await asyncio.to_thread(shown, item)

    async def settle(params: SkillsTrustSetParams, caller: Caller) -> Any:
        item = await asyncio.to_thread(item_of, params.name, params.agent_id)
        await asyncio.to_thread(decide, item, params)
        return {"ok": True, "name": item.skill.name, "decision": params.decision}

    async def update(params: SkillsUpdateParams, caller: Caller) -> Any:
        if params.source is not None or params.skill_key is None:
            raise InvalidRequest("skills from a registry cannot be updated here: use openclaw skills update --all")
        wanted = {"enabled": params.enabled, "apiKey": params.api_key, "env": params.env}
        entry = {name: value for name, value in wanted.items() if value is not None}
        if not entry:
            raise InvalidRequest("there is nothing to change: give enabled, apiKey or env")
        await asyncio.to_thread(editor.patch, {"skills": {"entries": {params.skill_key: entry}}})
        return {"ok": True, "skillKey": params.skill_key}

    return [
        RpcMethod("skills.trust.show", SkillsTrustShowParams, show, READ),
        RpcMethod("skills.trust.set", SkillsTrustSetParams, settle, ADMIN),
        RpcMethod("skills.update", SkillsUpdateParams, update, ADMIN),
    ]
