"""Which browser there is on this machine."""

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from openclaw.core.errors import Unavailable

INSTALL = "The browser tool needs the extra `browser`: install it with: pip install 'openclaw-py[browser]'"
NO_BROWSER = "No Chromium was found: install one (on Debian: apt install chromium), or set browser.executablePath."
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "brave-browser", "microsoft-edge")
_MAC = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Brave Browser.app/Contents/MacOS/Brave Browser",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)


def is_installed() -> bool:
    return find_spec("playwright") is not None


def executable(configured: str, environ: Mapping[str, str]) -> str:
    """The program to start; raises when there is none."""
    if configured:
        path = Path(configured).expanduser()
        if not path.is_file() or not os.access(path, os.X_OK):
            raise Unavailable(f"browser.executablePath: {path} is not a program")
        return str(path)
    for name in NAMES:
        found = shutil.which(name, path=environ.get("PATH"))
        if found is not None:
            return found
    if sys.platform == "darwin":
        for place in _MAC:
            if Path(place).is_file():
                return place
    raise Unavailable(NO_BROWSER)


def check_root(no_sandbox: bool) -> None:
    """Chromium refuses to run as root with its own sandbox, and says so only to nobody."""
    if not no_sandbox and hasattr(os, "geteuid") and os.geteuid() == 0:
        raise Unavailable(
            "Chromium does not start as root with its sandbox on: run OpenClaw as another user, or set "
            "browser.noSandbox to true and accept that a hostile page meets one wall less."
        )
