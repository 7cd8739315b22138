"""`docs/models.md` is true: its snippets load, its table is the catalog's."""

import re
from pathlib import Path

import pytest

from openclaw.config.load import load
from openclaw.models import registry
from openclaw.models.model_set import build_model_set
from openclaw.models.profiles import Profiles, ProfileStore
from openclaw.process.environment import Home

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```json5\n(.*?)```", PAGE, re.DOTALL)
PRIMARIES = ["box/qwen3-32b", "work/house-model-2", "anthropic/claude-opus-5-5", "ollama/qwen3:8b"]


def test_every_snippet_is_tried_below():
    assert len(SNIPPETS) == len(PRIMARIES)


@pytest.mark.parametrize(("snippet", "primary"), list(zip(SNIPPETS, PRIMARIES, strict=False)))
def test_a_snippet_does_what_the_page_says(tmp_path, snippet, primary):
    home = Home(state=tmp_path, config=tmp_path / "openclaw.json")
    home.config.write_text(snippet, encoding="utf-8")
    home.config.chmod(0o600)
    loaded = load(home, {"WORK_LLM_KEY": "k"})
    assert loaded.warnings == ()
    defaults = loaded.config.agents.defaults
    choice = defaults.model
    found = build_model_set(
        loaded.config.models,
        registry.load(),
        environ={},
        probe=tuple,
        auth=loaded.config.auth,
        stored=Profiles(),
        primary=choice if isinstance(choice, str) or choice is None else choice.primary,
        fallbacks=() if isinstance(choice, str) or choice is None else choice.fallbacks,
        aliases={ref: preference.alias for ref, preference in defaults.models.items()},
    )
    assert found.default.key == primary
    assert found.model(found.default).base_url


def test_the_table_is_the_catalog():
    rows = re.findall(r"^\| ([\w-]+) \| (`.*`) \| (.*) \|$", PAGE, re.MULTILINE)
    told = [(name, tuple(re.findall(r"`(\w+)`", names)), model) for name, names, model in rows]
    usual = [entry for entry in registry.load().providers if entry.default_model and entry.env]
    assert told == [(entry.id, entry.env, entry.default_model) for entry in usual]
    for entry in registry.load().providers:
        if not entry.default_model and not entry.local:
            assert f"{entry.id} (" in PAGE.replace("\n", " ")
            assert all(f"`{name}`" in PAGE for name in entry.env)


def test_the_profile_file_on_the_page_can_be_read(tmp_path):
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    store = ProfileStore.of_agent(tmp_path)
    store.path.write_text(text, encoding="utf-8")
    stored = store.load()
    assert stored.order["anthropic"] == ("anthropic:work", "anthropic:default")
    assert stored.of("anthropic") == ("anthropic:default", "anthropic:work")
