"""`openclaw agents`: list, add, change and delete agents."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openclaw.agent.settings import agent_ids, default_agent, resolve_agent
from openclaw.cli.render import note, print_json, table
from openclaw.config.edit import Editor
from openclaw.config.load import load
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import normalise_agent
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.workspace.files import parse
from openclaw.workspace.seed import ensure, workspace_of

if TYPE_CHECKING:
    from openclaw.config.schema import Config


@click.group("agents")
def agents_command() -> None:
    """List, add and change agents; each has its own workspace and sessions."""


@agents_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def list_agents(as_json: bool) -> None:
    """The agents, with where they live and what they answer with."""

    environment, config, _ = _here()
    rows: list[dict[str, Any]] = []
    for agent_id in agent_ids(config.agents):
        agent = resolve_agent(config.agents, agent_id)
        place = workspace_of(config.agents, agent_id, environment)
        written = place / "IDENTITY.md"
        identity = parse(written.read_text(errors="replace")) if written.is_file() else parse("")
        rows.append(
            {
                "id": agent.id,
                "name": agent.entry.identity.name or agent.entry.name or identity.name or None,
                "emoji": agent.entry.identity.emoji or identity.emoji or None,
                "workspace": str(place),
                "agentDir": str(environment.home.state / "agents" / agent.id / "agent"),
                "model": agent.primary,
                "bindings": 0,
                "isDefault": agent.is_default,
            }
        )
    if as_json:
        print_json(rows)
        return
    cells = [
        (
            row["id"] + (" (default)" if row["isDefault"] else ""),
            " ".join(filter(None, (row["emoji"], row["name"]))),
            row["model"] or "chosen by itself",
            row["workspace"],
        )
        for row in rows
    ]
    click.echo(table(cells, ("agent", "name", "model", "workspace")))


@agents_command.command("add")
@click.argument("agent_id", metavar="ID")
@click.option("--workspace", metavar="DIR", help="Its directory (default: workspace-ID beside the others).")
@click.option("--model", metavar="REF", help="Its model.")
@click.option("--name", metavar="NAME", help="A name for people.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def add(agent_id: str, workspace: str | None, model: str | None, name: str | None, as_json: bool) -> None:
    """Add the agent ID with a workspace of its own."""

    environment, config, editor = _here()
    wanted = normalise_agent(agent_id)
    if wanted in agent_ids(config.agents):
        raise InvalidRequest(f"there is an agent {wanted!r} already: openclaw agents list")
    entry: dict[str, Any] = {"id": wanted}
    if workspace is not None:
        entry["workspace"] = str((environment.cwd / Path(workspace).expanduser()).resolve())
    if model is not None:
        entry["model"] = model
    if name is not None:
        entry["name"] = name
    # The first entry of the list becomes the default, so write down the implicit default agent first.
    first = [] if config.agents.list else [{"id": "main", "default": True}]
    editor.patch({"agents": {"list": [*first, entry]}})
    _, config, _ = _here()
    place = workspace_of(config.agents, wanted, environment)
    ensure(place, SystemClock().now())
    if as_json:
        print_json({"id": wanted, "workspace": str(place)})
    else:
        click.echo(f"{wanted} lives in {place}. Talk to it: openclaw agent --agent {wanted} --message …")


@agents_command.command("capabilities")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent (default: all of them).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--save", "keep", is_flag=True, help="Keep it, to compare with later.")
@click.option("--check", "compare", is_flag=True, help="Compare with what was kept; fails when something changed.")
@click.pass_context
def capabilities(ctx: click.Context, agent_id: str | None, as_json: bool, keep: bool, compare: bool) -> None:
    """Everything an agent can do, and who can reach it."""

    from openclaw.cli.screen import TerminalApprover
    from openclaw.gateway import capabilities as found
    from openclaw.gateway.app import open_app

    async def look() -> list[dict[str, Any]]:
        async with open_app(
            Environment.of_process(), clock=SystemClock(), approver=TerminalApprover(), warn=note
        ) as app:
            wanted = (
                [resolve_agent(app.live.config.agents, agent_id).id] if agent_id else agent_ids(app.live.config.agents)
            )
            return [await found.capabilities(app, app.toolset(), each) for each in wanted]

    documents = asyncio.run(look())
    state = Environment.of_process().home.state
    if keep:
        for document in documents:
            click.echo(f"kept in {found.save(state, document)}")
        return
    if compare:
        different = {
            each["agent"]: found.diff_documents(found.load_saved(state, each["agent"]), each) for each in documents
        }
        if as_json:
            print_json({"ok": not any(different.values()), "changes": different})
        else:
            for name, lines in different.items():
                click.echo(f"{name}: " + ("as it was saved" if not lines else f"{len(lines) - 2} changes"))
                for line in lines:
                    click.echo(line)
        ctx.exit(1 if any(different.values()) else 0)
    if as_json:
        print_json(documents if len(documents) != 1 else documents[0])
        return
    for document in documents:
        for line in found.lines(document):
            click.echo(line)


@agents_command.command("delete")
@click.argument("agent_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(agent_id: str, yes: bool) -> None:
    """Take the agent ID out of the configuration. Its files and conversations stay on disk."""

    environment, config, editor = _here()
    agent = resolve_agent(config.agents, agent_id)
    if agent.is_default:
        raise InvalidRequest(f"{agent.id} is the default agent: make another one the default first")
    place = workspace_of(config.agents, agent.id, environment)
    if not yes:
        click.confirm(f"Take {agent.id} out of the configuration? Its files in {place} stay", abort=True, err=True)
    ids = [normalise_agent(entry.id) for entry in config.agents.list]
    editor.unset(f"agents.list[{ids.index(agent.id)}]")
    assert agent.id in agent_ids(config.agents)
    click.echo(f"{agent.id} is gone; its files are still in {place}")


@agents_command.command("set-identity")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent (default: the default one).")
@click.option("--name", metavar="NAME")
@click.option("--emoji", metavar="EMOJI")
@click.option("--theme", metavar="WORDS", help="A few words on its manner.")
@click.option("--avatar", metavar="PATH_OR_URL")
@click.option("--from-identity", is_flag=True, help="Take them from IDENTITY.md in its workspace.")
def set_identity(
    agent_id: str | None,
    name: str | None,
    emoji: str | None,
    theme: str | None,
    avatar: str | None,
    from_identity: bool,
) -> None:
    """Give an agent a name, an emoji, a manner, a picture."""

    environment, config, editor = _here()
    agent = resolve_agent(config.agents, agent_id or default_agent(config.agents))
    given = {"name": name, "emoji": emoji, "theme": theme, "avatar": avatar}
    if from_identity:
        path = workspace_of(config.agents, agent.id, environment) / "IDENTITY.md"
        try:
            written = parse(path.read_text(errors="replace"))
        except OSError as error:
            raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
        found = {"name": written.name, "emoji": written.emoji, "theme": written.vibe, "avatar": written.avatar}
        given = {key: value or found[key] for key, value in given.items()}
    chosen = {key: value for key, value in given.items() if value}
    if not chosen:
        raise InvalidRequest("nothing to set: give --name, --emoji, --theme, --avatar, or fill in IDENTITY.md")
    entry: dict[str, Any] = {"id": agent.id, "identity": chosen}
    if not config.agents.list:
        entry["default"] = True
    editor.patch({"agents": {"list": [entry]}})
    click.echo(f"{agent.id}: " + ", ".join(f"{key} {value}" for key, value in chosen.items()))


def _here() -> "tuple[Environment, Config, Editor]":

    environment = Environment.of_process()
    home = environment.home
    return environment, load(home, environment.environ).config, Editor(home, environment.environ)
