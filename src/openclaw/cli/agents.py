"""`openclaw agents`: list, add, change and delete agents."""

from pathlib import Path
from typing import Any

import click

from openclaw.agent.settings import agent_ids, default_agent, resolve_agent
from openclaw.cli.client import call, given
from openclaw.cli.home import open_editor, read_home
from openclaw.cli.render import JSON, YES, print_json, show, table
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import normalise_agent
from openclaw.gateway import capability_document
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.workspace.files import parse
from openclaw.workspace.seed import ensure, workspace_of


@click.group("agents")
def agents_command() -> None:
    """List, add and change agents; each has its own workspace and sessions."""


@agents_command.command("list")
@JSON
def list_agents(as_json: bool) -> None:
    """The agents, with where they live and what they answer with."""
    environment, loaded = read_home()
    agents = loaded.config.agents
    documents: list[dict[str, Any]] = []
    rows = []
    for agent_id in agent_ids(agents):
        agent = resolve_agent(agents, agent_id)
        workspace = workspace_of(agents, agent_id, environment)
        written = workspace / "IDENTITY.md"
        identity = parse(written.read_text(errors="replace") if written.is_file() else "")
        name = agent.entry.identity.name or agent.entry.name or identity.name or None
        emoji = agent.entry.identity.emoji or identity.emoji or None
        state = environment.home.state / "agents" / agent.id / "agent"
        about = {"id": agent.id, "name": name, "emoji": emoji, "workspace": str(workspace), "agentDir": str(state)}
        documents.append({**about, "model": agent.primary, "bindings": 0, "isDefault": agent.is_default})
        mark = " (default)" if agent.is_default else ""
        shown = " ".join(filter(None, (emoji, name)))
        rows.append((agent.id + mark, shown, agent.primary or "chosen by itself", workspace))
    if as_json:
        print_json(documents)
    else:
        click.echo(table(rows, ("agent", "name", "model", "workspace"), own=True))


@agents_command.command("add")
@click.argument("agent_id", metavar="ID")
@click.option("--workspace", metavar="DIR", help="Its directory (default: workspace-ID beside the others).")
@click.option("--model", metavar="REF", help="Its model.")
@click.option("--name", metavar="NAME", help="A name for people.")
@JSON
def add(agent_id: str, workspace: str | None, model: str | None, name: str | None, as_json: bool) -> None:
    """Add the agent ID with a workspace of its own."""
    environment, loaded = read_home()
    wanted = normalise_agent(agent_id)
    if wanted in agent_ids(loaded.config.agents):
        raise InvalidRequest(f"there is an agent {wanted!r} already: openclaw agents list")
    directory = str((environment.cwd / Path(workspace).expanduser()).resolve()) if workspace is not None else None
    entry = {"id": wanted, **given(workspace=directory, model=model, name=name)}
    # The first entry of the list becomes the default, so write down the implicit default agent first.
    first = [] if loaded.config.agents.list else [{"id": "main", "default": True}]
    open_editor().patch({"agents": {"list": [*first, entry]}})
    _, loaded = read_home()
    place = workspace_of(loaded.config.agents, wanted, environment)
    ensure(place, SystemClock().now())
    line = f"{wanted} lives in {place}. Talk to it: openclaw agent --agent {wanted} --message …"
    show({"id": wanted, "workspace": str(place)}, line, as_json)


@agents_command.command("capabilities")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent (default: all of them).")
@JSON
@click.option("--save", "keep", is_flag=True, help="Keep it, to compare with later.")
@click.option("--check", "compare", is_flag=True, help="Compare with what was kept; fails when something changed.")
def capabilities(agent_id: str | None, as_json: bool, keep: bool, compare: bool) -> int:
    """Everything an agent can do, and who can reach it."""
    documents = call("agents.capabilities", given(agentId=agent_id))["agents"]
    state = Environment.of_process().home.state
    if keep:
        for document in documents:
            click.echo(f"kept in {capability_document.save(state, document)}")
        return 0
    if not compare:
        facts = (line for document in documents for line in capability_document.lines(document))
        show(documents if len(documents) != 1 else documents[0], facts, as_json)
        return 0
    changes = {}
    for document in documents:
        saved = capability_document.load_saved(state, document["agent"])
        changes[document["agent"]] = capability_document.diff_documents(saved, document)
    if as_json:
        print_json({"ok": not any(changes.values()), "changes": changes})
    else:
        for name, lines in changes.items():
            click.echo(f"{name}: " + ("as it was saved" if not lines else f"{len(lines) - 2} changes"))
            for line in lines:
                click.echo(line)
    return 1 if any(changes.values()) else 0


@agents_command.command("delete")
@click.argument("agent_id", metavar="ID")
@YES
def delete(agent_id: str, yes: bool) -> None:
    """Take the agent ID out of the configuration. Its files and conversations stay on disk."""
    environment, loaded = read_home()
    agents = loaded.config.agents
    agent = resolve_agent(agents, agent_id)
    if agent.is_default:
        raise InvalidRequest(f"{agent.id} is the default agent: make another one the default first")
    place = workspace_of(agents, agent.id, environment)
    if not yes:
        click.confirm(f"Take {agent.id} out of the configuration? Its files in {place} stay", abort=True, err=True)
    ids = [normalise_agent(entry.id) for entry in agents.list]
    open_editor().unset(f"agents.list[{ids.index(agent.id)}]")
    click.echo(f"{agent.id} is gone; its files are still in {place}")


@agents_command.command("set-identity")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent (default: the default one).")
@click.option("--name", metavar="NAME")
@click.option("--emoji", metavar="EMOJI")
@click.option("--theme", metavar="WORDS", help="A few words on its manner.")
@click.option("--avatar", metavar="PATH_OR_URL")
@click.option("--from-identity", is_flag=True, help="Take them from IDENTITY.md in its workspace.")
def set_identity(agent_id: str | None, from_identity: bool, **wanted: str | None) -> None:
    """Give an agent a name, an emoji, a manner, a picture."""
    environment, loaded = read_home()
    agents = loaded.config.agents
    agent = resolve_agent(agents, agent_id or default_agent(agents))
    if from_identity:
        path = workspace_of(agents, agent.id, environment) / "IDENTITY.md"
        try:
            written = parse(path.read_text(errors="replace"))
        except OSError as error:
            raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
        found = {"name": written.name, "emoji": written.emoji, "theme": written.vibe, "avatar": written.avatar}
        wanted = {key: value or found[key] for key, value in wanted.items()}
    chosen = {key: value for key, value in wanted.items() if value}
    if not chosen:
        raise InvalidRequest("nothing to set: give --name, --emoji, --theme, --avatar, or fill in IDENTITY.md")
    entry: dict[str, Any] = {"id": agent.id, "identity": chosen}
    if not agents.list:
        entry["default"] = True
    open_editor().patch({"agents": {"list": [entry]}})
    click.echo(f"{agent.id}: " + ", ".join(f"{key} {value}" for key, value in chosen.items()))
