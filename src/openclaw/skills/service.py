"""The skills of every agent, cached with what a turn takes from them, and the skill gate of a run."""

import logging
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from openclaw.agent.settings import AgentsSettings, resolve_agent
from openclaw.core.deferred import Deferred
from openclaw.core.secret import Secret
from openclaw.core.settings import Live
from openclaw.core.text import Origin, PromptText, make_origin
from openclaw.core.tool import ApprovalRequest, Approver, Tool, ToolContext
from openclaw.extensions.find import expand_path
from openclaw.extensions.gate import MachineFacts, look_at_machine
from openclaw.security.label_service import files_of_programs, labelled_files
from openclaw.skills.accepted import AcceptedSkills
from openclaw.skills.catalog import catalog_text
from openclaw.skills.find import (
    ORIGIN,
    RECORDS,
    PluginDirectory,
    ScanDependencies,
    SkillRoots,
    node_directories,
    package_directories,
)
from openclaw.skills.gate import ListedSkill, SkillList
from openclaw.skills.guard import GuardAllows, GuardAsks, GuardRefuses, SkillGuard, collect_variables
from openclaw.skills.settings import SkillsSettings
from openclaw.skills.store import SkillStore
from openclaw.storage.atomic import identity_at

if TYPE_CHECKING:
    from openclaw.security import install_scan
else:
    install_scan = Deferred("openclaw.security.install_scan")

log = logging.getLogger(__name__)


MOST_HERE = 300
"""Up to this many paths, checking them is faster than handing the work to a thread."""


class AgentSkills(SkillList, frozen=True, kw_only=True):
    """The skills of an agent, and what a turn takes from them."""

    prompt: PromptText | None
    """The list for the prompt; None when it is empty."""
    variables: Mapping[str, Secret]
    """For the commands of a run."""
    labels: Mapping[str, tuple[Origin, ...]]
    """The origins of each skill directory."""


class _Looked(Struct, frozen=True):
    """A cached scan result, with what decides whether it is still valid."""

    skills: AgentSkills
    first_use: bool
    plugins: tuple[PluginDirectory, ...]
    traces: ScanDependencies
    settled: bool


