"""Installs plugins, and writes the template of a new one."""

import contextlib
import re
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path

from openclaw.core.errors import Conflict, InvalidRequest
from openclaw.core.progress import Report, no_report
from openclaw.extensions.install import InspectFiles, InstallReview, StagedPackage, placing, remove_package, stage
from openclaw.plugins.accepted import AcceptedPlugin, AcceptedPlugins
from openclaw.plugins.manifest import FILE, PluginManifest, read
from openclaw.storage.archives import read_package


class StagedPlugin(StagedPackage, frozen=True, kw_only=True):
    """A plugin unpacked in the staging directory, with its findings."""

    manifest: PluginManifest


PluginReview = InstallReview[StagedPlugin]


def install(
    spec: Path,
    root: Path,
    *,
    ledger: AcceptedPlugins,
    inspect: InspectFiles,
    gatekeeper: PluginReview,
    now: float,
    force: bool = False,
    report: Report = no_report,
) -> StagedPlugin:
    """Installs the plugin in `spec` below `root`; removes everything again when it is stopped."""
    with stage_plugin(spec, root, inspect, force, report) as ready:
        gatekeeper.check(ready)
        with placing(ready, force) as move:
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
            move()
        return ready


@contextlib.contextmanager
def stage_plugin(
    spec: Path, root: Path, inspect: InspectFiles, force: bool = False, report: Report = no_report
) -> Iterator[StagedPlugin]:
    """Unpacks the plugin in `spec` beside its destination, for as long as the block lasts."""
    found = read_package(spec, FILE)
    manifest = read(found[FILE][0])
    if isinstance(manifest, str):
        raise InvalidRequest(f"{spec} cannot be installed: {manifest}")
    target = root / manifest.id
    if target.exists() and not force:
        raise Conflict(f"{manifest.id} is already installed: --force replaces it, openclaw plugins update renews it")
    with stage(StagedPlugin, spec, target, found, inspect, report, manifest=manifest) as ready:
        yield ready


def remove(name: str, root: Path, ledger: AcceptedPlugins) -> None:
    """Removes an installed plugin; its state directory stays."""
    remove_package(root / name, root, partial(ledger.forget, name))


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
