"""MCP tools as data: launching a server, names, what was accepted compared with what is offered, parameter schemas.

Pure. The first listing of a server that its owner has just configured counts as accepted; every later change needs
approval.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.errors import ConfigError
from openclaw.core.tool import OfferedTool
from openclaw.tools.settings import McpServerSettings


def launch(name: str, settings: McpServerSettings, *, workspace: str) -> McpServerSettings:
    """How to reach the server `name`: its settings with nothing left open; raises when they are inconsistent."""
    where = f"mcp.servers.{name}"
    transport = settings.transport or ("streamable-http" if settings.url and not settings.command else "stdio")
    if transport == "stdio" and not settings.command:
        raise ConfigError(f"{where} has neither a command nor a url: set one of them")
    if transport != "stdio" and not settings.url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}.url is missing or is not http(s): {transport} needs one")
    if settings.auth == "oauth":
        raise ConfigError(
            f"{where}.auth: signing in with OAuth is not supported; take it out and put a token into "
            f"{where}.headers.Authorization, for example as a secret reference"
        )
    return structs.replace(
        settings,
        transport=transport,
        cwd=settings.cwd or workspace,
        connection_timeout_ms=settings.connection_timeout_ms or 30_000,
        request_timeout_ms=settings.request_timeout_ms or 60_000,
    )


def identity(what: McpServerSettings) -> str:
    """A server's identity: another program or address must be accepted anew, another key not."""
    parts = (what.transport, what.command, what.args, what.url, sorted(what.env), sorted(what.headers))
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


LONGEST = 64
BETWEEN = "__"
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


def name_all(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Our name for each tool of `server`; two tools never share one."""
    named: dict[str, str] = {}
    for tool in sorted(tools):
        name = f"{_plain(server)}{BETWEEN}{_plain(tool)}"
        if len(name) > LONGEST or name.lower() in {taken.lower() for taken in named.values()}:
            mark = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:6]
            name = f"{name[: LONGEST - 7]}-{mark}"
        named[tool] = name
    return named


def passes(tool: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Whether a tool's own name passes the filter."""
    wanted = list(include)
    return not any(fnmatchcase(tool, pattern) for pattern in exclude) and (
        not wanted or any(fnmatchcase(tool, pattern) for pattern in wanted)
    )


def _plain(text: str) -> str:
    return _OTHER.sub("-", text).strip("-_") or "x"


# What was accepted.


class AcceptedServer(Struct, frozen=True, kw_only=True, rename="camel"):
    """One server in the store."""

    identity: str
    accepted: tuple[OfferedTool, ...] = ()
    offered: tuple[OfferedTool, ...] | None = None
    """What it offers now, when that differs."""
    seen_at: int = 0
    accepted_at: int = 0

    @property
    def now(self) -> tuple[OfferedTool, ...]:
        return self.accepted if self.offered is None else self.offered


class ToolChanges(Struct, frozen=True, kw_only=True):
    """How the offered tools differ from the accepted ones, by name."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.gone)

    def __str__(self) -> str:
        parts = {"new": self.added, "changed": self.changed, "gone": self.gone}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)


def digest(tool: OfferedTool) -> str:
    return hashlib.sha256(msgspec.json.encode(tool, order="deterministic")).hexdigest()


def changes(record: AcceptedServer) -> ToolChanges:
    was = {tool.name: digest(tool) for tool in record.accepted}
    now = {tool.name: digest(tool) for tool in record.now}
    return ToolChanges(
        added=tuple(sorted(now.keys() - was.keys())),
        changed=tuple(sorted(name for name in now.keys() & was.keys() if now[name] != was[name])),
        gone=tuple(sorted(was.keys() - now.keys())),
    )


def record_listing(
    record: AcceptedServer | None, identity: str, offered: Sequence[OfferedTool], now: int
) -> AcceptedServer:
    """The record after a new listing from the server."""
    tools = tuple(sorted(offered, key=attrgetter("name")))
    if record is None or record.identity != identity:
        return AcceptedServer(identity=identity, accepted=tools, seen_at=now, accepted_at=now)
    looked = structs.replace(record, offered=tools, seen_at=now)
    return looked if changes(looked) else structs.replace(looked, offered=None)


def accept(record: AcceptedServer, now: int, name: str | None = None) -> AcceptedServer:
    """The record after its owner accepted what is offered, all of it or one tool."""
    if name is None:
        return structs.replace(record, accepted=record.now, offered=None, accepted_at=now)
    fresh = {tool.name: tool for tool in record.now}
    kept = {tool.name: tool for tool in record.accepted}
    if name in fresh:
        kept[name] = fresh[name]
    else:
        kept.pop(name, None)
    agreed = structs.replace(record, accepted=tuple(kept[each] for each in sorted(kept)), accepted_at=now)
    return agreed if changes(agreed) else structs.replace(agreed, offered=None)


# Parameter schemas.

DEEPEST = 24
_CHOICES = ("anyOf", "oneOf")
_DROPPED = frozenset({"$schema", "$id", "$comment", "examples"})


def clean_schema(schema: Mapping[str, Any], clean: Callable[[str], str]) -> dict[str, Any]:
    """`schema` as the parameters of a tool. Constraints left out here are still checked by the server."""
    found = _object(schema, clean, 0)
    combined = any(found.pop(name, None) is not None for name in ("anyOf", "oneOf", "allOf", "not"))
    found["type"] = "object"
    found.setdefault("properties", {})
    known = found.get("required", [])
    found["required"] = [name for name in known if name in found["properties"]]
    if combined or not found["properties"]:
        found["additionalProperties"] = True  # for names that only a dropped part defines
    return found


def _object(schema: Mapping[str, Any], clean: Callable[[str], str], depth: int) -> dict[str, Any]:
    if depth > DEEPEST:
        return {}
    out: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _DROPPED:
            continue
        if name == "description":
            out[name] = clean(str(value))
        elif name in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, Mapping):
            out[name] = {clean(str(key)): _any(each, clean, depth + 1) for key, each in value.items()}
        elif name in ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"):
            out[name] = (
                value if isinstance(value, bool) and name == "additionalProperties" else _any(value, clean, depth)
            )
        elif name in (*_CHOICES, "allOf", "prefixItems") and isinstance(value, list):
            out[name] = [_any(each, clean, depth + 1) for each in value]
        else:
            out[name] = _words(value, clean, depth)
    return out


def _any(schema: Any, clean: Callable[[str], str], depth: int) -> dict[str, Any]:
    """A subschema; `true` and old list forms carry nothing a model needs."""
    return _object(schema, clean, depth + 1) if isinstance(schema, Mapping) else {}


def _words(value: Any, clean: Callable[[str], str], depth: int) -> Any:
    """`value` with every string sanitised: an enum can carry an injection as well as a description."""
    if depth > DEEPEST:
        return None
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_words(each, clean, depth + 1) for each in value]
    if isinstance(value, Mapping):
        return {clean(str(name)): _words(each, clean, depth + 1) for name, each in value.items()}
    return value


# The worker's start message.


class McpStart(Struct, frozen=True, kw_only=True):
    """The part of `McpServerSettings` that the worker needs, with the credentials revealed."""

    transport: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    ssl_verify: bool
    client_cert: str = ""
    client_key: str = ""
    connection_timeout_ms: int

    @property
    def connect_seconds(self) -> float:
        return self.connection_timeout_ms / 1000
