"""Finds skills below their roots, judges them, and caches what did not change.

The search is bounded and stays inside the roots. Bad files never raise: each becomes a diagnostic, and the others load.
"""

import hashlib
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from openclaw.core.errors import StateError
from openclaw.core.text import Origin, sanitize_line
from openclaw.extensions.find import stays_inside
from openclaw.extensions.front_matter import Malformed
from openclaw.extensions.gate import MachineFacts
from openclaw.security.install_scan import ScanFinding
from openclaw.skills import gate
from openclaw.skills.accepted import AcceptedSkills, make_entry
from openclaw.skills.gate import AcceptedContent, JudgedSkill, ListedSkill, SkillList, merge
from openclaw.skills.manifest import Reference, SkillManifest, find_outside_references, parse
from openclaw.skills.record import BUNDLED, ORIGIN, RECORDS, Skill, SkillProblem, Source
from openclaw.skills.roots import SkillRoot, SkillRoots, bundled, roots
from openclaw.skills.settings import LimitSettings, SkillsSettings
from openclaw.storage.digests import (
    RACY,
    UNCOUNTED,
    UNCOUNTED_HERE,
    Hasher,
    Identity,
    Unverifiable,
    contents,
    identity_at,
    identity_of,
    read_regular,
)

# Change detection.


class ScanDependencies:
    """The identities of all files a scan depended on: as long as they are the same, so is its result."""

    def __init__(self) -> None:
        self.seen: dict[str, Identity | None] = {}

    def note(self, paths: Iterable[str]) -> None:
        """Records files and directories, also missing ones."""
        for path in paths:
            self.seen[path] = identity_at(path)

    def settled(self, started: float) -> bool:
        """Whether everything is older than the scan, so that any later change alters a timestamp."""
        newest = max((max(seen[3], seen[4]) for seen in self.seen.values() if seen is not None), default=0)
        return newest < (started - RACY) * 1e9


# The scan.

FILE = "SKILL.md"
MAX_DEPTH = 6
_PASSED_OVER = frozenset({"node_modules"})


class _Parsed(Struct, frozen=True):
    identity: Identity
    content_hash: str
    manifest: SkillManifest | None
    outside: tuple[Reference, ...]
    problem: str


class SkillFinder:
    """Scans roots for skills; caches parsed files."""

    def __init__(self, hasher: Hasher) -> None:
        self._hasher = hasher
        self._parsed: dict[str, _Parsed] = {}

    def find(
        self,
        roots: tuple[SkillRoot, ...],
        limits: LimitSettings,
        link_targets: tuple[Path, ...] = (),
        traces: ScanDependencies | None = None,
    ) -> tuple[tuple[Skill, ...], tuple[SkillProblem, ...]]:
        """Finds every skill below `roots`, highest precedence first, and problems. Records paths in `traces`."""
        traces = traces or ScanDependencies()
        skills: list[Skill] = []
        noted: list[SkillProblem] = []
        loaded: Counter[Source] = Counter()
        targets = tuple(os.path.realpath(path) for path in link_targets)
        for root in roots:
            for directory, base in _candidates(root, limits.max_candidates_per_root, targets, noted, traces):
                if loaded[root.source] >= limits.max_skills_loaded_per_source:
                    noted.append(_note("limit", root.path, _LOADED.format(limits.max_skills_loaded_per_source)))
                    break
                skill = self._load(root, directory, base, limits.max_skill_file_bytes, noted)
                traces.note(_contents(directory, base, skill))
                if skill is not None:
                    skills.append(skill)
                    loaded[root.source] += 1
        return tuple(skills), tuple(noted)

    def _load(
        self, root: SkillRoot, directory: str, base: str, max_bytes: int, noted: list[SkillProblem]
    ) -> Skill | None:
        path = f"{directory}{os.sep}{FILE}"
        if sanitize_line(path) != path:
            noted.append(_note("name", directory, "its path has control characters: rename the directory"))
            return None
        try:
            parsed = self._parse(path, base, max_bytes)
        except (OSError, Unverifiable) as error:
            noted.append(_note("unreadable", path, f"cannot be read: {_reason(error)}"))
            return None
        if parsed.manifest is None:
            noted.append(_note("invalid", path, parsed.problem))
            return None
        tree, problem = None, ""
        try:
            tree = self._hasher.tree(base, UNCOUNTED_HERE if root.source == BUNDLED else UNCOUNTED)
        except Unverifiable as error:
            problem = str(error)
        return Skill(
            manifest=parsed.manifest,
            file_path=path,
            base_dir=base,
            source=root.source,
            owned=root.owned,
            content_hash=parsed.content_hash,
            tree=tree,
            problem=problem,
            plugin=root.plugin,
            outside=parsed.outside,
        )

    def _parse(self, path: str, base: str, max_bytes: int) -> _Parsed:
        about = os.lstat(path)
        known = self._parsed.get(path)
        if known is not None and known.identity == identity_of(about):
            return known
        if about.st_size > max_bytes:
            raise Unverifiable(f"it has {about.st_size:,} bytes; {max_bytes:,} is the most (skills.limits)")
        data, opened = read_regular(path, max_bytes)
        self._hasher.files_read += 1
        content_hash = hashlib.sha256(data).hexdigest()
        self._hasher.remember(f"{base}{os.sep}{FILE}", opened, content_hash)
        manifest, problem = read_manifest(data, Path(path).parent.name)
        outside = find_outside_references(manifest.body, manifest.body_line) if manifest else ()
        parsed = _Parsed(identity_of(opened), content_hash, manifest, outside, problem)
        if self._hasher.steady(opened):
            self._parsed[path] = parsed
        else:
            self._parsed.pop(path, None)
        return parsed


