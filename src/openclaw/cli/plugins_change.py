"""The part of `openclaw plugins` that changes something: installing, switching on and off, removing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from openclaw.cli.plugins_show import PluginView, as_json_option, asked
from openclaw.cli.skills_show import bullets, finding_document, told

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw.plugins.install import StagedPlugin


@click.command("install")
@click.argument("source", type=click.Path(exists=True))
@click.option("--force", is_flag=True, help="Replace what is there.")
@click.option("--yes", is_flag=True, help="Agree without being asked.")
@click.option("--accept-risk", is_flag=True, help="Install in spite of grave findings.")
@click.option("--dry-run", is_flag=True, help="Only show the report.")
@as_json_option
def install(source: str, force: bool, yes: bool, accept_risk: bool, dry_run: bool, as_json: bool) -> None:
    """Install a plugin from a directory or an archive (.tgz, .zip)."""
    from pathlib import Path

    from openclaw.cli.output import print_json
    from openclaw.plugins.install import staged
    from openclaw.trust.supply import inspect

    here = PluginView()
    if dry_run:
        with staged(Path(source), here.installed, inspect, force=True) as ready:
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
    from pathlib import Path

    from openclaw.core.errors import InvalidRequest

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
    from openclaw.core.errors import InvalidRequest
    from openclaw.plugins.lock import AcceptedPlugin
    from openclaw.trust.supply import inspect

    here = PluginView()
    plugin = here.get(name)
    accepted = here.accepted.get(name)
    digest = here.digests.get(name)
    if digest is not None and (accepted is None or accepted.tree_sha256 != digest):
        if digest.startswith("unverifiable"):
            raise InvalidRequest(f"{name} cannot be accepted: {digest}")
        found = [told(finding_document(each)) for each in inspect(_contents(plugin.directory))]
        bullets("A look through its files found:", found, err=True)
        if not yes and not asked(f"Accept {plugin.directory} as it is now?"):
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
    import contextlib

    from openclaw.core.errors import InvalidRequest, OpenClawError
    from openclaw.plugins.install import remove as take

    here = PluginView()
    plugin = here.get(name)
    if plugin.source != "installed":
        raise InvalidRequest(f"{name} is not kept by this program ({plugin.directory}): disable it, or remove it there")
    if not yes and not asked(f"Remove {plugin.directory}?"):
        raise InvalidRequest("not removed: answer yes at a terminal, or give --yes")
    if name in here.settings.entries:
        _editor().unset(f"plugins.entries.{name}")
    take(plugin.directory.name, here.installed, here.ledger)
    with contextlib.suppress(OpenClawError):  # it says that there is no such plugin any more
        here.reload(name)
    click.echo(f"removed {name}")


@click.command("reload")
@click.argument("name")
def reload(name: str) -> None:
    """Have the running gateway start a plugin afresh, also one that was put away."""
    from openclaw.core.errors import InvalidRequest

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
    """Stages, asks everyone who has a say, installs; gives the report."""
    from openclaw.cli.objections import objection
    from openclaw.plugins.install import PluginReview
    from openclaw.plugins.install import install as put
    from openclaw.trust import installpolicy
    from openclaw.trust.supply import inspect

    def policy(ready: StagedPlugin) -> str:
        if expected and ready.manifest.id != expected:
            return f"it calls itself {ready.manifest.id} now, not {expected}"
        question = installpolicy.PolicyQuestion(
            target="plugin",
            name=ready.manifest.id,
            staged=ready.directory,
            kind=ready.kind,
            spec=ready.spec,
            tree_sha256=ready.tree_sha256,
            mode=mode,
        )
        settings = here.loaded.config.security.install_policy
        return installpolicy.ask(question, settings, here.loaded.variables, asked)

    def others(ready: StagedPlugin) -> str:
        return objection(
            here.surroundings,
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
        if not (yes or accept_risk) and not asked(
            f"A plugin is a program that runs as you. Install {ready.manifest.id}?"
        ):
            return "nobody agreed: answer yes at a terminal, or give --yes"
        return ""

    ready = put(
        source,
        here.installed,
        ledger=here.ledger,
        inspect=inspect,
        gatekeeper=PluginReview(policy=policy, hooks=(others,), person=person),
        now=here.now(),
        force=force,
    )
    return _report(ready)


def _tell(here: PluginView, name: str, line: str, as_json: bool, report: dict[str, Any]) -> None:
    """Says what was done, and has a running gateway take it up."""
    from openclaw.cli.output import print_json
    from openclaw.core.errors import OpenClawError

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
    from openclaw.plugins.admit import FIELDS

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
    from openclaw.core.visible import printable

    click.echo(printable(f"{report['name']} {report['version']}: {report['description']}"), err=True)
    click.echo(f"{report['files']} files, {report['treeSha256']}, to {report['target']}", err=True)
    for field, names in report["declares"].items():
        click.echo(printable(f"  {field.rpartition('.')[2]}: {', '.join(names)}"), err=True)
    if report["env"]:
        click.echo(printable(f"  asks for the variables {', '.join(report['env'])}"), err=True)
    bullets("A look through its files found:", [told(each) for each in report["findings"]], err=True)


def _contents(directory: Path) -> dict[str, bytes]:
    from openclaw.store.tree import Hasher, contents

    return contents(directory, Hasher(lambda: 0.0).tree(str(directory)))


def _editor() -> Any:
    import os
    from pathlib import Path

    from openclaw.config.edit import Editor
    from openclaw.config.paths import locate

    return Editor(locate(os.environ, Path.home(), Path.cwd()), os.environ)


COMMANDS = (install, update, enable, disable, remove, reload)
