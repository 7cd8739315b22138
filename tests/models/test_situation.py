"""The whole of it: configuration, keys and servers together decide who answers."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from openclaw.core.errors import AuthFailed, ConfigError
from openclaw.core.secret import Secret
from openclaw.models import registry
from openclaw.models.discover import LocalModel
from openclaw.models.failover import CredentialStats
from openclaw.models.model_set import ModelSet, build_model_set
from openclaw.models.profiles import AuthProfile, Profiles
from openclaw.models.refs import ModelRef
from openclaw.models.settings import AuthSettings, ModelsSettings

NOW = 1_800_000_000_000
LOCAL = LocalModel("vllm", "http://127.0.0.1:8000", "qwen3", 32_768)


def now(**given: Any) -> ModelSet:
    models = msgspec.convert(given.pop("models", {}), ModelsSettings)
    defaults: dict[str, Any] = {"environ": {}, "probe": tuple, "auth": AuthSettings(), "stored": Profiles()}
    return build_model_set(models, registry.load(), **(defaults | given))


def test_a_configured_primary_is_used_and_nobody_is_asked():
    def not_asked() -> tuple[LocalModel, ...]:
        raise AssertionError("there was no need to ask")

    found = now(primary="fast", aliases={"openai/gpt-5": "Fast", "openai/o3": None}, probe=not_asked)
    assert found.default == ModelRef("openai", "gpt-5")
    assert found.pick.why == "configured as the primary model"


def test_with_nothing_at_all_the_offline_model_answers_without_a_key():
    found = now()
    assert found.default == ModelRef("offline", "offline")
    assert found.credentials(found.default, NOW)[0].kind == "none"


def test_a_local_model_keeps_the_window_its_server_told():
    found = now(probe=lambda: (LOCAL,))
    assert found.default.key == "vllm/qwen3"
    assert found.model(found.default).context_window == 32_768
    assert found.model(ModelRef("vllm", "other")).context_window == 200_000


def test_configured_models_come_before_keys_in_the_environment():
    models = {"providers": {"box": {"baseUrl": "http://10.0.0.1/v1", "models": [{"id": "m"}]}}}
    assert now(models=models, environ={"OPENAI_API_KEY": "k"}).default.key == "box/m"


def test_a_stored_profile_is_enough():
    stored = Profiles(profiles={"google:default": AuthProfile(provider="google", secret=Secret("k"))})
    found = now(stored=stored)
    assert found.default.provider == "google"
    assert found.credentials(found.default, NOW)[0].profile_id == "google:default"


def test_the_chain_has_fallbacks_and_ends_with_the_primary():
    found = now(primary="openai/gpt-5", fallbacks=("google/gemini-3.5-flash",))
    assert [ref.key for ref in found.chain()] == ["openai/gpt-5", "google/gemini-3.5-flash"]
    asked = found.resolve("openai/o3")
    assert [ref.key for ref in found.chain(asked)] == ["openai/o3", "google/gemini-3.5-flash", "openai/gpt-5"]
    assert found.chain(asked, strict=True) == (asked,)


def test_a_pinned_primary_keeps_its_profile():
    found = now(primary="openai/gpt-5@work")
    assert found.default == ModelRef("openai", "gpt-5", "work")
    with pytest.raises(AuthFailed, match="no profile 'work' for openai"):
        found.credentials(found.default, NOW)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"primary": "claude-sonet-5-5"}, "the primary model is configured as 'claude-sonet-5-5': no model"),
        ({"primary": "opneai/gpt-5"}, "did you mean openai/gpt-5"),
        ({"primary": "openai/gpt-5", "fallbacks": ("openai/o3", "nope")}, "fallback 2 is configured as 'nope'"),
    ],
)
def test_a_name_that_means_nothing_is_told_with_its_place(given, message):
    with pytest.raises(ConfigError, match=message):
        now(**given)


def test_a_broken_alias_is_told_but_stops_nobody():
    found = now(environ={"OPENAI_API_KEY": "k"}, aliases={"opneai/gpt-5": "bad", "openai/o3": "good"})
    good, broken = found.aliases()
    assert good == {"good": ModelRef("openai", "o3")}
    assert len(broken) == 1
    assert "alias 'bad'" in broken[0]


def test_whether_a_provider_can_be_called():
    found = now(environ={"OPENAI_API_KEY": "k"})
    assert found.has_key("openai", NOW)
    assert found.has_key("ollama", NOW)
    assert not found.has_key("anthropic", NOW)


def test_a_profile_that_begins_to_rest_is_seen_at_once():
    stored = Profiles(profiles={"openai:a": AuthProfile(provider="openai", secret=Secret("k"))})
    bare = now(primary="openai/gpt-5", environ={"OPENAI_API_KEY": "e"})
    assert [each.source for each in bare.credentials(bare.default, NOW)] == ["env: OPENAI_API_KEY"]
    with_profile = structs.replace(bare, keyring=structs.replace(bare.keyring, stored=stored))
    assert with_profile.credentials(bare.default, NOW)[0].profile_id == "openai:a"
    resting = structs.replace(stored, stats={"openai:a": CredentialStats(cooldown_until=NOW + 5)})
    cooled = structs.replace(bare, keyring=structs.replace(bare.keyring, stored=resting))
    assert [each.rests_until for each in cooled.credentials(bare.default, NOW)] == [None, NOW + 5]
    assert [each.rests_until for each in cooled.credentials(bare.default, NOW + 6)] == [None, None]
