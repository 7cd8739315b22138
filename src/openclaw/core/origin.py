"""Where text came from, as it travels with a message: into the transcript, to a sub-agent, into a note and back."""

from collections.abc import Iterable

from msgspec import Struct

from openclaw.core.text import Label, literal

UNTRUSTED: tuple[Label, ...] = ("stranger", "external", "tool", "skill")
"""Least trusted first."""
MOST = 24
SOURCE_CHARS = 160


class Origin(Struct, frozen=True):
    """A label and a name a person can follow: a file, an address, a tool."""

    label: Label
    source: str

    @property
    def untrusted(self) -> bool:
        return self.label in UNTRUSTED


def origin(label: Label, source: str) -> Origin:
    """An origin whose name fits on a line and does nothing there."""
    name = " ".join(literal(source.replace("\n", " ")).split())
    return Origin(label, name if len(name) <= SOURCE_CHARS else name[: SOURCE_CHARS - 1] + "…")


def merge_origins(*groups: Iterable[Origin]) -> tuple[Origin, ...]:
    """All untrusted origins of `groups`, each once; of very many, the first and the latest."""
    found = list(dict.fromkeys(each for group in groups for each in group if each.untrusted))
    if len(found) <= MOST:
        return tuple(found)
    worst = min(found, key=lambda each: UNTRUSTED.index(each.label))
    return tuple(dict.fromkeys((worst, *found[: MOST // 2], *found[-(MOST // 2 - 1) :])))
