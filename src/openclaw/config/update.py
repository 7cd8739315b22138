"""Updates the installation with the program that made it: pip, uv or pipx. A checkout is its owner's to update."""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from openclaw.process.environment import find_executable
from openclaw.tools.voice.speech import run_program

NAME = "openclaw-py"
UPDATE_SECONDS = 600.0
PACKAGES = Path(__file__).parents[2]
"""Where the package is installed; its notes of the installation are beside it."""
UpdateInstallation = Callable[[], Awaitable[tuple[str, str]]]
"""Updates the installation; gives the versions before and after."""


def find_command(packages: Path, prefix: Path, path: str) -> list[str] | None:
    """The command that updates what is in `packages`, below `prefix`; None when nobody could run one."""
    notes = _notes(packages)
    if notes is None or (notes / "direct_url.json").exists():  # a checkout, a file, a repository: nothing newer to get
        return None
    pipx, uv = find_executable("pipx", path), find_executable("uv", path)
    if prefix.parts[-3:-1] == ("pipx", "venvs"):
        return [pipx, "upgrade", NAME] if pipx else None
    if prefix.parts[-3:-1] == ("uv", "tools"):
        return [uv, "tool", "upgrade", NAME] if uv else None
    installer = notes / "INSTALLER"
    if installer.exists() and installer.read_text().strip() == "uv" and uv:
        return [uv, "pip", "install", "--python", sys.executable, "--upgrade", NAME]
    managed = Path(os.__file__).parent / "EXTERNALLY-MANAGED"
    if find_spec("pip") is None or (prefix == Path(sys.base_prefix) and managed.exists()):
        return None
    return [sys.executable, "-m", "pip", "install", "--upgrade", NAME]


def installation_update(environ: Mapping[str, str]) -> UpdateInstallation | None:
    """What updates this installation; None when it cannot be updated from here."""
    command = find_command(PACKAGES, Path(sys.prefix), environ.get("PATH", ""))
    return partial(_update, command, dict(environ)) if command else None


async def _update(command: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str]:
    before = _version()
    await run_program(command, b"", UPDATE_SECONDS, environ)
    return before, _version()


def _notes(packages: Path) -> Path | None:
    return next(iter(packages.glob("openclaw_py-*.dist-info")), None)


def _version() -> str:
    notes = _notes(PACKAGES)
    return notes.name.removeprefix("openclaw_py-").removesuffix(".dist-info") if notes else ""
