"""Maps older and newer spellings of settings to ours, in memory only: the file stays as it is."""

import re
from typing import Any

from msgspec import Struct

from openclaw.config.check import ConfigProblem
from openclaw.config.tree import Path, format_path
from openclaw.core.deferred import difflib
from openclaw.core.keys import AGENT_ID

MODES = {
    "deny": ("deny", "off"),
    "allowlist": ("allowlist", "off"),
    "ask": ("allowlist", "on-miss"),
    "auto": ("allowlist", "on-miss"),
    "full": ("full", "off"),
}
OURS = ("defaults", "list", "entries", "ownership")
"""Keys of `agents` that are not the name of an agent."""


class Migrated(Struct):
    """Data in our spelling, and where each moved part was before."""

    data: dict[str, Any]
    moved: list[tuple[Path, Path]] = []
    errors: list[ConfigProblem] = []
    warnings: list[ConfigProblem] = []

    def before(self, path: Path) -> Path:
        """The path in the file of `path` in the data."""
        for new, old in self.moved:
            if path[: len(new)] == new:
                return (*old, *path[len(new) :])
        return path


def migrate(data: dict[str, Any]) -> Migrated:
    """`data` in our spelling; whatever does not have the expected shape is left for the check."""
    result = Migrated(dict(data))
    if isinstance(data.get("agents"), dict):
        result.data["agents"] = _agents(data["agents"], result)
    if isinstance(data.get("tools"), dict):
        result.data["tools"] = _tools(data["tools"], result)
    return result


def _agents(agents: dict[str, Any], result: Migrated) -> dict[str, Any]:
    entries = agents.get("entries", {})
    named = agents.get("list", [])
    if not isinstance(entries, dict) or not isinstance(named, list):
        return agents
    kept = {key: value for key, value in agents.items() if key != "entries"}
    found: list[tuple[Path, str, dict[str, Any]]] = []
    for key, value in entries.items():
        if isinstance(value, dict):
            found.append((("agents", "entries", key), key, value))
        else:
            kept.setdefault("entries", {})[key] = value
    for key, value in agents.items():
        # A key close to one of ours is misspelt, and not the name of an agent.
        fits = key not in OURS and isinstance(value, dict) and AGENT_ID.match(key)
        if fits and not difflib.get_close_matches(key, OURS, cutoff=0.75):
            found.append((("agents", key), key, value))
            del kept[key]
    agents_list = list(named)
    taken = {entry.get("id") for entry in named if isinstance(entry, dict)}
    for old, key, value in found:
        if key in taken:
            result.warnings.append(ConfigProblem(format_path(old), "is ignored: agents.list has an agent of that name"))
            continue
        result.moved.append((("agents", "list", len(agents_list)), old))
        agents_list.append({"id": key, **value})
    return {**kept, "list": agents_list} if found else agents


def _tools(tools: dict[str, Any], result: Migrated) -> dict[str, Any]:
    bash, run = tools.get("bash"), tools.get("exec", {})
    if not isinstance(run, dict):
        return tools
    if isinstance(bash, dict):
        tools = {key: value for key, value in tools.items() if key != "bash"}
        result.moved += [(("tools", "exec", key), ("tools", "bash", key)) for key in bash if key not in run]
        run = {**bash, **run}
        result.warnings.append(ConfigProblem("tools.bash", "is an old name: write tools.exec"))
    if run.get("mode") is not None:
        run = _mode(run, run["mode"], result)
    return {**tools, "exec": run} if run else tools


def _mode(run: dict[str, Any], mode: Any, result: Migrated) -> dict[str, Any]:
    where = "tools.exec.mode"
    if not isinstance(mode, str) or mode not in MODES:
        known = isinstance(mode, str) and re.fullmatch(r"\w{1,20}", mode)
        found = f'"{mode}"' if known else "something else"
        expected = "one of " + ", ".join(MODES)
        result.errors.append(
            ConfigProblem(where, f"expected {expected}, found {found}", expected=expected, found=found)
        )
    elif "security" in run or "ask" in run:
        result.errors.append(ConfigProblem(where, "cannot stand beside security and ask: remove one or the other"))
    elif mode == "auto":
        result.warnings.append(ConfigProblem(where, "auto has no reviewer here: a person is asked instead"))
    rest = {key: value for key, value in run.items() if key != "mode"}
    if result.errors:
        return rest
    security, ask = MODES[str(mode)]
    return {**rest, "security": security, "ask": ask}
