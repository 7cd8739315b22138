"""What the labels of a run depend on: what all runs share, what a background command has read, what was sent out."""

from collections.abc import Mapping

from msgspec import Struct, field

from openclaw.core.text import Origin
from openclaw.security.effects.opens import OpenWatch
from openclaw.security.effects.places import ProtectedPlaces
from openclaw.security.file_labels import CommandAtWork, LabelledFiles, TrustedPaths
from openclaw.security.redaction import Redactor
from openclaw.security.undo import UndoJournal
from openclaw.security.undo_plan import FileBefore


class JobLabels(Struct):
    """What a background command has read so far."""

    origins: tuple[Origin, ...] = ()
    watch: OpenWatch | None = None
    began: int = 0

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()


class Egress(Struct):
    """What was sent out since a person last asked for something, by the run and those it set to work."""

    requests: int = 20
    """Given addresses that may be fetched once untrusted text was read."""
    bytes: int = 512
    """Bytes that may be added to the addresses of sites the owner named."""
    fetched: set[str] = field(default_factory=set)
    composed: int = 0

    @property
    def within(self) -> bool:
        return self.composed <= self.bytes and len(self.fetched) <= self.requests


class LabelContext(Struct, frozen=True, kw_only=True):
    """What a run's labels depend on."""

    files: LabelledFiles
    places: TrustedPaths
    journal: UndoJournal
    redactor: Redactor
    """Knows the credentials."""
    jobs: dict[str, JobLabels]
    """What background commands have read, by name. Shared by all runs of the process."""
    protected: ProtectedPlaces = ProtectedPlaces()
    egress: Egress


class CallStart(Struct, frozen=True, kw_only=True):
    """The state noted before a call."""

    paths: tuple[str, ...] = ()
    kept: Mapping[str, FileBefore] = {}
    origins: tuple[Origin, ...] = ()
    at: int = 0
    watch: OpenWatch | None = None
    work: CommandAtWork | None = None
