"""One piece of a prompt: what it says, who said it, and on which side of the cache boundary it stands."""

from msgspec import Struct

from openclaw.core.text import Label, PromptText, block, literal, neutralise, units

OURS = "openclaw"


class Section(Struct, frozen=True, kw_only=True):
    id: str
    heading: str
    text: str
    source: str = OURS
    label: Label = "system"
    stable: bool = True
    raw_chars: int = 0
    """The size before cutting, where the piece is a file that was cut."""

    @property
    def rendered(self) -> str:
        return "\n".join(part for part in (self.heading, self.text) if part)

    @property
    def chars(self) -> int:
        return units(self.rendered)


def section(id: str, heading: str, *lines: str, stable: bool = True) -> Section | None:  # noqa: A002
    """A piece in our own words; empty lines are left out, and with nothing to say there is no piece."""
    text = "\n".join(line for line in lines if line)
    return Section(id=id, heading=heading, text=text, stable=stable) if text else None


def quoted(id: str, heading: str, text: PromptText | None, *, stable: bool = True) -> Section | None:  # noqa: A002
    """A piece someone else wrote, under our heading and with their label."""
    body = clean(text)
    if text is None or not body:
        return None
    return Section(id=id, heading=heading, text=body, source=text.source, label=text.label, stable=stable)


def clean(text: PromptText | None) -> str:
    """Text of others, without hidden characters or imitations of our markers, trimmed at both ends and at line ends."""
    if text is None:
        return ""
    return neutralise("\n".join(line.rstrip() for line in block(text.text).split("\n")).strip())


def trust(label: Label) -> str:
    """How a fence names `label`: the owner's, the agent's own, or nobody's we know."""
    return {"system": "owner", "owner": "owner", "workspace": "owner", "agent": "agent"}.get(label, "untrusted")


def lit(value: str) -> str:
    """An id or a path as one harmless line."""
    return neutralise(literal(value)).strip()
