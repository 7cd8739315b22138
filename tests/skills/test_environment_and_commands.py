"""Variables for a run, and calling a skill by name."""

import os
from typing import Any

import pytest

from openclaw.core.secret import Secret
from openclaw.skills.guard import collect_variables, variable_objection
from openclaw.skills.invoke import SkillCall, Unknown, commands, instruction, parse
from openclaw.skills.settings import SkillEntrySettings, SkillsSettings
from tests.skills.conftest import put

NEEDS = "metadata: {openclaw: {primaryEnv: API_KEY, requires: {env: [API_KEY, OTHER_TOKEN]}}}\n"


def injected(bench, environ=None, **entry) -> Any:
    put(bench.mine / "a", more=NEEDS)
    settings = SkillsSettings(entries={"a": SkillEntrySettings(**entry)})
    return collect_variables(bench.look(settings).usable, settings.entries, environ or {})


def test_a_skill_gets_its_key_and_the_process_does_not(bench):
    before = dict(os.environ)
    made = injected(bench, api_key=Secret("k-1"), env={"OTHER_TOKEN": Secret("t-1"), "PLAIN": Secret("p")})
    assert {name: value.reveal() for name, value in made.items()} == {
        "API_KEY": "k-1",
        "OTHER_TOKEN": "t-1",
        "PLAIN": "p",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    assert dict(os.environ) == before
    assert "k-1" not in repr(made)


def test_what_is_set_already_stays(bench):
    made = injected(bench, {"API_KEY": "mine"}, api_key=Secret("k"), env={"OTHER_TOKEN": Secret("t")})
    assert "API_KEY" not in made


def test_a_skill_that_cannot_be_used_gets_nothing(bench):
    assert "API_KEY" not in injected(bench, api_key=Secret("k"))
    assert "API_KEY" not in injected(bench, enabled=False, api_key=Secret("k"), env={"OTHER_TOKEN": Secret("t")})


@pytest.mark.parametrize(
    "name",
    "NODE_OPTIONS PYTHONPATH PYTHONHOME PERL5LIB RUBYOPT BASH_ENV ENV SHELL IFS LD_PRELOAD DYLD_INSERT_LIBRARIES PATH "
    "GIT_SSH_COMMAND CC OPENSSL_CONF ld_preload 1A A-B".split(),
)
def test_some_variables_are_never_set(name):
    assert variable_objection(name, Secret("x"), {name})


def test_what_looks_like_a_credential_must_be_declared(bench):
    made = injected(bench, api_key=Secret("k"), env={"OTHER_TOKEN": Secret("t"), "AWS_SECRET_ACCESS_KEY": Secret("s")})
    assert "OTHER_TOKEN" in made and "AWS_SECRET_ACCESS_KEY" not in made
    assert "looks like a credential" in variable_objection("AWS_SECRET_ACCESS_KEY", Secret("s"), {"OTHER_TOKEN"})
    assert variable_objection("A", Secret("x\0y"), set())


@pytest.fixture
def items(bench) -> Any:
    put(bench.mine / "one", "My Skill")
    put(bench.mine / "two", "my-skill")
    put(bench.mine / "three", "private", more="user-invocable: false\n")
    put(bench.mine / "four", "needs", more="metadata: {openclaw: {requires: {bins: [nowhere]}}}\n")
    return bench.look().items


def called(text, items, taken=()) -> Any:
    found = parse(text, items, taken)
    return (found.item.skill.name, found.input) if isinstance(found, SkillCall) else found


def test_a_skill_is_called_by_name(items):
    assert called("/skill:my-skill do this\nand that", items) == ("my-skill", "do this\nand that")
    assert called("/skill my-skill", items) == ("my-skill", "")
    assert called("/SKILL:My-Skill x", items) == ("my-skill", "x")


def test_each_skill_has_a_command_and_none_takes_anothers(items):
    assert {name: item.skill.name for name, item in commands(items).items()} == {
        "my_skill": "My Skill",
        "my_skill_2": "my-skill",
    }
    assert called("/my_skill_2 hello", items) == ("my-skill", "hello")
    assert called("/my_skill_2@bot hello", items) == ("my-skill", "hello")
    assert list(commands(items, taken=("my_skill",))) == ["my_skill_2", "my_skill_3"]


@pytest.mark.parametrize("text", ["hello", "/status", "/", "/my_skill2x y", "skill:my-skill", "see /skill:my-skill"])
def test_other_texts_call_nothing(items, text):
    assert parse(text, items) is None


def test_asking_for_what_cannot_be_called_says_why(items):
    for text, why in (
        ("/skill:nothing", "there is no skill"),
        ("/skill:private x", "not meant to be called by people"),
        ("/skill needs", "not installed: nowhere"),
    ):
        found = parse(text, items)
        assert isinstance(found, Unknown) and why in found.why


def test_the_model_is_told_to_read_the_skill(items):
    call = parse("/skill:my-skill the red one", items)
    assert isinstance(call, SkillCall)
    text = instruction(call, "~/x/SKILL.md")
    assert text == 'Use the skill "my-skill" now: read ~/x/SKILL.md with `read` and follow it.\n\nthe red one'


def test_a_very_long_name_makes_a_short_command(bench):
    for number in range(2):
        put(bench.mine / f"l{number}", "x" * 60 + str(number))
    assert [len(name) for name in commands(bench.look().items)] == [32, 32]
