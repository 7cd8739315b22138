"""Judges the skills that were found, and caches what did not change."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from openclaw.core.errors import StateError
from openclaw.core.text import Origin
from openclaw.extensions.gate import MachineFacts
from openclaw.skills import gate
from openclaw.skills.accepted import AcceptedSkills, make_entry
from openclaw.skills.find import (
    ORIGIN,
    RECORDS,
    ScanDependencies,
    Skill,
    SkillFinder,
    SkillProblem,
    SkillRoots,
    bundled,
    roots,
)
from openclaw.skills.gate import AcceptedContent, JudgedSkill, ListedSkill, SkillList, merge
from openclaw.skills.settings import SkillsSettings
from openclaw.storage.digests import (
    Hasher,
    contents,
)

if TYPE_CHECKING:
    from openclaw.security.install_scan import ScanFinding

log = logging.getLogger(__name__)

DIGESTS = "digests.json"


OriginsOf = Callable[..., tuple[Origin, ...]]
"""The origins of untrusted text that was written to these paths; none when no run wrote any."""
Inspect = Callable[[Mapping[str, bytes]], Sequence["ScanFinding"]]
"""Scans files by path; a `critical` finding means that a person must review the skill."""


class SkillStore:
    """Finds and judges skills, with caches; one per process."""

    def __init__(
        self, ledger: AcceptedSkills, inspect: Inspect, now: Callable[[], float], origins_of: Sequence[OriginsOf] = ()
    ) -> None:
        self.ledger = ledger
        self._origins_of = origins_of
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
        traces: ScanDependencies | None = None,
    ) -> SkillList:
        """Finds and judges every skill. With `first_use`, accepts the owner's new skills.

        Records in `traces` what the result depends on.
        """
        if traces is not None:
            traces.note((str(self.ledger.path), *(str(path) for path in link_targets)))
        found, diagnostics = self._finder.find(roots(places), settings.limits, link_targets, traces)
        ledger: Mapping[str, AcceptedContent] = {}
        broken = ""
        try:
            ledger = self.ledger.read()
        except StateError as error:
            broken = error.message
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
        for line in map(str, (*collisions, *diagnostics)):
            if line not in self._said:
                self._said.add(line)
                log.info("%s", line)
        chosen = set(map(id, winners))
        shadowed = tuple(one for one in judged if id(one) not in chosen)
        untold = {base for base, entry in ledger.items() if entry.untold}
        edited = tuple(
            one.skill
            for one in winners
            if one.skill.base_dir in untold or (first_use and one.trust.state == "changed" and not one.trust.held)
        )
        return SkillList(items=items, shadowed=shadowed, collisions=collisions, diagnostics=diagnostics, edited=edited)

    def findings(self, skill: Skill) -> "tuple[ScanFinding, ...]":
        """Scans the files of `skill`."""
        if skill.tree is None:
            return ()
        return tuple(self._inspect(contents(Path(skill.base_dir), skill.tree)))

    def _judged(
        self, skill: Skill, ledger: Mapping[str, AcceptedContent], settings: SkillsSettings, broken: str
    ) -> JudgedSkill:
        entry = ledger.get(skill.base_dir)
        trust = gate.judge_trust(
            skill,
            entry,
            settings,
            shipped=shipped_digests().get(skill.name) if skill.bundled else None,
            alarming=entry is None and skill.owned and settings.trust == "tofu" and self._alarming(skill),
            own_edit=entry is not None and self._is_own_edit(skill, entry),
        )
        if broken and not skill.bundled and settings.trust != "off":
            trust = gate.Trust("blocked", "what you accepted cannot be read; see openclaw skills check", held=True)
        return JudgedSkill(skill, trust)

    def _is_own_edit(self, skill: Skill, entry: AcceptedContent) -> bool:
        """Whether its owner changed a skill of the workspace, or a run that had read nothing from elsewhere."""
        if skill.source != "openclaw-workspace" or skill.tree is None or entry.tree_sha256 == skill.tree.sha256:
            return False
        if entry.approved_by == "install" or Path(skill.base_dir, RECORDS, ORIGIN).exists():
            return False  # somebody else wrote it
        was, now = {*entry.files}, {*skill.tree.files}
        changed = {os.path.join(skill.base_dir, file.path) for file in was ^ now}  # noqa: PTH118
        # A file that is gone, or came by a rename, shows in the times of its directory.
        places = {skill.base_dir, *changed, *map(os.path.dirname, changed)}
        theirs = any(origins_of(*sorted(places)) for origins_of in self._origins_of)
        return not theirs and not self._alarming(skill)

    def _first_use(self, judged: Sequence[JudgedSkill], settings: SkillsSettings) -> tuple[SkillProblem, ...]:
        if settings.trust == "off":
            return ()
        now = round(self._now() * 1000)
        fresh = {
            one.skill.base_dir: structs.replace(
                make_entry(one.skill, "first-use", now), untold=one.trust.state == "changed"
            )
            for one in judged
            if one.trust.state in ("new", "changed") and not one.trust.held
        }
        if not fresh:
            return ()
        try:
            self.ledger.accept(fresh)
        except StateError as error:
            return (SkillProblem(kind="trust", path=str(self.ledger.path), message=error.message),)
        log.info("accepted as they are now: %s", ", ".join(sorted(entry.name for entry in fresh.values())))
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


@cache
def shipped_digests() -> Mapping[str, str]:
    """The digests of the bundled skills."""
    return msgspec.json.decode((bundled() / DIGESTS).read_bytes(), type=dict[str, str])
