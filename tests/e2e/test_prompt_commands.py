"""`openclaw prompt`, `setup` and `agents` as a person would use them."""

import json
from pathlib import Path

import pytest

from openclaw.testing import TemporaryHome
from tests.e2e.test_command_line import run


def test_the_prompt_can_be_built_without_a_model(openclaw_home: TemporaryHome) -> None:
    done = run(openclaw_home, "prompt", "build")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("You are a personal assistant running inside OpenClaw.\n")
    assert "<!-- OPENCLAW_CACHE_BOUNDARY -->" in done.stdout
    assert done.stdout.rstrip().splitlines()[-2].startswith("Runtime: agent=main")
    document = json.loads(run(openclaw_home, "prompt", "build", "--json").stdout)
    assert document["text"] == done.stdout.rstrip("\n")
    assert [tool["name"] for tool in document["tools"]] == sorted(tool["name"] for tool in document["tools"])
    assert document["report"]["systemPrompt"]["chars"] == len(document["text"].encode("utf-16-le")) // 2


def test_a_changed_file_is_named_by_the_diff_and_the_blame(openclaw_home: TemporaryHome) -> None:
    assert run(openclaw_home, "agent", "-m", "what time is it?").returncode == 0
    listed = run(openclaw_home, "prompt", "runs").stdout
    run_id = listed.splitlines()[1].split()[0]
    assert "prefix is unchanged" in run(openclaw_home, "prompt", "diff", run_id).stdout
    soul = openclaw_home.workspace / "SOUL.md"
    soul.write_text(soul.read_text() + "\nAlways answer in rhyme.\n")
    done = run(openclaw_home, "prompt", "diff", run_id[:8], "now", "--text")
    assert "SOUL.md" in done.stdout and "+Always answer in rhyme." in done.stdout and "broke" in done.stdout
    blamed = run(openclaw_home, "prompt", "blame", "--grep", "rhyme").stdout
    assert "workspace" in blamed and "SOUL.md"[:4] in soul.name
    assert run(openclaw_home, "prompt", "report", "--run", run_id[:8]).returncode == 0


def test_lint_finds_what_is_worth_mending(openclaw_home: TemporaryHome) -> None:
    assert run(openclaw_home, "prompt", "lint").returncode == 0
    agents = openclaw_home.workspace / "AGENTS.md"
    agents.write_text("Use the `web_search` tool.\u200b\n" + "x" * 30_000)
    done = run(openclaw_home, "prompt", "lint", "--json")
    assert done.returncode == 1
    kinds = {finding["kind"] for finding in json.loads(done.stdout)["findings"]}
    assert len(kinds) >= 2, kinds


def test_setup_makes_a_workspace_and_never_overwrites(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    assert run(openclaw_home, "setup", "--workspace", str(place)).returncode == 0
    assert (place / "AGENTS.md").exists() and (place / "BOOTSTRAP.md").exists()
    (place / "SOUL.md").write_text("mine")
    (place / "BOOTSTRAP.md").unlink()
    assert "nothing was missing" in run(openclaw_home, "setup").stdout
    assert (place / "SOUL.md").read_text() == "mine" and not (place / "BOOTSTRAP.md").exists()


def test_agents_come_and_go(openclaw_home: TemporaryHome) -> None:
    added = run(openclaw_home, "agents", "add", "work", "--name", "Worker")
    assert added.returncode == 0, added.stderr
    rows = json.loads(run(openclaw_home, "agents", "list", "--json").stdout)
    assert [(row["id"], row["isDefault"]) for row in rows] == [("main", True), ("work", False)]
    assert (Path(rows[1]["workspace"]) / "AGENTS.md").exists()
    assert run(openclaw_home, "agent", "--agent", "work", "-m", "what time is it?").returncode == 0
    assert len(openclaw_home.transcripts("work")) == 1
    assert (
        run(openclaw_home, "agents", "set-identity", "--agent", "work", "--name", "Bee", "--emoji", "🐝").returncode
        == 0
    )
    assert "🐝 Bee" in run(openclaw_home, "agents", "list").stdout
    assert run(openclaw_home, "agents", "delete", "work", "--yes").returncode == 0
    assert [row["id"] for row in json.loads(run(openclaw_home, "agents", "list", "--json").stdout)] == ["main"]
    assert (Path(rows[1]["workspace"]) / "AGENTS.md").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["agents", "add", "main"], "already"),
        (["agents", "add", "Not Valid!"], "not an agent id"),
        (["agents", "delete", "main", "--yes"], "default"),
        (["agents", "delete", "nobody", "--yes"], "nobody"),
        (["agents", "set-identity"], "nothing to set"),
        (["prompt", "diff", "00000000"], "prompt runs"),
        (["prompt", "blame", "--line", "99999"], "lines"),
        (["prompt", "build", "--model", "nowhere/x"], "nowhere"),
    ],
)
def test_mistakes_are_explained(words: list[str], expected: str, openclaw_home: TemporaryHome) -> None:
    done = run(openclaw_home, *words)
    assert done.returncode in (1, 2) and expected in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
