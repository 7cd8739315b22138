"""The golden prompts are what real runs sent, and they keep to their budgets."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from openclaw.core.text import CACHE_BOUNDARY
from openclaw.prompt.build import build
from openclaw.prompt.facts import DEFAULT_HEARTBEAT
from openclaw.prompt.lint import BUDGETS, SMALL_BUDGETS
from openclaw.prompt.sections.stable import IDENTITY
from tests.prompt.codex_snapshots import FIXTURE, INSTRUCTIONS, SOURCE, record_codex, snapshot_files
from tests.prompt.recorded import NAMES, RecordedRequest, drift, golden_files
from tests.prompt.scenarios import main_direct

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "scripts" / "prompt-snapshots"

Recorded = dict[str, RecordedRequest]


def test_what_is_sent_is_what_was_reviewed(recorded: Recorded, tmp_path: Path) -> None:
    difference = drift(golden_files(recorded) | snapshot_files(record_codex(tmp_path)))
    assert not difference, f"\n{difference}"


def sync(*words: str, **variables: str) -> tuple[int, str]:
    """Runs `scripts/prompt-snapshots sync-codex-model`."""
    command = [sys.executable, str(SCRIPT), "sync-codex-model", *words]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def catalog(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    messages = {"instructions_template": text, "instructions_variables": {"personality_pragmatic": "Be plain."}}
    path.write_text(json.dumps({"models": [{"slug": "gpt-5.5", "model_messages": messages}]}))


def test_the_instructions_of_codexs_model_come_from_the_first_catalogue_there_is(tmp_path: Path) -> None:
    home, into = tmp_path / "home", tmp_path / "into"
    before = {path.name: path.read_bytes() for path in FIXTURE.iterdir()}
    variables = {"HOME": str(home), "CODEX_HOME": str(tmp_path / "codex-home")}
    code, said = sync(**variables)
    assert (code, "nothing was changed" in said) == (0, True)
    for place, text in (
        (home / "code/codex/codex-rs/models-manager/models.json", "checkout"),
        (home / ".codex/models_cache.json", "usual cache"),
        (tmp_path / "codex-home/models_cache.json", "own cache"),
        (tmp_path / "given/models.json", "given"),
    ):
        catalog(place, f"{text} {{{{ personality }}}}")
        more = ("--catalog", str(place)) if text == "given" else ()
        code, said = sync("--into", str(into), *more, **variables)
        assert code == 0, said
        assert (into / INSTRUCTIONS).read_text() == f"{text} Be plain.\n"
    source = json.loads((into / SOURCE).read_text())
    assert source["source"]["field"] == "model_messages.instructions_template"
    assert str(tmp_path) not in (into / SOURCE).read_text()
    (tmp_path / "given/models.json").write_text("{}")
    assert sync("--catalog", str(tmp_path / "given/models.json"), **variables)[0] == 1
    assert {path.name: path.read_bytes() for path in FIXTURE.iterdir()} == before


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
