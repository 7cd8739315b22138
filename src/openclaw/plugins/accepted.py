"""The record of accepted plugins, `plugins-lock.json`: by id, with a digest over all files."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from openclaw.storage.accepted import AcceptedStore
from openclaw.storage.digests import Hasher, Unverifiable

FILE = "plugins-lock.json"


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
        super().__init__(state / FILE, "plugins", AcceptedPlugin, otherwise)


def digest_of(directory: Path) -> str:
    """The digest over everything in `directory`, read now; when there is none, the reason, which matches no digest."""
    try:
        return Hasher(float).tree(str(directory)).sha256
    except Unverifiable as error:
        return f"unverifiable: {error}"
