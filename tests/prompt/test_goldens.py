"""The golden prompts are what real runs sent, and they keep to their budgets."""

import re
from pathlib import Path

import pytest
from msgspec import structs

from openclaw.core.text import CACHE_BOUNDARY
from openclaw.prompt.build import build
from openclaw.prompt.facts import DEFAULT_HEARTBEAT
from openclaw.prompt.lint import BUDGETS, SMALL_BUDGETS
from openclaw.prompt.sections.stable import IDENTITY
from tests.prompt.recorded import NAMES, RecordedRequest, drift, golden_files
from tests.prompt.scenarios import main_direct

pytestmark = pytest.mark.slow

Recorded = dict[str, RecordedRequest]


def test_what_is_sent_is_what_was_reviewed(recorded: Recorded) -> None:
    difference = drift(golden_files(recorded))
    assert not difference, f"\n{difference}"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
def test_identity_first_safety_inside_runtime_last(recorded: Recorded, name: str) -> None:
    text = recorded[name].system
    assert text.startswith(IDENTITY + "\n")
    assert "no goals of your own" in recorded[name].section("## Safety")
    assert CACHE_BOUNDARY.strip() not in text  # it is for us, not for the model
    assert text.splitlines()[-2].startswith("Runtime: agent=")


def test_a_raw_run_gets_the_identity_line_and_nothing_else(recorded: Recorded) -> None:
    assert recorded["none"].system == IDENTITY


def test_a_first_request_keeps_to_its_budget(recorded: Recorded) -> None:
    """Everything there is: memory, cron, sessions, web, a channel with buttons and reactions, heartbeats, new files."""
    sent = recorded["telegram-direct"]
    instructions = len(sent.system) - sent.file_chars
    assert sent.schema_chars <= BUDGETS["schemas"]
    assert (instructions + sent.schema_chars) / 4 <= BUDGETS["instructions"]
    assert sent.file_chars / 4 <= BUDGETS["files"]
    assert (len(sent.system) + sent.schema_chars) / 4 <= BUDGETS["all"]
    assert DEFAULT_HEARTBEAT.text in sent.system and "BOOTSTRAP.md" in sent.system


def test_a_small_window_costs_at_most_2500_tokens(recorded: Recorded) -> None:
    sent = recorded["tiny-model"]
    assert (len(sent.system) + sent.schema_chars) / 4 <= SMALL_BUDGETS["all"]
    assert {"read", "write", "edit", "exec", "tool_search", "tool_describe", "tool_call"} == set(sent.tools)
    assert "sessions_spawn" in sent.section("## Tooling")


def test_schemas_go_with_everyday_tools_and_the_others_are_named(recorded: Recorded) -> None:
    sent = recorded["telegram-direct"]
    everyday = (
        "read write edit exec process grep find ls web_search web_fetch memory_search memory_get cron message "
        "session_status sessions_spawn sessions_yield tool_search tool_describe tool_call"
    )
    assert set(sent.tools) == set(everyday.split())
    for name in ("browser", "gateway", "sessions_list", "subagents", "image"):
        assert f"\n- {name}: " in sent.section("## Tooling")


def test_every_instruction_of_the_captured_prompt_has_its_line_in_ours(recorded: Recorded) -> None:
    """The table in docs/prompt.md quotes lines that are really sent."""
    page = (Path(__file__).parents[2] / "docs" / "prompt.md").read_text(encoding="utf-8")
    table = page.partition("## Beside the original's")[2].partition("\n## ")[0]
    rows = [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in table.splitlines()
        if line.startswith("| ") and not line.startswith("| **")
    ][1:]
    assert len(rows) > 60
    asked_for = build(structs.replace(main_direct(), acp_enabled=True, reasoning_tags=True)).text
    for theirs, ours, where in rows:
        told = asked_for if where.startswith("with ") else recorded[where].system
        assert ours in told, f"{theirs}: {ours!r} is not in {where}"
