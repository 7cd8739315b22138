"""The base of method params, types several methods share, and decoding errors in the protocol's words. Pure.

The decoder speaks of Python types and `$.paths`; the protocol speaks of JSON types and slashes: `at /path: must be
string`.
"""

import re
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct

from openclaw.core.text import compile_lazily

NonEmpty = Annotated[str, Meta(min_length=1)]
NonNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]


class Params(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The base of every params type: closed, with a repr that hides the values, which may be secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class NoParams(Params, frozen=True):
    """For a method without params: absent, null or an empty object."""


def exactly_one(**given: object) -> None:
    """Requires exactly one of the fields, given by their wire names."""
    present = [name for name, value in given.items() if value is not None]
    if not present:
        raise ValueError(f"must have required property '{next(iter(given))}'")
    if len(present) > 1:
        raise ValueError(f"must have only one of the properties '{present[0]}' and '{present[1]}'")


def not_both(**given: object) -> None:
    if all(value is not None for value in given.values()):
        first, second = given
        raise ValueError(f"must NOT have both properties '{first}' and '{second}'")


def all_different(**given: tuple[str, ...] | None) -> None:
    for name, values in given.items():
        if values is not None and len(set(values)) < len(values):
            raise ValueError(f"must NOT have duplicate items in '{name}'")


PermissionMode = Literal["read-only", "guarded", "workspace", "full"]


class HumanMention(Params, frozen=True, kw_only=True):
    """A person mentioned in a message, and where."""

    profile_id: Annotated[str, Meta(min_length=1, max_length=256)]
    start: Annotated[int, Meta(ge=0, le=9_007_199_254_740_991)]
    end: Annotated[int, Meta(ge=1, le=9_007_199_254_740_991)]


Mentions = Annotated[tuple[HumanMention, ...], Meta(max_length=10)]


class SessionKeyParams(Params, frozen=True, kw_only=True):
    """For a method about one session, which it calls `sessionKey`."""

    session_key: NonEmpty
    agent_id: NonEmpty | None = None


class AttachmentParam(Params, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A file sent with a message; clients may describe it with further fields."""

    type: str | None = None
    mime_type: str | None = None
    file_name: str | None = None
    origin: Literal["paste", "file"] | None = None
    content: Any = UNSET
    size_bytes: float | None = None
    duration_ms: float | None = None
    width: float | None = None
    height: float | None = None


class InputProvenance(Params, frozen=True, kw_only=True):
    """The origin of a message that no person typed."""

    kind: Literal["external_user", "inter_session", "internal_system"]
    origin_session_id: str | None = None
    source_session_key: str | None = None
    source_channel: str | None = None
    source_tool: str | None = None
    source_role: Literal["subagent"] | None = None
    source_prompt_prefix: str | None = None
    job_id: str | None = None
    run_id: str | None = None


class SessionToolOverrides(Params, frozen=True, kw_only=True):
    """Tools switched on or off for one session."""

    mcp_servers: dict[str, bool] | None = None
    mcp_tools_deny: dict[str, tuple[NonEmpty, ...]] | None = None
    skills: dict[str, bool] | None = None
    web_search: bool | None = None


# Decoding errors.

_AT = compile_lazily(r" - at (?:the key in )?`\$?(?P<path>[^`]*)`\Z")
_STEP = compile_lazily(r"\.([^.\[\]]+)|\[([^\]]*)\]")
_UNKNOWN = compile_lazily(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_MISSING = compile_lazily(r"Object missing required field `(.*)`\Z", re.DOTALL)
_LENGTH = compile_lazily(r"Expected `(str|array|object)` of length (>=|<=) (\d+)\Z")
_BOUND = compile_lazily(r"Expected `(?:int|float)` (>=|<=|>|<) (\S+)\Z")
_PATTERN = compile_lazily(r"Expected `str` matching regex (.*)\Z", re.DOTALL)
_TYPE = compile_lazily(r"Expected `([^`]*)`, got `([^`]*)`\Z")

_UNITS = {"str": "characters", "array": "items", "object": "properties"}
_NAMES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "null": "null"}


def describe(message: str) -> str:
    """One decoding error as `<path>: <rule>`; at the root only an unexpected property has a path."""
    found = _AT.search(message)
    path = pointer(found["path"]) if found else ""
    rule = message[: found.start()] if found else message
    if unknown := _UNKNOWN.match(rule):
        return f"{f'at {path}' if path else 'at root'}: unexpected property '{unknown[1]}'"
    return f"{f'at {path}: ' if path else ''}{_rule(rule)}"


def invalid_params(method: str, message: str) -> str:
    """The error message for params that do not fit `method`."""
    return f"invalid {method} params: {describe(message)}"


def pointer(path: str) -> str:
    """`.a[0].b` as `/a/0/b`; the key of a map is unknown and becomes `*`."""
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
