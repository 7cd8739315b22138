"""The `gateway` tool: the agent reads and changes the configuration. The owner approves every change."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from openclaw.config import load as loading
from openclaw.config.check import lookup
from openclaw.config.edit import Editor
from openclaw.config.redact import redact
from openclaw.config.schema import json_schema
from openclaw.config.source import parse
from openclaw.config.tree import parse_path
from openclaw.config.update import UpdateInstallation
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.tool import ChecksCalls, Effects, Output, ToolContext, ToolSpec, tool_spec
from openclaw.process.environment import Environment
from openclaw.tools.base import UNSUPPORTED_PARAMETERS, SimpleTool, json_output, parse_args

Action = Literal[
    "config.get", "config.schema", "config.schema.lookup", "config.patch", "config.apply", "restart", "update.run"
]
WRITES = frozenset({"config.patch", "config.apply", "restart", "update.run"})
# Settings that protect the owner from the agent are not the agent's to change, under any of their names.
_PROTECTED = re.compile(r"(?:^|\.)(?:tools\.(?:exec\.(?:ask|security|mode)|bash)|security|commands|\$include)(?:\.|$)")
SHOWN_CHARS = 40_000
NO_RESTART = "This gateway cannot restart itself: ask the user to restart it."


class ConfigArgs(Struct, frozen=True, rename="camel"):
    action: Action
    path: str = ""
    raw: str = ""
    base_hash: str = ""
    note: str = ""


@cache
def config_spec(*, updates: bool) -> ToolSpec:
    """The tool, with update.run where the installation can be updated."""
    actions = [each for each in get_args(Action) if updates or each != "update.run"]
    return tool_spec(
        "gateway",
        "Gateway",
        "configuration and restarts",
        "The gateway's configuration: config.get (with path), config.schema.lookup (path), config.schema, and, only "
        "when the user asks for it, config.patch or config.apply (raw with baseHash from config.get)"
        f"{', update.run' if updates else ''} or restart. "
        "The user approves changes; exec approval settings cannot be changed here.",
        {
            "action": {"type": "string", "enum": actions, "description": "What to do"},
            "path": {"type": "string", "description": "A setting, for example agents.defaults.model"},
            "raw": {"type": "string", "description": "config.patch: a JSON object to merge; config.apply: the file"},
            "baseHash": {"type": "string", "description": "The hash of your last config.get"},
            "note": {"type": "string", "description": "Why, for the log"},
        },
        "action",
        absent=UNSUPPORTED_PARAMETERS,
    )


class ConfigTool(SimpleTool, ChecksCalls):
    """`gateway`: reads the configuration, and changes it except where that would weaken the owner's protection."""

    spec = config_spec(updates=False)

    def __init__(
        self,
        environment: Environment,
        restart: Callable[[str], None] | None = None,
        update: UpdateInstallation | None = None,
    ) -> None:
        self.spec = config_spec(updates=update is not None)
        self._update = update
        self._home = environment.home
        self._editor = Editor(environment.home, environment.environ, "the assistant, with its gateway tool")
        self._restart = restart

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.CHANGES_CONFIG if args.get("action") in WRITES else Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({"gateway config"} if args.get("action") in WRITES else ())

    def check(self, args: Mapping[str, Any]) -> None:
        """Tries a change without writing it, so that nobody is asked about one that cannot be made."""
        wanted = parse_args(args, ConfigArgs)
        if wanted.action == "restart" and self._restart is None:
            raise InvalidRequest(NO_RESTART)
        if wanted.action == "update.run" and self._update is None:
            raise InvalidRequest("This installation cannot be updated from here: ask the user to do it.")
        if wanted.action in ("config.patch", "config.apply"):
            self._change(wanted, dry_run=True)

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse_args(args, ConfigArgs)
        match wanted.action:
            case "config.get":
                return self._get(wanted.path)
            case "config.schema":
                return Output.of(msgspec.json.encode(json_schema()).decode()[:SHOWN_CHARS])
            case "config.schema.lookup":
                return _lookup(wanted.path)
            case "restart":
                if self._restart is None:
                    raise InvalidRequest(NO_RESTART)
                self._restart(wanted.note or f"asked for in {context.session_key}")
                return json_output({"ok": True, "restarting": True})
            case "update.run":
                return await self._run_update(wanted.note)
        return self._change(wanted)

    async def _run_update(self, note: str) -> Output:
        assert self._update is not None, "checked before"
        before, after = await self._update()
        restarts = before != after and self._restart is not None
        if restarts and self._restart is not None:
            self._restart(note or f"updated from {before} to {after}")
        return json_output({"ok": True, "before": before, "after": after, "restarting": restarts})

    def _get(self, path: str) -> Output:
        source = loading.read(self._home.config)
        value: Any = redact(parse(source.text, str(self._home.config))) if source.exists else {}
        for part in parse_path(path) if path else ():
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError) as error:
                raise NotFound(f"{path} is not set: config.schema.lookup shows its default") from error
        return json_output({"ok": True, "result": {"hash": source.hash, "path": path, "config": value}})

    def _change(self, wanted: ConfigArgs, *, dry_run: bool = False) -> Output:
        if not wanted.raw.strip():
            raise InvalidRequest("raw is missing: the JSON to merge (config.patch) or the whole file (config.apply).")
        source = loading.read(self._home.config)
        before: Any = parse(source.text, str(self._home.config)) if source.exists else {}
        if source.exists and not wanted.base_hash:
            raise InvalidRequest("baseHash is missing: give the hash of your last config.get.")
        given = parse(wanted.raw, "raw")
        if not isinstance(given, dict):
            raise InvalidRequest("raw must be a JSON object.")
        after = _merged(before, given) if wanted.action == "config.patch" else given
        refuse_protected(before, after)
        base = wanted.base_hash or None
        if wanted.action == "config.patch":
            change = self._editor.patch(given, base_hash=base, dry_run=dry_run)
        else:
            change = self._editor.apply(wanted.raw, base_hash=base, dry_run=dry_run)
        return json_output({"ok": True, "hash": change.after, "changedPaths": [str(path) for path in change.changed]})


def refuse_protected(before: Any, after: Any) -> None:
    """Refuses a change of settings that protect the owner: set, changed or removed."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    touched = sorted(
        path
        for path in {*old, *new}
        if _PROTECTED.search(path) and (path not in old or path not in new or old[path] != new[path])
    )
    if touched:
        raise InvalidRequest(f"{', '.join(touched[:5])} cannot be changed by an agent: ask the user to do it.")


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [leaf for key, each in value.items() for leaf in _leaves(each, f"{path}.{key}" if path else str(key))]
    if isinstance(value, list) and value:
        return [leaf for place, each in enumerate(value) for leaf in _leaves(each, f"{path}.{place}")]
    return [(path, value)]


def _merged(before: Any, change: Any) -> Any:
    """`before` with a patch merged in: objects by key, null removes, everything else replaces."""
    if not isinstance(change, dict):
        return change
    result = dict(before) if isinstance(before, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _lookup(path: str) -> Output:
    if not path.strip():
        raise InvalidRequest("path is missing: for example agents.defaults.model.")
    found = lookup(path)
    children = [{"key": each.key, "path": f"{found.path}.{each.key}", "type": each.type} for each in found.children]
    result = {"path": found.path or path, "schema": found.to_schema(), "children": children}
    return json_output({"ok": True, "result": result})
