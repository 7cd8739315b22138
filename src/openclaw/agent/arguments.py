"""Validates and repairs tool arguments from a model, or lists what is wrong with them.

Models write "5" for 5, `null` for absent, and other names for ours. What is clearly meant is accepted; for the rest the
model gets one sentence per problem.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

MAX_ECHO_CHARS = 2_000
_SNAKE = re.compile(r"_([a-z0-9])")
_CAMEL = re.compile(r"(?<=[a-z0-9])([A-Z])")
NOTHING_ABSENT: Mapping[str, str] = {}
_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0"}


class ArgumentsAccepted(Struct, frozen=True):
    arguments: dict[str, Any]


class ArgumentsRejected(Struct, frozen=True):
    text: str


def prepare_arguments(
    tool: str,
    schema: Mapping[str, Any],
    aliases: Mapping[str, str],
    arguments: Mapping[str, Any],
    absent: Mapping[str, str] = NOTHING_ABSENT,
) -> ArgumentsAccepted | ArgumentsRejected:
    """`arguments` checked against `schema`; a rejection is the text the model gets.

    A parameter in `absent` is refused with its reason, unless it is empty.
    """
    problems = [f"{name}: {why}" for name, why in absent.items() if arguments.get(name) not in (None, False, "", [])]
    there = {name: value for name, value in arguments.items() if name not in absent} if absent else arguments
    exact = there.keys() <= schema.get("properties", {}).keys()
    cleaned = _object(there if exact else _renamed(there, schema, aliases), schema, "", problems)
    if not problems:
        return ArgumentsAccepted(cleaned)
    received = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
    if len(received) > MAX_ECHO_CHARS:
        received = received[:MAX_ECHO_CHARS] + "\n…"
    bullets = "\n".join(f"- {problem}" for problem in problems)
    return ArgumentsRejected(f'Validation failed for tool "{tool}":\n{bullets}\n\nReceived arguments:\n{received}')


def _renamed(arguments: Mapping[str, Any], schema: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Renames other spellings of a parameter; an exact name always wins."""
    properties = schema.get("properties", {})
    out: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in properties:
            out[name] = value
            continue
        camel = _SNAKE.sub(lambda match: match.group(1).upper(), name)
        snake = _CAMEL.sub(lambda match: "_" + match.group(1), name).lower()
        real = next((known for known in (aliases.get(name, name), camel, snake) if known in properties), name)
        if real == name or real not in arguments:
            out[real] = value
    return out


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = set(schema.get("required", ()))
    out: dict[str, Any] = {}
    for name, item in value.items():
        where = f"{path}.{name}" if path else name
        if name in properties:
            if item is None and name not in required and not _allows_null(properties[name]):
                continue
            out[name] = _value(item, properties[name], where, problems)
        elif schema.get("additionalProperties", "properties" not in schema) is False:
            # An object that lists its properties allows no others, unless it says so.
            known = ", ".join(properties) or "none"
            problems.append(f"{where}: unknown parameter (known: {known})")
        else:
            extra = schema.get("additionalProperties")
            out[name] = _value(item, extra, where, problems) if isinstance(extra, Mapping) else item
    for name in schema.get("required", ()):
        if name not in value:
            problems.append(f"{path}.{name}: missing" if path else f"{name}: missing")
    return out


def _allows_null(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def _value(value: Any, schema: Mapping[str, Any], path: str, problems: list[str]) -> Any:
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return _first_fit(value, schema[choice], path, problems)
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind] if kind else []
    if not kinds:
        return _bounded(value, schema, path, problems)
    for name in kinds:
        fits, coerced = _coerced(value, name)
        if fits:
            if name == "object" and isinstance(coerced, Mapping):
                return _object(coerced, schema, path, problems)
            if name == "array":
                items = schema.get("items", {})
                coerced = [_value(item, items, f"{path}[{i}]", problems) for i, item in enumerate(coerced)]
            return _bounded(coerced, schema, path, problems)
    problems.append(f"{path}: expected {' or '.join(kinds)}, got {_kind(value)}")
    return value


def _first_fit(value: Any, schemas: list[Mapping[str, Any]], path: str, problems: list[str]) -> Any:
    tried: list[str] = []
    for schema in schemas:
        found: list[str] = []
        result = _value(value, schema, path, found)
        if not found:
            return result
        tried.extend(found)
    problems.append(tried[0] if tried else f"{path}: fits none of the allowed shapes")
    return value


def _coerced(value: Any, kind: str) -> tuple[bool, Any]:
    match kind, value:
        case "string", str():
            return True, value
        case "string", bool():
            return False, value
        case "string", int() | float():
            return True, str(value)
        case "boolean", bool():
            return True, value
        case "boolean", str() if value.strip().lower() in _TRUE | _FALSE:
            return True, value.strip().lower() in _TRUE
        case (("integer" | "number"), bool()):
            return False, value
        case "integer", float() if value.is_integer():
            return True, int(value)
        case "integer", str() if re.fullmatch(r"\s*[+-]?\d{1,18}\s*", value):
            return True, int(value)
        case "integer", int():
            return True, value
        case "number", int() | float():
            return True, value
        case "number", str() if re.fullmatch(r"\s*[+-]?\d{1,18}(\.\d{1,18})?\s*", value):
            return True, float(value)
        case "array", list() | tuple():
            return True, list(value)
        case (("array" | "object"), str()):
            return _parsed(value, kind)
        case "object", Mapping():
            return True, value
        case "null", None:
            return True, None
        case _:
            return False, value


def _parsed(text: str, kind: str) -> tuple[bool, Any]:
    """A list or object that arrived as JSON text."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False, text
    return isinstance(value, list if kind == "array" else dict), value


def _bounded(value: Any, schema: Mapping[str, Any], path: str, problems: list[str]) -> Any:
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        folded = next(
            (c for c in choices if isinstance(c, str) and isinstance(value, str) and c == value.lower()), None
        )
        if folded is None:
            problems.append(f"{path}: must be one of {', '.join(map(str, choices))}")
            return value
        value = folded
    if isinstance(value, int | float) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            problems.append(f"{path}: must be at least {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            problems.append(f"{path}: must be at most {schema['maximum']}")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        problems.append(f"{path}: must not be empty" if schema["minLength"] == 1 else f"{path}: is too short")
    if isinstance(value, str | list) and len(value) > schema.get(
        "maxLength" if isinstance(value, str) else "maxItems", 1e12
    ):
        problems.append(f"{path}: is too long")
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        problems.append(f"{path}: needs at least {schema['minItems']} item(s)")
    return value


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"
