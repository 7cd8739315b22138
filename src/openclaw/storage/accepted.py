"""What people accepted, by name or directory: one JSON file for each kind of content, changed under its lock."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import defstruct, field

from openclaw.storage.atomic import JsonFile
from openclaw.storage.locks import hold_lock, shared

E = TypeVar("E")


class AcceptedStore(Generic[E]):
    """`{"version": 1, <kind>: {…}}` at `path`, with an `entry` for each thing accepted. Others may change it too.

    A file that cannot be used raises `StateError` with the advice `otherwise`: then nothing counts as accepted.
    """

    def __init__(self, path: Path, kind: str, entry: type[E], otherwise: str) -> None:
        fields = [("version", int, 1), (kind, Mapping[str, entry], field(default_factory=dict))]  # type: ignore[valid-type]
        self._document: Any = defstruct("Accepted", fields, frozen=True, kw_only=True)
        self._file: JsonFile[Any] = JsonFile(path, self._document, otherwise)
        self._kind = kind
        self.path = path

    def read(self) -> Mapping[str, E]:
        """All entries; costs one `stat` while nothing changes."""
        document = self._file.read()
        found: Mapping[str, E] = getattr(document, self._kind) if document is not None else {}
        return found

    def put(self, name: str, entry: E) -> None:
        with self.changing() as entries:
            entries[name] = entry

    def forget(self, name: str) -> None:
        with self.changing() as entries:
            entries.pop(name, None)

    @contextmanager
    def changing(self) -> Iterator[dict[str, E]]:
        """The entries to change; written at the end when they differ."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        with hold_lock(lock, f"the list of accepted {self._kind}"), shared(self.path):
            before = self.read()
            entries = dict(before)
            yield entries
            if entries != before:
                self._file.write(self._document(**{self._kind: dict(sorted(entries.items()))}))
