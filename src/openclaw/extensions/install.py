"""Installs directories of files that run here (skills, plugins, hooks): unpacked beside their place, looked through,
reviewed, then moved into place in one step, or not at all.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from msgspec import Struct

from openclaw.core.deferred import shutil
from openclaw.core.errors import Conflict, InvalidRequest, StateError
from openclaw.core.progress import Report, no_report
from openclaw.security.install_scan import ScanFinding
from openclaw.storage.archives import read_package, recover_swaps, swap, write_package
from openclaw.storage.digests import Hasher, Unverifiable
from openclaw.storage.locks import hold_lock

_STAGING, _OLD, _LOCK = ".openclaw-staging-", ".openclaw-old-", ".openclaw-install.lock"

InspectFiles = Callable[[Mapping[str, bytes], Report], Iterable[ScanFinding]]


class StagedPackage(Struct, frozen=True, kw_only=True):
    """What was unpacked and looked through, and is not yet in its place."""

    noun: ClassVar[Literal["skill", "plugin", "hook"]]
    file: ClassVar[str]
    """Its manifest."""

    manifest: Any
    directory: Path
    """Its staging directory."""
    target: Path
    kind: Literal["path", "archive"]
    spec: str
    """Where it came from."""
    tree_sha256: str
    files: int
    findings: tuple[ScanFinding, ...] = ()
    replaces: bool = False

    @staticmethod
    def read(data: bytes, directory: str) -> Any:
        """Parses the manifest; `directory` is the name of one that has none. Raises `ValueError`."""
        raise NotImplementedError

    @staticmethod
    def directory_name(manifest: Any) -> str:
        """The name of its directory."""
        return str(manifest.name)

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def critical(self) -> bool:
        return any(finding.severity == "critical" for finding in self.findings)


S = TypeVar("S", bound=StagedPackage)


def no_objection(staged: StagedPackage) -> str:
    return ""


class InstallReview(Struct, Generic[S], frozen=True, kw_only=True):
    """Who may stop an install, in order; each gives a reason to stop, or nothing."""

    policy: Callable[[S], str] = no_objection
    """The operator's program."""
    hooks: tuple[Callable[[S], str], ...] = ()
    """`before_install` of plugins."""
    person: Callable[[S], str] = no_objection
    """The person who asked for the install."""

    def check(self, staged: S) -> None:
        for objects in (self.policy, *self.hooks, self.person):
            if why := objects(staged):
                raise InvalidRequest(f"{staged.name} was not installed: {why}")


def install(
    kind: type[S],
    source: Path,
    root: Path,
    put: Callable[[S, Callable[[], None]], None],
    *,
    inspect: InspectFiles,
    review: InstallReview[S],
    name: str | None = None,
    force: bool = False,
    report: Report = no_report,
) -> S:
    """Installs what is in `source` below `root`; a failure leaves nothing behind. `put` records that the package is
    accepted, and moves it into place with the function it is given."""
    with stage(kind, source, root, inspect, name=name, force=force, report=report) as ready:
        review.check(ready)
        with _locked(root):
            recover_swaps(root, _OLD)
            if ready.target.exists() and not force:
                raise Conflict(f"{ready.target} is already there: another install was quicker. --force replaces it")
            put(ready, partial(swap, ready.directory, ready.target, root / f"{_OLD}{ready.name}"))
        return ready


@contextlib.contextmanager
def stage(
    kind: type[S],
    source: Path,
    root: Path,
    inspect: InspectFiles,
    *,
    name: str | None = None,
    force: bool = False,
    report: Report = no_report,
) -> Iterator[S]:
    """Unpacks the package in `source` beside its place below `root`, for as long as the block lasts."""
    found = read_package(source, kind.file)
    try:
        manifest = kind.read(found[kind.file][0], source.stem if source.is_file() else source.resolve().name)
    except ValueError as error:
        raise InvalidRequest(f"{source} cannot be installed: {error}") from None
    target = root / (name or kind.directory_name(manifest))
    if target.exists() and not force:
        raise Conflict(
            f"{target} is already installed: --force replaces it, openclaw {kind.noun}s update {target.name} renews it"
        )
    directory = target.parent / f"{_STAGING}{secrets.token_hex(6)}"
    try:
        write_package(directory, found, report)
        yield kind(
            directory=directory,
            target=target,
            kind="path" if source.is_dir() else "archive",
            spec=str(source.resolve()),
            tree_sha256=Hasher(float).tree(str(directory)).sha256,  # at the time 0.0 no digest is cached
            files=len(found),
            findings=tuple(inspect({path: data for path, (data, _) in found.items()}, report)),
            replaces=target.exists(),
            manifest=manifest,
        )
    except (OSError, Unverifiable) as error:
        raise StateError(f"cannot stage {target.name} below {target.parent}: {error}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def remove_package(target: Path, root: Path, forget: Callable[[], None]) -> None:
    """Takes an installed package below `root` away; `forget` drops the record that it was accepted."""
    with _locked(root):
        aside = root / f"{_STAGING}{secrets.token_hex(6)}"
        try:
            target.rename(aside)
        except OSError as error:
            raise StateError(f"cannot remove {target}: {error.strerror}") from error
        forget()
    if aside.is_symlink():
        aside.unlink()
    else:
        shutil.rmtree(aside, ignore_errors=True)


def repair_interrupted(root: Path) -> None:
    """Repairs an interrupted install under the lock, for readers that do not hold it."""
    if any(root.glob(f"{_OLD}*")):
        with _locked(root):
            recover_swaps(root, _OLD)


def _locked(root: Path) -> contextlib.AbstractContextManager[None]:
    return hold_lock(root / _LOCK, str(root))
