"""The tools as a model and the loop see them."""

import subprocess
import sys

import pytest

from openclaw.core.tool import Effects
from openclaw.tools.build import build_tools

TOOLS = {tool.spec.name: tool for tool in build_tools(shell="/bin/sh", env={})}


def test_they_come_in_the_order_of_the_prompt():
    assert list(TOOLS) == ["read", "write", "edit", "apply_patch", "grep", "find", "ls", "exec", "ask_user"]


@pytest.mark.parametrize("name", TOOLS)
def test_what_a_model_is_told_is_short_and_complete(name):
    spec = TOOLS[name].spec
    properties = spec.parameters["properties"]
    assert len(spec.description) <= 400
    assert spec.summary
    assert spec.label
    assert spec.parameters["type"] == "object"
    assert set(spec.parameters.get("required", ())) <= set(properties)
    assert all(one["type"] for one in properties.values())
    assert not any(one.get("description") == "" for one in properties.values())
    assert set(spec.rare) <= set(properties) - set(spec.parameters.get("required", ()))
    assert set(spec.aliases.values()) <= set(properties)
    assert not set(spec.aliases) & set(properties)


def test_effects_tell_readers_from_writers():
    assert {name for name, tool in TOOLS.items() if Effects.WRITES_FILES in tool.effects({})} == {
        "write",
        "edit",
        "apply_patch",
        "exec",
    }
    assert {name for name, tool in TOOLS.items() if Effects.RUNS_CODE in tool.effects({})} == {"exec"}


def test_only_calls_that_write_reserve_anything(context, workspace):
    args = {"path": "a", "content": "", "pattern": "x", "command": "ls", "input": "*** Begin Patch\n*** End Patch"}
    reserved = {name for name, tool in TOOLS.items() if tool.resources(args, context)}
    assert reserved == {"write", "edit", "ask_user"}, "two questions at once are one after the other"


def test_a_terminal_library_is_only_loaded_when_needed():
    script = "import sys, openclaw.tools.build; print('ptyprocess' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "False\n"
