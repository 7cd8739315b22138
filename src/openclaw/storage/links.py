"""The one path of a file without links, which policy decides on."""

import os
import sys
from contextlib import suppress


def real_path(path: str | os.PathLike[str]) -> str:
    """`path` with every link resolved, as far as it exists.

    On Linux the kernel follows the links in one go and says where it arrived: a quarter of the time of looking at each
    directory by itself, and nobody can replace one in between.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # it does not exist, or only in part
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                found = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 (asked several times in each call)
            finally:
                os.close(descriptor)
            # Anything else is no place in this tree: a pipe, what was deleted meanwhile.
            if found.startswith("/") and not found.endswith(" (deleted)"):
                return found
    return os.path.realpath(path)
