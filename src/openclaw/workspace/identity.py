"""What IDENTITY.md says about the agent, for the places that show it."""

import re

from msgspec import Struct

_LINE = re.compile(r"^\s*[-*]\s*(?:\*\*)?\s*(name|creature|vibe|emoji|avatar)\s*:?\s*(?:\*\*)?\s*:?\s*(.*?)\s*$", re.I)
_PLACEHOLDER = re.compile(r"^[_*]*\(.*\)[_*]*$")


class AgentIdentity(Struct, frozen=True, kw_only=True):
    name: str = ""
    creature: str = ""
    vibe: str = ""
    emoji: str = ""
    avatar: str = ""


def parse(text: str) -> AgentIdentity:
    """The values of the `- Label: value` lines; the first wins, and a placeholder in parentheses is none."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found and ":" in line and found[2] and not _PLACEHOLDER.match(found[2]):
            values.setdefault(found[1].lower(), found[2])
    return AgentIdentity(**values)
