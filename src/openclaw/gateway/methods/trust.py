"""`skills.trust.*` and `skills.update`: what changed in a skill, whether it may be used, and switching one off."""

import asyncio
from typing import Any

from openclaw.config.edit import Editor
from openclaw.core.errors import Conflict, InvalidRequest
from openclaw.gateway.desk import SessionService
from openclaw.gateway.surroundings import Environment
from openclaw.skills.lock import accepted
from openclaw.skills.shelf import ListedSkill
from openclaw.wire.caller import Caller
from openclaw.wire.params.skills import SkillsTrustSetParams, SkillsTrustShowParams, SkillsUpdateParams
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import ADMIN, READ

MOST_LINES = 2_000


def methods(desk: SessionService, surroundings: Environment) -> list[RpcMethod]:
    def item_of(name: str, agent_id: str | None) -> ListedSkill:
        return desk.app.shelf(desk.key("main", agent_id).agent).get(name)

    def shown(item: ListedSkill) -> dict[str, Any]:
        library = desk.app.skills.library
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
        ledger = desk.app.skills.library.ledger
        entry = accepted(item.skill, "owner", desk.now)
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
            raise InvalidRequest("skills from a registry cannot be updated here: use openclaw skills update")
        wanted = {"enabled": params.enabled, "apiKey": params.api_key, "env": params.env}
        entry = {name: value for name, value in wanted.items() if value is not None}
        if not entry:
            raise InvalidRequest("there is nothing to change: give enabled, apiKey or env")
        editor = Editor(desk.app.home, surroundings.environ)
        await asyncio.to_thread(editor.patch, {"skills": {"entries": {params.skill_key: entry}}})
        return {"ok": True, "skillKey": params.skill_key}

    return [
        RpcMethod("skills.trust.show", SkillsTrustShowParams, show, READ),
        RpcMethod("skills.trust.set", SkillsTrustSetParams, settle, ADMIN),
        RpcMethod("skills.update", SkillsUpdateParams, update, ADMIN),
    ]
