"""A small JSON document of a known type: read again only when it changed, written whole or not at all."""

from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from openclaw.core.errors import StateError
from openclaw.store import atomic
from openclaw.store.tree import identity_of

T = TypeVar("T")


class JsonFile(Generic[T]):
    """The document at `path`; `otherwise` tells a person what to do with one that cannot be read."""

    def __init__(self, path: Path, kind: type[T], otherwise: str) -> None:
        self.path = path
        self._kind = kind
        self._otherwise = otherwise
        self._known: tuple[object, T] | None = None

    def read(self) -> T | None:
        """None when there is none; raises `StateError` when it cannot be used."""
        try:
            identity = identity_of(self.path.stat())
            if self._known is None or self._known[0] != identity:
                self._known = (identity, msgspec.json.decode(self.path.read_bytes(), type=self._kind))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"cannot read {self.path}: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise StateError(f"{self.path} cannot be read ({error}): {self._otherwise}") from error
        return self._known[1]

    def write(self, document: T) -> None:
        atomic.replace(self.path, msgspec.json.format(msgspec.json.encode(document), indent=2))
