"""`openclaw plugins`: what others wrote for the assistant, and how it fares."""

from __future__ import annotations

import click

from openclaw.cli import plugins_change
from openclaw.cli.plugins_show import PluginView, as_json_option, document


@click.group("plugins")
def command() -> None:
    """What others wrote for the assistant: tools, commands, hooks and more, as code."""


@command.command("list")
@as_json_option
def list_plugins(as_json: bool) -> None:
    """Every plugin: running, on, off, held back or put away, and why."""
    from openclaw.cli.output import print_json, table
    from openclaw.core.visible import printable

    here = PluginView()
    live = here.live()
    documents = [document(each, here.verdicts[each.id], live.get(each.id) if live else None) for each in here.found]
    broken = [{"directory": str(each.directory), "source": each.source, "why": each.why} for each in here.broken]
    if as_json:
        print_json({"plugins": documents, "broken": broken})
        return
    rows = [
        (each["id"], each["state"], each["source"], each["version"], printable(_line(each)[:100])) for each in documents
    ]
    rows += [(each["directory"].rpartition("/")[2], "broken", each["source"], "", each["why"]) for each in broken]
    click.echo(table(rows, ("plugin", "state", "from", "version", "")) if rows else "No plugins.")


def _line(shown: dict[str, str]) -> str:
    return shown["error"] or shown["why"] or shown["description"]


@command.command("info")
@click.argument("name")
@as_json_option
def info(name: str, as_json: bool) -> None:
    """All about one plugin: what it declares, what it asks for and what it gets. Nothing of it is run."""
    from openclaw.cli.output import print_json
    from openclaw.core.visible import printable
    from openclaw.plugins.admit import FIELDS
    from openclaw.plugins.settings import PluginEntry

    here = PluginView()
    plugin = here.get(name)
    live = here.live()
    verdict, entry = here.verdicts[name], here.settings.entries.get(name, PluginEntry())
    shown = document(plugin, verdict, live.get(name) if live else None)
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
    click.echo(printable(f"{shown['name']} {shown['version']}".strip()))
    click.echo(printable(f"{shown['description']}\n"))
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
            click.echo(printable(f"{label:<16}{value}"))


@command.command("doctor")
@click.argument("names", nargs=-1)
@as_json_option
def doctor(names: tuple[str, ...], as_json: bool) -> None:
    """Start each plugin on its own and check it against the contract. Exit code 1 when one does not keep to it."""
    import asyncio

    from openclaw.cli.output import print_json
    from openclaw.core.visible import printable
    from openclaw.plugins.choose import unknown_entries, vacant

    here = PluginView()
    chosen = [here.get(name) for name in names] or [each for each in here.found if here.verdicts[each.id].runs]
    results = {each.id: asyncio.run(_checked(here, each.id)) for each in chosen}
    general = [] if names else [f"{each.directory}: {each.why}" for each in here.broken]
    if not names:
        vacancy = vacant(here.found, here.verdicts, here.settings)
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
                click.echo(printable(f"  - {problem}"))
        for problem in general:
            click.echo(printable(problem))
        if not results and not general:
            click.echo("No plugins to check.")
    if bad:
        raise click.exceptions.Exit(1)


async def _checked(here: PluginView, name: str) -> list[str]:
    from openclaw.gateway.clock import SystemClock
    from openclaw.plugins.running import revealed
    from openclaw.plugins.settings import PluginEntry
    from openclaw.plugins.trial import problems_of

    entry = here.settings.entries.get(name, PluginEntry())
    env = {variable: secret.reveal() for variable, secret in entry.env.items()}
    return await problems_of(here.get(name).directory, SystemClock(), config=revealed(entry.config), env=env)


@command.command("new")
@click.argument("name")
@click.option("--in", "parent", type=click.Path(file_okay=False), default=".", help="The directory to make it in.")
def new(name: str, parent: str) -> None:
    """A new plugin to start from, with a tool, a command and tests that pass."""
    from pathlib import Path

    from openclaw.plugins.make import new as make

    directory = make(name, Path(parent))
    click.echo(str(directory))
    click.echo(f"Try it: pytest {directory}", err=True)


for _changing in plugins_change.COMMANDS:
    command.add_command(_changing)
