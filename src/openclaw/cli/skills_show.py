"""What `openclaw skills` needs to say anything: the skills as a command sees them, as documents and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from openclaw.gateway.skills import SkillService
    from openclaw.gateway.surroundings import Environment
    from openclaw.skills.record import Source
    from openclaw.skills.shelf import ListedSkill, SkillList

as_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")
agent_option = click.option(
    "--agent", "agent_id", metavar="ID", help="As this agent has it; the default agent when absent."
)
skill_option = click.option(
    "--skill", "given", multiple=True, metavar="PATH", help="Also look here: a skill, or skills."
)


class SkillView:
    """The skills as this command sees them."""

    def __init__(self, agent_id: str | None = None, given: tuple[str, ...] = ()) -> None:
        from pathlib import Path

        from openclaw.config.load import load
        from openclaw.core.clock import millis
        from openclaw.gateway.clock import SystemClock
        from openclaw.gateway.skills import SkillService
        from openclaw.gateway.surroundings import Environment, workspace_of
        from openclaw.skills.install import mend_unlocked
        from openclaw.turns.agents import default_agent, view

        clock = SystemClock()
        self.now = clock.now
        self.millis: Callable[[], int] = lambda: millis(clock)
        self.surroundings: Environment = Environment.of_process()
        home = self.surroundings.home
        self.loaded = load(home, self.surroundings.environ)
        agents = self.loaded.config.agents
        self.agent = view(agents, agent_id or default_agent(agents)).id
        self.workspace: Path = workspace_of(agents, self.agent, self.surroundings)
        self.skills: SkillService = SkillService(
            self.loaded, home.state, self.surroundings.home_dir, clock.now, tuple(Path(path) for path in given)
        )
        self.managed: Path = home.state / "skills"
        for root in (self.managed, self.workspace / "skills"):
            mend_unlocked(root)

    def shelf(self) -> SkillList:
        return self.skills.look(self.agent, self.workspace, self.surroundings.cwd, first_use=False)

    def root(self, everywhere: bool) -> tuple[Path, Source]:
        """Where a skill is installed: for every agent, or in this agent's workspace."""
        if everywhere:
            return self.managed, "openclaw-managed"
        return self.workspace / "skills", "openclaw-workspace"

    def short(self, path: str) -> str:
        from openclaw.skills.snapshot import shortened

        return shortened(path, str(self.surroundings.home_dir))


def item_document(item: ListedSkill, full: bool = False) -> dict[str, Any]:
    import msgspec

    manifest, verdict = item.skill.manifest, item.verdict
    document: dict[str, Any] = {
        "name": item.skill.name,
        "description": manifest.description,
        "emoji": manifest.emoji or None,
        "eligible": verdict.eligible,
        "disabled": verdict.disabled,
        "blockedByAllowlist": verdict.blocked_by_allowlist,
        "blockedByAgentFilter": verdict.blocked_by_agent,
        "modelVisible": item.model_visible,
        "userInvocable": item.user_invocable,
        "source": item.skill.source,
        "bundled": item.skill.bundled,
        "homepage": manifest.homepage or None,
        "trust": item.trust.state,
        "reasons": verdict.reasons,
        "missing": msgspec.to_builtins(verdict.missing),
    }
    if full:
        document |= {
            "filePath": item.skill.file_path,
            "baseDir": item.skill.base_dir,
            "skillKey": manifest.key,
            "primaryEnv": manifest.primary_env or None,
            "contentHash": item.skill.content_hash,
            "treeSha256": item.skill.tree.sha256 if item.skill.tree else None,
            "license": manifest.license or None,
            "compatibility": manifest.compatibility or None,
            "allowRemote": manifest.allow_remote,
            "permissions": msgspec.to_builtins(manifest.permissions),
            "remedies": verdict.remedies,
            "references": [str(reference) for reference in item.skill.outside],
            "notes": manifest.notes,
            "trustWhy": item.trust.why,
        }
    return document


def declared(permissions: Any) -> str:
    """Declared permissions in words."""
    if not permissions.declared:
        return "anything the agent may (it declares nothing)"
    parts = []
    if permissions.tools is not None:
        parts.append(f"use {', '.join(permissions.tools) or 'no tools'}")
    if permissions.network is not None:
        parts.append("use the network" if permissions.network else "not use the network")
    if permissions.paths is not None:
        parts.append(f"touch {', '.join(permissions.paths) or 'no files'}")
    return "; ".join(parts)


def finding_document(finding: Any) -> dict[str, Any]:
    return {
        "ruleId": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "file": finding.file,
        "line": finding.line,
    }


def told(finding: dict[str, Any]) -> str:
    where = f"{finding['file']}:{finding['line']}" if finding["line"] else finding["file"]
    return f"{finding['severity']}: {where}: {finding['message']} [{finding['ruleId']}]"


def bullets(heading: str, lines: list[str], *, err: bool = False) -> None:
    from openclaw.core.visible import printable

    if heading and (lines or not heading.endswith(":")):
        click.echo(printable(f"\n{heading}"), err=err)
    for line in lines:
        click.echo(printable(f"  {line}"), err=err)


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
