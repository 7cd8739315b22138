"""What a model sends, and what its tool gets."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.agent.arguments import MAX_ECHO_CHARS, ArgumentsAccepted, ArgumentsRejected, prepare_arguments

SCHEMA = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "names": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        "maybe": {"type": ["string", "null"]},
        "oldText": {"type": "string"},
        "any": {},
        "either": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    },
}
ALIASES = {"file_path": "path", "old_string": "oldText"}


def checked(**arguments: Any) -> ArgumentsAccepted | ArgumentsRejected:
    return prepare_arguments("draw", SCHEMA, ALIASES, {"path": "p", **arguments})


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ({"limit": "5"}, {"limit": 5}),
        ({"limit": " +7 "}, {"limit": 7}),
        ({"limit": 5.0}, {"limit": 5}),
        ({"ratio": "0.5"}, {"ratio": 0.5}),
        ({"ratio": 2}, {"ratio": 2}),
        ({"deep": "true"}, {"deep": True}),
        ({"deep": "No"}, {"deep": False}),
        ({"mode": "FAST"}, {"mode": "fast"}),
        ({"names": '["a", "b"]'}, {"names": ["a", "b"]}),
        ({"names": [1, 2.5]}, {"names": ["1", "2.5"]}),
        ({"env": '{"A": "1"}'}, {"env": {"A": "1"}}),
        ({"env": {"A": 1}}, {"env": {"A": "1"}}),
        ({"point": {"x": "3"}}, {"point": {"x": 3}}),
        ({"limit": None}, {}),
        ({"maybe": None}, {"maybe": None}),
        ({"old_string": "x"}, {"oldText": "x"}),
        ({"old_text": "x"}, {"oldText": "x"}),
        ({"oldText": "x", "old_string": "y"}, {"oldText": "x"}),
        ({"any": {"free": [1]}}, {"any": {"free": [1]}}),
        ({"either": "4"}, {"either": 4}),
        ({"either": ["4"]}, {"either": [4]}),
    ],
    ids=str,
)
def test_what_is_clearly_meant_is_accepted(sent: dict[str, Any], got: dict[str, Any]) -> None:
    assert checked(**sent) == ArgumentsAccepted({"path": "p", **got})


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"limit": "many"}, "limit: expected integer, got string"),
        ({"limit": 5.5}, "limit: expected integer, got number"),
        ({"limit": True}, "limit: expected integer, got boolean"),
        ({"limit": 0}, "limit: must be at least 1"),
        ({"limit": 51}, "limit: must be at most 50"),
        ({"path": ""}, "path: must not be empty"),
        ({"path": None}, "path: expected string, got null"),
        ({"path": True}, "path: expected string, got boolean"),
        ({"mode": "medium"}, "mode: must be one of fast, slow"),
        ({"names": []}, "names: needs at least 1 item(s)"),
        ({"names": ["a"] * 4}, "names: is too long"),
        ({"names": [["a"]]}, "names[0]: expected string, got array"),
        ({"names": "a, b"}, "names: expected array, got string"),
        ({"env": {"A": []}}, "env.A: expected string, got array"),
        ({"point": {}}, "point.x: missing"),
        ({"point": {"x": 1, "y": 2}}, "point.y: unknown parameter (known: x)"),
        ({"either": "four"}, "either: expected integer, got string"),
        (
            {"colour": "red"},
            "colour: unknown parameter (known: path, limit, ratio, deep, mode, names, env, point, maybe, oldText, any, "
            "either)",
        ),
    ],
    ids=str,
)
def test_what_is_not_gets_a_sentence(sent: dict[str, Any], problem: str) -> None:
    rejected = checked(**sent)
    assert isinstance(rejected, ArgumentsRejected)
    assert rejected.text.startswith(f'Validation failed for tool "draw":\n- {problem}\n\nReceived arguments:\n{{')


def test_every_problem_is_named_at_once() -> None:
    rejected = prepare_arguments("draw", SCHEMA, {}, {"limit": "x", "deep": "y"})
    assert isinstance(rejected, ArgumentsRejected)
    assert rejected.text.count("\n- ") == 3  # limit, deep, and path is missing


def test_an_echo_is_never_longer_than_needed() -> None:
    rejected = checked(limit="x" * 100_000)
    assert isinstance(rejected, ArgumentsRejected)
    assert len(rejected.text) < MAX_ECHO_CHARS + 200
    assert rejected.text.endswith("\n…")


def test_a_tool_without_a_list_of_parameters_takes_what_comes() -> None:
    assert prepare_arguments("free", {"type": "object"}, {}, {"a": 1}) == ArgumentsAccepted({"a": 1})


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
plausible = st.sampled_from(
    ["5", "-3", "true", "no", "0.5", "[]", '["a"]', '{"A": "b"}', '{"x": 1}', "fast", "SLOW", ""]
)
names = st.sampled_from([*SCHEMA["properties"], "file_path", "old_text", "nothing"])


@given(st.dictionaries(names, values | plausible, max_size=6))
def test_whatever_comes_the_tool_gets_what_its_schema_promises(arguments: dict[str, Any]) -> None:
    match prepare_arguments("draw", SCHEMA, ALIASES, arguments):
        case ArgumentsAccepted(arguments=got):
            assert valid(got, SCHEMA), got
        case ArgumentsRejected(text=text):
            assert text.startswith('Validation failed for tool "draw":\n- ')


def valid(value: Any, schema: Mapping[str, Any]) -> bool:
    """JSON Schema, as far as these tests use it, written down a second time."""
    if "anyOf" in schema:
        return any(valid(value, one) for one in schema["anyOf"])
    kinds = schema.get("type", [])
    if kinds and not any(of_kind(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        extra = schema.get("additionalProperties", {})
        return all(name in value for name in schema.get("required", ())) and all(
            valid(item, properties.get(name, extra)) for name, item in value.items()
        )
    if isinstance(value, list):
        fits = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1e9)
        return fits and all(valid(item, schema.get("items", {})) for item in value)
    if isinstance(value, str):
        return len(value) >= schema.get("minLength", 0) and value in schema.get("enum", [value])
    if isinstance(value, int | float) and "minimum" in schema:
        return bool(schema["minimum"] <= value <= schema["maximum"])
    return True


def of_kind(value: Any, kind: str) -> bool:
    if kind in ("integer", "number") and isinstance(value, bool):
        return False
    types: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
        "null": type(None),
    }
    return isinstance(value, types[kind])
