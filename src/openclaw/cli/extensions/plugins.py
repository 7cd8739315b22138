"""`openclaw plugins`: list, install, enable, check and remove plugins."""

import asyncio
import contextlib
from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import click

from openclaw.cli.client import call_running
from openclaw.cli.extensions.review import (
    GRAVE,
    InstallOptions,
    ask_plugins,
    ask_policy,
    finding_to_json,
    print_findings,
)
from openclaw.cli.home import open_editor, read_home
from openclaw.cli.render import (
    JSON,
    YES,
    ProgressLine,
    confirm,
    facts,
    now_ms,
    print_json,
    require_yes,
    say,
    show,
    table,
)
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError
from openclaw.gateway.running import running_gateway
from openclaw.plugins.accepted import AcceptedPlugin, AcceptedPlugins, digest_of
from openclaw.plugins.admit import PluginVerdict, judge, memory_slot_problem, unknown_entries
from openclaw.plugins.contract import check_contract
from openclaw.plugins.find import FoundPlugin, discover_plugins
from openclaw.plugins.install import PluginReview, StagedPlugin, make_plugin, stage_plugin
from openclaw.plugins.install import install as install_plugin
from openclaw.plugins.install import remove as remove_plugin
from openclaw.plugins.manager import reveal_secrets
from openclaw.plugins.manifest import FIELDS, PluginManifest
from openclaw.plugins.settings import PluginEntry
from openclaw.process.tasks import SystemClock
from openclaw.security.install_scan import scan_files
from openclaw.skills.roots import expand_path
from openclaw.storage.digests import Hasher, contents


class PluginView:
    """The plugins of this home, as one command needs them."""

    def __init__(self) -> None:
        self.environment, self.loaded = read_home()
        home = self.environment.home
        self.settings = self.loaded.config.plugins
        self.installed = home.state / "extensions"
        self.ledger = AcceptedPlugins(home.state)
        self.accepted = self.ledger.read()
        user = self.environment.home_dir
        paths = [expand_path(text, user, user) for text in self.settings.load.paths]
        self.found, self.broken = discover_plugins(paths, self.installed)
        self.digests = {each.id: digest_of(each.directory) for each in self.found if each.source == "installed"}
        known = {name: each.tree_sha256 for name, each in self.accepted.items()}
        self.verdicts = judge(self.found, self.settings, known, self.digests)

    def get(self, name: str) -> FoundPlugin:
        for each in self.found:
            if each.id == name:
                return each
        for broken in self.broken:
            if broken.directory.name == name:
                raise NotFound(f"{name} cannot be a plugin: {broken.why}")
        near = get_close_matches(name, [each.id for each in self.found], n=1)
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


# Verbs that change something.


@plugins_command.command("install")
@click.argument("source", type=click.Path(exists=True))
@click.option("--force", is_flag=True, help="Replace what is there.")
@click.option("--yes", is_flag=True, help="Agree without being asked.")
@click.option("--accept-risk", is_flag=True, help="Install in spite of grave findings.")
@click.option("--dry-run", is_flag=True, help="Only show the report.")
@JSON
def install(source: str, dry_run: bool, as_json: bool, **agreed: Any) -> None:
    """Install a plugin from a directory or an archive (.tgz, .zip)."""
    here = PluginView()
    if dry_run:
        with stage_plugin(Path(source), here.installed, scan_files, True, ProgressLine(quiet=as_json)) as ready:
            print_json(_report(ready)) if as_json else _show_report(ready)
        return
    ready = _install(here, Path(source), InstallOptions(quiet=as_json, **agreed))
    _tell(here, ready.manifest.id, "installed", as_json, _report(ready))


@plugins_command.command("update")
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Agree without being asked.")
@click.option("--accept-risk", is_flag=True, help="Install in spite of grave findings.")
def update(name: str | None, **agreed: Any) -> None:
    """Install plugins again from where they came (all of them, or NAME)."""
    here = PluginView()
    if name is not None and name not in here.accepted:
        raise InvalidRequest(f"{name} was not installed by this program: update it where it is kept")
    chosen = [name] if name else [each for each in here.accepted if (here.installed / each).is_dir()]
    for each in chosen:
        spec = Path(here.accepted[each].spec)
        if not spec.exists():
            raise InvalidRequest(f"{each} came from {spec}, which is not there any more")
        _install(here, spec, InstallOptions(force=True, mode="update", **agreed), expected=each)
        _tell(here, each, "updated", False, {})
    if not chosen:
        click.echo("Nothing to update.")


