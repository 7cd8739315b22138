"""Configured providers and models over the catalog."""

from typing import Any

import msgspec
import pytest

from openclaw.core.errors import ConfigError, NotFound
from openclaw.core.provider import Price
from openclaw.core.secret import Secret
from openclaw.models import registry as models_registry
from openclaw.models.refs import ModelRef
from openclaw.models.registry import ModelRegistry, input_by_id, is_private_address
from openclaw.models.settings import ModelsSettings


def registry(**providers: Any) -> ModelRegistry:
    return built({"providers": providers})


def built(settings: dict[str, Any]) -> ModelRegistry:
    def secret(kind: type, value: str) -> Secret:
        return Secret(value)

    return ModelRegistry(msgspec.convert(settings, ModelsSettings, dec_hook=secret), models_registry.load())


def ref(text: str) -> ModelRef:
    provider, _, model = text.partition("/")
    return ModelRef(provider, model)


def test_a_known_model_comes_with_all_we_know_of_it():
    model = registry().model(ref("anthropic/claude-opus-4-6"))
    assert (model.api, model.base_url) == ("anthropic-messages", "https://api.anthropic.com")
    assert (model.context_window, model.max_tokens, model.reasoning) == (1_000_000, 128_000, True)
    assert model.sees_images
    assert model.price == Price(5, 25, 0.5, 6.25)


def test_an_unheard_of_model_of_a_known_provider_is_taken_as_it_is():
    model = registry().model(ref("openai/gpt-99"))
    assert (model.id, model.context_window, model.max_tokens, model.price) == ("gpt-99", 200_000, None, None)


def test_a_price_we_are_not_sure_of_is_unknown_and_not_free():
    assert registry().model(ref("deepseek/deepseek-v4-pro")).price is None


def test_a_model_on_this_machine_costs_nothing_but_a_hosted_one_behind_it_is_unknown():
    assert registry().model(ref("ollama/llama3.3")).price == Price()
    assert registry().model(ref("ollama/big:cloud")).price is None
    assert registry(ollama={"baseUrl": "https://ollama.com"}).model(ref("ollama/llama3.3")).price is None
    assert registry(box={"baseUrl": "http://127.0.0.1:9/v1"}).model(ref("box/m")).price is None


def test_an_address_is_all_a_new_provider_needs():
    model = registry(box={"baseUrl": "http://10.0.0.5:9000/v1/"}).model(ref("box/some/model"))
    assert (model.provider, model.id, model.api) == ("box", "some/model", "openai-completions")
    assert model.base_url == "http://10.0.0.5:9000/v1"


def test_what_the_user_says_of_a_model_wins():
    mine = {"id": "claude-opus-5-5", "name": "Mine", "contextWindow": 50_000, "cost": {"input": 1, "output": 2}}
    found = registry(anthropic={"models": [mine]}).model(ref("anthropic/claude-opus-5-5"))
    assert (found.name, found.context_window, found.price) == ("Mine", 50_000, Price(1, 2))
    assert found.max_tokens == 128_000  # not said, so still known
    assert found.reasoning
    assert found.sees_images


def test_a_user_can_say_that_a_model_neither_thinks_nor_sees():
    mine = {"id": "claude-opus-5-5", "reasoning": False, "input": ["text"]}
    found = registry(anthropic={"models": [mine]}).model(ref("anthropic/claude-opus-5-5"))
    assert not found.reasoning
    assert not found.sees_images


def test_provider_settings_reach_the_model_and_its_endpoint():
    given = registry(
        box={
            "baseUrl": "https://llm.example.com/v1",
            "headers": {"X-Team": "a"},
            "timeoutSeconds": 7,
            "maxTokens": 500,
            "params": {"temperature": 1, "top_p": 0.5},
            "authHeader": True,
            "models": [{"id": "m", "maxTokens": 900, "params": {"temperature": 0}, "headers": {"X-Model": "m"},
                        "compat": {"supportsTools": False}}],
        }
    )  # fmt: skip
    model = given.model(ref("box/m"))
    assert (model.max_tokens, model.timeout_seconds) == (500, 7)
    assert model.params == {"temperature": 0, "top_p": 0.5}
    assert model.headers == {"X-Model": "m"}
    assert model.compat.supports_tools is False
    endpoint = given.endpoint(model, Secret("sk-test-123456"))
    assert (endpoint.base_url, endpoint.headers) == ("https://llm.example.com/v1", {"X-Team": "a"})
    assert endpoint.bearer
    assert endpoint.timeout_seconds == 7
    assert "sk-test" not in repr(endpoint)


def test_a_sign_in_token_is_sent_as_a_bearer():
    plain = registry()
    model = plain.model(ref("anthropic/claude-opus-5-5"))
    assert not plain.endpoint(model, Secret("k")).bearer
    assert plain.endpoint(model, Secret("k"), bearer=True).bearer


