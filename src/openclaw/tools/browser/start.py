"""How a helper starts its browser."""

from msgspec import Struct


class BrowserStart(Struct, frozen=True, kw_only=True):
    executable: str
    profile: str
    """The directory of cookies and everything else the browser keeps."""
    downloads: str
    """Where files go; nothing is written anywhere else."""
    headless: bool = True
    no_sandbox: bool = False
    evaluate: bool = True
    args: tuple[str, ...] = ()
    allow_private: bool = False
    allowed_hosts: tuple[str, ...] = ()
    blocked_hosts: tuple[str, ...] = ()
