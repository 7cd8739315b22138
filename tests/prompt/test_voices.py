"""Owners and model families."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.secret import Secret
from openclaw.prompt.fit import resolve
from openclaw.prompt.sections.tools import authorized_senders

ENDING = ". These senders are allowlisted; do not assume they are the owner."


def line(*arguments: object) -> str:
    made = authorized_senders(*arguments)  # type: ignore[arg-type]
    assert made is not None
    return made.text


def test_senders_are_shown_as_keyed_hashes():
    assert line(["telegram:123456789", "*"], "hash", Secret("s3cret")) == f"Authorized senders: 8cdcbcfec79e{ENDING}"


def test_without_a_secret_only_their_number_is_told():
    shown = line(["telegram:1", "telegram:2"], "hash", None)
    assert shown == f"Authorized senders: 2 (ids withheld){ENDING}"
    assert line(["a"], "hash", Secret("")) == f"Authorized senders: 1 (ids withheld){ENDING}"


def test_raw_ids_are_joined_and_cleaned():
    assert line(["+49 1", "x\u202e\ny"], "raw") == f"Authorized senders: +49 1, xy{ENDING}"


def test_nobody_allowlisted_means_no_line():
    assert authorized_senders([]) is None
    assert authorized_senders(["*", " "]) is None


@given(st.lists(st.text(min_size=1, max_size=2_000), max_size=30))
def test_the_line_never_grows_past_its_budget(ids):
    made = authorized_senders(ids, "raw")
    assert made is None or len(made.text.encode()) <= 1_024


def test_a_huge_id_is_cut_to_a_valid_beginning():
    shown = line(["é" * 3_000], "raw")
    assert "é..." in shown and "\ufffd" not in shown


@pytest.mark.parametrize(
    ("provider", "model", "window", "family"),
    [
        ("openai", "gpt-5", None, "gpt-5"),
        ("codex", "openai/gpt-5.2-codex", None, "gpt-5"),
        ("azure-openai", "GPT-5-mini", 400_000, "gpt-5"),
        ("openai", "gpt-50", None, None),
        ("openrouter", "openai/gpt-5", None, None),
        ("openai", "gpt-4.1", None, None),
        ("anthropic", "claude-opus-4-5", None, "claude"),
        ("openrouter", "anthropic/claude-sonnet-4-5", None, "claude"),
        ("google", "gemini-3-pro", None, "gemini"),
        ("ollama", "llama3.2:3b", None, "small"),
        ("ollama", "qwen3:8b-q4_K_M", None, "small"),
        ("ollama", "qwen3:32b", None, None),
        ("openai", "gpt-5", 8_192, "small"),
    ],
)
def test_each_family_hears_its_own_words(provider, model, window, family):
    prefix = resolve(provider, model, context_window=window).stable_prefix
    assert (prefix.source if prefix else None) == (f"model family {family}" if family else None)


def test_the_gpt5_overlay_has_its_five_blocks():
    prefix = resolve("openai", "gpt-5.1").stable_prefix
    assert prefix is not None
    for tag in ("persona_latch", "execution_policy", "tool_discipline", "output_contract", "completion_contract"):
        assert f"<{tag}>\n" in prefix.text and f"\n</{tag}>" in prefix.text
