"""Text on its way to a model: never a bare string, always with a source and a label."""

import unicodedata
from typing import Literal

from msgspec import Struct

Label = Literal["owner", "system", "agent", "workspace", "skill", "tool", "external", "stranger"]


class PromptText(Struct, frozen=True):
    """A string, where it came from, and how far it is trusted."""

    text: str
    source: str
    label: Label = "system"

    def __bool__(self) -> bool:
        return bool(self.text)


def literal(value: str) -> str:
    """`value` as one harmless line: control and format characters and line separators removed."""
    return "".join(
        char for char in value if unicodedata.category(char) not in ("Cc", "Cf") and char not in "\u2028\u2029"
    )
