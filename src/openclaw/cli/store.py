"""`openclaw store`: where the state is kept, and moving it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, ProgressLine, facts, note, now_ms, show, table
from openclaw.config.settings import StateStoreSettings
from openclaw.core.errors import Conflict, InvalidRequest
from openclaw.core.secret import Secret
from openclaw.gateway.process import running_gateway
from openclaw.gateway.state import open_local, open_server, state_path
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
