"""`config.*`: the configuration, read and changed by its owner."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from openclaw.config import load as loading
from openclaw.config.edit import ConfigChange, Editor
from openclaw.config.lookup import lookup
from openclaw.config.parse import parse
from openclaw.config.redact import redact
from openclaw.config.schema import json_schema
from openclaw.core.errors import ConfigError, Conflict, InvalidRequest, NotFound
from openclaw.gateway.bus import EventBus
from openclaw.gateway.desk import SessionService
from openclaw.gateway.surroundings import Environment
from openclaw.version import __version__
from openclaw.wire.caller import Caller
from openclaw.wire.params.config import ConfigApplyParams, ConfigPatchParams, ConfigSchemaLookupParams, ConfigSetParams
from openclaw.wire.params.kinds import NoParams
from openclaw.wire.rpc import RpcMethod
from openclaw.wire.scopes import ADMIN, READ

CHANGED = "config changed since last load; re-run config.get and retry"


def methods(desk: SessionService, surroundings: Environment, bus: EventBus) -> list[RpcMethod]:
    home = surroundings.home
    editor = Editor(home, surroundings.environ)

    async def get(params: NoParams, caller: Caller) -> Any:
        source = loading.read(home.config)
        issues: list[str] = []
        shown: Any = {}
        try:
            shown = redact(parse(source.text, str(home.config))) if source.exists else {}
            survey = loading.survey(source.text or "{}", home, surroundings.environ)
            issues = [str(problem) for problem in survey.errors]
            warnings = [str(problem) for problem in survey.warnings]
        except ConfigError as error:
            issues, warnings = [error.message], []
        return {
            "path": str(home.config),
            "exists": source.exists,
            "valid": not issues,
            "raw": json.dumps(shown, indent=2, ensure_ascii=False),
            "parsed": shown,
            "sourceConfig": shown,
            "resolved": shown,
            "runtimeConfig": shown,
            "config": shown,
            "hash": source.hash,
            "configRevisionHash": source.hash,
            "appliedConfigHash": desk.app.loaded.hash,
            "issues": [{"path": "", "message": text} for text in issues],
            "warnings": [{"path": "", "message": text} for text in warnings],
            "legacyIssues": [],
            "includedPaths": [str(path) for path in desk.app.loaded.files],
            "includeProvenance": [],
        }

    async def patch(params: ConfigPatchParams, caller: Caller) -> Any:
        change = _object(params.raw)
        base = _base(params.base_hash)
        return told(_guarded(lambda: editor.patch(change, replace_paths=params.replace_paths or (), base_hash=base)))

    async def apply(params: ConfigApplyParams | ConfigSetParams, caller: Caller) -> Any:
        base = _base(params.base_hash)
        return told(_guarded(lambda: editor.apply(params.raw, base_hash=base)))

    async def schema(params: NoParams, caller: Caller) -> Any:
        made = datetime.now(UTC).isoformat(timespec="seconds")
        return {"schema": json_schema(), "uiHints": {}, "version": __version__, "generatedAt": made}

    async def look(params: ConfigSchemaLookupParams, caller: Caller) -> Any:
        try:
            found = lookup(params.path)
        except NotFound as error:
            raise InvalidRequest(f"config schema path not found: {error.message}") from error
        hint = {"help": found.doc, **({"sensitive": True} if found.sensitive else {})}
        described = {"type": found.type, "description": found.doc, "default": found.default, **found.constraints}
        return {
            "path": found.path or params.path,
            "schema": {name: value for name, value in described.items() if value is not None},
            "hint": hint,
            "children": [
                {
                    "key": child.key,
                    "path": f"{found.path}.{child.key}" if found.path else child.key,
                    "type": child.type,
                    "required": False,
                    "hasChildren": child.type in ("object", "list", "map"),
                    "hint": {"help": child.doc, **({"sensitive": True} if child.sensitive else {})},
                }
                for child in found.children
            ],
        }

    def told(change: ConfigChange) -> dict[str, Any]:
        bus.publish("config.changed", {"path": str(home.config), "hash": change.after, "ts": desk.now})
        return {
            "ok": True,
            "path": str(change.path),
            "hash": change.after,
            "config": editor.get(),
            "changedPaths": list(change.changed),
            "warnings": [str(problem) for problem in change.warnings],
        }

    def _base(given: str | None) -> str | None:
        if given is None and loading.read(home.config).exists:
            raise InvalidRequest("baseHash is missing: give the hash of your last config.get")
        return given

    return [
        RpcMethod("config.get", NoParams, get, READ),
        RpcMethod("config.set", ConfigSetParams, apply, ADMIN),
        RpcMethod("config.patch", ConfigPatchParams, patch, ADMIN),
        RpcMethod("config.apply", ConfigApplyParams, apply, ADMIN),
        RpcMethod("config.schema", NoParams, schema, READ),
        RpcMethod("config.schema.lookup", ConfigSchemaLookupParams, look, READ),
    ]


def _guarded(work: Any) -> ConfigChange:
    try:
        done: ConfigChange = work()
    except Conflict as error:
        raise InvalidRequest(CHANGED) from error
    return done


def _object(raw: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        value = parse(raw, "the patch")
    if not isinstance(value, dict):
        raise InvalidRequest("a patch is a JSON object")
    return value
