"""What a command really starts: the content of its programs and scripts, so that an exchanged one is noticed."""

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/nix/store/", "/gnu/store/")
"""Programs of the system change with its updates, and only whoever may do everything can change them."""
SCRIPTS = (".sh", ".bash", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".r", ".ps1")
LARGEST = 256 * 1024 * 1024


def identity(words: Sequence[str], cwd: str, resolve: Callable[[str], str | None]) -> str:
    """A name for the content of what `words` start; empty when only the system's own programs are named."""
    parts = []
    for place, word in enumerate(words):
        path = (resolve(word) if place == 0 or "/" in word else None) or os.path.join(cwd, word)  # noqa: PTH118
        if "\0" in path or path.startswith(SYSTEM):
            continue
        if digest := _digest(Path(path)):
            parts.append(f"{path}\0{digest}")
    if not parts:
        return ""
    return "sha256:" + hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _digest(path: Path) -> str:
    """The content of a file that can be run; empty for anything else."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            return ""
        runs = about.st_mode & 0o111 or path.suffix.lower() in SCRIPTS
        if not runs:
            return ""
        if about.st_size > LARGEST:  # nobody waits for that; its size and time tell almost as much
            return f"{about.st_size}:{about.st_mtime_ns}:{about.st_ino}"
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""
