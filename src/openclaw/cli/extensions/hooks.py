"""`openclaw hooks`: list, inspect, enable and disable HOOK.md hooks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from openclaw.cli.render import note, print_json, table
from openclaw.config.edit import Editor
from openclaw.config.live import LiveConfig
from openclaw.config.load import load
from openclaw.core.clock import millis
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.text import strip_unprintable
from openclaw.plugins.hooks.accepted import AcceptedHooks
from openclaw.plugins.hooks.discover import HookConfig, list_all_hooks
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock

if TYPE_CHECKING:
    from openclaw.plugins.hooks.discover import HookList, ListedHook

as_json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


@click.group("hooks")
def hooks_command() -> None:
    """Small programs of your own that are told what happens inside (HOOK.md directories)."""


@hooks_command.command("list")
@click.option("--eligible", is_flag=True, help="Only those that run.")
@as_json_option
def list_hooks(eligible: bool, as_json: bool) -> None:
    """Every hook: whether it runs, or why not."""

    here = _Here()
    shelf = here.shelf()
    items = [item for item in shelf.items if item.runs or not eligible]
    if as_json:
        print_json({"managedHooksDir": str(here.managed), "hooks": [_document(item) for item in items]})
        return
    rows = [
        (
            item.hook.name,
            "yes" if item.runs else "no",
            item.hook.source.removeprefix("openclaw-"),
            ", ".join(item.hook.manifest.events),
            strip_unprintable(_cut("; ".join(item.reasons) or item.hook.manifest.description, 80)),
        )
        for item in items
    ]
    click.echo(table(rows, ("hook", "runs", "from", "events", "")) if rows else "No hooks.")
    if shelf.diagnostics:
        note(f"{len(shelf.diagnostics)} more to know: openclaw hooks check")


@hooks_command.command("info")
@click.argument("name")
@as_json_option
def info(name: str, as_json: bool) -> None:
    """All about one hook: what it hears, what it needs, which file it runs."""

    item = _named(_Here().shelf(), name)
    if as_json:
        print_json(_document(item, full=True))
        return
    manifest = item.hook.manifest
    click.echo(strip_unprintable(f"{manifest.emoji} {manifest.name}".strip()))
    if manifest.description:
        click.echo(strip_unprintable(manifest.description))
    lines = [
        ("runs", "yes" if item.runs else "no: " + "; ".join(item.reasons)),
        ("events", ", ".join(manifest.events)),
        ("from", item.hook.source),
        ("directory", item.hook.directory),
        ("handler", item.hook.handler or ("part of OpenClaw" if item.hook.bundled else "none")),
        ("settings", f"hooks.internal.entries.{manifest.key}"),
        ("homepage", manifest.homepage),
    ]
    click.echo()
    for label, value in lines:
        if value:
            click.echo(strip_unprintable(f"{label:<11}{value}"))
    for line in manifest.notes:
        click.echo(strip_unprintable(f"note       {line}"))


@hooks_command.command("check")
@as_json_option
def check(as_json: bool) -> None:
    """Everything that keeps a hook from running. Exit code 1 when one that is switched on does not run."""

    shelf = _Here().shelf()
    broken = [item for item in shelf.items if item.verdict.chosen and not item.runs]
    problems = [{"path": each.path, "message": each.message} for each in shelf.diagnostics]
    problems += [
        {"path": item.hook.directory, "message": line} for item in shelf.items for line in item.hook.manifest.notes
    ]
    running = [item.hook.name for item in shelf.items if item.runs]
    if as_json:
        print_json(
            {
                "total": len(shelf.items),
                "running": running,
                "held": [_document(item) for item in broken],
                "problems": problems,
            }
        )
    else:
        click.echo(f"{len(running)} of {len(shelf.items)} hooks run{': ' if running else ''}{', '.join(running)}")
        for item in shelf.items:
            if not item.runs:
                click.echo(strip_unprintable(f"{item.hook.name}: {'; '.join(item.reasons)}"))
        for problem in problems:
            click.echo(strip_unprintable(f"{problem['path']}: {problem['message']}"))
    if broken:
        raise click.exceptions.Exit(1)


@hooks_command.command("enable")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def enable(name: str, yes: bool) -> None:
    """Switch NAME on, and accept its files as they are now. A hook is a program: look at it first."""

    here = _Here()
    item = _named(here.shelf(), name)
    hook = item.hook
    if hook.problem:
        raise InvalidRequest(f"{hook.name} cannot be switched on: {hook.problem}")
    if not hook.bundled:
        click.echo(strip_unprintable(f"{hook.name} runs {hook.handler} on {', '.join(hook.manifest.events)}."))
        if not yes and not (sys.stdin.isatty() and click.confirm("Accept it as it is now?")):
            raise InvalidRequest("not accepted: answer yes at a terminal, or give --yes")
        here.ledger.accept(hook, "owner", here.now)
    editor = Editor(here.environment.home, here.environment.environ)
    patch: dict[str, Any] = {"entries": {hook.manifest.key: {"enabled": True}}}
    if here.settings.enabled is False:
        patch["enabled"] = True
    editor.patch({"hooks": {"internal": patch}})
    left = _named(_Here().shelf(), name).reasons
    click.echo(
        strip_unprintable(
            f"{hook.name} is on." if not left else f"{hook.name} is on, but does not run yet: {'; '.join(left)}"
        )
    )


@hooks_command.command("disable")
@click.argument("name")
def disable(name: str) -> None:
    """Switch NAME off."""

    here = _Here()
    hook = _named(here.shelf(), name).hook
    Editor(here.environment.home, here.environment.environ).patch(
        {"hooks": {"internal": {"entries": {hook.manifest.key: {"enabled": False}}}}}
    )
    click.echo(f"{hook.name} is off.")


class _Here:
    """The hooks of this home, as one command needs them."""

    def __init__(self) -> None:

        self.environment = Environment.of_process()
        home = self.environment.home
        self.loaded = load(home, self.environment.environ)
        self.settings = self.loaded.config.hooks.internal
        self.ledger = AcceptedHooks(home.state)
        self.managed = home.state / "hooks"
        self.now = millis(SystemClock())

    def shelf(self) -> HookList:

        config = HookConfig(
            settings=self.settings,
            agents=self.loaded.config.agents,
            variables=self.loaded.variables,
            is_set=LiveConfig(self.loaded).is_set,
        )
        return list_all_hooks(config, self.environment, self.ledger)


def _named(shelf: HookList, name: str) -> ListedHook:

    for item in shelf.items:
        if name in (item.hook.name, item.hook.manifest.key):
            return item
    broken = next((each for each in shelf.diagnostics if f"/{name}/" in each.path), None)
    if broken is not None:
        raise NotFound(f"the hook {name} cannot be read: {broken.message} ({broken.path})")
    raise NotFound(f"no hook is called {name}: openclaw hooks list shows them all")


def _document(item: ListedHook, full: bool = False) -> dict[str, Any]:

    hook, manifest = item.hook, item.hook.manifest
    document: dict[str, Any] = {
        "name": hook.name,
        "description": manifest.description,
        "emoji": manifest.emoji or None,
        "eligible": item.verdict.eligible,
        "enabled": item.verdict.chosen,
        "accepted": not item.objection,
        "runs": item.runs,
        "source": hook.source,
        "events": manifest.events,
        "reasons": item.reasons,
    }
    if full:
        document |= {
            "hookKey": manifest.key,
            "directory": hook.directory,
            "handler": hook.handler or None,
            "kind": hook.kind,
            "export": manifest.export,
            "homepage": manifest.homepage or None,
            "os": manifest.os,
            "always": manifest.always,
            "requires": msgspec.to_builtins(manifest.requires),
            "notes": manifest.notes,
        }
    return document


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
