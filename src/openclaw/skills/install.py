"""Installing a skill: staged aside, looked through, agreed to, and put in place in one step, or not at all."""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from openclaw.core.errors import Conflict, InvalidRequest, StateError
from openclaw.skills.discover import FILE, read_manifest
from openclaw.skills.library import Inspect, SkillNotice
from openclaw.skills.lock import AcceptedSkills, accepted
from openclaw.skills.manifest import SkillManifest
from openclaw.skills.record import Skill, Source
from openclaw.skills.references import Reference, leaving
from openclaw.store import atomic
from openclaw.store.archive import pieces
from openclaw.store.lock import holding
from openclaw.store.swap import mend, swap
from openclaw.store.tree import Hasher, Unverifiable

RECORDS = ".openclaw"
ORIGIN = "source-origin.json"
_STAGING, _OLD, _LOCK = ".openclaw-staging-", ".openclaw-old-", ".openclaw-install.lock"
_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")

OriginKind = Literal["path", "git", "archive", "registry"]


class InstallOrigin(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """Where an installed skill came from; kept inside it."""

    version: int = 1
    source: OriginKind
    spec: str
    slug: str
    installed_at: str
    tree_sha256: str


class StagedSkill(Struct, frozen=True, kw_only=True):
    """A skill on the threshold: unpacked and looked through, not yet installed."""

    slug: str
    manifest: SkillManifest
    directory: Path
    """Where it waits."""
    target: Path
    kind: OriginKind
    spec: str
    tree_sha256: str
    files: int
    findings: tuple[SkillNotice, ...] = ()
    outside: tuple[Reference, ...] = ()
    replaces: bool = False

    @property
    def critical(self) -> bool:
        return any(finding.severity == "critical" for finding in self.findings)


class SkillReview(Struct, frozen=True, kw_only=True):
    """Who has a say: each gives a reason to stop, or nothing. They are asked in this order."""

    policy: Callable[[StagedSkill], str] = lambda staged: ""
    """The operator's program."""
    hooks: tuple[Callable[[StagedSkill], str], ...] = ()
    """`before_install` of plugins."""
    person: Callable[[StagedSkill], str] = lambda staged: ""
    """Who asked for the install, and now sees the report."""


def slug_of(text: str) -> str:
    """`text` as a directory name."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", text.strip().lower()).strip("-_")[:64]
    if not _SLUG.match(slug):
        raise InvalidRequest(f"{text!r} makes no directory name: give one of letters, digits, - and _ with --as")
    return slug


def install(
    spec: Path,
    root: Path,
    source: Source,
    *,
    ledger: AcceptedSkills,
    inspect: Inspect,
    gatekeeper: SkillReview,
    now: float,
    stamp: str,
    slug: str | None = None,
    force: bool = False,
) -> StagedSkill:
    """Installs the skill in `spec` below `root`; gives what was installed. Whatever stops it leaves nothing behind."""
    with staged(spec, root, inspect, slug, force) as ready:
        for objects in (gatekeeper.policy, *gatekeeper.hooks, gatekeeper.person):
            why = objects(ready)
            if why:
                raise InvalidRequest(f"{ready.slug} was not installed: {why}")
        _put(ready, root, source, ledger, force, now, stamp)
        return ready


@contextlib.contextmanager
def staged(
    spec: Path, root: Path, inspect: Inspect, slug: str | None = None, force: bool = False
) -> Iterator[StagedSkill]:
    """The skill in `spec` unpacked beside its place to be, for as long as the block lasts."""
    found = pieces(spec, FILE)
    manifest, problem = read_manifest(found[FILE][0], spec.stem if spec.is_file() else spec.resolve().name)
    if manifest is None:
        raise InvalidRequest(f"{spec}/SKILL.md cannot be used: {problem}")
    name = slug_of(slug or manifest.name)
    target = root / name
    if target.exists() and not force:
        raise Conflict(f"{target} is already there: --force replaces it, --as gives another name")
    directory = root / f"{_STAGING}{secrets.token_hex(6)}"
    try:
        _write(directory, found)
        tree = Hasher(lambda: 0.0).tree(str(directory))
        texts = {path: data for path, (data, _) in found.items()}
        yield StagedSkill(
            slug=name,
            manifest=manifest,
            directory=directory,
            target=target,
            kind="path" if spec.is_dir() else "archive",
            spec=str(spec.resolve()),
            tree_sha256=tree.sha256,
            files=len(found),
            findings=tuple(inspect(texts)),
            outside=leaving(manifest.body, manifest.body_line),
            replaces=target.exists(),
        )
    except (OSError, Unverifiable) as error:
        raise StateError(f"cannot stage the skill below {root}: {error}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _write(directory: Path, found: "dict[str, tuple[bytes, bool]]") -> None:
    directory.mkdir(parents=True, mode=0o700)
    for path, (data, runs) in found.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if runs else 0o644), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _put(
    ready: StagedSkill, root: Path, source: Source, ledger: AcceptedSkills, force: bool, now: float, stamp: str
) -> None:
    """Moves the staged directory into place and records that it was accepted."""
    origin = InstallOrigin(
        source=ready.kind, spec=ready.spec, slug=ready.slug, installed_at=stamp, tree_sha256=ready.tree_sha256
    )
    atomic.replace(
        ready.directory / RECORDS / ORIGIN, msgspec.json.format(msgspec.json.encode(origin), indent=2), 0o644
    )
    with holding(root / _LOCK, f"{root}"):
        mend(root, _OLD)
        if ready.target.exists() and not force:
            raise Conflict(f"{ready.target} is already there: another install was quicker. --force replaces it")
        swap(ready.directory, ready.target, root / f"{_OLD}{ready.slug}")
        ledger.accept(
            {os.path.realpath(ready.target): accepted(_as_skill(ready, source), "install", round(now * 1000))}
        )


def mend_unlocked(root: Path) -> None:
    """The same, for whoever only came to look."""
    if any(root.glob(f"{_OLD}*")):
        with holding(root / _LOCK, f"{root}"):
            mend(root, _OLD)


def _as_skill(ready: StagedSkill, source: Source) -> Skill:
    base = os.path.realpath(ready.target)
    tree = Hasher(lambda: 0.0).tree(base)
    if tree.sha256 != ready.tree_sha256:
        raise StateError(f"{ready.target} changed while it was being installed: remove it and install it again")
    data = (ready.target / FILE).read_bytes()
    return Skill(
        manifest=ready.manifest,
        file_path=str(ready.target / FILE),
        base_dir=base,
        source=source,
        owned=True,
        content_hash=hashlib.sha256(data).hexdigest(),
        tree=tree,
    )


def remove(target: Path, root: Path, ledger: AcceptedSkills) -> None:
    """Takes an installed skill away, with what was accepted of it."""
    base = os.path.realpath(target)
    with holding(root / _LOCK, f"{root}"):
        aside = root / f"{_STAGING}{secrets.token_hex(6)}"
        try:
            target.rename(aside)
        except OSError as error:
            raise StateError(f"cannot remove {target}: {error.strerror}") from error
        ledger.forget(base)
    if aside.is_symlink():
        aside.unlink()
    else:
        shutil.rmtree(aside, ignore_errors=True)


def origin_of(base: Path) -> InstallOrigin | None:
    """Where the skill in `base` was installed from, when it says so."""
    try:
        return msgspec.json.decode((base / RECORDS / ORIGIN).read_bytes(), type=InstallOrigin)
    except (OSError, msgspec.DecodeError):
        return None


def lookalikes(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names in `known` that `name` could be mistaken for."""
    return tuple(other for other in known if other != name and _skeleton(other) == _skeleton(name))


_TWINS = str.maketrans("01lі|оаеирсух$5", "oiiiioaenpcyxss")


def _skeleton(name: str) -> str:
    """A name as a hurried reader sees it."""
    folded = re.sub(r"[\W_]+", "", name.casefold().translate(_TWINS).replace("rn", "m").replace("vv", "w"))
    return re.sub(r"(.)\1+", r"\1", folded).removesuffix("s")
