"""Facts about the machine and the installation that are constant for the process."""

import platform
import socket
from pathlib import Path

from msgspec import Struct

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parents[1]


class PromptMachine(Struct, frozen=True, kw_only=True):
    """What a prompt says of the machine and the installation."""

    host: str
    os: str
    arch: str
    python: str
    shell: str
    timezone: str
    fence_id: str
    docs_path: str = ""
    source_path: str = ""


def detect_machine(timezone: str, shell: str, fence_id: str) -> PromptMachine:
    source = find_source()
    return PromptMachine(
        host=socket.gethostname(),
        os=f"{platform.system()} {platform.release()}".strip(),
        arch=platform.machine(),
        python=platform.python_version(),
        shell=Path(shell).name,
        timezone=timezone,
        fence_id=fence_id,
        docs_path=str(find_docs(source) or ""),
        source_path=str(source or ""),
    )


def find_source(checkout: Path = CHECKOUT) -> Path | None:
    """The root of the git checkout we run from, if we do."""
    is_ours = (checkout / ".git").exists() and (checkout / "src" / "openclaw" / "version.py").is_file()
    return checkout if is_ours else None


def find_docs(source: Path | None, package: Path = PACKAGE) -> Path | None:
    """The docs of this version: those of the checkout, or those the wheel carries."""
    for place in (source / "docs" if source else None, package / "docs"):
        if place is not None and (place / "configuration.md").is_file():
            return place
    return None
