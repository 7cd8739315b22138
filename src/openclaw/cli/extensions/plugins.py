"""`openclaw plugins`: list, install, enable, check and remove plugins."""

import asyncio
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from openclaw.cli.client import call_running
from openclaw.cli.extensions.verbs import ExtensionView, Installed, add_verbs, finding_to_json, print_findings
from openclaw.cli.home import open_editor
from openclaw.cli.render import (
    JSON,
    facts,
    now_ms,
    require_yes,
    say,
    show,
    table,
)
from openclaw.core.deferred import difflib
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError
from openclaw.extensions.find import expand_path
from openclaw.gateway.running import running_gateway
from openclaw.plugins.admit import PluginVerdict, judge, memory_slot_problem, unknown_entries
from openclaw.plugins.contract import check_contract
from openclaw.plugins.find import AcceptedPlugin, AcceptedPlugins, FoundPlugin, digest_of, discover_plugins
from openclaw.plugins.install import StagedPlugin, make_plugin, put
from openclaw.plugins.manager import reveal_secrets
from openclaw.plugins.manifest import FIELDS, PluginManifest
from openclaw.plugins.settings import PluginEntry
from openclaw.process.tasks import SystemClock
from openclaw.security.install_scan import scan_files
from openclaw.storage.digests import Hasher, contents


