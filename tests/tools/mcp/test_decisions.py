"""Names, schemas and what was agreed to, without a server."""

from typing import Any

import pytest

from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.core.tool import OfferedTool
from openclaw.security.tool_policy import PROFILES, ToolLayer, apply_layers
from openclaw.tools.mcp import schema
from openclaw.tools.mcp.schema import clean_schema, identity, launch
from openclaw.tools.settings import McpServerSettings

A = OfferedTool(name="a", description="first")
B = OfferedTool(name="b", description="second")


def test_a_tool_is_called_by_its_server_and_its_name():
    assert schema.name_all("git hub", ["list.issues", "open"]) == {
        "list.issues": "git-hub__list-issues",
        "open": "git-hub__open",
    }


def test_names_stay_apart_and_short():
    named = schema.name_all("s" * 40, ["t" * 60, "t" * 61, "a.b", "a/b"])
    assert len(set(named.values())) == 4
    assert all(len(name) <= 64 for name in named.values())


@pytest.mark.parametrize(
    ("include", "exclude", "through"),
    [((), (), True), (("get_*",), (), True), (("put_*",), (), False), (("get_*",), ("*_it",), False)],
)
def test_a_filter_lets_names_through(include, exclude, through):
    assert schema.passes("get_it", include, exclude) is through


def test_the_first_look_is_the_agreement_and_every_change_asks():
    record = schema.record_listing(None, "id", [B, A], 1)
    assert record.accepted == (A, B)
    assert not schema.changes(record)
    other = OfferedTool(name="a", description="another")
    looked = schema.record_listing(record, "id", [other, OfferedTool(name="c")], 2)
    assert looked.accepted == (A, B)
    assert schema.changes(looked) == schema.ToolChanges(added=("c",), changed=("a",), gone=("b",))
    assert schema.record_listing(looked, "id", [A, B], 3).offered is None
    one = schema.accept(looked, 4, "a")
    assert schema.changes(one) == schema.ToolChanges(added=("c",), gone=("b",))
    assert not schema.changes(schema.accept(looked, 4))


def test_another_program_is_another_server():
    record = schema.record_listing(None, "id", [A], 1)
    assert schema.record_listing(record, "other id", [B], 2).accepted == (B,)


def test_a_new_key_is_not_another_server_but_a_new_argument_is():
    def who(**given: Any) -> str:
        return identity(launch("x", McpServerSettings(command="run", **given), workspace="/w"))

    assert who(env={"K": Secret("one")}) == who(env={"K": Secret("two")})
    assert who(args=("a",)) != who(args=("b",))


def test_settings_that_make_no_sense_say_what_to_set():
    for settings, told in (
        (McpServerSettings(), "neither a command nor a url"),
        (McpServerSettings(url="ftp://x", transport="sse"), "not http"),
        (McpServerSettings(url="https://x", auth="oauth"), "headers"),
    ):
        with pytest.raises(ConfigError, match=told):
            launch("x", settings, workspace="/w")


def test_a_foreign_schema_becomes_one_that_every_reader_takes():
    schema = {
        "$schema": "x",
        "anyOf": [{"required": ["a"]}],
        "properties": {
            "a": True,
            "b": {"type": "array", "items": [{}]},
            "c": {"description": "say HI", "enum": ["HI"]},
        },
        "required": ["a", "not there"],
    }
    made = clean_schema(schema, lambda text: text.replace("HI", "[hi]"))
    assert made == {
        "type": "object",
        "properties": {
            "a": {},
            "b": {"type": "array", "items": {}},
            "c": {"description": "say [hi]", "enum": ["[hi]"]},
        },
        "required": ["a"],
        "additionalProperties": True,
    }


def test_a_schema_without_an_end_is_cut():
    deep: dict[str, object] = {}
    for _ in range(5_000):
        deep = {"properties": {"x": deep}}
    assert clean_schema(deep, str)["type"] == "object"


def test_policy_knows_the_tools_of_all_servers_by_one_name():
    tools = ["read", "shop__add"]
    assert apply_layers(tools, [ToolLayer(name="x", deny=("bundle-mcp",))])[0] == ("read",)
    assert apply_layers(tools, [ToolLayer(name="x", deny=("group:plugins",))])[0] == ("read",)
    assert apply_layers(tools, [ToolLayer(name="x", allow=("shop__*",))])[0] == ("shop__add",)
    assert apply_layers(tools, [ToolLayer(name="x", allow=PROFILES["coding"])])[0] == ("read", "shop__add")
    assert apply_layers(tools, [ToolLayer(name="x", allow=PROFILES["minimal"])])[0] == ()
