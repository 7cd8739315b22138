"""A workspace file as it was found, and the names an agent's files have."""

from msgspec import Struct

from openclaw.core.text import Label

ALWAYS = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md")
WHEN_PRESENT = ("BOOTSTRAP.md", "MEMORY.md", "memory.md")
BOOTSTRAP_FILES = ALWAYS + WHEN_PRESENT


class WorkspaceFile(Struct, frozen=True, kw_only=True):
    """One file as it was found. A file that cannot be used says why instead of failing the run."""

    name: str
    path: str
    content: str = ""
    missing: bool = False
    problem: str = ""
    """Why it could not be read."""
    note: str = ""
    """What a person should know about a file that could be read: bad bytes, only partly read."""
    raw_chars: int | None = None
    """The whole file's size when `content` is only its beginning and end."""
    inode: str = ""
    """`device:inode`: two names of one file share it."""
    label: Label = "workspace"
