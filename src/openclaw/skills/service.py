"""The skills of every agent: cached list, prompt snapshot, environment, guard, and the gate of a run."""

import logging
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.agent.settings import AgentsSettings, resolve_agent
from openclaw.core.harness import Gate
from openclaw.core.settings import Live
from openclaw.core.text import Origin, make_origin
from openclaw.core.tool import ApprovalRequest, Approver, Tool, ToolContext
from openclaw.security import install_scan
from openclaw.skills import catalog, invoke
from openclaw.skills.accepted import AcceptedSkills
from openclaw.skills.catalog import SkillSnapshot
from openclaw.skills.gate import ListedSkill, MachineFacts, SkillList
from openclaw.skills.guard import GuardAllows, GuardAsks, GuardRefuses, SkillGuard
from openclaw.skills.install import ORIGIN, RECORDS
from openclaw.skills.invoke import SkillVariables
from openclaw.skills.roots import PluginDirectory, SkillRoots, expand_path, package_directories
from openclaw.skills.settings import SkillsSettings
from openclaw.skills.store import ScanDependencies, SkillStore

log = logging.getLogger(__name__)


class _Looked(Struct, frozen=True):
    """A cached scan result, with what decides whether it is still valid."""

    shelf: SkillList
    first_use: bool
    plugins: tuple[PluginDirectory, ...]
    traces: ScanDependencies
    settled: bool


class SkillService:
    """One per process. `look` is fast when nothing changed, but reads files: call it in a thread."""

    def __init__(
        self,
        settings: Live[SkillsSettings],
        agents: Live[AgentsSettings],
        variables: Live[Mapping[str, str]],
        is_set: Callable[[str], bool],
        state: Path,
        home_dir: Path,
        now: Callable[[], float],
        given: tuple[Path, ...] = (),
        plugins: Callable[[], tuple[PluginDirectory, ...]] = tuple,
    ) -> None:
        self._live = settings
        self._agents_live = agents
        self._variables = variables
        self._is_set = is_set
        """Whether the configuration sets a path, for `requires.config`."""
        self._for: tuple[Any, ...] = ()
        self.library = SkillStore(AcceptedSkills(state), install_scan.scan_files, now)
        self._state = state
        self._home = home_dir
        self._now = now
        self._given = given
        self._plugins = plugins
        """The skill directories of running plugins."""
        self._looked: dict[tuple[str, Path, Path], _Looked] = {}
        self._shown: dict[str, SkillSnapshot] = {}

    @property
    def settings(self) -> SkillsSettings:
        return self._live.current

    @property
    def _agents(self) -> AgentsSettings:
        return self._agents_live.current

    def _forget_stale(self) -> None:
        """What was found under another configuration does not hold."""
        now = (self._live.current, self._agents_live.current, self._variables.current)
        if not self._for or any(one is not other for one, other in zip(now, self._for, strict=True)):
            self._for = now
            self._looked.clear()
            self._shown.clear()

    @cached_property
    def _packages(self) -> tuple[Path, ...]:
        # Slow, and constant for the process.
        return package_directories()

    def places(self, workspace: Path, cwd: Path) -> SkillRoots:
        return SkillRoots(
            home=self._home,
            state=self._state,
            workspace=workspace,
            cwd=cwd,
            given=self._given,
            extra=tuple(expand_path(text, self._home, cwd) for text in self.settings.load.extra_dirs),
            packages=self._packages,
            plugins=self._plugins(),
        )

    def look(self, agent_id: str, workspace: Path, cwd: Path, *, first_use: bool) -> SkillList:
        """The skills of an agent now; with `skills.load.watch` off, as at the first scan."""
        known = self.known(agent_id, workspace, cwd, first_use=first_use)
        if known is not None:
            return known
        started, traces, plugins = self._now(), ScanDependencies(), self._plugins()
        traces.note(self._variables.current.get("PATH", "").split(os.pathsep))  # where the programs of skills are
        shelf = self.library.look(
            self.places(workspace, cwd),
            self.settings,
            self._machine(),
            allowlist=self.allowlist(agent_id),
            link_targets=tuple(expand_path(text, self._home, cwd) for text in self.settings.load.allow_symlink_targets),
            first_use=first_use,
            traces=traces,
        )
        self._looked[agent_id, workspace, cwd] = _Looked(shelf, first_use, plugins, traces, traces.settled(started))
        return shelf

    def known(
        self, agent_id: str, workspace: Path, cwd: Path, *, first_use: bool, here: bool = False
    ) -> SkillList | None:
        """What was found last time, when that still holds; `here` only when that is told without a thread."""
        self._forget_stale()
        last = self._looked.get((agent_id, workspace, cwd))
        if last is None:
            return None
        if not self.settings.load.watch:
            return last.shelf
        if not last.settled or (first_use and not last.first_use) or last.plugins != self._plugins():
            return None
        return last.shelf if (last.traces.few or not here) and last.traces.hold() else None

    def allowlist(self, agent_id: str) -> tuple[str, ...] | None:
        own = resolve_agent(self._agents, agent_id).entry.skills
        return self._agents.defaults.skills if own is None else own

    def snapshot(self, agent_id: str, shelf: SkillList) -> SkillSnapshot:
        """The snapshot for a session's prompt; the same object when nothing changed."""
        own = resolve_agent(self._agents, agent_id).entry.skills_limits.max_skills_prompt_chars
        limits = self.settings.limits
        self._shown[agent_id] = taken = catalog.take_snapshot(
            shelf,
            home=str(self._home),
            max_skills=limits.max_skills_in_prompt,
            max_chars=limits.max_skills_prompt_chars if own is None else own,
            now=round(self._now() * 1000),
            skill_filter=self.allowlist(agent_id),
            previous=self._shown.get(agent_id),
        )
        return taken

    def environment(self, shelf: SkillList) -> SkillVariables:
        """Variables for the commands of one run."""
        return invoke.collect_variables(shelf.usable, self.settings.entries, self._variables.current)

    def of(self, agent_id: str, workspace: Path) -> SkillList:
        """The skills of an agent as they are now, without accepting new ones."""
        return self.look(agent_id, workspace, workspace, first_use=False)

    def directories(self, agent_id: str, workspace: Path) -> list[tuple[str, str]]:
        """Where the usable skills of an agent are, and where the prompt says they are."""
        shelf = self.of(agent_id, workspace)
        return [(item.skill.base_dir, str(Path(item.skill.file_path).parent)) for item in shelf.usable]

    def guard(self, shelf: SkillList) -> SkillGuard:
        """A new guard for one run."""
        return SkillGuard(shelf, self.settings, self.library.hasher, self._home)

    def labels(self, shelf: SkillList) -> dict[str, tuple[Origin, ...]]:
        """The origins of each skill directory; empty for the owner's and the bundled ones."""

        return {
            item.skill.base_dir: ()
            if item.skill.bundled and not item.trust.held
            else _origins(item, installed=Path(item.skill.base_dir, RECORDS, ORIGIN).exists())
            for item in shelf.items
        }

    def _machine(self) -> MachineFacts:
        path = self._variables.current.get("PATH")

        @cache
        def has_bin(name: str) -> bool:
            return shutil.which(name, path=path) is not None

        return MachineFacts(
            platform="linux" if sys.platform.startswith("linux") else sys.platform,
            env=frozenset(name for name, value in self._variables.current.items() if value),
            has_bin=has_bin,
            has_config=self._is_set,
            plugins=frozenset(each.plugin for each in self._plugins()),
        )


