"""Text from elsewhere as people may be shown it: what hides, reorders or moves is taken out or written out."""


def printable(text: str) -> str:
    """`text` without what would move the cursor, change colours or hide something; line breaks and tabs stay."""
    return "\n".join(line if line.isprintable() else _kept(line) for line in text.split("\n"))


def _kept(line: str) -> str:
    return "".join(char for char in line if char == "\t" or char.isprintable())


def spelled(text: str, kept: str = "\n") -> str:
    """`text` with what nobody would see written out: a command must look like what it does."""
    return "".join(char if char in kept or char.isprintable() else f"⟨U+{ord(char):04X}⟩" for char in text)
