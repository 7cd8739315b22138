"""The contract of a plugin: what it says of itself is what it does, and a model and a person can use it."""

from collections.abc import Iterator, Mapping
from typing import Any

from openclaw.core.hooks import POINTS
from openclaw.core.plugin import Brought
from openclaw.core.tool import ToolSpec
from openclaw.plugins.admit import FIELDS
from openclaw.plugins.find import FoundPlugin

TYPES = ("string", "number", "integer", "boolean", "array", "object")
FOREIGN = ("anyOf", "oneOf", "allOf", "$ref", "not")
"""What some providers do not accept in a tool's parameters."""


def problems(plugin: FoundPlugin, brought: Brought, brings: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Each thing a running plugin does not keep to, as one line."""
    names = {**brought.names(), "services": brings.get("services", ())}
    for kind, declared in plugin.manifest.declared().items():
        for name in declared:
            if name not in names[kind]:
                yield f"{FIELDS[kind]} names {name}, which is not registered"
    for point in plugin.manifest.hooks:
        if point not in POINTS:
            yield f"hooks names {point}, and there is no such hook point"
    for tool in brought.tools:
        yield from _tool(tool.spec)
    for command in brought.commands:
        if not command.description.strip():
            yield f"/{command.name} has no description"
    for path in plugin.manifest.skills:
        if not any((plugin.directory / path).glob("**/SKILL.md")):
            yield f"skills names {path}, and there is no SKILL.md in it"
    if not plugin.manifest.description:
        yield "the manifest has no description"


def _tool(spec: ToolSpec) -> Iterator[str]:
    schema: Mapping[str, Any] = spec.parameters
    if not spec.description.strip():
        yield f"the tool {spec.name} has no description"
    if schema.get("type") != "object":
        yield f"the parameters of {spec.name} are not an object"
    foreign = [word for word in FOREIGN if word in schema]
    if foreign:
        yield f"the parameters of {spec.name} use {foreign[0]}, which not every provider accepts"
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in properties:
            yield f"{spec.name} requires {name}, which is not among its parameters"
    for name, part in properties.items():
        if part.get("type") not in TYPES:
            yield f"{name} of {spec.name} has no plain type"
        if not str(part.get("description", "")).strip():
            yield f"{name} of {spec.name} is not described"
        if part.get("type") == "array" and "items" not in part:
            yield f"{name} of {spec.name} is a list of nothing in particular"
