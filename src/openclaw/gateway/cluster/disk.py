"""Whether this machine's disk takes anything: a node that cannot write leaves its work to the others."""

import tempfile
from pathlib import Path

ROOM = 1 << 20
"""Bytes that must fit. Copies of conversations, locks and indexes are written all the time, and most are smaller."""


def disk_trouble(directory: Path) -> str:
    """What keeps us from writing there; empty when nothing does."""
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(ROOM))
            file.flush()  # all of it, or an error: a single write may also take a part
    except OSError as error:
        return error.strerror or str(error)
    return ""
