"""`openclaw store`: where the state is kept, and moving it; `openclaw cluster`: the gateways that share it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, ProgressLine, ago, facts, note, now_ms, say, show, table
from openclaw.config.settings import StateStoreSettings
from openclaw.core.errors import Conflict, InvalidRequest, OpenClawError
from openclaw.core.secret import Secret
from openclaw.gateway.client_target import find_gateway
from openclaw.gateway.running import call_gateway, running_gateway
from openclaw.gateway.state import open_local, open_server, state_path
from openclaw.process.environment import Environment
from openclaw.protocol.connect_request import CallFailed
from openclaw.sessions.migration import MovedPart, StoreMigration
from openclaw.storage.database import Database
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite

HERE = "sqlite"


@click.group("store")
def store_command() -> None:
    """Where the state is kept: in files of this machine, or on a PostgreSQL server that several gateways share."""


@store_command.command("status")
@JSON
def status(as_json: bool) -> None:
    """Where the state is, and how the server is."""
    environment, loaded = read_home()
    if not loaded.config.store.url:
        path = state_path(environment.home)
        size = path.stat().st_size if path.exists() else 0
        show(
            {"engine": "sqlite", "path": str(path), "size": size},
            facts((("engine", "SQLite"), ("file", str(path)), ("size", f"{size:,} bytes")), 12),
            as_json,
        )
        return
    document = asyncio.run(_server_status(loaded.config.store))
    pairs = (
        ("engine", f"PostgreSQL {document['release']}"),
        ("server", f"{document['place']}, schema {document['schema']}"),
        ("size", f"{document['size']:,} bytes"),
        ("latency", f"{document['latencyMs']:.2f} ms a trip"),
        ("connections", f"{document['connections']} of {document['maxConnections']}"),
        ("gateways", f"{document['writers']} connections of gateways seen in the last minute"),
    )
    show(document, facts(pairs, 12), as_json)


async def _server_status(store: StateStoreSettings) -> dict[str, Any]:
    db = await open_server(store)
    try:
        about = await db.inspect()
        (row,) = await db.read(
            "SELECT count(*) AS n FROM store_leases AS l JOIN store_connections AS c ON c.id = l.connection "
            "WHERE c.seen_at > now() - interval '1 minute'"
        )
        return {"engine": "postgresql", "release": about.release, **msgspec.to_builtins(about), "writers": row["n"]}
    finally:
        await db.close()


@store_command.command("migrate")
@click.option("--to", "target", required=True, metavar="URL", help="postgresql://… or sqlite.")
@click.option("--dry-run", is_flag=True, help="Only compare; change nothing.")
@JSON
def migrate(target: str, dry_run: bool, as_json: bool) -> None:
    """Copy the state to a server, or back to this machine, and compare both by digest.

    Sessions, runs, jobs, devices, transcripts and what was accepted are copied; the source is left as it is. It may be
    interrupted and run again. Instead of the address you may give ${NAME} of a variable that has it.
    """
    environment, loaded = read_home()
    gateway = running_gateway(environment.home.state)
    if gateway is not None and not dry_run:
        raise Conflict(f"the gateway runs (pid {gateway.pid}): openclaw gateway stop, then try again")
    to_server = target != HERE
    if to_server:
        store = StateStoreSettings(url=Secret(_address(target, loaded.variables)), pool=loaded.config.store.pool)
    elif loaded.config.store.url:
        store = loaded.config.store
    else:
        raise InvalidRequest("the state is on this machine already: store.url is not set")

    async def run() -> tuple[MovedPart, ...]:
        server = await open_server(store)
        try:
            made = state_path(environment.home).with_name("openclaw-py.sqlite.incoming")
            async with open_local(environment.home) if to_server else _incoming(made) as local:
                source, there = (local, server) if to_server else (server, local)
                move = StoreMigration(environment.home.state, source, there, to_server=to_server)
                progress = ProgressLine(quiet=as_json)
                parts = await (move.compare(progress) if dry_run else move.run(progress))
        finally:
            await server.close()
        if not (to_server or dry_run):
            _put_in_place(made, state_path(environment.home))
        return parts

    parts = asyncio.run(run())
    rows = [(part.name, part.source, part.target, "yes" if part.same else "no") for part in parts]
    document = {"dryRun": dry_run, "parts": msgspec.to_builtins(parts)}
    show(document, table(rows, ("part", "source", "target", "same")), as_json)
    if as_json:
        return
    if dry_run:
        note("nothing was copied; run it without --dry-run to do it")
    elif to_server:
        note("copied and compared. Next: openclaw config set store.url ADDRESS, then openclaw gateway start")
    else:
        note("copied and compared. Next: openclaw config unset store.url, then openclaw gateway start")


@asynccontextmanager
async def _incoming(path: Path) -> AsyncIterator[Database]:
    """A database beside the one of this machine, until it is whole: an interrupted copy goes on with it."""
    db = await Sqlite.open(path, STATE_MIGRATIONS)
    try:
        yield db
    finally:
        await db.close()


def _put_in_place(made: Path, path: Path) -> None:
    """The copy becomes the database of this machine; the one of before is kept under another name."""
    if path.exists():
        path.replace(path.with_name(f"{path.name}.before-{now_ms()}"))
    for log in ("-wal", "-shm"):
        path.with_name(path.name + log).unlink(missing_ok=True)
    made.replace(path)


def _address(target: str, variables: Any) -> str:
    name = target[2:-1] if target.startswith("${") and target.endswith("}") else ""
    if not name:
        return target
    if name not in variables:
        raise InvalidRequest(f"the variable {name} is not set")
    return str(variables[name])


# Several gateways on one server.

ALONE = "This gateway has its database alone. Set store.url to a PostgreSQL server to run several: docs/cluster.md."
DRAIN_SECONDS = 600.0


@click.group("cluster")
def cluster_command() -> None:
    """The gateways that share a database (store.url): see them, empty one before a stop, move agents."""


@cluster_command.command("status")
@JSON
def cluster_status(as_json: bool) -> None:
    """The nodes in a few lines, and what is wrong with them."""
    found = _ask("cluster.status")
    show(found, _summary(found), as_json)


def _summary(found: Mapping[str, Any]) -> Iterator[str]:
    nodes = [node for node in found["nodes"] if node["state"] != "guest"]
    agents = sum(len(node["agents"]) for node in nodes)
    runs = sum(node["figures"].get("runs", 0) for node in nodes)
    yield f"{len(nodes)} node(s), {agents} agent(s), {runs} run(s) going on"
    for node in nodes:
        if trouble := node["figures"].get("trouble"):
            yield f"{node['name']} cannot write to its disk ({trouble}): others do its work until it can"
        elif node["state"] == "silent":
            yield f"{node['name']} has not been heard of for a while: others take over if that goes on"
        elif node["state"] == "draining":
            yield f"{node['name']} is draining: {len(node['agents'])} agent(s) left"
        if not node["linked"]:
            yield f"{node['name']} ({node['address']}) cannot be reached from here: events and requests do not cross"
    if len({node["version"] for node in nodes}) > 1:
        yield "the nodes have different versions: " + ", ".join(f"{n['name']} {n['version']}" for n in nodes)
    yield from found["differences"]
    if found["unplaced"]:
        yield f"held by nobody: {', '.join(found['unplaced'])}"


@cluster_command.command("nodes")
@JSON
def list_nodes(as_json: bool) -> None:
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
