"""`openclaw mcp`: MCP servers we use, and our tools served over MCP."""

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from openclaw.cli.client import open_client
from openclaw.cli.render import print_json, table
from openclaw.config.edit import Editor
from openclaw.config.load import load
from openclaw.config.source import parse_value
from openclaw.core.errors import ConfigError, InvalidRequest, NotFound, OpenClawError
from openclaw.core.text import strip_unprintable
from openclaw.process.environment import Environment, locate
from openclaw.process.tasks import SystemClock
from openclaw.tools.mcp import schema
from openclaw.tools.mcp.accepted import AcceptedMcpTools
from openclaw.tools.mcp.schema import identity, launch
from openclaw.tools.settings import McpServerSettings

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("mcp")
def mcp_command() -> None:
    """Servers that lend us tools (MCP), and our tools for other programs."""


@mcp_command.command("list")
@_json
def list_servers(as_json: bool) -> None:
    """Every configured server and what was accepted of it."""

    rows = _rows()
    if as_json:
        print_json({"servers": rows})
        return
    shown = [(row["name"], row["transport"], str(len(row["tools"])), row["state"]) for row in rows]
    click.echo(table(shown, ("server", "transport", "tools", "")) if rows else "No MCP servers: see openclaw mcp set.")


@mcp_command.command("status")
@_json
def status(as_json: bool) -> None:
    """The same, with the names of the tools and what changed since they were accepted."""

    rows = _rows()
    if as_json:
        print_json({"servers": rows})
        return
    for row in rows:
        click.echo(strip_unprintable(f"{row['name']}: {row['state']}"))
        click.echo(strip_unprintable(f"  tools: {', '.join(row['tools']) or 'none seen yet'}"))
        if row["changes"]:
            click.echo(strip_unprintable(f"  not accepted yet: {row['changes']} (openclaw mcp accept {row['name']})"))
    if not rows:
        click.echo("No MCP servers: see openclaw mcp set.")


@mcp_command.command("show")
@click.argument("name", required=False)
@_json
def show(name: str | None, as_json: bool) -> None:
    """The settings of a server, or of all; credentials are blotted out."""

    try:
        servers = _editor().get("mcp.servers")
    except NotFound:
        servers = {}
    if name is not None and name not in servers:
        raise NotFound(f"no MCP server {name!r}: openclaw mcp list shows them")
    print_json(servers if name is None else servers[name])


@mcp_command.command("set")
@click.argument("name")
@click.argument("settings")
@_json
def set_server(name: str, settings: str, as_json: bool) -> None:
    """Add or replace a server. SETTINGS is JSON5: {command: "npx", args: ["-y", "…"]} or {url: "https://…"}."""

    given = parse_value(settings, "SETTINGS")
    if not isinstance(given, dict) or not name.strip() or "." in name:
        raise InvalidRequest('SETTINGS is an object such as {command: "npx"}, and NAME has no dots')
    plain = {key: given[key] for key in ("command", "url", "transport", "auth") if key in given}
    try:
        launch(name, msgspec.convert(plain, McpServerSettings), workspace="")
    except (ConfigError, msgspec.ValidationError) as error:
        raise InvalidRequest(str(error)) from error
    change = _editor().set(f'mcp.servers["{name}"]', given)
    if as_json:
        print_json({"ok": True, "name": name, "changedPaths": list(change.changed)})
        return
    for warning in change.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{name} is set; try it with: openclaw mcp test {name}")


@mcp_command.command("unset")
@click.argument("name")
@_json
def unset_server(name: str, as_json: bool) -> None:
    """Take a server out, and forget what was accepted of it."""

    _editor().unset(f'mcp.servers["{name}"]')
    AcceptedMcpTools(Environment.of_process().home.state).change(name, lambda record: None)
    if as_json:
        print_json({"ok": True, "name": name})
    else:
        click.echo(f"{name} is taken out")


@mcp_command.command("test")
@click.argument("name")
@_json
def test(name: str, as_json: bool) -> None:
    """Start or reach a server and ask what it offers; the first look accepts its tools."""

    record = asyncio.run(_look(name))
    changed = schema.changes(record)
    if as_json:
        tools = [{"name": tool.name, "description": tool.description} for tool in record.now]
        print_json({"ok": True, "name": name, "tools": tools, "changes": str(changed)})
        return
    for tool in record.now:
        first = tool.description.strip().splitlines()[:1]
        click.echo(strip_unprintable(f"{tool.name}  {first[0][:100] if first else ''}".rstrip()))
    if changed:
        click.echo(strip_unprintable(f"\nnot accepted yet: {changed}. Accept it with: openclaw mcp accept {name}"))


@mcp_command.command("accept")
@click.argument("name")
@click.option("--tool", help="Only this tool (the server's own name for it).")
@_json
def accept(name: str, tool: str | None, as_json: bool) -> None:
    """Accept what a server offers now, after it changed."""

    ledger = AcceptedMcpTools(Environment.of_process().home.state)
    record = ledger.read().get(name)
    if record is None:
        raise NotFound(f"{name} was never seen: openclaw mcp test {name} looks at it")
    changed = schema.changes(record)
    now = round(time.time() * 1000)
    ledger.change(name, lambda was: schema.accept(was, now, tool) if was is not None else None)
    if as_json:
        print_json({"ok": True, "name": name, "accepted": str(changed)})
    else:
        click.echo(strip_unprintable(f"accepted: {changed}" if changed else "nothing changed since it was accepted"))


@mcp_command.command("serve")
@click.option("--session", metavar="KEY", help="The session whose policy holds (default: main).")
@click.option("--agent", "agent_id", metavar="ID", help="The agent whose tools these are.")
@click.option("--local", is_flag=True, help="Without the tools of the gateway, even when one runs.")
def serve(session: str | None, agent_id: str | None, local: bool) -> None:
    """Lend our tools to another program, over standard input and output."""

    from openclaw.gateway.mcp_server import serve

    async def main() -> None:
        async with open_client(Environment.of_process(), local=local) as client:
            await serve(client, session, agent_id)

    asyncio.run(main())


def _editor() -> Any:

    return Editor(locate(os.environ, Path.home(), Path.cwd()), os.environ)


def _loaded() -> "tuple[Environment, LoadedConfig]":

    environment = Environment.of_process()
    return environment, load(environment.home, environment.environ)


def _rows() -> list[dict[str, Any]]:
    """The servers as rows, for the table and for --json."""

    environment, loaded = _loaded()
    records = AcceptedMcpTools(environment.home.state).read()
    rows = []
    for name, settings in loaded.config.mcp.servers.items():
        record, transport, state, changes = records.get(name), "", "never seen", ""
        try:
            how = launch(name, settings, workspace="")
            transport = how.transport
            if record is not None and record.identity == identity(how):
                changes = str(schema.changes(record))
                state = "changed since it was accepted" if changes else "accepted"
            else:
                record = None
        except OpenClawError as error:
            record, state = None, error.message
        rows.append(
            {
                "name": name,
                "enabled": settings.enabled,
                "transport": transport,
                "state": state if settings.enabled else "switched off",
                "tools": [tool.name for tool in record.accepted] if record else [],
                "changes": changes,
            }
        )
    return rows


async def _look(name: str) -> Any:
    from openclaw.cli.screen import TerminalApprover
    from openclaw.gateway.app import open_app

    async with open_app(Environment.of_process(), clock=SystemClock(), approver=TerminalApprover()) as app:
        return await app.machine_tools.mcp.look(name)
