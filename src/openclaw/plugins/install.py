"""What installing a plugin or a hook takes beside the loader, and the template of a new plugin."""

import re
from collections.abc import Callable
from pathlib import Path

from openclaw.core.errors import Conflict, InvalidRequest
from openclaw.extensions.install import InstallReview, StagedPackage
from openclaw.plugins.find import AcceptedPlugin, AcceptedPlugins
from openclaw.plugins.hooks.find import FILE as HOOK_FILE
from openclaw.plugins.hooks.manifest import HookManifest
from openclaw.plugins.hooks.manifest import parse as parse_hook
from openclaw.plugins.manifest import FILE, PluginManifest, read


class StagedPlugin(StagedPackage, frozen=True, kw_only=True):
    """A plugin unpacked in the staging directory, with its findings."""

    noun = "plugin"
    file = FILE

    manifest: PluginManifest

    @staticmethod
    def read(data: bytes, directory: str) -> PluginManifest:
        found = read(data)
        if isinstance(found, str):
            raise ValueError(found)
        return found

    @staticmethod
    def directory_name(manifest: PluginManifest) -> str:
        return manifest.id


PluginReview = InstallReview[StagedPlugin]


def put(ready: StagedPlugin, move: Callable[[], None], *, ledger: AcceptedPlugins, now: int) -> None:
    """Accepts a plugin and moves it into place."""
    # In this order: a gateway that starts in between would refuse what nobody has accepted.
    entry = AcceptedPlugin(
        tree_sha256=ready.tree_sha256, version=ready.manifest.version, source=ready.kind, spec=ready.spec, at=now
    )
    ledger.put(ready.manifest.id, entry)
    move()


class StagedHook(StagedPackage, frozen=True, kw_only=True):
    """A hook unpacked and scanned, not yet installed."""

    noun = "hook"
    file = HOOK_FILE

    manifest: HookManifest

    @staticmethod
    def read(data: bytes, directory: str) -> HookManifest:
        return parse_hook(data.decode(), directory)


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
        text = Path(__file__).parent.joinpath("template", *source.split("/")).read_text(encoding="utf-8")
        path = directory / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@ID@", name).replace("@WORD@", word), encoding="utf-8")
    return directory
