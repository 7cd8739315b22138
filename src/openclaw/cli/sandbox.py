"""`openclaw sandbox`: the boxes in which agents work."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig
    from openclaw.gateway.boxes import SandboxService


@click.group("sandbox")
def command() -> None:
    """Explain, list and renew the boxes in which agents work."""


@command.command("explain")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent (default: the default one).")
@click.option("--session", metavar="KEY", help="Which session (default: the main one).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def explain(agent_id: str | None, session: str | None, as_json: bool) -> None:
    """Whether a session is in a box, what it sees there, and why."""
    import asyncio

    from openclaw.cli.output import print_json
    from openclaw.core.keys import parse
    from openclaw.gateway.sandbox_report import explained
    from openclaw.turns.agents import default_agent, view

    boxes, loaded = _here()
    agent = view(loaded.config.agents, agent_id or default_agent(loaded.config.agents)).id
    key = parse(session or "main", agent, loaded.config.session.main_key)
    view(loaded.config.agents, key.agent)
    document = asyncio.run(explained(boxes, loaded.config.tools, key))
    if as_json:
        print_json(document)
        return
    for name, value in document.items():
        for line in value if isinstance(value, list) else [value]:
            click.echo(f"{name:<16} {line}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def list_boxes(as_json: bool) -> None:
    """The boxes there are, with when they were last used."""
    import asyncio

    from openclaw.cli.output import ago, print_json, table
    from openclaw.gateway.clock import SystemClock
    from openclaw.gateway.sandbox_report import listed

    boxes, loaded = _here()
    rows = asyncio.run(listed(boxes, loaded.config))
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("No box was used yet. openclaw sandbox explain says which sessions would get one.")
        return
    now = SystemClock().now()
    cells = [(row["name"], row["engine"], row["state"], ago(row["usedAt"], now), row["path"]) for row in rows]
    click.echo(table(cells, ("box", "engine", "state", "last used", "files")))


@command.command("recreate")
@click.argument("names", nargs=-1, metavar="[BOX]…")
@click.option("--all", "everything", is_flag=True, help="Every box.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def recreate(names: tuple[str, ...], everything: bool, yes: bool) -> None:
    """End what runs in boxes and empty their home and /tmp. Their workspaces stay."""
    import asyncio

    from openclaw.core.errors import InvalidRequest, NotFound
    from openclaw.gateway.sandbox_report import listed, renew

    boxes, loaded = _here()
    rows = {row["name"]: row for row in asyncio.run(listed(boxes, loaded.config))}
    if not names and not everything:
        raise InvalidRequest("name a box, or give --all: openclaw sandbox list shows them")
    for name in names:
        if name not in rows:
            raise NotFound(f"there is no box {name!r}: openclaw sandbox list shows them")
    chosen = list(rows) if everything else list(names)
    if not yes:
        click.confirm(f"End what runs in {len(chosen)} box(es) and empty their home and /tmp?", abort=True, err=True)
    for name in chosen:
        asyncio.run(renew(boxes, loaded.config, rows[name]))
        click.echo(f"{name} is new")


@command.command("build")
@click.option("--engine", type=click.Choice(["docker", "podman"]), default="docker", help="Which engine.")
@click.option("--print", "only_print", is_flag=True, help="Print the recipe instead.")
def build(engine: str, only_print: bool) -> None:
    """Build the image for containers. The process backend needs none."""
    import subprocess

    from openclaw.core.errors import Unavailable
    from openclaw.gateway.sandbox_report import RECIPE
    from openclaw.turns.agents import default_agent

    if only_print:
        click.echo(RECIPE, nl=False)
        return
    boxes, loaded = _here()
    image = boxes.rules(default_agent(loaded.config.agents)).image
    try:
        done = subprocess.run([engine, "build", "--tag", image, "-"], input=RECIPE.encode(), check=False)
    except FileNotFoundError as error:
        raise Unavailable(
            f"{engine} is not installed: install it, or use the process backend with bubblewrap"
        ) from error
    if done.returncode:
        raise Unavailable(f"{engine} build failed (see above); is its engine running?")
    click.echo(f"{image} is built")


def _here() -> "tuple[SandboxService, LoadedConfig]":
    from openclaw.config.load import load
    from openclaw.gateway.boxes import SandboxService
    from openclaw.gateway.surroundings import Environment, workspace_of

    surroundings = Environment.of_process()
    loaded = load(surroundings.home, surroundings.environ)

    def nothing(agent_id: str) -> list[Any]:
        return []

    boxes = SandboxService(
        loaded.config,
        loaded.variables,
        home=surroundings.home_dir,
        state=surroundings.home.state,
        workspace=lambda agent_id: workspace_of(loaded.config.agents, agent_id, surroundings),
        skills=nothing,
    )
    return boxes, loaded
