"""When a skill is offered, and what it says when it is not."""

from typing import Any

import pytest

from openclaw.core.secret import Secret
from openclaw.skills.find import PluginDirectory
from openclaw.skills.gate import command, describe_step, steps_for
from openclaw.skills.manifest import parse
from openclaw.skills.settings import DependencySettings, SkillEntrySettings, SkillsSettings
from tests.skills.conftest import put

NEEDS = "metadata: {openclaw: {%s}}\n"


def judged(bench, needs: str, settings=None, **more) -> Any:
    put(bench.mine / "s", more=NEEDS % needs)
    return bench.one("s", settings, **more).verdict


@pytest.mark.parametrize(
    ("needs", "has", "missing", "said"),
    [
        ("requires: {bins: [a, b]}", {"bins": {"a"}}, ("bins", ("b",)), "not installed: b"),
        ("requires: {anyBins: [a, b]}", {}, ("any_bins", ("a", "b")), "none of these is installed: a, b"),
        ("requires: {env: [A, B]}", {"env": {"A"}}, ("env", ("B",)), "not set: B"),
        ("requires: {config: [x.y]}", {}, ("config", ("x.y",)), "not configured: x.y"),
        ("os: [darwin]", {}, ("os", ("darwin",)), "only for darwin"),
    ],
)
def test_what_is_missing_is_named(bench, needs, has, missing, said):
    for kind, values in has.items():
        getattr(bench, kind).update(values)
    verdict = judged(bench, needs)
    assert not verdict.eligible
    assert getattr(verdict.missing, missing[0]) == missing[1]
    assert verdict.reasons == (said,)


def test_with_everything_there_it_is_offered(bench):
    bench.bins, bench.env, bench.config = {"a", "c"}, {"E"}, {"x.y"}
    needs = "requires: {bins: [a], anyBins: [b, c], env: [E], config: [x.y]}, os: [linux, darwin]"
    assert judged(bench, needs).eligible


def test_always_skips_what_is_missing_but_not_the_system(bench):
    assert judged(bench, "always: true, requires: {bins: [nowhere]}").eligible
    assert not judged(bench, "always: true, os: [win32]").eligible


def test_a_switched_off_skill_is_out(bench):
    verdict = judged(bench, "always: true", SkillsSettings(entries={"s": SkillEntrySettings(enabled=False)}))
    assert verdict.disabled and not verdict.eligible
    assert verdict.reasons == ("switched off: skills.entries.s.enabled is false",)


def test_a_key_in_the_settings_stands_for_the_variable(bench):
    needs = "primaryEnv: K, requires: {env: [K]}, skillKey: other"
    assert judged(bench, needs).reasons == ("not set: K",)
    assert judged(bench, needs).remedies == ("openclaw config set skills.entries.other.apiKey …",)
    assert judged(bench, needs, SkillsSettings(entries={"other": SkillEntrySettings(api_key=Secret("x"))})).eligible
    assert judged(bench, needs, SkillsSettings(entries={"other": SkillEntrySettings(env={"K": Secret("x")})})).eligible


def test_an_agent_with_a_list_has_only_what_is_on_it(bench):
    assert judged(bench, "", allowlist=("s",)).eligible
    verdict = judged(bench, "", allowlist=())
    assert verdict.blocked_by_agent and not verdict.eligible


def test_only_listed_shipped_skills(bench):
    shelf = bench.library.look(bench.places(), SkillsSettings(allow_bundled=("git",)), bench.machine)
    assert shelf.get("notes").verdict.blocked_by_allowlist
    assert not shelf.get("git").verdict.blocked_by_allowlist


def test_a_skill_of_a_plugin_needs_its_plugin(bench):
    put(bench.top / "plugin" / "s")
    plugins = (PluginDirectory("p", bench.top / "plugin"),)
    assert bench.one("s", plugins=plugins).verdict.reasons == ("its plugin p is not enabled",)
    bench.plugins = ("p",)
    assert bench.one("s", plugins=plugins).verdict.eligible


def test_hidden_from_the_model_is_still_there_for_people(bench):
    put(bench.mine / "s", more="disable-model-invocation: true\n")
    item = bench.one("s")
    assert item.user_invocable and not item.model_visible


INSTALLS = """---
name: s
description: d
metadata:
  openclaw:
    requires: {bins: [x]}
    install:
      - {id: n, kind: node, package: "@a/b@1.2"}
      - {id: b, kind: brew, formula: x}
      - {id: c, kind: brew, cask: y, os: [darwin]}
      - {id: u, kind: uv, package: x}
      - {id: g, kind: go, module: example.com/x/cmd/x}
      - {id: d, kind: download, url: "https://x.example/x.tgz"}
---
"""


def test_install_steps_are_shown_in_the_order_to_try(bench):
    manifest = parse(INSTALLS, "s")
    steps = steps_for(manifest, "linux", DependencySettings())
    assert [step.id for step in steps] == ["b", "u", "n", "g", "d"]
    assert [step.id for step in steps_for(manifest, "win32", DependencySettings())][-1] == "b"
    assert "c" in [step.id for step in steps_for(manifest, "darwin", DependencySettings())]


def test_install_steps_are_plain_command_lines(bench):
    manifest = parse(INSTALLS, "s")
    lines = {step.id: " ".join(command(step, DependencySettings())) for step in manifest.install}
    assert lines == {
        "n": "npm install -g --ignore-scripts @a/b@1.2",
        "b": "brew install x",
        "c": "brew install --cask y",
        "u": "uv tool install x",
        "g": "go install example.com/x/cmd/x@latest",
        "d": "",
    }
    assert "never downloaded" in describe_step(manifest.install[-1], DependencySettings())


def test_a_missing_program_comes_with_how_to_get_it(bench):
    path = put(bench.mine / "s")
    path.write_text(INSTALLS)
    assert "get b: brew install x" in bench.one("s").verdict.remedies