@plugins_command.command("enable")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Accept its files as they are without being asked.")
def enable(name: str, yes: bool) -> None:
    """Switch a plugin on; an installed one whose files changed is accepted as it is now."""
    here = PluginView()
    plugin = here.get(name)
    accepted = here.accepted.get(name)
    digest = here.digests.get(name)
    if digest is not None and (accepted is None or accepted.tree_sha256 != digest):
        if digest.startswith("unverifiable"):
            raise InvalidRequest(f"{name} cannot be accepted: {digest}")
        tree = Hasher(SystemClock().now).tree(str(plugin.directory))
        print_findings(scan_files(contents(plugin.directory, tree)), err=True)
        require_yes(f"Accept {plugin.directory} as it is now?", yes, "not accepted")
        spec = accepted.spec if accepted else str(plugin.directory)
        version = plugin.manifest.version
        here.ledger.accept(name, AcceptedPlugin(tree_sha256=digest, version=version, spec=spec, at=now_ms()))
    if name in here.settings.deny:
        raise InvalidRequest(f"{name} is in plugins.deny: take it out first")
    open_editor().set(f"plugins.entries.{name}.enabled", True)
    click.echo(f"{name} is switched on.")


@plugins_command.command("disable")
@click.argument("name")
def disable(name: str) -> None:
    """Switch a plugin off; a running gateway stops it at once."""
    PluginView().get(name)
    open_editor().set(f"plugins.entries.{name}.enabled", False)
    click.echo(f"{name} is switched off.")


@plugins_command.command("remove")
@click.argument("name")
@YES
def remove(name: str, yes: bool) -> None:
    """Take an installed plugin away."""
    here = PluginView()
    plugin = here.get(name)
    if plugin.source != "installed":
        raise InvalidRequest(f"{name} is not kept by this program ({plugin.directory}): disable it, or remove it there")
    require_yes(f"Remove {plugin.directory}?", yes, "not removed")
    if name in here.settings.entries:
        open_editor().unset(f"plugins.entries.{name}")
    remove_plugin(plugin.directory.name, here.installed, here.ledger)
    with contextlib.suppress(OpenClawError):  # the gateway answers that there is no such plugin any more
        here.reload(name)
    click.echo(f"removed {name}")


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


def _install(here: PluginView, source: Path, options: InstallOptions, expected: str = "") -> StagedPlugin:
    """Stages the plugin, asks policy, hooks and person, and installs it."""

    def policy(ready: StagedPlugin) -> str:
        if expected and ready.manifest.id != expected:
            return f"it calls itself {ready.manifest.id} now, not {expected}"
        return ask_policy(here.loaded, options, ready)

    def person(ready: StagedPlugin) -> str:
        if not options.quiet:
            _show_report(ready)
        if ready.critical and not options.accept_risk:
            return GRAVE
        question = f"A plugin is a program that runs as you. Install {ready.manifest.id}?"
        agreed = options.yes or options.accept_risk or confirm(question)
        return "" if agreed else "nobody agreed: answer yes at a terminal, or give --yes"

    return install_plugin(
        source,
        here.installed,
        ledger=here.ledger,
        inspect=scan_files,
        gatekeeper=PluginReview(policy=policy, hooks=(partial(ask_plugins, here.environment, options),), person=person),
        now=SystemClock().now(),
        force=options.force,
        report=ProgressLine(quiet=options.quiet),
    )


def _tell(here: PluginView, name: str, verb: str, as_json: bool, report: dict[str, Any]) -> None:
    """Prints what was done, and has a running gateway reload the plugin."""
    try:
        warnings = here.reload(name) or []
    except OpenClawError as error:
        warnings = [f"the running gateway did not take it up: {error.message}"]
    show({"ok": True, **report, "warnings": warnings}, f"{verb} {name}", as_json)
    for warning in () if as_json else warnings:
        click.echo(warning, err=True)


def _report(ready: StagedPlugin) -> dict[str, Any]:
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


def _show_report(ready: StagedPlugin) -> None:
    manifest = ready.manifest
    say(f"{manifest.title} {manifest.version}: {manifest.description}", err=True)
    say(f"{ready.files} files, {ready.tree_sha256}, to {ready.target}", err=True)
    for field, names in _declared_facts(_declared(manifest)):
        say(f"  {field}: {names}", err=True)
    if manifest.permissions.env:
        say(f"  asks for the variables {', '.join(manifest.permissions.env)}", err=True)
    print_findings(ready.findings, err=True)
