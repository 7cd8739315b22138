"""A foreign JSON Schema made into one that our argument check and every model provider can take. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

DEEPEST = 24
_CHOICES = ("anyOf", "oneOf")
_DROPPED = frozenset({"$schema", "$id", "$comment", "examples"})


def shaped(schema: Mapping[str, Any], clean: Callable[[str], str]) -> dict[str, Any]:
    """`schema` as the parameters of a tool. What is left out here the server's own check still holds."""
    found = _object(schema, clean, 0)
    combined = any(found.pop(name, None) is not None for name in ("anyOf", "oneOf", "allOf", "not"))
    found["type"] = "object"
    found.setdefault("properties", {})
    known = found.get("required", [])
    found["required"] = [name for name in known if name in found["properties"]]
    if combined or not found["properties"]:
        found["additionalProperties"] = True  # names that only a dropped part knew
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
    """A part of a schema; `true` and old list forms say nothing a model needs."""
    return _object(schema, clean, depth + 1) if isinstance(schema, Mapping) else {}


def _words(value: Any, clean: Callable[[str], str], depth: int) -> Any:
    """Every text in it cleaned: an enum can carry an order as well as a description."""
    if depth > DEEPEST:
        return None
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_words(each, clean, depth + 1) for each in value]
    if isinstance(value, Mapping):
        return {clean(str(name)): _words(each, clean, depth + 1) for name, each in value.items()}
    return value