def read_manifest(data: bytes, directory: str) -> tuple[SkillManifest | None, str]:
    """Parses a SKILL.md; returns the manifest, or None and the reason."""
    try:
        return parse(_decoded(data), directory), ""
    except Malformed as error:
        return None, str(error)


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        raise Malformed("it is not text")
    return data.decode("utf-8-sig", "replace")


_LOADED = "more than {} skills in this source; the rest were left out (skills.limits.maxSkillsLoadedPerSource)"
_CANDIDATES = "more than {} directories; the rest were not looked at (skills.limits.maxCandidatesPerRoot)"


def _contents(directory: str, base: str, skill: Skill | None) -> Iterator[str]:
    """The files and directories of a skill."""
    yield f"{directory}{os.sep}{FILE}"
    if skill is None or skill.tree is None:
        return
    below = {base}
    for file in skill.tree.files:
        path = f"{base}{os.sep}{file.path}"
        yield path
        while (path := os.path.dirname(path)) not in below:  # noqa: PTH120
            below.add(path)
    yield from below


def _candidates(
    root: SkillRoot, limit: int, targets: tuple[str, ...], noted: list[SkillProblem], traces: ScanDependencies
) -> Iterator[tuple[str, str]]:
    """Yields directories with a SKILL.md, breadth first, each as found and with links resolved."""
    top = str(root.path)
    traces.note((top,))
    if not os.path.lexists(top):
        return
    real_top = os.path.realpath(top)
    queue: deque[tuple[str, str, int]] = deque([(top, real_top, 0)])
    visited: set[str] = set()
    looked = 0
    while queue:
        directory, real, depth = queue.popleft()
        if real in visited:
            continue
        visited.add(real)
        if depth and root.contained and not stays_inside(real, (real_top, *targets)):
            noted.append(_note("symlink-escape", directory, "is a link out of its skills directory; it was left out"))
            continue
        looked += depth > 0
        if looked > limit:
            noted.append(_note("limit", root.path, _CANDIDATES.format(limit)))
            return
        traces.note((directory,))
        try:
            kind, below = _inside(directory, real)
        except OSError as error:
            if depth or not isinstance(error, FileNotFoundError):
                noted.append(_note("unreadable", directory, f"cannot be read: {_reason(error)}"))
            continue
        if kind == "link":
            noted.append(_note("path-escape", f"{directory}{os.sep}{FILE}", "is a link; put the file itself there"))
        elif kind == "file":
            yield directory, real
        elif depth < MAX_DEPTH:
            queue.extend((f"{directory}{os.sep}{name}", inner, depth + 1) for name, inner in below)


def _inside(directory: str, real: str) -> tuple[str, list[tuple[str, str]]]:
    """Whether `directory` is a skill (`file`, or `link` when its SKILL.md is one), and the directories in it."""
    below: list[tuple[str, str]] = []
    with os.scandir(directory) as listing:
        for entry in listing:
            if entry.name == FILE:
                return ("link" if entry.is_symlink() else "file"), []
            plain = f"{real}{os.sep}{entry.name}"
            with suppress(OSError):  # a symlink loop
                if not entry.name.startswith(".") and entry.name not in _PASSED_OVER and entry.is_dir():
                    below.append((entry.name, os.path.realpath(plain) if entry.is_symlink() else plain))
    return "", sorted(below)


def _note(kind: str, path: "str | Path", message: str) -> SkillProblem:
    return SkillProblem(kind=kind, path=sanitize_line(str(path)), message=message)


def _reason(error: Exception) -> str:
    return sanitize_line((error.strerror if isinstance(error, OSError) else None) or str(error))


# The store.

log = logging.getLogger(__name__)

DIGESTS = "digests.json"


OriginsOf = Callable[..., tuple[Origin, ...]]
"""The origins of untrusted text that was written to these paths; none when no run wrote any."""
Inspect = Callable[[Mapping[str, bytes]], Sequence[ScanFinding]]
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

    def findings(self, skill: Skill) -> tuple[ScanFinding, ...]:
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
