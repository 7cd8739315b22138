"""The golden prompts: what is sent is what was reviewed."""

import pytest

from openclaw.core.text import CACHE_BOUNDARY, estimate_tokens, utf16_length
from openclaw.prompt.build import build
from openclaw.prompt.fit import fit, token_budget
from openclaw.prompt.sections.stable import IDENTITY
from tests.prompt.scenarios import GOLDEN, SCENARIOS, drift, expected, fresh_files, main_direct, tiny


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_prompt_is_the_reviewed_one(name):
    difference = drift(name)
    assert not difference, f"\n{difference}"


def test_no_golden_file_is_left_over():
    wanted = {file for name in SCENARIOS for file in expected(name)}
    assert {path.name for path in GOLDEN.iterdir()} == wanted


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "none"])
def test_every_prompt_has_identity_first_safety_inside_and_runtime_last(name):
    prompt = build(SCENARIOS[name]())
    assert prompt.text.startswith(IDENTITY + "\n")
    assert "\n## Safety\n" in prompt.stable
    assert prompt.text.count(CACHE_BOUNDARY) == 1
    assert prompt.text.splitlines()[-2].startswith("Runtime: ")


def test_raw_runs_get_the_identity_line_and_nothing_else():
    assert build(SCENARIOS["none"]()).text == "You are a personal assistant running inside OpenClaw."


def test_a_fresh_workspace_with_all_tools_costs_at_most_6000_tokens():
    from msgspec import structs

    facts = structs.replace(
        main_direct(),
        context_files=fresh_files(bootstrap=True),
        delegation="prefer",
        acp_enabled=True,
        silent_replies="generic",
    )
    assert estimate_tokens(utf16_length(build(facts).text)) <= 6_000


def test_an_8k_model_pays_at_most_2500_tokens_for_a_fresh_workspace():
    assert estimate_tokens(utf16_length(build(tiny()).text)) <= 2_500
    assert token_budget(8_192) <= 2_500


def test_a_large_model_gives_nothing_up():
    fitted = fit(main_direct(), token_budget(200_000))
    assert fitted.facts == main_direct() and fitted.degraded == ()
