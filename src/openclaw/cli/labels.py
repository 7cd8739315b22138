"""`openclaw labels`: what text from elsewhere may bring about, and which files hold some."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from openclaw.gateway.surroundings import Environment


@click.group("labels")
def command() -> None:
    """Text from elsewhere: the table that holds it, and the files it was written to."""


@command.command("table")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def table(as_json: bool) -> None:
    """What a call may do, by the label of what the model has read, as it is configured here."""
    from openclaw.cli.output import print_json
    from openclaw.config.load import load
    from openclaw.policy.labels import render_table
    from openclaw.policy.labels import table as made

    here = _here()
    settings = load(here.home, here.environ).config.security.external_content
    rules = made(settings.table, settings.taint_tools)
    if as_json:
        print_json({deed: dict(row) for deed, row in rules.items()})
    else:
        click.echo(render_table(rules))


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def listed(as_json: bool) -> None:
    """Files that tools wrote while text from elsewhere was in the conversation."""
    from openclaw.cli.output import note, print_json
    from openclaw.core.visible import printable
    from openclaw.gateway.labelling import labelled_files

    found = labelled_files(_here().home.state).all()
    if as_json:
        print_json(
            [
                {"path": path, "origins": [{"label": each.label, "source": each.source} for each in origins]}
                for path, origins in sorted(found.items())
            ]
        )
        return
    for path, origins in sorted(found.items()):
        click.echo(printable(f"{path}: {'; '.join(f'{each.label} ({each.source})' for each in origins)}"))
    if not found:
        note("no file carries a label")


@command.command("clear")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
def clear(paths: tuple[str, ...]) -> None:
    """Say that you have looked at PATHS and that they are as good as your own."""
    import os

    from openclaw.core.errors import NotFound
    from openclaw.gateway.labelling import labelled_files

    files = labelled_files(_here().home.state)
    real = [os.path.realpath(path) for path in paths]
    known = files.all()
    missing = [path for path in real if path not in known]
    if missing:
        raise NotFound(f"{missing[0]} carries no label: `openclaw labels list` shows which files do")
    files.clear(real)
    click.echo(f"{len(real)} file(s) carry no label any more")


def _here() -> "Environment":
    from openclaw.gateway.surroundings import Environment

    return Environment.of_process()
