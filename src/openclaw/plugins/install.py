"""Installs plugins: unpack to a staging directory, inspect, ask for consent, then swap into place in one step."""

import contextlib
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal

from msgspec import Struct

from openclaw.core.errors import Conflict, InvalidRequest, StateError
from openclaw.plugins.accepted import AcceptedPlugin, AcceptedPlugins, tree_digest
from openclaw.plugins.manifest import FILE, PluginManifest, read
from openclaw.security.install_scan import ScanFinding
from openclaw.storage.archives import read_package, recover_swaps, swap, write_package
from openclaw.storage.digests import Unverifiable
from openclaw.storage.locks import hold_lock

_STAGING, _OLD, _LOCK = ".openclaw-staging-", ".openclaw-old-", ".openclaw-install.lock"


Inspect = Callable[[Mapping[str, bytes]], Iterable[ScanFinding]]


class StagedPlugin(Struct, frozen=True, kw_only=True):
    """A plugin unpacked in the staging directory, with its findings."""

    manifest: PluginManifest
    directory: Path
    """The staging directory."""
    target: Path
    kind: Literal["path", "archive"]
    spec: str
    tree_sha256: str
    files: int
    findings: tuple[ScanFinding, ...] = ()
    replaces: bool = False

    @property
    def critical(self) -> bool:
        return any(finding.severity == "critical" for finding in self.findings)


class PluginReview(Struct, frozen=True, kw_only=True):
    """Who may stop an install: each gives a reason to stop, or nothing. Asked in this order."""

    policy: Callable[[StagedPlugin], str]
    """The operator's policy."""
    hooks: tuple[Callable[[StagedPlugin], str], ...] = ()
    """`before_install` of other plugins."""
    person: Callable[[StagedPlugin], str]


def install(
    spec: Path,
    root: Path,
    *,
    ledger: AcceptedPlugins,
    inspect: Inspect,
    gatekeeper: PluginReview,
    now: float,
    force: bool = False,
) -> StagedPlugin:
    """Installs the plugin in `spec` below `root`; removes everything again when it is stopped."""
    with stage_plugin(spec, root, inspect, force) as ready:
        for objects in (gatekeeper.policy, *gatekeeper.hooks, gatekeeper.person):
            why = objects(ready)
            if why:
                raise InvalidRequest(f"{ready.manifest.id} was not installed: {why}")
        with hold_lock(root / _LOCK, str(root)):
            recover_swaps(root, _OLD)
            if ready.target.exists() and not force:
                raise Conflict(f"{ready.target} is already there: another install was quicker. --force replaces it")
            # Accepted before it is moved into place: the other way round a starting gateway would refuse it.
            ledger.accept(
                ready.manifest.id,
                AcceptedPlugin(
                    tree_sha256=ready.tree_sha256,
                    version=ready.manifest.version,
                    source=ready.kind,
                    spec=ready.spec,
                    at=round(now * 1000),
                ),
            )
            swap(ready.directory, ready.target, root / f"{_OLD}{ready.manifest.id}")
        return ready


@contextlib.contextmanager
def stage_plugin(spec: Path, root: Path, inspect: Inspect, force: bool = False) -> Iterator[StagedPlugin]:
    """Unpacks the plugin in `spec` beside its destination, for as long as the block lasts."""
    found = read_package(spec, FILE)
    manifest = read(found[FILE][0])
    if isinstance(manifest, str):
        raise InvalidRequest(f"{spec} cannot be installed: {manifest}")
    target = root / manifest.id
    if target.exists() and not force:
        raise Conflict(f"{manifest.id} is already installed: --force replaces it, openclaw plugins update renews it")
    directory = root / f"{_STAGING}{secrets.token_hex(6)}"
    try:
        write_package(directory, found)
        yield StagedPlugin(
            manifest=manifest,
            directory=directory,
            target=target,
            kind="path" if spec.is_dir() else "archive",
            spec=str(spec.resolve()),
            tree_sha256=tree_digest(directory),
            files=len(found),
            findings=tuple(inspect({path: data for path, (data, _) in found.items()})),
            replaces=target.exists(),
        )
    except (OSError, Unverifiable) as error:
        raise StateError(f"cannot stage the plugin below {root}: {error}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def remove(name: str, root: Path, ledger: AcceptedPlugins) -> None:
    """Removes an installed plugin; its state directory stays."""
    with hold_lock(root / _LOCK, str(root)):
        aside = root / f"{_STAGING}{secrets.token_hex(6)}"
        try:
            (root / name).rename(aside)
        except OSError as error:
            raise StateError(f"cannot remove {root / name}: {error.strerror}") from error
        ledger.forget(name)
    shutil.rmtree(aside, ignore_errors=True)


# The template of `openclaw plugins new`.

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
PLACES = {
    "openclaw.plugin.json": "openclaw.plugin.json",
    "plugin.py.txt": "plugin.py",
    "tests/test_plugin.py.txt": "tests/test_plugin.py",
    "README.md": "README.md",
}
"""The template's files and their names in a plugin. The code is kept as text, so that no tool takes it for ours."""


def make_plugin(name: str, parent: Path) -> Path:
    """Writes a plugin called `name` below `parent`; gives its directory."""
    if not _ID.match(name):
        raise InvalidRequest(f"{name!r} cannot be the id of a plugin: use letters in lower case, digits, - and _")
    directory = parent / name
    if directory.exists():
        raise Conflict(f"{directory} is already there: choose another name")
    word = name.replace("-", "_")
    for source, target in PLACES.items():
        text = files("openclaw.plugins").joinpath("template", *source.split("/")).read_text(encoding="utf-8")
        path = directory / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@ID@", name).replace("@WORD@", word), encoding="utf-8")
    return directory
