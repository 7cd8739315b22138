"""Maps older and newer spellings of settings to ours, in memory only: the file stays as it is."""

import re
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from openclaw.config.check import ConfigProblem
from openclaw.config.tree import Path, format_path
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


class Migrated(Struct, frozen=True, kw_only=True):
    """Data in our spelling, and where each moved part was before."""

    data: dict[str, Any]
    moved: tuple[tuple[Path, Path], ...] = ()
    errors: tuple[ConfigProblem, ...] = ()
    warnings: tuple[ConfigProblem, ...] = ()

    def before(self, path: Path) -> Path:
        """The path in the file of `path` in the data."""
        for new, old in self.moved:
            if path[: len(new)] == new:
                return (*old, *path[len(new) :])
        return path


def migrate(data: dict[str, Any]) -> Migrated:
    """`data` in our spelling; whatever does not have the expected shape is left for the check."""
    moved: list[tuple[Path, Path]] = []
    errors: list[ConfigProblem] = []
    warnings: list[ConfigProblem] = []
    data = dict(data)
    if isinstance(data.get("agents"), dict):
        data["agents"] = _agents(data["agents"], moved, warnings)
    if isinstance(data.get("tools"), dict):
        data["tools"] = _tools(data["tools"], moved, errors, warnings)
    return Migrated(data=data, moved=tuple(moved), errors=tuple(errors), warnings=tuple(warnings))


def _agents(agents: dict[str, Any], moved: list[tuple[Path, Path]], warnings: list[ConfigProblem]) -> dict[str, Any]:
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
        if key not in OURS and _is_agent(key, value):
            found.append((("agents", key), key, value))
            del kept[key]
    agents_list = list(named)
    taken = {entry.get("id") for entry in named if isinstance(entry, dict)}
    for old, key, value in found:
        if key in taken:
            warnings.append(
                ConfigProblem(path=format_path(old), message="is ignored: agents.list has an agent of that name")
            )
            continue
        moved.append((("agents", "list", len(agents_list)), old))
        agents_list.append({"id": key, **value})
    return {**kept, "list": agents_list} if found else agents


def _is_agent(key: str, value: Any) -> bool:
    """Whether `agents.<key>` is an agent, and not a misspelt key."""
    return isinstance(value, dict) and bool(AGENT_ID.match(key)) and not get_close_matches(key, OURS, cutoff=0.75)


def _tools(
    tools: dict[str, Any], moved: list[tuple[Path, Path]], errors: list[ConfigProblem], warnings: list[ConfigProblem]
) -> dict[str, Any]:
    bash, run = tools.get("bash"), tools.get("exec", {})
    if not isinstance(run, dict):
        return tools
    if isinstance(bash, dict):
        tools = {key: value for key, value in tools.items() if key != "bash"}
        moved += [(("tools", "exec", key), ("tools", "bash", key)) for key in bash if key not in run]
        run = {**bash, **run}
        warnings.append(ConfigProblem(path="tools.bash", message="is an old name: write tools.exec"))
    mode = run.get("mode")
    if mode is not None:
        run = _mode(run, mode, moved, errors, warnings)
    return {**tools, "exec": run} if run else tools


def _mode(
    run: dict[str, Any],
    mode: Any,
    moved: list[tuple[Path, Path]],
    errors: list[ConfigProblem],
    warnings: list[ConfigProblem],
) -> dict[str, Any]:
    where = "tools.exec.mode"
    if not isinstance(mode, str) or mode not in MODES:
        known = isinstance(mode, str) and re.fullmatch(r"\w{1,20}", mode)
        found = f'"{mode}"' if known else "something else"
        expected = "one of " + ", ".join(MODES)
        errors.append(
            ConfigProblem(path=where, message=f"expected {expected}, found {found}", expected=expected, found=found)
        )
    elif "security" in run or "ask" in run:
        errors.append(
            ConfigProblem(path=where, message="cannot stand beside security and ask: remove one or the other")
        )
    elif mode == "auto":
        warnings.append(ConfigProblem(path=where, message="auto has no reviewer here: a person is asked instead"))
    rest = {key: value for key, value in run.items() if key != "mode"}
    if errors:
        return rest
    security, ask = MODES[str(mode)]
    return {**rest, "security": security, "ask": ask}
