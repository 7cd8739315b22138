"""Environment variables for the configuration: their sources, and `${NAME}` in the file."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from openclaw.config.check import ConfigProblem
from openclaw.config.tree import Path, format_path, put

OVERRIDES: Mapping[str, Path] = {
    "OPENCLAW_LOG_LEVEL": ("logging", "level"),
    "OPENCLAW_SESSION_WRITE_LOCK_ACQUIRE_TIMEOUT_MS": ("session", "writeLock", "acquireTimeoutMs"),
    "OPENCLAW_SESSION_WRITE_LOCK_STALE_MS": ("session", "writeLock", "staleMs"),
    "OPENCLAW_SESSION_WRITE_LOCK_MAX_HOLD_MS": ("session", "writeLock", "maxHoldMs"),
}
"""Variables of the process that override the file."""

_REFERENCE = re.compile(r"\$?\$\{([A-Z_][A-Z0-9_]*)\}")
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_GONE = object()


class Substituted(Struct, frozen=True, kw_only=True):
    """Data with its variables filled in."""

    data: Any
    filled: frozenset[Path] = frozenset()
    """Paths whose value came from a variable."""
    missing: tuple[tuple[Path, str], ...] = ()
    """Values left out because a variable is not set."""


def substitute(data: Any, variables: Mapping[str, str]) -> Substituted:
    """Replaces every `${NAME}` in `data`; leaves out a value whose variable is missing or empty."""
    filled: set[Path] = set()
    missing: list[tuple[Path, str]] = []

    def text(value: str, path: Path) -> Any:
        lacking = [
            found[1]
            for found in _REFERENCE.finditer(value)
            if not found[0].startswith("$$") and not variables.get(found[1])
        ]
        if lacking:
            missing.append((path, lacking[0]))
            return _GONE

        def fill(found: re.Match[str]) -> str:
            if found[0].startswith("$$"):
                return found[0][1:]
            filled.add(path)
            return variables[found[1]]

        return _REFERENCE.sub(fill, value)

    def walk(value: Any, path: Path) -> Any:
        if isinstance(value, str):
            return text(value, path) if "${" in value else value
        if isinstance(value, dict):
            items = ((key, walk(item, (*path, key))) for key, item in value.items())
            return {key: item for key, item in items if item is not _GONE}
        if isinstance(value, list):
            kept: list[Any] = []
            for item in value:
                item = walk(item, (*path, len(kept)))
                kept += [] if item is _GONE else [item]
            return kept
        return value

    return Substituted(data=walk(data, ()), filled=frozenset(filled), missing=tuple(missing))


def missing_problem(path: Path, name: str) -> ConfigProblem:
    return ConfigProblem(
        format_path(path),
        f"${{{name}}} is not set, so this value is left out: set {name} in the environment, in .env beside"
        " the state, or in env.vars",
    )


def apply_overrides(data: Any, environ: Mapping[str, str]) -> tuple[Any, list[ConfigProblem]]:
    """Applies the variables that override the file."""
    problems: list[ConfigProblem] = []
    for name, path in OVERRIDES.items():
        given = environ.get(name, "").strip()
        if not given or any(not isinstance(_inner(data, path[:depth]), dict | None) for depth in range(len(path))):
            continue
        if path[0] == "session" and not given.isdecimal():
            problems.append(ConfigProblem(name, "expected whole milliseconds; it is ignored"))
            continue
        data = put(data, path, int(given) if path[0] == "session" else given)
    return data, problems


def _inner(data: Any, path: Path) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def parse_dotenv(text: str) -> tuple[dict[str, str], list[int]]:
    """The variables of a `.env` file, and the numbers of invalid lines. Later lines win; nothing is expanded."""
    found: dict[str, str] = {}
    bad: list[int] = []
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _ASSIGNMENT.match(line)
        value = _dotenv_value(match[2]) if match else None
        if match is None or value is None:
            bad.append(number)
        else:
            found[match[1]] = value
    return found, bad


def _dotenv_value(raw: str) -> str | None:
    if raw[:1] in ("'", '"'):
        quoted = re.fullmatch(r"""(?:'([^']*)'|"((?:[^"\\]|\\.)*)")\s*(?:#.*)?""", raw)
        if quoted is None:
            return None
        if quoted[1] is not None:
            return quoted[1]
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted[2])
    return re.split(r"(?:^|\s)#", raw, maxsplit=1)[0].strip()


def merge_variables(*layers: Mapping[str, str]) -> dict[str, str]:
    """One set of variables; the first layer that has a value for a name wins."""
    merged: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.items():
            if value and not merged.get(name):
                merged[name] = value
    return merged


def own_vars(data: Any, variables: Mapping[str, str]) -> dict[str, str]:
    """`env.vars` of the file as text, with its references filled in."""
    given = _inner(data, ("env", "vars"))
    if not isinstance(given, dict):
        return {}
    plain = substitute(given, variables).data
    return {name: value for name, value in plain.items() if isinstance(value, str)}


def shell_wanted(data: Any, environ: Mapping[str, str]) -> float:
    """Seconds to wait for the login shell, 0 when it is not asked."""
    settings = _inner(data, ("env", "shellEnv"))
    settings = settings if isinstance(settings, dict) else {}
    timeout = settings.get("timeoutMs", 15_000)
    if environ.get("OPENCLAW_LOAD_SHELL_ENV") != "1" and settings.get("enabled") is not True:
        return 0.0
    return timeout / 1000 if isinstance(timeout, int) and timeout > 0 else 15.0


def from_login_shell(names: Collection[str], environ: Mapping[str, str], timeout: float) -> dict[str, str]:
    """The values of `names` in the login shell; empty when it does not answer in time."""
    from openclaw.process.child import ask_program_blocking  # brings asyncio, and few homes ask their shell

    try:
        # The names are never part of the command: the shell prints everything and we pick. What a profile starts in the
        # background (an agent for keys) stays, and is not waited for.
        shell = [environ.get("SHELL") or "/bin/sh", "-l", "-c", "env -0"]
        said = ask_program_blocking(shell, env=environ, seconds=timeout, leave=True)
    except OSError:
        return {}
    if said.why:
        return {}
    pairs = (entry.partition("=") for entry in said.out.decode("utf-8", "replace").split("\0"))
    return {name: value for name, _, value in pairs if name in names and value}
