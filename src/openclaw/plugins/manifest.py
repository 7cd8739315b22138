"""Parses `openclaw.plugin.json`, what a plugin says of itself, without running any of it. Pure."""

import re
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal, NoReturn

import msgspec
from msgspec import Meta, Struct, field

FILE = "openclaw.plugin.json"
MAX_BYTES = 256 << 10
MAX_DEPTH = 48
MAX_PARTS = 20_000

Id = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Line = Annotated[str, Meta(max_length=300)]
Names = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...], Meta(max_length=256)]
Variable = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,127}$")]

FIELDS = {
    "tools": "contracts.tools",
    "hooks": "hooks",
    "commands": "contracts.commands",
    "methods": "contracts.gatewayMethods",
    "routes": "contracts.httpRoutes",
    "channels": "channels",
    "providers": "providers",
    "embedders": "contracts.embedders",
    "services": "contracts.services",
}
"""Where in the manifest each kind of registration is declared."""
FORBIDDEN_VARIABLES = ("PATH", "LD_", "DYLD_", "PYTHON", "OPENCLAW_", "HOME", "IFS", "BASH_ENV", "ENV")


class Contracts(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the plugin will register; anything else it registers is refused."""

    tools: Names = ()
    commands: Names = ()
    gateway_methods: Names = ()
    http_routes: Names = ()
    embedders: Names = ()
    services: Names = ()


class PluginWants(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the plugin needs from the machine."""

    env: Annotated[tuple[Variable, ...], Meta(max_length=64)] = ()
    """Variables it would like; it gets those the operator gives it."""


class PluginManifest(Struct, frozen=True, kw_only=True, rename="camel"):
    id: Id
    config_schema: Mapping[str, Any]
    name: Line = ""
    description: Annotated[str, Meta(max_length=2_000)] = ""
    version: Annotated[str, Meta(max_length=64)] = ""
    kind: Literal["memory", "context-engine"] | None = None
    entry: Annotated[str, Meta(max_length=200)] = "plugin.py:register"
    """`file.py:function` below the plugin's directory, or `module:function`."""
    enabled_by_default: bool = False
    channels: Names = ()
    providers: Names = ()
    skills: Names = ()
    hooks: Names = ()
    requires_plugins: Names = ()
    contracts: Contracts = Contracts()
    permissions: PluginWants = PluginWants()
    ui_hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.name or self.id

    def declared(self) -> dict[str, tuple[str, ...]]:
        """What may be registered, by the kinds of `PluginContributions.names`."""
        return {kind: attrgetter(re.sub("(?=[A-Z])", "_", field).lower())(self) for kind, field in FIELDS.items()}


def read(data: bytes) -> PluginManifest | str:
    """The manifest, or what is wrong with it."""
    if len(data) > MAX_BYTES:
        return f"{FILE} has {len(data):,} bytes; {MAX_BYTES:,} is the most"
    try:
        value = msgspec.json.decode(data)
        if problem := _too_much(value):
            return f"{FILE} {problem}"
        found = msgspec.convert(value, PluginManifest)
    except RecursionError:
        return f"{FILE} is nested too deeply"
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        return f"{FILE}: {error}"
    if found.config_schema.get("type", "object") != "object":
        return f"{FILE}: configSchema must describe an object"
    for name in found.permissions.env:
        if name.startswith(FORBIDDEN_VARIABLES):
            return f"{FILE}: {name} changes how programs are found or run and cannot be asked for"
    for path in found.skills:
        if path.startswith(("/", "~")) or ".." in path.split("/") or "\\" in path:
            return f"{FILE}: the skills directory {path} lies outside the plugin"
    return found


def _too_much(value: Any) -> str:
    """Why `value` is too large or too deep to validate; empty when it is not. Walks without recursion."""
    pending = [(value, 1)]
    seen = 0
    while pending:
        part, depth = pending.pop()
        seen += 1
        if depth > MAX_DEPTH:
            return f"is nested deeper than {MAX_DEPTH} levels"
        if seen > MAX_PARTS:
            return f"has more than {MAX_PARTS:,} values"
        if isinstance(part, dict):
            pending += [(inner, depth + 1) for inner in part.values()]
        elif isinstance(part, list):
            pending += [(inner, depth + 1) for inner in part]
    return ""


def find_problem(schema: Mapping[str, Any], value: Mapping[str, Any], where: str) -> str:
    """Validates `value` against `schema`; gives what is wrong as one line, or nothing."""
    if not value and not schema.get("required"):
        return ""
    import fastjsonschema

    def refuse(address: str) -> NoReturn:
        raise fastjsonschema.JsonSchemaDefinitionException(f"it refers to {address}; put everything into the manifest")

    try:
        # Defaults of the schema are left to the plugin: the operator's file says what is set.
        check = fastjsonschema.compile(
            {"additionalProperties": False, **schema},
            handlers=dict.fromkeys(("http", "https", "file", ""), refuse),
            use_default=False,
        )
        check(dict(value))
    except fastjsonschema.JsonSchemaValueException as error:
        path = ".".join((where, *map(str, error.path[1:])))
        return f"{path}: {error.message.removeprefix(str(error.name or '')).strip()}"
    except fastjsonschema.JsonSchemaDefinitionException as error:
        return f"the plugin's configSchema cannot be used: {error}"
    except RecursionError:
        return "the plugin's configSchema refers to itself without end"
    return ""