def _origins(item: ListedSkill, *, installed: bool) -> tuple[Origin, ...]:
    skill = item.skill
    if item.trust.held:
        return (make_origin("external", f"skill {skill.name} ({item.trust.state})"),)
    own = skill.owned and not installed
    return () if own or item.trust.by == "owner" else (make_origin("skill", f"skill {skill.name}"),)


class SkillGate:
    """A run's gate behind the skill guard: the guard judges a call first, then the wrapped gate."""

    def __init__(self, gate: Gate, guard: SkillGuard, approver: Approver) -> None:
        self._gate = gate
        self._guard = guard
        self._approver = approver

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        match self._guard.rule(tool.spec.name, tool.effects(args), args, context.workspace):
            case GuardRefuses(why):
                return why
            case GuardAsks(why):
                refusal = await self._asked(tool, args, context, why)
                if refusal is not None:
                    return refusal
            case GuardAllows(notes):
                for note in notes:
                    log.warning("%s: %s", context.session_key, note)
        return await self._gate.admit(tool, args, context)

    async def _asked(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, why: str) -> str | None:
        shown = args.get("command") or args.get("path") or args.get("url") or ""
        answer = await self._approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=tool.spec.name,
                command=f"{tool.spec.name} {shown}".strip(),
                cwd=str(context.workspace),
                agent_id=context.agent_id,
                session_key=context.session_key,
                why=why,
            )
        )
        if answer.decision == "deny":
            return f"Not done: {why}, and {answer.why or 'the user said no'}. Ask what to do instead."
        return None
