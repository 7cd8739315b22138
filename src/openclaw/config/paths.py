"""Where the state and the configuration live: a decision over the environment, nothing is read or made."""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from openclaw.core.errors import ConfigError

PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


class Home(Struct, frozen=True, kw_only=True):
    """The directory of everything we keep, and the configuration file."""

    state: Path
    config: Path
    profile: str | None = None

    @property
    def last_good(self) -> Path:
        return self.config.with_name(self.config.name + ".last-good")


def locate(environ: Mapping[str, str], home: Path, cwd: Path) -> Home:
    """Where this user's installation is; `home` and `cwd` stand for `~` and for relative paths."""
    if environ.get("OPENCLAW_HOME"):
        home = _absolute(environ["OPENCLAW_HOME"], home, cwd)
    profile = environ.get("OPENCLAW_PROFILE") or None
    if profile == "default":
        profile = None
    if profile is not None and not PROFILE.match(profile):
        raise ConfigError(
            f"{profile!r} is not a profile name: use letters, digits, - and _ (at most 64, starting with a letter"
            " or digit) in OPENCLAW_PROFILE or --profile"
        )
    state = home / (f".openclaw-{profile}" if profile else ".openclaw")
    if environ.get("OPENCLAW_STATE_DIR"):
        state = _absolute(environ["OPENCLAW_STATE_DIR"], home, cwd)
    config = state / "openclaw.json"
    if environ.get("OPENCLAW_CONFIG_PATH"):
        config = _absolute(environ["OPENCLAW_CONFIG_PATH"], home, cwd)
    return Home(state=state, config=config, profile=profile)


def _absolute(text: str, home: Path, cwd: Path) -> Path:
    if text == "~" or text.startswith(("~/", "~\\")):
        return home / text[2:]
    return cwd / text
