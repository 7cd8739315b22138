"""The shipped catalog: complete, consistent, and honest about what it does not know."""

import subprocess
import sys

import pytest

from openclaw.core.provider import Compat
from openclaw.models import registry

SHIPPED = registry.load()


def test_every_provider_of_the_specification_that_speaks_our_apis_is_there():
    ids = {provider.id for provider in SHIPPED.providers}
    assert ids >= {
        "anthropic", "openai", "google", "openrouter", "groq", "mistral", "xai", "deepseek", "moonshot", "kimi",
        "minimax", "zai", "cerebras", "together", "huggingface", "nvidia", "qwen", "volcengine", "byteplus",
        "synthetic", "opencode", "vercel-ai-gateway", "litellm", "ollama", "lmstudio", "vllm", "sglang", "llama-cpp",
        "offline",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "names"),
    [
        ("anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN")),
        ("openai", ("OPENAI_API_KEY",)),
        ("google", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
        ("zai", ("ZAI_API_KEY", "Z_AI_API_KEY")),
        ("volcengine", ("VOLCANO_ENGINE_API_KEY",)),
        ("lmstudio", ("LM_API_TOKEN",)),
    ],
)
def test_keys_are_looked_for_under_their_usual_names(provider, names):
    entry = SHIPPED.provider(provider)
    assert entry is not None
    assert entry.env == names


def test_no_provider_or_model_is_listed_twice():
    assert len({provider.id for provider in SHIPPED.providers}) == len(SHIPPED.providers)
    assert len({model.ref for model in SHIPPED.models}) == len(SHIPPED.models)


def test_every_model_has_a_provider_and_sensible_numbers():
    for model in SHIPPED.models:
        assert SHIPPED.provider(model.provider) is not None, model.ref
        assert model.input[0] == "text", model.ref
        assert model.context_window is None or 8_000 <= model.context_window <= 3_000_000, model.ref
        assert model.max_tokens is None or model.max_tokens <= (model.context_window or 10**9), model.ref


def test_a_listed_price_is_a_real_one():
    for model in SHIPPED.models:
        if model.cost is None or model.provider == "offline":
            continue
        assert 0 < model.cost.input <= model.cost.output, model.ref
        assert 0 < model.cost.cache_read <= model.cost.input, model.ref


def test_every_usual_model_is_in_the_catalog_and_not_about_to_vanish():
    for provider in SHIPPED.providers:
        if provider.default_model is not None:
            model = SHIPPED.model(provider.id, provider.default_model)
            assert model is not None, provider.id
            assert model.status == "available", provider.id


def test_addresses_are_complete_and_only_own_servers_are_plain_http():
    for provider in SHIPPED.providers:
        if provider.id == "offline":
            continue
        scheme = "http://127.0.0.1:" if provider.local or provider.id == "litellm" else "https://"
        assert provider.base_url.startswith(scheme), provider.id
        assert not provider.base_url.endswith("/"), provider.id


def test_the_catalog_is_read_once():
    assert registry.load() is registry.load()


def test_importing_it_reads_nothing():
    code = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == 'open' else None)\n"
        "import openclaw.models.registry, openclaw.models.discover\n"
        "assert not [name for name in opened if name.endswith('catalog.json')]\n"
        "openclaw.models.registry.load()\n"
        "assert [name for name in opened if name.endswith('catalog.json')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_what_is_said_of_a_model_wins_over_its_provider():
    base = Compat(supports_store=False, max_tokens_field="max_tokens")
    over = Compat(supports_store=True, unsupported_tool_schema_keywords=("pattern",))
    assert registry.merge_compat(base, over) == Compat(
        supports_store=True, max_tokens_field="max_tokens", unsupported_tool_schema_keywords=("pattern",)
    )
    assert registry.merge_compat(base, Compat()) == base
