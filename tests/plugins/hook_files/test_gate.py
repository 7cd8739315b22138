"""Which hooks run: the settings, the machine, and the place they come from."""

from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclaw.agent.settings import AgentsSettings
from openclaw.core.settings import Fixed
from openclaw.extensions.front_matter import Requirements
from openclaw.extensions.gate import MachineFacts
from openclaw.plugins.hooks.dispatch import HookDispatcher
from openclaw.plugins.hooks.files import HookFiles
from openclaw.plugins.hooks.manifest import HookDirectory, HookManifest, Source, judge
from openclaw.plugins.settings import InternalHooksSettings
from openclaw.process.environment import Environment
from openclaw.testing import FakeClock

HERE = MachineFacts(
    platform="linux", env={"HOME"}, has_bin=lambda name: name == "sh", has_config=lambda path: path == "tools.exec"
)


def hook(name: str = "h", source: Source = "openclaw-managed", **manifest: Any) -> HookDirectory:
    return HookDirectory(
        manifest=HookManifest(name=name, events=("command",), **manifest), source=source, directory=f"/{name}"
    )


def settings(**given: Any) -> InternalHooksSettings:
    return msgspec.convert(given, InternalHooksSettings)


CHOSEN: list[tuple[str, dict[str, Any], bool, bool, bool, bool]] = [
    # what the settings say, and whether a bundled, a managed, an extra and a workspace hook called h is chosen
    ("nothing", {}, False, False, False, False),
    ("off", {"enabled": False, "entries": {"h": {"enabled": True}}}, False, False, False, False),
    ("on", {"enabled": True}, True, True, True, False),
    ("its entry", {"entries": {"h": {"enabled": True}}}, True, True, True, True),
    ("its entry without the word", {"entries": {"h": {}}}, True, True, True, False),
    ("its entry says no", {"enabled": True, "entries": {"h": {"enabled": False}}}, False, False, False, False),
    ("another's entry", {"enabled": True, "entries": {"x": {"enabled": True}}}, False, False, False, False),
    ("another switched off", {"enabled": True, "entries": {"x": {"enabled": False}}}, True, True, True, False),
    ("only more directories", {"load": {"extraDirs": ["/d"]}}, False, False, True, False),
]


@pytest.mark.parametrize(
    ("given", "bundled", "managed", "extra", "workspace"), [row[1:] for row in CHOSEN], ids=[row[0] for row in CHOSEN]
)
def test_the_settings_choose(given: dict[str, Any], bundled: bool, managed: bool, extra: bool, workspace: bool) -> None:
    rules = settings(**given)
    found = [
        judge(hook(source=source), rules, HERE).chosen
        for source in ("openclaw-bundled", "openclaw-managed", "openclaw-extra", "openclaw-workspace")
    ]
    assert found == [bundled, managed, extra, workspace]


def looked_for(*, safe: bool = False, **given: Any) -> bool:
    agents, variables = Fixed(AgentsSettings()), Fixed(dict[str, str]())
    machine = Environment(environ={}, home_dir=Path("/"), cwd=Path("/"))
    live = Fixed(settings(**given))
    clock = FakeClock()
    return HookFiles(HookDispatcher(clock), live, agents, variables, bool, machine, clock, UTC, resting=safe).on


def test_nobody_looks_for_hooks_that_nobody_wants() -> None:
    assert not looked_for()
    assert not looked_for(entries={"x": {"enabled": False}})
    assert not looked_for(enabled=False, entries={"x": {"enabled": True}})
    assert looked_for(enabled=True) and looked_for(entries={"x": {}})
    assert looked_for(load={"extraDirs": ["/x"]})
    assert not looked_for(safe=True, enabled=True) and not looked_for(safe=True, load={"extraDirs": ["/x"]})


def test_everything_that_is_missing_is_named() -> None:
    needs = Requirements(bins=("sh", "gog"), any_bins=("a", "b"), env=("HOME", "TOKEN"), config=("tools.exec", "x.y"))
    verdict = judge(hook(requires=needs), settings(enabled=True), HERE)
    assert not verdict.eligible and verdict.chosen
    assert verdict.reasons == (
        "not set: TOKEN",
        "not configured: x.y",
        "not installed: gog",
        "none of these is installed: a, b",
    )


def test_a_variable_of_the_entry_counts_and_always_means_always() -> None:
    entry = {"entries": {"k": {"env": {"TOKEN": "secret"}}}}
    rules = msgspec.convert(entry, InternalHooksSettings, dec_hook=lambda kind, value: kind(value))
    assert judge(hook(hook_key="k", requires=Requirements(env=("TOKEN",))), rules, HERE).runs
    assert judge(hook(always=True, requires=Requirements(bins=("gog",))), settings(enabled=True), HERE).runs
    elsewhere = judge(hook(os=("darwin",), always=True), settings(enabled=True), HERE)
    assert elsewhere.reasons == ("only for darwin",)


def test_a_workspaces_hook_says_how_to_let_it_run() -> None:
    verdict = judge(hook(source="openclaw-workspace"), settings(enabled=True), HERE)
    assert verdict.reasons == ("a workspace's hook runs only after you say so: openclaw hooks enable h",)
