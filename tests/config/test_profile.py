"""`security.profile` puts a named set of settings below what is set by hand; `models.minTier` refuses weaker models."""

import json
from typing import Any

import pytest

from openclaw.config.load import load
from openclaw.config.schema import Config
from openclaw.core.errors import InvalidRequest
from openclaw.models.tiers import tier_of
from openclaw.process.environment import Environment
from openclaw.security.profiles import PROFILES, apply_profile
from openclaw.testing import ScriptedModel, TemporaryHome, ask, says
from tests.commandline import typed


def loaded(home: TemporaryHome, settings: dict[str, Any]) -> Config:
    home.configure(settings)
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.root)
    found = load(environment.home, environment.environ)
    assert not found.warnings, found.warnings
    return found.config


def test_a_profile_fills_in_what_is_not_set(openclaw_home: TemporaryHome) -> None:
    strict = loaded(openclaw_home, {"security": {"profile": "strict"}, "skills": {"trust": "tofu"}})
    assert strict.tools.fs.workspace_only and strict.agents.defaults.sandbox.mode == "all"
    assert (strict.skills.trust, strict.skills.permissions) == ("tofu", "enforce")
    assert strict.security.external_content.taint_tools == "deny"
    opened = loaded(openclaw_home, {"security": {"profile": "open"}, "tools": {"exec": {"ask": "always"}}})
    assert (opened.tools.exec.security, opened.tools.exec.ask) == ("full", "always")
    balanced = loaded(openclaw_home, {"security": {"profile": "balanced"}})
    assert balanced.tools == Config().tools and balanced.skills == Config().skills


def test_every_setting_of_a_profile_exists() -> None:
    for name in PROFILES:
        data = apply_profile({"security": {"profile": name}})
        for path, value in PROFILES[name].items():
            found: Any = data
            for part in path.split("."):
                found = found[part]
            assert found == value
    assert apply_profile({"security": {"profile": "other"}}) == {"security": {"profile": "other"}}
    assert apply_profile({"tools": "nonsense", "security": {"profile": "open"}})["tools"] == "nonsense"


def test_the_audit_sees_what_a_profile_does(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"security": {"profile": "open"}})
    found = json.loads(typed(openclaw_home)("security", "audit", "--json").out)["findings"]
    assert "tools.exec.security_full_configured" in {each["checkId"] for each in found}
    assert typed(openclaw_home)("config", "set", "security.profile", "paranoid").code != 0


@pytest.mark.parametrize(
    ("model", "tier"),
    [
        ("anthropic/claude-opus-4-5", "frontier"),
        ("anthropic/claude-haiku-4-5", "small"),
        ("openai/gpt-5", "frontier"),
        ("openai/gpt-5-mini", "small"),
        ("google/gemini-2.5-flash", "small"),
        ("google/gemini-2.5-pro", "frontier"),
        ("ollama/llama3.1:8b", "small"),
        ("ollama/llama3.3:70b", "standard"),
        ("scripted/scripted", "standard"),
    ],
)
def test_a_model_is_ranked_by_its_name(model: str, tier: str) -> None:
    assert tier_of(model) == tier


@pytest.mark.anyio
async def test_a_weaker_model_is_refused_whoever_asks_for_it(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("scripted/large", "scripted/tiny-8b")
    settings = json.loads(openclaw_home.config_path.read_text())
    settings["models"]["minTier"] = "standard"
    openclaw_home.configure(settings)
    model = ScriptedModel(says("hello"))
    async with openclaw_home.assistant(model) as app:
        await ask(app, "hi")
        models = app.models.model_set("main")
        assert [str(ref) for ref in models.chain()] == ["scripted/large"]
        with pytest.raises(InvalidRequest, match=r"scripted/tiny-8b is weaker than models\.minTier"):
            models.chain(models.resolve("scripted/tiny-8b"), strict=True)
        # A plugin asks, a person does not insist: the model of the configuration answers.
        assert [str(ref) for ref in models.chain(models.resolve("scripted/tiny-8b"))] == ["scripted/large"]
