"""Every tool takes the parameters that are written down for it, or says why it has no such thing.

`written_parameters.json` holds names, types, required, enums and limits. What differs from it is on the lists below,
each with its reason; an entry that is not needed any more fails too.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from openclaw.agent.arguments import ArgumentsAccepted, ArgumentsRejected, prepare_arguments
from openclaw.automation.cron.tool import CronTool
from openclaw.core.tool import ToolSpec
from openclaw.gateway import services
from openclaw.memory.tools import MemoryGet, MemorySearch
from openclaw.process.tasks import SystemClock
from openclaw.tools.background import Background
from openclaw.tools.browser.tool import BrowserTool
from openclaw.tools.build import build_tools
from openclaw.tools.image import ImageTool
from openclaw.tools.plan import UpdatePlan
from openclaw.tools.web_fetch import WebFetch
from openclaw.tools.web_search import WebSearch

WRITTEN: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("written_parameters.json").read_text())
CLASSES = (
    *services.TOOLS,
    CronTool,
    MemoryGet,
    MemorySearch,
    BrowserTool,
    ImageTool,
    UpdatePlan,
)
LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")

OPEN = "the job is described in words and checked as a whole, so that its older spellings are taken too"
SEED = "also the actions and values of the older shape"
DIFFERENT: dict[str, str] = {
    "ask_user.questions[] required": "a question that takes words has no options, and needs no name",
    "cron.action": "no next_check: a job has no pace of its own to move",
    "cron.job": OPEN,
    "edit required": "one replacement may be given as oldText and newText, without a list",
    "exec.ask": "only the three answers there are, and never looser than the policy",
    "gateway.action": SEED,
    "memory_get.corpus": "there is no wiki here",
    "memory_search.corpus": "there is no wiki here",
    "message.attachments[] required": "an attachment without a file is none",
    "sessions_list.offset": "no bound is needed",
    "sessions_send.mode": "the same values in one list",
    "sessions_spawn.mode": SEED,
    "sessions_spawn.runtime": SEED,
    "subagents.action": SEED,
    "update_plan required": "a plan without steps is none",
    "update_plan.plan": "a plan without steps is none",
    "update_plan.plan[].status": "the same values in one list",
    "update_plan.plan[].step": "an empty step is refused by the tool, with its own words",
}


def specs() -> dict[str, ToolSpec]:
    background = Background(SystemClock())
    machine = build_tools(shell="/bin/sh", env={}, background=background)
    return {
        **{tool.spec.name: tool.spec for tool in machine},
        **{each.spec.name: each.spec for each in (*CLASSES, WebSearch, WebFetch)},
    }


SPECS = specs()


def differences(
    written: Mapping[str, Any], ours: Mapping[str, Any], path: str, spec: ToolSpec | None = None
) -> Iterator[str]:
    """Where `ours` is not as written, by path; other names and what is absent on purpose count as there."""
    there = ours.get("properties", {})
    if set(written.get("required", ())) != set(ours.get("required", ())):
        yield f"{path} required"
    for name, schema in written.get("properties", {}).items():
        where = f"{path}.{name}"
        if name in there:
            yield from _unlike(schema, there[name], where)
            continue
        real = spec.aliases.get(name) if spec is not None else None
        if (real is None or _kind(schema) != _kind(there[real])) and (spec is None or name not in spec.absent):
            yield where


def _unlike(written: Mapping[str, Any], ours: Mapping[str, Any], where: str) -> Iterator[str]:
    limits = [name for name in LIMITS if written.get(name) != ours.get(name)]
    if limits or _kind(written) != _kind(ours) or _choices(written) != _choices(ours):
        yield where
    if written.get("type") == "object" and "properties" in written:
        if "properties" in ours:
            yield from differences(written, ours, where)
        else:
            yield where
    if written.get("type") == "array":
        yield from differences(written.get("items", {}), ours.get("items", {}), f"{where}[]")


def _kind(schema: Mapping[str, Any]) -> str:
    return str(schema.get("type", "any"))


def _choices(schema: Mapping[str, Any]) -> Any:
    return set(schema["enum"]) if "enum" in schema else schema.get("const")


def test_every_tool_takes_what_is_written_down_for_it():
    found = {
        each
        for name, written in WRITTEN.items()
        for each in differences(written, SPECS[name].parameters, name, SPECS[name])
    }
    assert found - set(DIFFERENT) == set(), "not as written, and no reason given"
    assert set(DIFFERENT) - found == set(), "as written now: take it off the list"


def test_what_is_absent_is_written_down_nowhere_else():
    for name, spec in SPECS.items():
        known = WRITTEN.get(name, {}).get("properties", {})
        assert not set(spec.absent) & set(spec.parameters["properties"]), name
        assert set(spec.absent) <= {*known, "thread", "resumeSessionId", "streamTo"}, name


@pytest.mark.parametrize(("name", "parameter"), [(name, each) for name, spec in SPECS.items() for each in spec.absent])
def test_a_parameter_that_can_have_no_effect_is_refused_with_the_reason(name, parameter):
    spec = SPECS[name]
    refused = prepare_arguments(name, spec.parameters, spec.aliases, {parameter: "x"}, spec.absent)
    assert isinstance(refused, ArgumentsRejected)
    assert f"- {parameter}: {spec.absent[parameter]}" in refused.text


def test_one_that_asks_for_nothing_is_passed_over():
    spec = SPECS["sessions_spawn"]
    given = {"task": "x", "visible": False, "groupId": None, "worktreeName": "", "collect": True}
    refused = prepare_arguments(spec.name, spec.parameters, spec.aliases, given, spec.absent)
    assert isinstance(refused, ArgumentsRejected)
    assert "collect" in refused.text.partition("Received")[0]
    assert "visible" not in refused.text.partition("Received")[0]
    del given["collect"]
    assert prepare_arguments(spec.name, spec.parameters, spec.aliases, given, spec.absent) == ArgumentsAccepted(
        {"task": "x"}
    )


def test_no_schema_begins_with_a_choice():
    for name, spec in SPECS.items():
        assert not {"anyOf", "oneOf", "allOf"} & set(spec.parameters), f"{name}: not every provider takes that"
