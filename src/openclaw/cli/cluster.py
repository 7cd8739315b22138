"""`openclaw cluster`: the gateways that share a database, and which agents each of them holds."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from openclaw.cli.render import JSON, ago, say, show, table
from openclaw.core.errors import OpenClawError
from openclaw.gateway.client_target import call_gateway, find_gateway
from openclaw.process.environment import Environment
from openclaw.protocol.client import CallFailed

ALONE = "This gateway has its database alone. Set store.url to a PostgreSQL server to run several: docs/cluster.md."
DRAIN_SECONDS = 600.0


@click.group("cluster")
def cluster_command() -> None:
    """The gateways that share a database (store.url): see them, empty one before a stop, move agents."""


@cluster_command.command("status")
@JSON
def status(as_json: bool) -> None:
    """The nodes in a few lines, and what is wrong with them."""
    found = _ask("cluster.status")
    show(found, _summary(found), as_json)


def _summary(found: Mapping[str, Any]) -> Iterator[str]:
    nodes = [node for node in found["nodes"] if node["state"] != "guest"]
    agents = sum(len(node["agents"]) for node in nodes)
    runs = sum(node["figures"].get("runs", 0) for node in nodes)
    yield f"{len(nodes)} node(s), {agents} agent(s), {runs} run(s) going on"
    for node in nodes:
        if node["state"] == "draining":
            yield f"{node['name']} is draining: {len(node['agents'])} agent(s) left"
        if not node["linked"]:
            yield f"{node['name']} ({node['address']}) cannot be reached from here: events and requests do not cross"
    if len({node["version"] for node in nodes}) > 1:
        yield "the nodes have different versions: " + ", ".join(f"{n['name']} {n['version']}" for n in nodes)
    if found["unplaced"]:
        yield f"held by nobody: {', '.join(found['unplaced'])}"


@cluster_command.command("nodes")
@JSON
def nodes(as_json: bool) -> None:
    """Every node, with its address and its agents."""
    found = _ask("cluster.status")["nodes"]
    rows = [
        (
            node["name"] + (" (this one)" if node["self"] else ""),
            node["state"],
            node["address"],
            ago(node["startedAtMs"] / 1000, time.time()),
            str(node["figures"].get("runs", 0)),
            _few(node["agents"]),
        )
        for node in found
    ]
    show(found, table(rows, ("node", "state", "address", "started", "runs", "agents")), as_json)


def _few(agents: list[str]) -> str:
    shown = ", ".join(agents[:5])
    return shown if len(agents) <= 5 else f"{shown} and {len(agents) - 5} more"


@cluster_command.command("drain")
@click.argument("node", metavar="NODE")
@click.option("--undo", is_flag=True, help="Let it hold agents again.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it holds nothing.")
def drain(node: str, undo: bool, no_wait: bool) -> None:
    """Move all agents away from NODE, as they become idle; it goes on answering for others."""
    _ask("cluster.drain", node=node, undo=undo)
    if undo:
        say(f"{node} holds agents again")
        return
    deadline = time.monotonic() + DRAIN_SECONDS
    while not no_wait:
        left = sum(
            len(each["agents"]) for each in _ask("cluster.status")["nodes"] if node in (each["name"], each["id"])
        )
        if not left:
            say(f"{node} holds nothing any more: stop it whenever you like")
            return
        if time.monotonic() > deadline:
            raise click.ClickException(f"{node} still holds {left} agent(s): their runs have not ended")
        time.sleep(0.5)
    say(f"{node} is draining")


@cluster_command.command("move")
@click.argument("agent", metavar="AGENT")
@click.argument("node", metavar="NODE", required=False, default="")
def move(agent: str, node: str) -> None:
    """Move AGENT to NODE once it is idle; without NODE, to where it belongs."""
    _ask("cluster.move", agent=agent, node=node)
    say(f"{agent} moves to {node}" if node else f"{agent} goes where it belongs")


def _ask(method: str, **params: Any) -> Any:
    try:
        return call_gateway(find_gateway(Environment.of_process()), method, params, timeout=30.0)
    except CallFailed as error:
        if "unknown method" in error.message:
            raise OpenClawError(ALONE) from error
        raise
