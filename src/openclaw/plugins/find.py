"""Discovers plugins in directories the settings name, among installed ones and in packages; imports nothing.

`plugins-lock.json` has those that people accepted, by id, with a digest over all files."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from openclaw.extensions.find import package_places, subdirectories
from openclaw.plugins.manifest import FILE, MAX_BYTES, PluginManifest, read
from openclaw.storage.accepted import AcceptedStore
from openclaw.storage.digests import Hasher, Unverifiable, read_regular

GROUP = "openclaw.plugins"
Source = Literal["path", "installed", "package", "bundled"]


class FoundPlugin(Struct, frozen=True, kw_only=True):
    """A plugin on disk."""

    manifest: PluginManifest
    directory: Path
    source: Source
    entry: str

    @property
    def id(self) -> str:
        return self.manifest.id


class UnusablePlugin(Struct, frozen=True, kw_only=True):
    """A directory or package that claims to be a plugin and cannot be one."""

    directory: Path
    source: Source
    why: str


def discover_plugins(
    paths: Iterable[Path], installed: Path
) -> tuple[tuple[FoundPlugin, ...], tuple[UnusablePlugin, ...]]:
    """Finds every plugin, in order of precedence, and everything that claims to be one and cannot."""
    found: dict[str, FoundPlugin] = {}
    broken: list[UnusablePlugin] = []
    for candidate in (*_directories(paths, installed), *_packages()):
        if isinstance(candidate, UnusablePlugin):
            broken.append(candidate)
        elif candidate.id in found:
            first = found[candidate.id]
            if first.directory != candidate.directory:
                why = f"another plugin is called {candidate.id} and comes first: {first.directory}"
                broken.append(UnusablePlugin(directory=candidate.directory, source=candidate.source, why=why))
        else:
            found[candidate.id] = candidate
    return tuple(found.values()), tuple(broken)


def read_plugin(directory: Path, source: Source = "path") -> FoundPlugin | UnusablePlugin:
    """Reads the plugin in `directory`."""
    try:
        resolved = directory.resolve(strict=True)
        manifest = _unsafe(resolved) or read(read_regular(str(resolved / FILE), MAX_BYTES)[0])
    except (FileNotFoundError, NotADirectoryError):
        manifest = f"there is no {FILE} in it"
    except OSError as error:
        manifest = f"{FILE} cannot be read: {error.strerror}"
    except Unverifiable as error:
        manifest = str(error)
    if isinstance(manifest, str):
        return UnusablePlugin(directory=directory, source=source, why=manifest)
    return FoundPlugin(manifest=manifest, directory=resolved, source=source, entry=manifest.entry)


def _directories(paths: Iterable[Path], installed: Path) -> Iterator[FoundPlugin | UnusablePlugin]:
    for path in paths:
        if (path / FILE).exists() or not path.is_dir():
            yield read_plugin(path)
        else:
            yield from (read_plugin(child) for child in _children(path))
    for child in _children(installed):
        if child.is_symlink():
            yield UnusablePlugin(directory=child, source="installed", why="it is a link: install it instead")
        else:
            yield read_plugin(child, "installed")


def _children(root: Path) -> list[Path]:
    try:
        return subdirectories(root)
    except OSError:
        return []


def _packages() -> Iterator[FoundPlugin | UnusablePlugin]:
    """Plugins among the installed packages. An entry point names `package.module:function`; nothing is imported."""
    for entry, places, module in package_places(GROUP):
        if not places:
            top = entry.partition(":")[0].partition(".")[0].strip()
            yield UnusablePlugin(directory=Path(top), source="package", why=f"the package {top} is not there")
            continue
        inner = places[0] / module
        place = next((way for way in (inner, inner.parent, places[0]) if (way / FILE).exists()), inner)
        found = read_plugin(place, "package")
        yield structs.replace(found, entry=entry) if isinstance(found, FoundPlugin) else found


def _unsafe(directory: Path) -> str:
    """Why another user could change the plugin's files; empty when none could."""
    if os.name == "nt":
        return ""
    about = directory.stat()
    if about.st_mode & stat.S_IWOTH:
        return f"everyone on this machine can write to it: chmod o-w {directory}"
    if about.st_uid not in (0, os.getuid()):
        return "it belongs to another user"
    return ""


# What was accepted.

ACCEPTED = "plugins-lock.json"


class AcceptedPlugin(Struct, frozen=True, kw_only=True, rename="camel"):
    """A plugin as it was accepted."""

    tree_sha256: str
    version: str = ""
    source: Literal["path", "archive"] = "path"
    spec: str = ""
    """Where it came from."""
    at: int = 0


class AcceptedPlugins(AcceptedStore[AcceptedPlugin]):
    def __init__(self, state: Path) -> None:
        otherwise = "mend it, or move it away and install your plugins again"
        super().__init__(state / ACCEPTED, "plugins", AcceptedPlugin, otherwise)


def digest_of(directory: Path) -> str:
    """The digest over everything in `directory`, read now; when there is none, the reason, which matches no digest."""
    try:
        return Hasher(float).tree(str(directory)).sha256
    except Unverifiable as error:
        return f"unverifiable: {error}"
