"""`openclaw workspace`: whose words the files of a directory are."""

import difflib
import sys
from pathlib import Path

import click

from openclaw.agent.settings import agent_ids
from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, fold, note, print_json
from openclaw.core.text import strip_unprintable
from openclaw.process.environment import Environment
from openclaw.workspace.pins import BootstrapPins
from openclaw.workspace.seed import is_configured, workspace_of
from openclaw.workspace.trust import Said, TrustStore

DIRECTORY = click.argument("directory", required=False, metavar="[DIR]")


def tell_of_checkout() -> None:
    """Says so once a message when the directory at the terminal holds somebody else's words."""
    ((path, configured),) = _places(".")
    found = TrustStore(Environment.of_process().home.state).trust(path, configured=configured)
    if not found.trusted:
        note(fold(f"Files here count as somebody else's words: {found.why}.", sys.stderr))
        note("Are they yours? openclaw workspace trust .")


@click.group("workspace")
def workspace_command() -> None:
    """Whose words the files of a directory are: yours, or somebody else's."""


@workspace_command.command("status")
@DIRECTORY
@JSON
def status(directory: str | None, as_json: bool) -> None:
    """Whether the workspaces (or DIR) are trusted, and why."""
    rows = [_row(*each) for each in _places(directory)]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo(f"{row['path']}: {'trusted' if row['trusted'] else 'untrusted'} ({row['why']})")
        if not row["trusted"]:
            click.echo("  its files count as somebody else's words; if they are yours:")
            click.echo(f"  openclaw workspace trust {row['path']}")


@workspace_command.command("trust")
@DIRECTORY
def trust(directory: str | None) -> None:
    """Take the files of the workspace (or DIR) for your own words."""
    _say(directory, "trusted")


@workspace_command.command("untrust")
@DIRECTORY
def untrust(directory: str | None) -> None:
    """Take them for somebody else's."""
    _say(directory, "untrusted")


@workspace_command.command("review")
@click.option("--accept", is_flag=True, help="The files count as they are now.")
@click.option("--reject", is_flag=True, help="Put the files back as they were.")
def review(accept: bool, reject: bool) -> None:
    """Look at changes of AGENTS.md, SOUL.md and the like that are held back (security.bootstrapPinning)."""
    if accept and reject:
        raise click.UsageError("give --accept or --reject, not both")
    pins = BootstrapPins(Environment.of_process().home.state)
    places = [path for path, _ in _places(None) if pins.changes(path)]
    if not places:
        click.echo("Nothing has changed since you last looked.")
    for path in places:
        for name, before, after in pins.changes(path):
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, f"{path / name}", lineterm="")
            click.echo("\n".join(map(strip_unprintable, lines)))
        if accept or (not reject and click.confirm("Did you make these changes, and shall they hold?")):
            pins.accept(path)
            click.echo("accepted")
        elif reject or click.confirm("Put the files back as they were?"):
            click.echo(f"put back: {', '.join(pins.reject(path))}")


def _places(directory: str | None) -> list[tuple[Path, bool]]:
    """The directory that was named, or every agent's; with whether the configuration names it."""
    environment = Environment.of_process()
    agents = read_home()[1].config.agents
    known = {
        workspace_of(agents, agent_id, environment).resolve(): is_configured(agents, agent_id, environment)
        for agent_id in agent_ids(agents)
    }
    if directory is None:
        return list(known.items())
    path = Path(directory).expanduser().resolve()
    return [(path, known.get(path, False))]


def _row(path: Path, configured: bool) -> dict[str, object]:
    found = TrustStore(Environment.of_process().home.state).trust(path, configured=configured)
    return {"path": str(path), "trusted": found.trusted, "why": found.why}


def _say(directory: str | None, said: Said) -> None:
    store = TrustStore(Environment.of_process().home.state)
    for path, _ in _places(directory):
        if not path.is_dir():
            raise click.UsageError(f"{path} is not a directory")
        store.set(path, said)
        click.echo(f"{path}: {said}")
