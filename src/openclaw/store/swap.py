"""Putting one directory in the place of another so that a crash leaves the old or the new one, never neither."""

import shutil
from pathlib import Path


def swap(new: Path, target: Path, old: Path) -> None:
    """`new` becomes `target`; what stood there waits as `old` until it has."""
    moved = target.exists()
    if moved:
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if moved:
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def mend(root: Path, prefix: str) -> None:
    """Finishes or takes back what was cut off half way; `prefix` marks what waits. The caller holds the root's lock."""
    for old in root.glob(f"{prefix}*"):
        target = root / old.name.removeprefix(prefix)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)
