"""The skills of this installation: found, judged and put in order, as often as somebody asks."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import msgspec

from openclaw.core.errors import StateError
from openclaw.skills import gate, standing
from openclaw.skills.discover import SkillFinder
from openclaw.skills.gate import MachineFacts
from openclaw.skills.lock import AcceptedSkills, accepted
from openclaw.skills.merge import JudgedSkill, merge
from openclaw.skills.record import Skill, SkillProblem
from openclaw.skills.roots import SkillRoots, bundled, roots
from openclaw.skills.settings import SkillsSettings
from openclaw.skills.shelf import ListedSkill, SkillList
from openclaw.skills.standing import AcceptedContent
from openclaw.skills.traces import ScanCache
from openclaw.store.tree import Hasher, contents

log = logging.getLogger(__name__)

DIGESTS = "digests.json"


class SkillNotice(Protocol):
    """One thing a look through a skill's files found."""

    @property
    def rule(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...


Inspect = Callable[[Mapping[str, bytes]], Sequence[SkillNotice]]
"""Looks through files by path; `critical` findings are what nobody should trust unseen."""


class SkillStore:
    """Looks for skills and remembers what it read; one for the whole process."""

    def __init__(self, ledger: AcceptedSkills, inspect: Inspect, now: Callable[[], float]) -> None:
        self.ledger = ledger
        self._inspect = inspect
        self._now = now
        self.hasher = Hasher(now)
        self._finder = SkillFinder(self.hasher)
        self._alarms: dict[str, bool] = {}
        self._quiet: dict[str, bool] = {}
        self._said: set[str] = set()

    def look(
        self,
        places: SkillRoots,
        settings: SkillsSettings,
        machine: MachineFacts,
        *,
        allowlist: tuple[str, ...] | None = None,
        link_targets: tuple[Path, ...] = (),
        first_use: bool = False,
        traces: ScanCache | None = None,
    ) -> SkillList:
        """Every skill as it stands now. With `first_use`, your own new skills count as accepted from here on.

        `traces` notes what the answer depends on.
        """
        if traces is not None:
            traces.note((str(self.ledger.path), *(str(path) for path in link_targets)))
        found, diagnostics = self._finder.find(roots(places), settings.limits, link_targets, traces)
        ledger, broken = self._ledger()
        judged = [self._judged(skill, ledger, settings, broken) for skill in found]
        if first_use and not broken:
            diagnostics += self._first_use(judged, settings)
        winners, collisions = merge(judged)
        items = tuple(
            ListedSkill(
                skill=one.skill,
                trust=one.trust,
                verdict=gate.judge(one.skill, one.trust, settings, machine, allowlist),
                quiet=one.trust.by not in ("owner", "install", "package") and self._is_quiet(one.skill),
            )
            for one in winners
        )
        if broken:
            diagnostics += (SkillProblem(kind="trust", path=str(self.ledger.path), message=broken),)
        self._say(*map(str, collisions), *map(str, diagnostics))
        chosen = set(map(id, winners))
        shadowed = tuple(one for one in judged if id(one) not in chosen)
        return SkillList(items=items, shadowed=shadowed, collisions=collisions, diagnostics=diagnostics)

    def findings(self, skill: Skill) -> tuple[SkillNotice, ...]:
        """What a look through the files of `skill` finds."""
        if skill.tree is None:
            return ()
        return tuple(self._inspect(contents(Path(skill.base_dir), skill.tree)))

    def _ledger(self) -> tuple[Mapping[str, AcceptedContent], str]:
        try:
            return self.ledger.read(), ""
        except StateError as error:
            return {}, error.message

    def _judged(
        self, skill: Skill, ledger: Mapping[str, AcceptedContent], settings: SkillsSettings, broken: str
    ) -> JudgedSkill:
        entry = ledger.get(skill.base_dir)
        trust = standing.judge(
            skill,
            entry,
            settings.trust,
            verify=settings.verify,
            shipped=shipped().get(skill.name) if skill.bundled else None,
            alarming=entry is None and skill.owned and settings.trust == "tofu" and self._alarming(skill),
        )
        if broken and not skill.bundled and settings.trust != "off":
            trust = standing.Trust("blocked", "what you accepted cannot be read; see openclaw skills check", held=True)
        return JudgedSkill(skill, trust)

    def _first_use(self, judged: Sequence[JudgedSkill], settings: SkillsSettings) -> tuple[SkillProblem, ...]:
        if settings.trust == "off":
            return ()
        now = round(self._now() * 1000)
        fresh = {
            one.skill.base_dir: accepted(one.skill, "first-use", now)
            for one in judged
            if one.trust.state == "new" and not one.trust.held
        }
        if not fresh:
            return ()
        try:
            self.ledger.accept(fresh)
        except StateError as error:
            return (SkillProblem(kind="trust", path=str(self.ledger.path), message=error.message),)
        log.info("accepted on first use: %s", ", ".join(sorted(entry.name for entry in fresh.values())))
        return ()

    def _alarming(self, skill: Skill) -> bool:
        if skill.bundled or skill.tree is None:
            return False
        key = skill.tree.sha256
        if key not in self._alarms:
            self._alarms[key] = any(finding.severity == "critical" for finding in self.findings(skill))
        return self._alarms[key]

    def _is_quiet(self, skill: Skill) -> bool:
        text = skill.manifest.description
        if text not in self._quiet:
            self._quiet[text] = bool(self._inspect({"description.md": text.encode()}))
        return self._quiet[text]

    def _say(self, *lines: str) -> None:
        for line in lines:
            if line not in self._said:
                self._said.add(line)
                log.info("%s", line)


@cache
def shipped() -> Mapping[str, str]:
    """The digest of each skill that comes with the program."""
    return msgspec.json.decode((bundled() / DIGESTS).read_bytes(), type=dict[str, str])