def test_a_model_may_live_elsewhere_and_speak_another_api_than_its_provider():
    entry = {"id": "m", "api": "anthropic-messages", "baseUrl": "https://other.example.com/v1"}
    model = registry(box={"baseUrl": "https://llm.example.com/v1", "models": [entry]}).model(ref("box/m"))
    assert (model.api, model.base_url) == ("anthropic-messages", "https://other.example.com")


@pytest.mark.parametrize(
    ("provider", "base_url", "becomes"),
    [
        ("anthropic", "https://proxy.example.com/v1/", "https://proxy.example.com"),
        ("ollama", "http://10.0.0.2:11434/v1", "http://10.0.0.2:11434"),
        ("openai", "https://proxy.example.com/v1", "https://proxy.example.com/v1"),
    ],
)
def test_an_address_pasted_with_a_version_still_works(provider, base_url, becomes):
    assert registry(**{provider: {"baseUrl": base_url}}).model(ref(f"{provider}/m")).base_url == becomes


@pytest.mark.parametrize("address", ["api.example.com/v1", "ftp://x", "https://", "http://[::1", "http://h:99999", ""])
def test_an_address_that_is_none_is_refused_with_its_setting(address):
    with pytest.raises(ConfigError, match=r"models\.providers\.box\.baseUrl is not an address") as error:
        registry(box={"baseUrl": address})
    assert error.value.path == "models.providers.box.baseUrl"


def test_a_key_inside_an_address_is_refused_and_not_repeated():
    with pytest.raises(ConfigError, match="move it to apiKey") as error:
        registry(box={"baseUrl": "https://user:hunter22@llm.example.com/v1"})
    assert "hunter22" not in str(error.value)


def test_a_new_provider_without_an_address_says_what_is_missing():
    with pytest.raises(ConfigError, match=r"set models\.providers\.box\.baseUrl"):
        registry(box={"models": [{"id": "m"}]})


def test_a_built_in_provider_may_be_written_under_its_other_name():
    assert registry(**{"z.ai": {"timeoutSeconds": 9}}).model(ref("zai/glm-4.7")).timeout_seconds == 9
    own = registry(gemini={"baseUrl": "https://own.example.com/v1"})
    assert own.model(ref("gemini/x")).base_url == "https://own.example.com/v1"
    assert own.model(ref("google/gemini-3.5-flash")).base_url.startswith("https://generativelanguage")


def test_replace_hides_the_catalog_except_what_was_asked_for():
    replaced = built({"mode": "replace", "providers": {"openai": {"models": [{"id": "gpt-5"}]}}})
    assert [model.ref for model in replaced.list()] == ["openai/gpt-5", "offline/offline"]
    assert replaced.model(ref("openai/gpt-5")).base_url == "https://api.openai.com/v1"
    with pytest.raises(NotFound, match="no provider 'anthropic'"):
        replaced.model(ref("anthropic/claude-opus-5-5"))


def test_the_list_has_ones_own_models_first_and_each_once():
    listed = registry(openai={"models": [{"id": "gpt-5"}, {"id": "mine"}]}).list()
    names = [model.ref for model in listed]
    assert names[:2] == ["openai/gpt-5", "openai/mine"]
    assert len(set(names)) == len(names)
    assert "anthropic/claude-opus-5-5" in names


def test_an_unknown_provider_gets_a_guess():
    with pytest.raises(NotFound, match="did you mean anthropic"):
        registry().provider("antropic")


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        ("gpt-4o-2024", True), ("gpt-4.1-mini", True), ("gpt-5", True), ("o1", True), ("o3-pro", True),
        ("openai/o4-mini", True), ("claude-x", True), ("gemini-9", True), ("qwen2.5-vl-7b", True), ("llava:13b", True),
        ("pixtral-12b", True), ("InternVL3", True), ("minicpm-v", True), ("glm-4v", True), ("llama3.2-vision", True),
        ("llama-3.3", False), ("deepseek-r1", False), ("mistral-small", False), ("kimi-k2", False),
        ("codestral", False), ("phi-4", False), ("qwq-32b", False), ("gpt-oss-20b", False), ("foo1-bar", False),
        ("gpt-3.5-turbo", False),
    ],
)  # fmt: skip
def test_what_a_model_reads_is_judged_by_its_name(model, sees):
    assert ("image" in input_by_id(model)) is sees


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("http://127.0.0.1:11434", True), ("http://localhost/v1", True), ("http://box.local:1", True),
        ("http://10.1.2.3", True), ("http://172.16.0.1", True), ("http://172.32.0.1", False),
        ("http://192.168.1.1", True), ("http://100.64.0.1", True), ("http://0.0.0.0:8", True), ("http://[::1]:8", True),
        ("http://[fd00::1]", True), ("http://[fe80::1%25eth0]", True), ("https://api.openai.com", False),
        ("https://8.8.8.8", False), ("https://localhost.example.com", False), ("", False), ("http://[", False),
    ],
)  # fmt: skip
def test_an_address_is_ones_own_or_not(address, own):
    assert is_private_address(address) is own
