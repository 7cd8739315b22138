"""Model references as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.models.refs import ModelNames, ModelRef, aliases_of, parse, resolve

BOOK = ModelNames(
    providers=frozenset({"anthropic", "openai", "openrouter", "zai", "box", "cloud"}),
    configured=("box/llama-3.3", "box/shared", "cloud/shared"),
    known=("anthropic/claude-opus-5-5", "anthropic/claude-sonnet-5-5", "openai/gpt-5", "openrouter/meta/llama-3.3"),
    aliases={"Opus": "anthropic/claude-opus-5-5", "fast": "openai/gpt-5"},
    default="openai/gpt-5",
)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("openai/gpt-5", ModelRef("openai", "gpt-5")),
        ("  OpenAI/gpt-5 ", ModelRef("openai", "gpt-5")),
        ("openrouter/meta-llama/llama-3.3-70b", ModelRef("openrouter", "meta-llama/llama-3.3-70b")),
        ("z.ai/glm-4.7", ModelRef("zai", "glm-4.7")),
        ("gemini/gemini-3.5-flash", ModelRef("google", "gemini-3.5-flash")),
        ("openai/gpt-5@work", ModelRef("openai", "gpt-5", "work")),
        ("anthropic/claude@anthropic:me@example.com", ModelRef("anthropic", "claude", "anthropic:me@example.com")),
        ('openai/gpt-5@"my work key"', ModelRef("openai", "gpt-5", "my work key")),
        ("cf/@cf/meta/llama", ModelRef("cf", "@cf/meta/llama")),
        ("cf/@cf/meta/llama@work", ModelRef("cf", "@cf/meta/llama", "work")),
        ("vertex/claude@20250514", ModelRef("vertex", "claude@20250514")),
        ("vertex/claude@20250514@work", ModelRef("vertex", "claude@20250514", "work")),
        ("lmstudio/qwen2.5-7b@q4_k_m", ModelRef("lmstudio", "qwen2.5-7b@q4_k_m")),
        ("lmstudio/qwen2.5-7b@8bit@work", ModelRef("lmstudio", "qwen2.5-7b@8bit", "work")),
        ("llama.cpp//models/q.gguf", ModelRef("llama-cpp", "/models/q.gguf")),
    ],
)
def test_a_reference_is_split_at_the_first_slash(text, ref):
    assert parse(text) == ref


@pytest.mark.parametrize("text", ["", "   ", "gpt-5", "/gpt-5", "openai/", "openai/ ", "a\nb/c", "x/" + "y" * 500])
def test_what_is_no_reference_is_refused_with_an_example(text):
    with pytest.raises(InvalidRequest, match="openai/gpt-5"):
        parse(text)


@given(st.text(max_size=60))
def test_parsing_gives_a_reference_or_says_why_not(text):
    try:
        ref = parse(text)
    except InvalidRequest:
        return
    assert ref.provider == ref.provider.lower()
    assert ref.model


NAMES = st.from_regex(r"[a-z][a-z0-9._-]{0,20}", fullmatch=True)


@given(NAMES, NAMES, st.sampled_from([None, "work", "openai:me@example.com", "my key"]))
def test_a_reference_survives_being_written_and_read(provider, model, profile):
    ref = ModelRef(provider, model, profile)
    assert parse(str(ref), {provider}) == ref


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("opus", ModelRef("anthropic", "claude-opus-5-5")),
        ("OPUS", ModelRef("anthropic", "claude-opus-5-5")),
        ("opus@work", ModelRef("anthropic", "claude-opus-5-5", "work")),
        ("gpt-5", ModelRef("openai", "gpt-5")),
        ("GPT-5", ModelRef("openai", "gpt-5")),
        ("llama-3.3", ModelRef("box", "llama-3.3")),
        ("meta/llama-3.3", ModelRef("openrouter", "meta/llama-3.3")),
        ("openai/gpt-99-unheard-of", ModelRef("openai", "gpt-99-unheard-of")),
        ("default", ModelRef("openai", "gpt-5")),
        ("Default@work", ModelRef("openai", "gpt-5", "work")),
    ],
)
def test_a_name_finds_its_model(text, ref):
    assert resolve(text, BOOK) == ref


def test_a_name_that_two_providers_have_must_be_made_clear():
    with pytest.raises(InvalidRequest, match="box/shared or cloud/shared: say which"):
        resolve("shared", BOOK)


def test_a_misspelt_model_gets_the_nearest_names_and_how_to_list_them():
    with pytest.raises(NotFound) as error:
        resolve("claude-sonet-5-5", BOOK)
    assert "anthropic/claude-sonnet-5-5" in error.value.message
    assert "openclaw models list --all" in error.value.message


def test_a_misspelt_provider_gets_the_nearest_reference():
    with pytest.raises(NotFound, match=r"did you mean anthropic/claude-opus-5-5\?") as error:
        resolve("antropic/claude-opus-5-5", BOOK)
    assert "models.providers.antropic" in error.value.message


def test_nonsense_is_refused_without_a_guess():
    with pytest.raises(NotFound, match="no model 'qqqqqqqqqq'; `openclaw models list"):
        resolve("qqqqqqqqqq", BOOK)


def test_default_without_a_default_says_what_to_set():
    with pytest.raises(InvalidRequest, match=r"agents\.defaults\.model"):
        resolve("default", ModelNames(providers={"openai"}))


def test_a_provider_of_ones_own_is_not_taken_for_a_built_in_one():
    assert resolve("gemini/x", ModelNames(providers={"gemini", "google"})).provider == "gemini"
    assert resolve("gemini/x", ModelNames(providers={"google"})).provider == "google"


def test_aliases_are_read_from_the_configured_map():
    assert aliases_of({"openai/gpt-5": "fast", "openai/o3": None, "openai/o1": " "}) == {"fast": "openai/gpt-5"}
