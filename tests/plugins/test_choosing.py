"""Which plugins are found, which of them run, and what of their registrations counts."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclaw.core.plugin import Api, Command, FunctionTool, HttpAnswer, HttpRoute, Method, PluginContributions
from openclaw.plugins.admit import PluginVerdict, admit, judge, unknown_entries
from openclaw.plugins.find import FoundPlugin, UnusablePlugin, discover_plugins, read_plugin
from openclaw.plugins.manifest import PluginManifest
from openclaw.plugins.settings import PluginsSettings
from tests.plugins.support import write


def found(name: str, source: Any = "path", **manifest: Any) -> FoundPlugin:
    said = msgspec.convert({"id": name, "configSchema": {}, **manifest}, PluginManifest)
    return FoundPlugin(manifest=said, directory=Path("/p") / name, source=source, entry=said.entry)


def verdict(plugin: FoundPlugin, settings: dict[str, Any], accepted: Any = None, digest: Any = None) -> PluginVerdict:
    given = msgspec.convert(settings, PluginsSettings)
    known = {plugin.id: accepted} if accepted else {}
    return judge([plugin], given, known, {plugin.id: digest} if digest else {})[plugin.id]


RULES: list[tuple[FoundPlugin, dict[str, Any], str]] = [
    (found("a"), {}, ""),
    (found("a"), {"enabled": False}, "plugins.enabled"),
    (found("a"), {"deny": ["a"], "allow": ["a"], "entries": {"a": {"enabled": True}}}, "plugins.deny"),
    (found("a"), {"allow": ["b"], "entries": {"a": {"enabled": True}}}, "plugins.allow"),
    (found("a"), {"entries": {"a": {"enabled": False}}}, "switched off"),
    (found("a", "package"), {}, "not switched on"),
    (found("a", "package"), {"entries": {"a": {"enabled": True}}}, ""),
    (found("a", "installed"), {}, "not switched on"),
    (found("a", "bundled"), {}, "not switched on"),
    (found("a", "bundled", enabledByDefault=True), {}, ""),
    (found("a", kind="memory"), {}, "plugins.slots.memory is memory-core"),
    (found("a", kind="memory"), {"slots": {"memory": "a"}}, ""),
    (found("a", kind="context-engine"), {}, "context engine"),
    (found("a"), {"entries": {"a": {"env": {"KEY": "x"}}}}, "does not ask for"),
    (found("a", permissions={"env": ["KEY"]}), {"entries": {"a": {"env": {"KEY": "x"}}}}, ""),
    (found("a", requiresPlugins=["b"]), {}, "needs the plugin b"),
]


@pytest.mark.parametrize(("plugin", "settings", "why"), RULES)
def test_what_runs(plugin: FoundPlugin, settings: dict[str, Any], why: str) -> None:
    from openclaw.core.secret import Secret

    for entry in settings.get("entries", {}).values():
        if "env" in entry:
            entry["env"] = {name: Secret(str(value)) for name, value in entry["env"].items()}
    decided = verdict(plugin, settings)
    assert decided.runs == (not why)
    assert why in decided.why


def test_an_installed_plugin_runs_as_it_was_accepted_and_no_other_way() -> None:
    plugin = found("a", "installed")
    assert verdict(plugin, {}, "sha256:1", "sha256:1").runs
    changed = verdict(plugin, {}, "sha256:1", "sha256:2")
    assert not changed.runs and changed.held and "changed" in changed.why
    dropped = verdict(plugin, {"entries": {"a": {"enabled": True}}}, None, "sha256:2")
    assert not dropped.runs and dropped.held and "accepted" in dropped.why


def test_taking_one_away_takes_those_that_need_it() -> None:
    plugins = [found("a", requiresPlugins=["b"]), found("b", requiresPlugins=["c"]), found("c")]
    settings = msgspec.convert({"deny": ["c"]}, PluginsSettings)
    assert not any(each.runs for each in judge(plugins, settings, {}, {}).values())


def test_settings_for_a_plugin_that_is_not_there_are_told() -> None:
    settings = msgspec.convert({"entries": {"gone": {}, "a": {}}, "allow": ["memory-core"]}, PluginsSettings)
    assert unknown_entries([found("a")], settings) == ("gone",)


def test_the_first_found_wins_and_the_other_is_told(tmp_path: Path) -> None:
    write(tmp_path / "one", "same", "")
    write(tmp_path / "two", "same", "")
    write(tmp_path / "installed", "same", "")
    plugins, broken = discover_plugins([tmp_path / "one", tmp_path / "two" / "same"], tmp_path / "installed")
    assert [(each.id, each.directory.parent.name) for each in plugins] == [("same", "one")]
    assert len(broken) == 2 and all("comes first" in each.why for each in broken)


def test_what_others_can_write_to_is_no_plugin(tmp_path: Path) -> None:
    directory = write(tmp_path, "open", "")
    directory.chmod(0o777)
    unusable = read_plugin(directory)
    assert isinstance(unusable, UnusablePlugin) and "chmod o-w" in unusable.why


def test_links_and_pipes_are_no_manifest(tmp_path: Path) -> None:
    real = write(tmp_path / "elsewhere", "real", "")
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "linked").symlink_to(real)
    _, broken = discover_plugins([], tmp_path / "installed")
    assert "link" in broken[0].why
    piped = tmp_path / "piped"
    piped.mkdir(mode=0o755)
    os.mkfifo(piped / "openclaw.plugin.json")
    assert isinstance(read_plugin(piped), UnusablePlugin)
    (piped / "openclaw.plugin.json").unlink()
    (piped / "openclaw.plugin.json").symlink_to(real / "openclaw.plugin.json")
    assert isinstance(read_plugin(piped), UnusablePlugin)


def test_a_package_is_found_by_its_entry_point_and_not_imported(tmp_path: Path, monkeypatch: Any) -> None:
    package = tmp_path / "their_plugin"
    write(tmp_path, "their_plugin", "raise SystemExit('imported')", id="theirs")
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    info = tmp_path / "their_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[openclaw.plugins]\ntheirs = their_plugin.plugin:register\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins, _ = discover_plugins([], tmp_path / "nothing")
    theirs = next(each for each in plugins if each.id == "theirs")
    assert (theirs.source, theirs.entry) == ("package", "their_plugin.plugin:register")


def brought(**names: list[str]) -> PluginContributions:
    api = Api("mine")
    for name in names.get("tools", []):
        api.tool(FunctionTool(name, "", {}, lambda args, context: ""))
    for name in names.get("commands", []):
        api.command(Command(name=name, description="", run=lambda call: ""))
    for name in names.get("methods", []):
        api.method(Method(name=name, run=lambda params: None))
    for path in names.get("routes", []):
        api.route(HttpRoute(path=path, run=lambda request: HttpAnswer()))
    return api.brought()


def test_only_what_is_declared_and_free_counts() -> None:
    routes = ["/plugins/mine/a", "/mine/b", "/v1/chat", "/plugins/other/c"]
    manifest = msgspec.convert(
        {
            "id": "mine",
            "configSchema": {},
            "contracts": {"tools": ["a", "exec"], "commands": ["x"], "httpRoutes": routes},
        },
        PluginManifest,
    )
    kept, notes = admit(
        brought(tools=["a", "b", "exec"], commands=["x"], methods=["m"], routes=routes),
        manifest,
        {"tools": ["exec"], "commands": ["status"]},
    )
    names = kept.names()
    assert names["tools"] == ("a",) and names["commands"] == ("x",) and names["methods"] == ()
    assert names["routes"] == ("/plugins/mine/a", "/mine/b")
    assert len(notes) == 5
    assert any("tool b was left out: contracts.tools of its manifest does not name it" in note for note in notes)
    assert any("exec" in note and "has that name already" in note for note in notes)


def test_registering_nonsense_is_an_error_at_once() -> None:
    from openclaw.core.errors import InvalidRequest

    api = Api("mine")
    api.tool(FunctionTool("a", "", {}, lambda args, context: ""))
    wrongs: list[Any] = [
        lambda: api.tool(FunctionTool("a", "", {}, lambda args, context: "")),
        lambda: api.tool(FunctionTool("a b", "", {}, lambda args, context: "")),
        lambda: api.command(Command(name="Not", description="", run=lambda call: "")),
        lambda: api.route(HttpRoute(path="/a/../b", run=lambda request: HttpAnswer())),
        lambda: api.on("agent_end", lambda event, context: None, timeout_ms=0),
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidRequest):
            wrong()


def test_manifests_in_the_examples_are_good() -> None:
    for path in (Path(__file__).parents[2] / "examples").glob("*/openclaw.plugin.json"):
        assert isinstance(read_plugin(path.parent), FoundPlugin), path
        assert json.loads(path.read_text())["id"] == path.parent.name
