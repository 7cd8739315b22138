"""`openclaw plugins`: list, install, enable, check and remove plugins."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from openclaw.cli.extensions.skills_install import bullets, describe_finding, finding_document
from openclaw.cli.render import print_json, table
from openclaw.config.edit import Editor
from openclaw.config.load import load
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError
from openclaw.core.text import strip_unprintable
from openclaw.gateway.client_target import call_gateway, find_gateway
from openclaw.gateway.process import running_gateway
from openclaw.plugins.accepted import AcceptedPlugin, AcceptedPlugins, digest_of
from openclaw.plugins.admit import FIELDS, judge, memory_slot_problem, unknown_entries
from openclaw.plugins.find import discover_plugins
from openclaw.plugins.install import PluginReview, stage_plugin
from openclaw.plugins.install import install as put
from openclaw.plugins.install import make_plugin as make
from openclaw.plugins.install import remove as take
from openclaw.plugins.settings import PluginEntry
from openclaw.process.environment import Environment, locate
from openclaw.process.tasks import SystemClock
from openclaw.security import install_policy
from openclaw.security.install_scan import scan_files
from openclaw.skills.roots import expand_path
from openclaw.storage.digests import Hasher, contents

if TYPE_CHECKING:
    from openclaw.plugins.admit import PluginVerdict
    from openclaw.plugins.find import FoundPlugin, UnusablePlugin
    from openclaw.plugins.install import StagedPlugin


as_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


class PluginView:
    """The plugins of this home, as one command needs them."""

    def __init__(self) -> None:

        self.environment = Environment.of_process()
        home = self.environment.home
        self.loaded = load(home, self.environment.environ)
        self.settings = self.loaded.config.plugins
        self.installed: Path = home.state / "extensions"
        self.ledger = AcceptedPlugins(home.state)
        self.accepted = self.ledger.read()
        self.now = SystemClock().now
        user = self.environment.home_dir
        paths = [expand_path(text, user, user) for text in self.settings.load.paths]
        self.found: tuple[FoundPlugin, ...]
        self.broken: tuple[UnusablePlugin, ...]
        self.found, self.broken = discover_plugins(paths, self.installed)
        self.digests = {each.id: digest_of(each.directory) for each in self.found if each.source == "installed"}
        known = {name: each.tree_sha256 for name, each in self.accepted.items()}
        self.verdicts: dict[str, PluginVerdict] = judge(self.found, self.settings, known, self.digests)

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
            told = call_gateway(find_gateway(self.environment), "plugins.list", {}, timeout=60.0)
        except (OpenClawError, OSError):
            return {}
        return {each["id"]: each for each in told["plugins"]}

    def reload(self, name: str) -> dict[str, Any] | None:
        """Has the running gateway restart a plugin; None when none runs."""

        if running_gateway(self.environment.home.state) is None:
            return None
        params = {"plugins": [{"pluginId": name}]}
        answer: dict[str, Any] = call_gateway(find_gateway(self.environment), "plugins.reload", params, timeout=120.0)
        return answer


def plugin_to_json(plugin: FoundPlugin, verdict: PluginVerdict, live: dict[str, Any] | None) -> dict[str, Any]:
    manifest = plugin.manifest
    return {
        "id": plugin.id,
        "name": manifest.title,
        "description": manifest.description,
        "version": manifest.version,
        "source": plugin.source,
        "directory": str(plugin.directory),
        "runs": verdict.runs,
        "why": verdict.why,
        "state": state_of(verdict, live),
        "error": (live or {}).get("error", ""),
    }


def state_of(verdict: PluginVerdict, live: dict[str, Any] | None) -> str:
    if not verdict.runs:
        return "held" if verdict.held else "off"
    if live is None:
        return "on"
    return {"enabled": "running", "error": "put away"}.get(live["state"], "on")


def confirm(question: str) -> bool:
    """Asks for a yes; without a terminal the answer is no."""

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(question, default=False, err=True)


# Verbs that change something.


@click.command("install")
@click.argument("source", type=click.Path(exists=True))
@click.option("--force", is_flag=True, help="Replace what is there.")
@click.option("--yes", is_flag=True, help="Agree without being asked.")
@click.option("--accept-risk", is_flag=True, help="Install in spite of grave findings.")
@click.option("--dry-run", is_flag=True, help="Only show the report.")
@as_json_option
def install(source: str, force: bool, yes: bool, accept_risk: bool, dry_run: bool, as_json: bool) -> None:
    """Install a plugin from a directory or an archive (.tgz, .zip)."""

    here = PluginView()
    if dry_run:
        with stage_plugin(Path(source), here.installed, scan_files, force=True) as ready:
            report = _report(ready)
            if as_json:
                print_json(report)
            else:
                _show(report)
        return
    report = _install(here, Path(source), force, yes, accept_risk, quiet=as_json)
    _tell(here, report["id"], f"installed {report['id']}", as_json, report)


@click.command("update")
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Agree without being asked.")
@click.option("--accept-risk", is_flag=True, help="Install in spite of grave findings.")
def update(name: str | None, yes: bool, accept_risk: bool) -> None:
    """Install plugins again from where they came (all of them, or NAME)."""

    here = PluginView()
    if name is not None and name not in here.accepted:
        raise InvalidRequest(f"{name} was not installed by this program: update it where it is kept")
    chosen = [name] if name else [each for each in here.accepted if (here.installed / each).is_dir()]
    for each in chosen:
        spec = Path(here.accepted[each].spec)
        if not spec.exists():
            raise InvalidRequest(f"{each} came from {spec}, which is not there any more")
        _install(here, spec, True, yes, accept_risk, mode="update", expected=each)
        _tell(here, each, f"updated {each}", False, {})
    if not chosen:
        click.echo("Nothing to update.")


@click.command("enable")
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
        found = [describe_finding(finding_document(each)) for each in scan_files(_contents(plugin.directory))]
        bullets("A look through its files found:", found, err=True)
        if not yes and not confirm(f"Accept {plugin.directory} as it is now?"):
            raise InvalidRequest("not accepted: answer yes at a terminal, or give --yes")
        spec = accepted.spec if accepted else str(plugin.directory)
        here.ledger.accept(
            name,
            AcceptedPlugin(tree_sha256=digest, version=plugin.manifest.version, spec=spec, at=round(here.now() * 1000)),
        )
    if name in here.settings.deny:
        raise InvalidRequest(f"{name} is in plugins.deny: take it out first")
    _editor().set(f"plugins.entries.{name}.enabled", True)
    click.echo(f"{name} is switched on.")


@click.command("disable")
@click.argument("name")
def disable(name: str) -> None:
    """Switch a plugin off; a running gateway stops it at once."""
    here = PluginView()
    here.get(name)
    _editor().set(f"plugins.entries.{name}.enabled", False)
    click.echo(f"{name} is switched off.")


@click.command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(name: str, yes: bool) -> None:
    """Take an installed plugin away."""

    here = PluginView()
    plugin = here.get(name)
    if plugin.source != "installed":
        raise InvalidRequest(f"{name} is not kept by this program ({plugin.directory}): disable it, or remove it there")
    if not yes and not confirm(f"Remove {plugin.directory}?"):
        raise InvalidRequest("not removed: answer yes at a terminal, or give --yes")
    if name in here.settings.entries:
        _editor().unset(f"plugins.entries.{name}")
    take(plugin.directory.name, here.installed, here.ledger)
    with contextlib.suppress(OpenClawError):  # the gateway answers that there is no such plugin any more
        here.reload(name)
    click.echo(f"removed {name}")


@click.command("reload")
@click.argument("name")
def reload(name: str) -> None:
    """Have the running gateway start a plugin afresh, also one that was put away."""

    here = PluginView()
    here.get(name)
    answer = here.reload(name)
    if answer is None:
        raise InvalidRequest("no gateway runs here: openclaw gateway start starts one, with its plugins")
    for warning in answer.get("warnings", ()):
        click.echo(warning, err=True)
    click.echo(f"{name} was started again." if not answer.get("warnings") else f"{name} was looked at again.")


def _install(
    here: PluginView,
    source: Path,
    force: bool,
    yes: bool,
    accept_risk: bool,
    *,
    mode: Literal["install", "update"] = "install",
    quiet: bool = False,
    expected: str = "",
) -> dict[str, Any]:
    """Stages the plugin, asks policy, hooks and person, installs it; gives the report."""
    from openclaw.cli.client import objection

    def policy(ready: StagedPlugin) -> str:
        if expected and ready.manifest.id != expected:
            return f"it calls itself {ready.manifest.id} now, not {expected}"
        question = install_policy.PolicyQuestion(
            target="plugin",
            name=ready.manifest.id,
            staged=ready.directory,
            kind=ready.kind,
            spec=ready.spec,
            tree_sha256=ready.tree_sha256,
            mode=mode,
        )
        settings = here.loaded.config.security.install_policy
        return install_policy.ask(question, settings, here.loaded.variables, confirm)

    def others(ready: StagedPlugin) -> str:
        return objection(
            here.environment,
            target="plugin",
            name=ready.manifest.id,
            staged=ready.directory,
            spec=ready.spec,
            tree_sha256=ready.tree_sha256,
            mode=mode,
            findings=[finding_document(each) for each in ready.findings],
        )

    def person(ready: StagedPlugin) -> str:
        if not quiet:
            _show(_report(ready))
        if ready.critical and not accept_risk:
            return "a look through it found something grave. If you have read it and still want it: --accept-risk"
        if not (yes or accept_risk) and not confirm(
            f"A plugin is a program that runs as you. Install {ready.manifest.id}?"
        ):
            return "nobody agreed: answer yes at a terminal, or give --yes"
        return ""

    ready = put(
        source,
        here.installed,
        ledger=here.ledger,
        inspect=scan_files,
        gatekeeper=PluginReview(policy=policy, hooks=(others,), person=person),
        now=here.now(),
        force=force,
    )
    return _report(ready)


def _tell(here: PluginView, name: str, line: str, as_json: bool, report: dict[str, Any]) -> None:
    """Prints what was done, and has a running gateway reload the plugin."""

    try:
        answer = here.reload(name)
        warnings = list(answer["warnings"]) if answer else []
    except OpenClawError as error:
        warnings = [f"the running gateway did not take it up: {error.message}"]
    if as_json:
        print_json({"ok": True, **report, "warnings": warnings})
        return
    click.echo(line)
    for warning in warnings:
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
        "declares": {FIELDS[kind]: list(names) for kind, names in manifest.declared().items() if names},
        "env": list(manifest.permissions.env),
        "findings": [finding_document(each) for each in ready.findings],
        "blocked": ready.critical,
        "replaces": ready.replaces,
    }


def _show(report: dict[str, Any]) -> None:

    click.echo(strip_unprintable(f"{report['name']} {report['version']}: {report['description']}"), err=True)
    click.echo(f"{report['files']} files, {report['treeSha256']}, to {report['target']}", err=True)
    for field, names in report["declares"].items():
        click.echo(strip_unprintable(f"  {field.rpartition('.')[2]}: {', '.join(names)}"), err=True)
    if report["env"]:
        click.echo(strip_unprintable(f"  asks for the variables {', '.join(report['env'])}"), err=True)
    bullets("A look through its files found:", [describe_finding(each) for each in report["findings"]], err=True)


def _contents(directory: Path) -> dict[str, bytes]:

    return contents(directory, Hasher(lambda: 0.0).tree(str(directory)))


def _editor() -> Any:

    return Editor(locate(os.environ, Path.home(), Path.cwd()), os.environ)


COMMANDS = (install, update, enable, disable, remove, reload)


# The group, and verbs that only read.


@click.group("plugins")
def plugins_command() -> None:
    """What others wrote for the assistant: tools, commands, hooks and more, as code."""


@plugins_command.command("list")
@as_json_option
def list_plugins(as_json: bool) -> None:
    """Every plugin: running, on, off, held back or put away, and why."""

    here = PluginView()
    live = here.live()
    documents = [
        plugin_to_json(each, here.verdicts[each.id], live.get(each.id) if live else None) for each in here.found
    ]
    broken = [{"directory": str(each.directory), "source": each.source, "why": each.why} for each in here.broken]
    if as_json:
        print_json({"plugins": documents, "broken": broken})
        return
    rows = [
        (each["id"], each["state"], each["source"], each["version"], strip_unprintable(_line(each)[:100]))
        for each in documents
    ]
    rows += [(each["directory"].rpartition("/")[2], "broken", each["source"], "", each["why"]) for each in broken]
    click.echo(table(rows, ("plugin", "state", "from", "version", "")) if rows else "No plugins.")


def _line(shown: dict[str, str]) -> str:
    return shown["error"] or shown["why"] or shown["description"]


@plugins_command.command("info")
@click.argument("name")
@as_json_option
def info(name: str, as_json: bool) -> None:
    """All about one plugin: what it declares, what it asks for and what it gets. Nothing of it is run."""

    here = PluginView()
    plugin = here.get(name)
    live = here.live()
    verdict, entry = here.verdicts[name], here.settings.entries.get(name, PluginEntry())
    shown = plugin_to_json(plugin, verdict, live.get(name) if live else None)
    accepted = here.accepted.get(name)
    declared = {FIELDS[kind]: list(names) for kind, names in plugin.manifest.declared().items() if names}
    shown |= {
        "isolation": entry.isolation,
        "declares": declared,
        "skills": list(plugin.manifest.skills),
        "env": {each: each in entry.env for each in plugin.manifest.permissions.env},
        "config": sorted(plugin.manifest.config_schema.get("properties", {})),
        "treeSha256": here.digests.get(name),
        "acceptedSha256": accepted.tree_sha256 if accepted else None,
        "origin": accepted.spec if accepted else None,
    }
    if as_json:
        print_json(shown)
        return
    click.echo(strip_unprintable(f"{shown['name']} {shown['version']}".strip()))
    click.echo(strip_unprintable(f"{shown['description']}\n"))
    given = ", ".join(f"{each} ({'given' if has else 'not given'})" for each, has in shown["env"].items())
    inside = (
        "inside the gateway, with everything it has" if entry.isolation == "inprocess" else "in a process of its own"
    )
    lines = [
        ("state", f"{shown['state']}{f': {_line(shown)}' if shown['error'] or shown['why'] else ''}"),
        ("runs", inside),
        ("from", f"{plugin.source}, {plugin.directory}"),
        ("installed", shown["origin"]),
        ("digest", shown["treeSha256"]),
        ("variables", given),
        ("settings", ", ".join(shown["config"])),
        ("skills", ", ".join(shown["skills"])),
        *((field.rpartition(".")[2], ", ".join(names)) for field, names in declared.items()),
    ]
    for label, value in lines:
        if value:
            click.echo(strip_unprintable(f"{label:<16}{value}"))


@plugins_command.command("doctor")
@click.argument("names", nargs=-1)
@as_json_option
def doctor(names: tuple[str, ...], as_json: bool) -> None:
    """Start each plugin on its own and check it against the contract. Exit code 1 when one does not keep to it."""

    here = PluginView()
    chosen = [here.get(name) for name in names] or [each for each in here.found if here.verdicts[each.id].runs]
    results = {each.id: asyncio.run(_checked(here, each.id)) for each in chosen}
    general = [] if names else [f"{each.directory}: {each.why}" for each in here.broken]
    if not names:
        vacancy = memory_slot_problem(here.found, here.verdicts, here.settings)
        general += [vacancy] if vacancy else []
        unknown = unknown_entries(here.found, here.settings)
        general += [f"plugins in the configuration speaks of {name}, and there is no such plugin" for name in unknown]
        held = [each.id for each in here.found if here.verdicts[each.id].held]
        general += [f"{name} is held back: {here.verdicts[name].why}" for name in held]
    bad = bool(general) or any(results.values())
    if as_json:
        print_json({"ok": not bad, "plugins": results, "problems": general})
    else:
        for name, problems in results.items():
            click.echo(f"{name}: {'keeps to the contract' if not problems else ''}".rstrip())
            for problem in problems:
                click.echo(strip_unprintable(f"  - {problem}"))
        for problem in general:
            click.echo(strip_unprintable(problem))
        if not results and not general:
            click.echo("No plugins to check.")
    if bad:
        raise click.exceptions.Exit(1)


async def _checked(here: PluginView, name: str) -> list[str]:
    from openclaw.plugins.contract import check_contract
    from openclaw.plugins.manager import reveal_secrets

    entry = here.settings.entries.get(name, PluginEntry())
    env = {variable: secret.reveal() for variable, secret in entry.env.items()}
    return await check_contract(here.get(name).directory, SystemClock(), config=reveal_secrets(entry.config), env=env)


@plugins_command.command("new")
@click.argument("name")
@click.option("--in", "parent", type=click.Path(file_okay=False), default=".", help="The directory to make it in.")
def new(name: str, parent: str) -> None:
    """A new plugin to start from, with a tool, a command and tests that pass."""

    directory = make(name, Path(parent))
    click.echo(str(directory))
    click.echo(f"Try it: pytest {directory}", err=True)


for _changing in COMMANDS:
    plugins_command.add_command(_changing)
