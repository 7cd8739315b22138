"""Finding skills below their roots: bounded, inside the root, and without reading again what did not change.

Nothing here raises for what lies on disk: whatever cannot be used becomes a diagnostic, and its neighbours load.
"""

import hashlib
import os
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from openclaw.core.text import literal
from openclaw.skills.frontmatter import Malformed
from openclaw.skills.manifest import SkillManifest, parse
from openclaw.skills.record import BUNDLED, Skill, SkillProblem, Source
from openclaw.skills.references import Reference, leaving
from openclaw.skills.roots import SkillRoot
from openclaw.skills.settings import LimitSettings
from openclaw.skills.traces import ScanCache
from openclaw.store.tree import UNCOUNTED, UNCOUNTED_HERE, Hasher, Identity, Unverifiable, identity_of, read_regular

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
    """Looks through roots; keeps what it read for the next time."""

    def __init__(self, hasher: Hasher) -> None:
        self._hasher = hasher
        self._parsed: dict[str, _Parsed] = {}

    def find(
        self,
        roots: tuple[SkillRoot, ...],
        limits: LimitSettings,
        link_targets: tuple[Path, ...] = (),
        traces: ScanCache | None = None,
    ) -> tuple[tuple[Skill, ...], tuple[SkillProblem, ...]]:
        """Every skill below `roots`, highest precedence first, and what was passed over. `traces` notes what it saw."""
        traces = traces or ScanCache()
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
        if literal(path) != path:
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
        outside = leaving(manifest.body, manifest.body_line) if manifest else ()
        parsed = _Parsed(identity_of(opened), content_hash, manifest, outside, problem)
        if self._hasher.steady(opened):
            self._parsed[path] = parsed
        else:
            self._parsed.pop(path, None)
        return parsed


def read_manifest(data: bytes, directory: str) -> tuple[SkillManifest | None, str]:
    """The manifest in the bytes of a SKILL.md, or why there is none."""
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
    """The files and directories a skill is made of."""
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
    root: SkillRoot, limit: int, targets: tuple[str, ...], noted: list[SkillProblem], traces: ScanCache
) -> Iterator[tuple[str, str]]:
    """Directories with a SKILL.md, breadth first: each by the way it was found, and without links."""
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
        if depth and not _stays(root, real, real_top, targets):
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
            if not entry.name.startswith(".") and entry.name not in _PASSED_OVER and _is_directory(entry):
                plain = f"{real}{os.sep}{entry.name}"
                below.append((entry.name, os.path.realpath(plain) if entry.is_symlink() else plain))
    return "", sorted(below)


def _is_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that goes round in a circle
        return False


def _stays(root: SkillRoot, real: str, real_top: str, targets: tuple[str, ...]) -> bool:
    if not root.contained:
        return True
    return any(real == place or real.startswith(place.rstrip(os.sep) + os.sep) for place in (real_top, *targets))


def _note(kind: str, path: "str | Path", message: str) -> SkillProblem:
    return SkillProblem(kind=kind, path=literal(str(path)), message=message)


def _reason(error: Exception) -> str:
    return literal((error.strerror if isinstance(error, OSError) else None) or str(error))
