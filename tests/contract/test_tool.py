"""What every tool does, whatever it is for: an honest description, arguments that are checked, an end when stopped."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openclaw.agent.arguments import ArgumentsAccepted, ArgumentsRejected, prepare_arguments
from openclaw.core.tool import Effects, Output, Tool, ToolContext
from openclaw.process.group import members
from openclaw.tools.build import build_tools

pytestmark = pytest.mark.anyio

TOOLS = build_tools(shell="/bin/sh", env={"PATH": os.environ["PATH"]})
MINIMAL: dict[str, dict[str, Any]] = {
    "read": {"path": "a.txt"},
    "write": {"path": "new.txt", "content": "x"},
    "edit": {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]},
    "apply_patch": {"input": "*** Begin Patch\n*** Add File: b.txt\n+x\n*** End Patch"},
    "grep": {"pattern": "one"},
    "find": {"pattern": "*.txt"},
    "ls": {},
    "exec": {"command": "echo hi"},
    "ask_user": {"questions": [{"question": "Which?"}]},
}
WRITES = {"write", "edit", "apply_patch", "exec"}


@pytest.fixture(params=TOOLS, ids=lambda tool: tool.spec.name)
def tool(request: Any) -> Tool:
    chosen: Tool = request.param
    return chosen


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    (tmp_path / "a.txt").write_text("one\n")
    return ToolContext(call_id="call", workspace=tmp_path)


def prepared(tool: Tool, arguments: Mapping[str, Any]) -> ArgumentsAccepted | ArgumentsRejected:
    return prepare_arguments(tool.spec.name, tool.spec.parameters, tool.spec.aliases, arguments)


def test_every_tool_of_the_catalog_is_looked_at_here() -> None:
    assert {tool.spec.name for tool in TOOLS} == set(MINIMAL)


def test_the_schema_is_one_every_provider_accepts(tool: Tool) -> None:
    schema = tool.spec.parameters
    assert schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref", "not"} & set(schema)
    assert set(schema.get("required", ())) <= set(schema["properties"])
    for name, part in schema["properties"].items():
        assert part.get("type") in ("string", "number", "integer", "boolean", "array", "object"), name
        assert part.get("description") != "", f"{name} has an empty description"
        assert part["type"] != "array" or "items" in part, name
        assert all(isinstance(choice, str) for choice in part.get("enum", ())), name


def test_the_words_about_it_are_there_and_few(tool: Tool) -> None:
    spec = tool.spec
    assert spec.name == spec.name.lower()
    assert spec.name.replace("_", "").isalnum()
    assert len(spec.name) <= 64
    assert spec.label
    assert 5 <= len(spec.summary) <= 60
    assert 20 <= len(spec.description) <= 1024


def test_aliases_lead_to_parameters(tool: Tool) -> None:
    assert set(tool.spec.aliases.values()) <= set(tool.spec.parameters["properties"])
    assert not set(tool.spec.aliases) & set(tool.spec.parameters["properties"])


def test_effects_and_resources_can_be_asked_for_before_a_call(tool: Tool, context: ToolContext) -> None:
    arguments = MINIMAL[tool.spec.name]
    effects = tool.effects(arguments)
    assert isinstance(effects, Effects)
    assert (Effects.WRITES_FILES in effects) is (tool.spec.name in WRITES)
    assert (Effects.RUNS_CODE in effects) is (tool.spec.name == "exec")
    assert isinstance(tool.resources(arguments, context), frozenset)


def test_what_changes_a_file_needs_it_alone(context: ToolContext) -> None:
    by_name = {tool.spec.name: tool for tool in TOOLS}
    target = str(context.workspace / "a.txt")
    assert by_name["write"].resources({"path": "./a.txt", "content": ""}, context) == {target}
    assert by_name["edit"].resources(MINIMAL["edit"], context) == {target}
    patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"
    assert by_name["apply_patch"].resources({"input": patch}, context) == {target}


@pytest.mark.parametrize("arguments", [{}, {"path": None}, {"path": "\0"}, {"input": "nonsense"}], ids=str)
def test_asking_with_nonsense_is_not_an_error(tool: Tool, context: ToolContext, arguments: dict[str, Any]) -> None:
    tool.effects(arguments)
    tool.resources(arguments, context)


def test_the_least_that_is_needed_is_accepted_and_anything_unknown_refused(tool: Tool) -> None:
    arguments = MINIMAL[tool.spec.name]
    assert isinstance(prepared(tool, arguments), ArgumentsAccepted)
    refused = prepared(tool, {**arguments, "surprise": 1})
    assert isinstance(refused, ArgumentsRejected)
    assert "- surprise: unknown parameter" in refused.text


def test_what_is_required_is_missed(tool: Tool) -> None:
    for name in tool.spec.parameters.get("required", ()):
        rest = {key: value for key, value in MINIMAL[tool.spec.name].items() if key != name}
        refused = prepared(tool, rest)
        assert isinstance(refused, ArgumentsRejected)
        assert f"- {name}: missing" in refused.text


async def test_a_plain_call_works(tool: Tool, context: ToolContext) -> None:
    accepted = prepared(tool, MINIMAL[tool.spec.name])
    assert isinstance(accepted, ArgumentsAccepted)
    output = await tool.call(accepted.arguments, context)
    assert isinstance(output, Output)
    assert not output.is_error, output.text
    assert output.text


@pytest.mark.parametrize("path", ["nothing/here", "\0", "x" * 5000], ids=["missing", "NUL", "long"])
@pytest.mark.parametrize("name", ["read", "edit", "grep", "find", "ls"])
async def test_a_path_that_leads_nowhere_is_an_answer_and_not_an_exception(
    name: str, path: str, context: ToolContext
) -> None:
    tool = next(tool for tool in TOOLS if tool.spec.name == name)
    output = await tool.call({**MINIMAL[name], "path": path}, context)
    assert output.is_error
    assert output.text


async def test_a_call_that_is_stopped_leaves_all_or_nothing(tool: Tool, context: ToolContext) -> None:
    task = asyncio.create_task(tool.call(MINIMAL[tool.spec.name], context))
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(120):
        await asyncio.wait({task})
    left = {path.name: path.read_text() for path in context.workspace.iterdir()}
    assert left.pop("a.txt") in ("one\n", "two\n")
    assert left in ({}, {"new.txt": "x"}, {"b.txt": "x\n"})


async def test_a_command_that_is_stopped_leaves_no_process(context: ToolContext) -> None:
    command = "echo $$ > pid; sleep 600 & sleep 600"
    (tool,) = (tool for tool in TOOLS if tool.spec.name == "exec")
    task = asyncio.create_task(tool.call({"command": command}, context))
    pid = context.workspace / "pid"
    async with asyncio.timeout(120):
        while not (pid.exists() and pid.read_text().endswith("\n")):
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()
    assert members(int(pid.read_text())) == set()