_Place = tuple[str, Path, Path, tuple[Path, ...]]
"""The agent, its workspace, the working directory, and the directories named on the command line."""


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
        plugins: Callable[[], tuple[PluginDirectory, ...]] = tuple,
    ) -> None:
        self._live = settings
        self._agents = agents
        self._variables = variables
        self._is_set = is_set
        """Whether the configuration sets a path, for `requires.config`."""
        self._for: tuple[object, ...] = (None, None, None)
        self.library = SkillStore(
            AcceptedSkills(state),
            lambda files: install_scan.scan_files(files),  # noqa: PLW0108 - loaded when there is something to scan
            now,
            (labelled_files(state).of, files_of_programs(state).of),
        )
        self._state = state
        self._home = home_dir
        self._now = now
        self._plugins = plugins
        """The skill directories of running plugins."""
        self._looked: dict[_Place, _Looked] = {}

    @property
    def settings(self) -> SkillsSettings:
        return self._live.current

    @cached_property
    def _packages(self) -> tuple[Path, ...]:
        # Slow, and constant for the process.
        return (*package_directories(), *node_directories(self._home, self._variables.current))

    def places(self, workspace: Path, cwd: Path, given: tuple[Path, ...] = ()) -> SkillRoots:
        return SkillRoots(
            home=self._home,
            state=self._state,
            workspace=workspace,
            cwd=cwd,
            given=given,
            extra=tuple(expand_path(text, self._home, cwd) for text in self.settings.load.extra_dirs),
            packages=self._packages,
            plugins=self._plugins(),
        )

    def look(
        self, agent_id: str, workspace: Path, cwd: Path, *, first_use: bool, given: tuple[Path, ...] = ()
    ) -> AgentSkills:
        """The skills of an agent now, and those in the directories `given`; with `load.watch` off as at first."""
        known = self.known(agent_id, workspace, cwd, first_use=first_use, given=given)
        if known is not None:
            return known
        started, traces, plugins, settings = self._now(), ScanDependencies(), self._plugins(), self.settings
        traces.note(self._variables.current.get("PATH", "").split(os.pathsep))  # where the programs of skills are
        agents = self._agents.current
        own = resolve_agent(agents, agent_id).entry
        found = self.library.look(
            self.places(workspace, cwd, given),
            settings,
            self._machine(),
            allowlist=agents.defaults.skills if own.skills is None else own.skills,
            link_targets=tuple(expand_path(text, self._home, cwd) for text in settings.load.allow_symlink_targets),
            first_use=first_use,
            traces=traces,
        )
        traces.note(str(_origin_file(item)) for item in found.items if not item.skill.bundled)
        chars = own.skills_limits.max_skills_prompt_chars
        skills = AgentSkills(
            **structs.asdict(found),
            prompt=catalog_text(
                found.items,
                str(self._home),
                settings.limits.max_skills_in_prompt,
                settings.limits.max_skills_prompt_chars if chars is None else chars,
            ),
            variables=collect_variables(found.usable, settings.entries, self._variables.current),
            labels=_labels(found.items),
        )
        self._looked[agent_id, workspace, cwd, given] = _Looked(
            skills, first_use, plugins, traces, traces.settled(started)
        )
        return skills

    def known(
        self,
        agent_id: str,
        workspace: Path,
        cwd: Path,
        *,
        first_use: bool,
        here: bool = False,
        given: tuple[Path, ...] = (),
    ) -> AgentSkills | None:
        """What was found last time, when that still holds; `here` only when that is told without a thread."""
        now = (self._live.current, self._agents.current, self._variables.current)
        if not all(map(is_, now, self._for)):
            self._for = now  # what was found under another configuration does not hold
            self._looked.clear()
        place = (agent_id, workspace, cwd, given)
        last = self._looked.get(place)
        if last is None:
            return None
        if not now[0].load.watch:
            return self._relabelled(place, last)
        if not last.settled or (first_use and not last.first_use) or last.plugins != self._plugins():
            return None
        seen = last.traces.seen
        if here and len(seen) > MOST_HERE:
            return None
        return last.skills if list(map(identity_at, seen)) == list(seen.values()) else None

    def _relabelled(self, place: _Place, last: _Looked) -> AgentSkills:
        """The list stays without watching, but a skill that was installed over one of the owner's is labelled."""
        labels = _labels(last.skills.items)
        if labels != last.skills.labels:
            last = structs.replace(last, skills=structs.replace(last.skills, labels=labels))
            self._looked[place] = last
        return last.skills

    def told(self, skills: AgentSkills) -> None:
        """Records that the owner was told of the changes to their own skills."""
        self.library.ledger.told(skill.base_dir for skill in skills.edited)
        for place, last in self._looked.items():
            if last.skills is skills:
                self._looked[place] = structs.replace(last, skills=structs.replace(skills, edited=()))

    def of(self, agent_id: str, workspace: Path) -> AgentSkills:
        """The skills of an agent as they are now, without accepting new ones."""
        return self.look(agent_id, workspace, workspace, first_use=False)

    def directories(self, agent_id: str, workspace: Path) -> list[tuple[str, str]]:
        """Where the usable skills of an agent are, and where the prompt says they are."""
        shelf = self.of(agent_id, workspace)
        return [(item.skill.base_dir, str(Path(item.skill.file_path).parent)) for item in shelf.usable]

    def guard(self, skills: SkillList) -> SkillGuard:
        """A new guard for one run."""
        return SkillGuard(skills, self._live.current, self.library.hasher, self._home)

    def _machine(self) -> MachineFacts:
        plugins = frozenset(each.plugin for each in self._plugins())
        return look_at_machine(self._variables.current, self._is_set, plugins)


def _origin_file(item: ListedSkill) -> Path:
    return Path(item.skill.base_dir, RECORDS, ORIGIN)


def _labels(items: Iterable[ListedSkill]) -> dict[str, tuple[Origin, ...]]:
    return {item.skill.base_dir: _origins(item) for item in items}


def _origins(item: ListedSkill) -> tuple[Origin, ...]:
    """The origins of a skill's directory; none for the owner's and the bundled ones."""
    skill, trust = item.skill, item.trust
    if trust.held:
        return (make_origin("external", f"skill {skill.name} ({trust.state})"),)
    if skill.bundled or trust.by == "owner" or (skill.owned and not _origin_file(item).exists()):
        return ()
    return (make_origin("skill", f"skill {skill.name}"),)


class SkillGate(Struct, frozen=True):
    """Asks the skill guard about a call."""

    guard: SkillGuard
    approver: Approver

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        match self.guard.rule(tool.spec.name, tool.effects(args), args, context.workspace):
            case GuardRefuses(why):
                return why
            case GuardAsks(why):
                return await self._asked(tool, args, context, why)
            case GuardAllows(notes):
                for note in notes:
                    log.warning("%s: %s", context.session_key, note)
        return None

    async def _asked(self, tool: Tool, args: Mapping[str, Any], context: ToolContext, why: str) -> str | None:
        shown = args.get("command") or args.get("path") or args.get("url") or ""
        answer = await self.approver.decide(
            ApprovalRequest(
                id=secrets.token_hex(4),
                tool=tool.spec.name,
                command=f"{tool.spec.name} {shown}".strip(),
                cwd=str(context.workspace),
                agent_id=context.agent_id,
                session_key=context.session_key,
                why=why,
                run_id=context.run_id,
                call=context.call,
            )
        )
        if answer.decision == "deny":
            return f"Not done: {why}, and {answer.why or 'the user said no'}. Ask what to do instead."
        return None
