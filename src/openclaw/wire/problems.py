"""What is wrong with params, in the words clients expect: `at /path: must be string`. Pure.

The decoder speaks of Python types and `$.paths`; the protocol speaks of JSON types and slashes.
"""

import re

_AT = re.compile(r" - at (?:the key in )?`\$?(?P<path>[^`]*)`\Z")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([^\]]*)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`\Z", re.DOTALL)
_LENGTH = re.compile(r"Expected `(str|array|object)` of length (>=|<=) (\d+)\Z")
_BOUND = re.compile(r"Expected `(?:int|float)` (>=|<=|>|<) (\S+)\Z")
_PATTERN = re.compile(r"Expected `str` matching regex (.*)\Z", re.DOTALL)
_TYPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`\Z")

_UNITS = {"str": "characters", "array": "items", "object": "properties"}
_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "null": "null"}


def describe(message: str) -> str:
    """One decoding error as `<path>: <rule>`; at the root only an unexpected property names its place."""
    found = _AT.search(message)
    path = pointer(found["path"]) if found else ""
    rule = message[: found.start()] if found else message
    if unknown := _UNKNOWN.match(rule):
        return f"{f'at {path}' if path else 'at root'}: unexpected property '{unknown[1]}'"
    return f"{f'at {path}: ' if path else ''}{_rule(rule)}"


def invalid_params(method: str, message: str) -> str:
    """The message a client gets for params that do not fit `method`."""
    return f"invalid {method} params: {describe(message)}"


def pointer(path: str) -> str:
    """`.a[0].b` as `/a/0/b`; the key of a map is not known and shows as `*`."""
    steps = [name or (index if index.isdigit() else "*") for name, index in _STEP.findall(path)]
    return "".join(f"/{step}" for step in steps)


def _rule(text: str) -> str:
    if missing := _MISSING.match(text):
        return f"must have required property '{missing[1]}'"
    if length := _LENGTH.match(text):
        amount = "fewer" if length[2] == ">=" else "more"
        return f"must NOT have {amount} than {length[3]} {_UNITS[length[1]]}"
    if bound := _BOUND.match(text):
        return f"must be {bound[1]} {bound[2]}"
    if pattern := _PATTERN.match(text):
        return f"must match pattern {pattern[1]}"
    if text.startswith(("Invalid enum value", "Invalid value")):
        return "must be equal to one of the allowed values"
    if "out of range" in text:
        return "must be a number within range"
    if kind := _TYPE.match(text):
        wanted = [_NAMES.get(name, name) for name in kind[1].split(" | ") if name != "null" or kind[1] == "null"]
        return f"must be {wanted[0]}" if len(wanted) == 1 else "must match a schema in anyOf"
    return text
