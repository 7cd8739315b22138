"""Finds skills: a skill as it is on disk, the directories to search, and the search, which is bounded and stays inside.

Bad files never raise: each becomes a diagnostic, and the others load."""

import hashlib
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from openclaw.core.text import sanitize_line
from openclaw.extensions.find import package_places, stays_inside
from openclaw.extensions.front_matter import Malformed
from openclaw.process.environment import find_executable
from openclaw.skills.manifest import Reference, SkillManifest, find_outside_references, parse
from openclaw.skills.settings import LimitSettings
from openclaw.storage.atomic import Identity, identity_at, identity_of
from openclaw.storage.digests import (
    RACY,
    UNCOUNTED,
    UNCOUNTED_HERE,
    Hasher,
    TreeDigest,
    Unverifiable,
    read_regular,
)

Source = Literal[
    "cli",
    "openclaw-workspace",
    "agents-skills-project",
    "agents-skills-personal",
    "package",
    "plugin",
    "openclaw-managed",
    "openclaw-bundled",
    "openclaw-extra",
]
PRECEDENCE: tuple[Source, ...] = get_args(Source)
"""Highest first: of two skills with one name, the one from the earlier source is used."""

BUNDLED: Source = "openclaw-bundled"

RECORDS = ".openclaw"
ORIGIN = "source-origin.json"
"""In `RECORDS` of a skill that was installed: where it came from."""


class Skill(Struct, frozen=True, kw_only=True):
    """One skill on disk."""

    manifest: SkillManifest
    file_path: str
    """Its SKILL.md, links not resolved."""
    base_dir: str
    """Its directory, links resolved."""
    source: Source
    owned: bool
    """Whether the owner of this installation put it there."""
    content_hash: str
    tree: TreeDigest | None = None
    problem: str = ""
    """Why its directory cannot be verified."""
    plugin: str = ""
    outside: tuple[Reference, ...] = ()

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def rank(self) -> int:
        return PRECEDENCE.index(self.source)

    @property
    def bundled(self) -> bool:
        return self.source == BUNDLED

    @property
    def version(self) -> str:
        return f"sha256:{self.content_hash[:12]}"


class SkillProblem(Struct, frozen=True, kw_only=True):
    """A path skipped by the scan, and why."""

    kind: str
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Collision(Struct, frozen=True, kw_only=True):
    """Two skills with one name."""

    name: str
    winner: Skill
    loser: Skill

    def __str__(self) -> str:
        return (
            f'Skill precedence collision: skill="{self.name}" winner={self.winner.source}:{self.winner.file_path} '
            f"loser={self.loser.source}:{self.loser.file_path}"
        )


# The directories, highest precedence first.

GROUP = "openclaw.skills"
NPM_PREFIXES = ("NPM_CONFIG_PREFIX", "npm_config_prefix")


class SkillRoot(Struct, frozen=True, kw_only=True):
    """A directory with skills."""

    source: Source
    path: Path
    owned: bool = True
    """Whether its content is the owner's, and not from a repository or a package."""
    contained: bool = True
    """Whether links must stay inside."""
    plugin: str = ""


class PluginDirectory(Struct, frozen=True):
    """The skills of one enabled plugin."""

    plugin: str
    path: Path


class SkillRoots(Struct, frozen=True, kw_only=True):
    """The inputs of `roots`: home, state, workspace and configured directories."""

    home: Path
    state: Path
    workspace: Path
    cwd: Path
    given: tuple[Path, ...] = ()
    """Named on the command line."""
    extra: tuple[Path, ...] = ()
    packages: tuple[Path, ...] = ()
    plugins: tuple[PluginDirectory, ...] = ()

    @property
    def managed(self) -> Path:
        return self.state / "skills"


def bundled() -> Path:
    """The directory of the bundled skills."""
    return Path(__file__).parent / "bundled"


def roots(places: SkillRoots) -> tuple[SkillRoot, ...]:
    """All roots in order of precedence; a directory listed twice counts as the owner's if one of them does."""
    found = [
        *(SkillRoot(source="cli", path=path) for path in places.given),
        SkillRoot(source="openclaw-workspace", path=places.workspace / "skills"),
        *(
            SkillRoot(source="agents-skills-project", path=places.cwd / name / "skills", owned=False)
            for name in (".agents", ".pi")
        ),
        SkillRoot(source="agents-skills-personal", path=places.home / ".agents" / "skills", contained=False),
        SkillRoot(source="agents-skills-personal", path=places.home / ".pi" / "agent" / "skills", contained=False),
        *(SkillRoot(source="package", path=path, owned=False) for path in places.packages),
        *(SkillRoot(source="plugin", path=item.path, plugin=item.plugin) for item in places.plugins),
        SkillRoot(source="openclaw-managed", path=places.managed, contained=False),
        SkillRoot(source="openclaw-bundled", path=bundled()),
        *(SkillRoot(source="openclaw-extra", path=path, owned=False) for path in places.extra),
    ]
    own = {root.path.resolve() for root in found if root.owned}
    return tuple(root for root in found if root.owned or root.path.resolve() not in own)


def node_directories(home: Path, variables: Mapping[str, str]) -> tuple[Path, ...]:
    """The skill directories of globally installed node packages: of bun, and of npm by its prefix or its program."""
    named = (variables.get(name) for name in NPM_PREFIXES)
    prefixes = [home / ".npm-global", *(Path(prefix) for prefix in named if prefix)]
    node = find_executable("node", variables.get("PATH"))
    prefixes += [Path(node).resolve().parent.parent] if node else []
    modules = [home / ".bun/install/global/node_modules", *(prefix / "lib/node_modules" for prefix in prefixes)]
    found = (path for place in modules for pattern in ("[!.@]*/skills", "@*/*/skills") for path in place.glob(pattern))
    return tuple(dict.fromkeys(path for path in sorted(found) if path.is_dir()))


def package_directories() -> tuple[Path, ...]:
    """The skill directories of installed packages, by entry point; imports none of the packages."""
    found: list[Path] = []
    for _, places, module in package_places(GROUP):
        directories = [place / module for place in places]
        found += [each / "skills" if (each / "skills").is_dir() else each for each in directories]
    return tuple(dict.fromkeys(found))


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
            traces.note((str(root.path),))
            # Of those that came with the program that is enough: an upgrade, which alone changes them, renews it.
            within = ScanDependencies() if root.source == BUNDLED else traces
            for directory, base in _candidates(root, limits.max_candidates_per_root, targets, noted, within):
                if loaded[root.source] >= limits.max_skills_loaded_per_source:
                    noted.append(_note("limit", root.path, _LOADED.format(limits.max_skills_loaded_per_source)))
                    break
                skill = self._load(root, directory, base, limits.max_skill_file_bytes, noted)
                within.note(_contents(directory, base, skill))
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
