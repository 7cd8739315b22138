"""When a box was made and last used, as the times of two files beside what it sees."""

from pathlib import Path

MADE, USED = "made", "used"


def stamp(root: str) -> None:
    """Says that the box at `root` is used now."""
    made = Path(root, MADE)
    if not made.exists():
        made.touch(mode=0o600)
    Path(root, USED).touch(mode=0o600)