class PluginView(ExtensionView[StagedPlugin]):
    """The plugins of this home, as one command needs them."""

    kind = StagedPlugin
    entries = "plugins.entries"
    updates_all = True

    def __init__(self) -> None:
        super().__init__()
        home = self.environment.home
        self.settings = self.loaded.config.plugins
        self.root = home.state / "extensions"
        self.accepted = self.ledger.read()
        user = self.environment.home_dir
        paths = [expand_path(text, user, user) for text in self.settings.load.paths]
        self.found, self.broken = discover_plugins(paths, self.root)
        self.digests = {each.id: digest_of(each.directory) for each in self.found if each.source == "installed"}
        known = {name: each.tree_sha256 for name, each in self.accepted.items()}
        self.verdicts = judge(self.found, self.settings, known, self.digests)

    @cached_property
    def ledger(self) -> AcceptedPlugins:
        return AcceptedPlugins(self.environment.home.state)

    def get(self, name: str) -> FoundPlugin:
        for each in self.found:
            if each.id == name:
                return each
        for broken in self.broken:
            if broken.directory.name == name:
                raise NotFound(f"{name} cannot be a plugin: {broken.why}")
        near = difflib.get_close_matches(name, [each.id for each in self.found], n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise NotFound(f"there is no plugin {name}.{hint} openclaw plugins list shows those there are")

    def live(self) -> dict[str, dict[str, Any]]:
        """The state of the running gateway's plugins, by id; empty when none runs."""
        if running_gateway(self.environment.home.state) is None:
            return {}
        try:
            return {each["id"]: each for each in call_running("plugins.list", timeout=60.0)["plugins"]}
        except (OpenClawError, OSError):
            return {}

    def reload(self, name: str) -> list[str] | None:
        """Has the running gateway restart a plugin, and gives its warnings; None when none runs."""
        if running_gateway(self.environment.home.state) is None:
            return None
        answer = call_running("plugins.reload", {"plugins": [{"pluginId": name}]}, timeout=120.0)
        return list(answer.get("warnings", ()))

    def changed(self, name: str) -> list[str]:
        return self.reload(name) or []

    def put(self, ready: StagedPlugin, move: Callable[[], None]) -> None:
        put(ready, move, ledger=self.ledger, now=now_ms())

    def report(self, ready: StagedPlugin) -> dict[str, Any]:
        manifest = ready.manifest
        return {
            "id": manifest.id,
            "name": manifest.title,
            "description": manifest.description,
            "version": manifest.version,
            "target": str(ready.target),
            "files": ready.files,
            "treeSha256": ready.tree_sha256,
            "declares": _declared(manifest),
            "env": list(manifest.permissions.env),
            "findings": [finding_to_json(each) for each in ready.findings],
            "blocked": ready.critical,
            "replaces": ready.replaces,
        }

    def show_report(self, ready: StagedPlugin, report: dict[str, Any]) -> None:
        say(f"{report['name']} {report['version']}: {report['description']}", err=True)
        say(f"{ready.files} files, {ready.tree_sha256}, to {ready.target}", err=True)
        for field, names in _declared_facts(report["declares"]):
            say(f"  {field}: {names}", err=True)
        if report["env"]:
            say(f"  asks for the variables {', '.join(report['env'])}", err=True)
        print_findings(ready.findings, err=True)

    def question(self, ready: StagedPlugin, report: dict[str, Any]) -> str:
        return f"A plugin is a program that runs as you. Install {ready.name}?"

    def installed(self) -> list[Installed]:
        return [self.find(name) for name in self.accepted if (self.root / name).is_dir()]

    def find(self, name: str) -> Installed:
        plugin = self.get(name)
        if plugin.source != "installed":
            why = f"{name} is not kept by this program ({plugin.directory}): disable it, or remove it there"
            raise InvalidRequest(why)
        accepted = self.accepted.get(name)
        return Installed(name=name, target=plugin.directory, record=name, spec=accepted.spec if accepted else "")

    def forget(self, one: Installed) -> None:
        if one.name in self.settings.entries:
            open_editor().unset(f"{self.entries}.{one.name}")
        super().forget(one)

    def entry(self, name: str) -> tuple[str, str]:
        return self.get(name).id, name

    def reasons(self, name: str) -> list[str]:
        why = self.verdicts[name].why
        return [why] if why else []

    def accept(self, name: str, yes: bool) -> None:
        plugin, accepted, digest = self.get(name), self.accepted.get(name), self.digests.get(name)
        if digest is not None and (accepted is None or accepted.tree_sha256 != digest):
            if digest.startswith("unverifiable"):
                raise InvalidRequest(f"{name} cannot be accepted: {digest}")
            tree = Hasher(SystemClock().now).tree(str(plugin.directory))
            print_findings(scan_files(contents(plugin.directory, tree)), err=True)
            require_yes(f"Accept {plugin.directory} as it is now?", yes, "not accepted")
            spec = accepted.spec if accepted else str(plugin.directory)
            version = plugin.manifest.version
            self.ledger.put(name, AcceptedPlugin(tree_sha256=digest, version=version, spec=spec, at=now_ms()))
        if name in self.settings.deny:
            raise InvalidRequest(f"{name} is in plugins.deny: take it out first")


def plugin_to_json(plugin: FoundPlugin, verdict: PluginVerdict, live: dict[str, Any] | None) -> dict[str, Any]:
    manifest = plugin.manifest
    state = "held" if verdict.held else "off"
    if verdict.runs:
        state = {"enabled": "running", "error": "put away"}.get(live["state"], "on") if live else "on"
    return {
        "id": plugin.id,
        "name": manifest.title,
        "description": manifest.description,
        "version": manifest.version,
        "source": plugin.source,
        "directory": str(plugin.directory),
        "runs": verdict.runs,
        "why": verdict.why,
        "state": state,
        "error": (live or {}).get("error", ""),
    }


def _declared(manifest: PluginManifest) -> dict[str, list[str]]:
    return {FIELDS[kind]: list(names) for kind, names in manifest.declared().items() if names}


def _declared_facts(declared: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(field.rpartition(".")[2], ", ".join(names)) for field, names in declared.items()]


@click.group("plugins")
def plugins_command() -> None:
    """What others wrote for the assistant: tools, commands, hooks and more, as code."""


# Verbs that only read.


@plugins_command.command("list")
@JSON
def list_plugins(as_json: bool) -> None:
    """Every plugin: running, on, off, held back or put away, and why."""
    here = PluginView()
    live = here.live()
    documents = [plugin_to_json(each, here.verdicts[each.id], live.get(each.id)) for each in here.found]
    broken = [{"directory": str(each.directory), "source": each.source, "why": each.why} for each in here.broken]
    rows = [(each["id"], each["state"], each["source"], each["version"], _line(each)[:100]) for each in documents]
    rows += [(each["directory"].rpartition("/")[2], "broken", each["source"], "", each["why"]) for each in broken]
    listed = table(rows, ("plugin", "state", "from", "version", ""), empty="No plugins.")
    show({"plugins": documents, "broken": broken}, listed, as_json)


def _line(shown: dict[str, str]) -> str:
    return shown["error"] or shown["why"] or shown["description"]


@plugins_command.command("info")
@click.argument("name")
@JSON
def info(name: str, as_json: bool) -> None:
    """All about one plugin: what it declares, what it asks for and what it gets. Nothing of it is run."""
    here = PluginView()
    plugin = here.get(name)
    manifest = plugin.manifest
    entry = here.settings.entries.get(name, PluginEntry())
    shown = plugin_to_json(plugin, here.verdicts[name], here.live().get(name))
    accepted = here.accepted.get(name)
    shown |= {
        "isolation": entry.isolation,
        "declares": _declared(manifest),
        "skills": list(manifest.skills),
        "env": {each: each in entry.env for each in manifest.permissions.env},
        "config": sorted(manifest.config_schema.get("properties", {})),
        "treeSha256": here.digests.get(name),
        "acceptedSha256": accepted.tree_sha256 if accepted else None,
        "origin": accepted.spec if accepted else None,
    }
    variables = ", ".join(f"{each} ({'given' if has else 'not given'})" for each, has in shown["env"].items())
    alone = entry.isolation != "inprocess"
    pairs = [
        ("state", f"{shown['state']}{f': {_line(shown)}' if shown['error'] or shown['why'] else ''}"),
        ("runs", "in a process of its own" if alone else "inside the gateway, with everything it has"),
        ("from", f"{plugin.source}, {plugin.directory}"),
        ("installed", shown["origin"]),
        ("digest", shown["treeSha256"]),
        ("variables", variables),
        ("settings", ", ".join(shown["config"])),
        ("skills", ", ".join(shown["skills"])),
        *_declared_facts(shown["declares"]),
    ]
    title = f"{shown['name']} {shown['version']}".strip()
    show(shown, [title, f"{shown['description']}\n", *facts(pairs, 16)], as_json)


@plugins_command.command("doctor")
@click.argument("names", nargs=-1)
@JSON
def doctor(names: tuple[str, ...], as_json: bool) -> int:
    """Start each plugin on its own and check it against the contract. Exit code 1 when one does not keep to it."""
    here = PluginView()
    chosen = [here.get(name) for name in names] or [each for each in here.found if here.verdicts[each.id].runs]
    results = {}
    for each in chosen:
        entry = here.settings.entries.get(each.id, PluginEntry())
        own = {"config": reveal_secrets(entry.config), "env": {name: key.reveal() for name, key in entry.env.items()}}
        results[each.id] = asyncio.run(check_contract(each.directory, SystemClock(), **own))
    general = [] if names else list(_general_problems(here))
    bad = bool(general) or any(results.values())
    lines = []
    for name, problems in results.items():
        lines += [f"{name}:{'' if problems else ' keeps to the contract'}", *(f"  - {problem}" for problem in problems)]
    lines += general
    show({"ok": not bad, "plugins": results, "problems": general}, lines or "No plugins to check.", as_json)
    return 1 if bad else 0


def _general_problems(here: PluginView) -> Iterator[str]:
    """What is wrong beside the plugins that run."""
    yield from (f"{each.directory}: {each.why}" for each in here.broken)
    if vacancy := memory_slot_problem(here.found, here.verdicts, here.settings):
        yield vacancy
    for name in unknown_entries(here.found, here.settings):
        yield f"plugins in the configuration speaks of {name}, and there is no such plugin"
    for each in here.found:
        if here.verdicts[each.id].held:
            yield f"{each.id} is held back: {here.verdicts[each.id].why}"


@plugins_command.command("new")
@click.argument("name")
@click.option("--in", "parent", type=click.Path(file_okay=False), default=".", help="The directory to make it in.")
def new(name: str, parent: str) -> None:
    """A new plugin to start from, with a tool, a command and tests that pass."""
    directory = make_plugin(name, Path(parent))
    click.echo(str(directory))
    click.echo(f"Try it: pytest {directory}", err=True)


@plugins_command.command("reload")
@click.argument("name")
def reload(name: str) -> None:
    """Have the running gateway start a plugin afresh, also one that was put away."""
    here = PluginView()
    here.get(name)
    warnings = here.reload(name)
    if warnings is None:
        raise InvalidRequest("no gateway runs here: openclaw gateway start starts one, with its plugins")
    for warning in warnings:
        click.echo(warning, err=True)
    click.echo(f"{name} was {'looked at' if warnings else 'started'} again.")


add_verbs(plugins_command, PluginView)
