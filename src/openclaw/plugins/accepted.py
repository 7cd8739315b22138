"""The record of accepted plugins, `plugins-lock.json`: by id, with a digest over all files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from openclaw.storage.atomic import JsonFile
from openclaw.storage.digests import Hasher, Unverifiable
from openclaw.storage.locks import hold_lock

FILE = "plugins-lock.json"


class AcceptedPlugin(Struct, frozen=True, kw_only=True, rename="camel"):
    """A plugin as it was accepted."""

    tree_sha256: str
    version: str = ""
    source: Literal["path", "archive"] = "path"
    spec: str = ""
    """Where it came from."""
    at: int = 0


class _Document(Struct, frozen=True, kw_only=True):
    version: int = 1
    plugins: Mapping[str, AcceptedPlugin] = field(default_factory=dict)


class AcceptedPlugins:
    def __init__(self, state: Path) -> None:
        self._file = JsonFile(state / FILE, _Document, "mend it, or move it away and install your plugins again")
        self.path = self._file.path

    def read(self) -> Mapping[str, AcceptedPlugin]:
        document = self._file.read()
        return document.plugins if document is not None else {}

    def forget(self, name: str) -> None:
        self.accept(name, None)

    def accept(self, name: str, entry: AcceptedPlugin | None) -> None:
        """Records a plugin as accepted; None forgets it."""
        with hold_lock(self.path.with_name(f"{FILE}.lock"), "the list of accepted plugins"):
            entries = {key: value for key, value in self.read().items() if key != name}
            if entry is not None:
                entries[name] = entry
            self._file.write(_Document(plugins=dict(sorted(entries.items()))))


def tree_digest(directory: Path) -> str:
    """The digest over everything in `directory`, read now; raises `Unverifiable`."""
    return Hasher(float).tree(str(directory)).sha256


def digest_of(directory: Path) -> str:
    """The same; when there is none, the reason, which matches no accepted digest."""
    try:
        return tree_digest(directory)
    except Unverifiable as error:
        return f"unverifiable: {error}"
