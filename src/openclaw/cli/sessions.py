"""`openclaw sessions list`, and the table of the other commands about conversations."""

import time

import click

from openclaw.cli.client import ask_running
from openclaw.cli.render import JSON, ago, dollars, note, show, table, tokens
from openclaw.cli.root import Verbs, load
from openclaw.process.environment import Environment

VERBS = {
    "show": ("export", "What was said in SESSION (a key, an id or the start of one)."),
    "export": ("export", "SESSION as one file, to keep or to share."),
}


@click.group("sessions", cls=Verbs, elsewhere=VERBS)
def sessions_command() -> None:
    """List, show and export conversations."""


@sessions_command.command("list")
@click.option("--agent", "agent_id", metavar="ID", help="Only this agent's.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at the most.")
@JSON
def list_sessions(agent_id: str | None, limit: int, as_json: bool) -> None:
    """The conversations, most recent first."""
    params = {"limit": limit, **({"agentId": agent_id} if agent_id else {})}
    document = ask_running(Environment.of_process(), "sessions.overview", params)
    if document is None:
        document = load("export", "list_here")(agent_id, limit)
    for problem in document.pop("problems"):
        note(problem)
    now = time.time()
    cells = []
    for row in document["sessions"]:
        used, spent = ago(row["updatedAt"], now), (tokens(row["totalTokens"]), dollars(row["estimatedCostUsd"]))
        cells.append((row["key"], row["sessionId"][:8], used, row["messages"], *spent, row["title"]))
    none = 'No conversations yet. Start one: openclaw agent --message "hello"'
    lines = [table(cells, ("key", "id", "used", "messages", "tokens", "cost", "title"), empty=none)]
    if document["totalCount"] > limit:
        lines.append(f"… and {document['totalCount'] - limit} more (--limit)")
    show(document, lines, as_json)
