"""RPC methods `config.*`, and the parameter types of `agents.*` that change the configuration."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from openclaw.config import load as loading
from openclaw.config.check import ChildSetting, Setting, lookup
from openclaw.config.edit import ConfigChange, Editor
from openclaw.config.live import LiveConfig
from openclaw.config.redact import redact
from openclaw.config.schema import json_schema
from openclaw.config.source import parse
from openclaw.core.errors import ConfigError, Conflict, InvalidRequest, NotFound
from openclaw.process.environment import Environment
from openclaw.protocol.events import EventBus
from openclaw.protocol.params import NonEmpty, NonNegative, NoParams, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, READ
from openclaw.sessions.service import SessionService
from openclaw.version import __version__


class ConfigSetParams(Params, frozen=True, kw_only=True):
    """Params of `config.set`."""

    raw: NonEmpty
    base_hash: NonEmpty | None = None


class DeliveryContext(Params, frozen=True, kw_only=True):
    channel: str | None = None
    to: str | None = None
    account_id: str | None = None
    thread_id: str | int | float | None = None


class ConfigApplyParams(ConfigSetParams, frozen=True, kw_only=True):
    """Params of `config.apply`."""

    session_key: str | None = None
    delivery_context: DeliveryContext | None = None
    note: str | None = None
    restart_delay_ms: NonNegative | None = None


class ConfigPatchParams(ConfigApplyParams, frozen=True, kw_only=True):
    """Params of `config.patch`."""

    replace_paths: Annotated[tuple[NonEmpty, ...], Meta(max_length=256)] | None = None


class ConfigSchemaLookupParams(Params, frozen=True, kw_only=True):
    """Params of `config.schema.lookup`."""

    path: Annotated[str, Meta(min_length=1, max_length=1024, pattern=r"^[A-Za-z0-9_./\[\]\-*]+$")]


def _who(caller: Caller) -> str:
    return f"{caller.display_name or caller.client_id} ({caller.remote_ip or 'this machine'})"


CHANGED = "config changed since last load; re-run config.get and retry"


def config_methods(
    sessions: SessionService, live: LiveConfig, environment: Environment, bus: EventBus
) -> list[RpcMethod]:
    """The methods that read and change the configuration."""
    home = environment.home
    editor = Editor(home, environment.environ)

    async def get(params: NoParams, caller: Caller) -> Any:
        source = loading.read(home.config)
        shown: Any = {}
        try:
            shown = redact(parse(source.text, str(home.config))) if source.exists else {}
            found = loading.analyse_text(source.text or "{}", home, environment.environ)
            issues, warnings = [str(problem) for problem in found.errors], [str(each) for each in found.warnings]
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
            "appliedConfigHash": live.current.hash,
            "issues": [{"path": "", "message": text} for text in issues],
            "warnings": [{"path": "", "message": text} for text in warnings],
            "legacyIssues": [],
            "includedPaths": [str(path) for path in live.current.files],
            "includeProvenance": [],
        }

    async def patch(params: ConfigPatchParams, caller: Caller) -> Any:
        change = _object(params.raw)
        with writing(params.base_hash):
            changing = editor.by(_who(caller))
            done = changing.patch(change, replace_paths=params.replace_paths or (), base_hash=params.base_hash)
        return publish(done)

    async def apply(params: ConfigSetParams, caller: Caller) -> Any:
        with writing(params.base_hash):
            done = editor.by(_who(caller)).apply(params.raw, base_hash=params.base_hash)
        return publish(done)

    def publish(change: ConfigChange) -> dict[str, Any]:
        bus.publish("config.changed", {"path": str(home.config), "hash": change.after, "ts": sessions.now})
        return {
            "ok": True,
            "path": str(change.path),
            "hash": change.after,
            "config": editor.get(),
            "changedPaths": list(change.changed),
            "warnings": [str(problem) for problem in change.warnings],
        }

    @contextmanager
    def writing(base_hash: str | None) -> Iterator[None]:
        if base_hash is None and loading.read(home.config).exists:
            raise InvalidRequest("baseHash is missing: give the hash of your last config.get")
        try:
            yield
        except Conflict as error:
            raise InvalidRequest(CHANGED) from error

    return [
        RpcMethod("config.get", NoParams, get, READ),
        RpcMethod("config.set", ConfigSetParams, apply, ADMIN),
        RpcMethod("config.patch", ConfigPatchParams, patch, ADMIN),
        RpcMethod("config.apply", ConfigApplyParams, apply, ADMIN),
    ]


def schema_methods() -> list[RpcMethod]:
    """The methods that say which settings there are."""

    async def schema(params: NoParams, caller: Caller) -> Any:
        made = datetime.now(UTC).isoformat(timespec="seconds")
        return {"schema": json_schema(), "uiHints": {}, "version": __version__, "generatedAt": made}

    async def look(params: ConfigSchemaLookupParams, caller: Caller) -> Any:
        try:
            found = lookup(params.path)
        except NotFound as error:
            raise InvalidRequest(f"config schema path not found: {error.message}") from error
        return {
            "path": found.path or params.path,
            "schema": found.to_schema(),
            "hint": _hint(found),
            "children": [
                {
                    "key": child.key,
                    "path": f"{found.path}.{child.key}" if found.path else child.key,
                    "type": child.type,
                    "required": False,
                    "hasChildren": child.type in ("object", "list", "map"),
                    "hint": _hint(child),
                }
                for child in found.children
            ],
        }

    return [
        RpcMethod("config.schema", NoParams, schema, READ),
        RpcMethod("config.schema.lookup", ConfigSchemaLookupParams, look, READ),
    ]


def _hint(setting: ChildSetting | Setting) -> dict[str, Any]:
    return {"help": setting.doc, **({"sensitive": True} if setting.sensitive else {})}


def _object(raw: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        value = parse(raw, "the patch")
    if not isinstance(value, dict):
        raise InvalidRequest("a patch is a JSON object")
    return value


class AgentsCreateParams(Params, frozen=True, kw_only=True):
    """Params of `agents.create`."""

    name: NonEmpty
    workspace: NonEmpty | None = None
    model: NonEmpty | None = None
    emoji: str | None = None
    avatar: str | None = None
