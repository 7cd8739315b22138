"""`openclaw mcp`: MCP servers we use, and our tools served over MCP."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import click
import msgspec

from openclaw.cli.client import call, with_client
from openclaw.cli.home import open_editor, read_home
from openclaw.cli.render import now_ms, print_json, show, table
from openclaw.config.source import parse_value
from openclaw.core.errors import ConfigError, InvalidRequest, NotFound, OpenClawError
from openclaw.process.environment import Environment
from openclaw.tools.mcp import schema
from openclaw.tools.mcp.accepted import AcceptedMcpTools
from openclaw.tools.settings import McpServerSettings

JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
NONE = "No MCP servers: see openclaw mcp set --help."


@click.group("mcp")
def mcp_command() -> None:
    """Servers that lend us tools (MCP), and our tools for other programs."""


@mcp_command.command("list")
@JSON
def list_servers(as_json: bool) -> None:
    """Every configured server and what was accepted of it."""
    servers = _servers()
    rows = [(each["name"], each["transport"], len(each["tools"]), each["state"]) for each in servers]
    show({"servers": servers}, table(rows, ("server", "transport", "tools", ""), empty=NONE), as_json)


@mcp_command.command("status")
@JSON
def status(as_json: bool) -> None:
    """The same, with the names of the tools and what changed since they were accepted."""
    servers = _servers()
    show({"servers": servers}, _status_lines(servers) if servers else NONE, as_json)


def _status_lines(servers: list[dict[str, Any]]) -> Iterator[str]:
    for each in servers:
        yield f"{each['name']}: {each['state']}"
        yield f"  tools: {', '.join(each['tools']) or 'none seen yet'}"
        if each["changes"]:
            yield f"  not accepted yet: {each['changes']} (openclaw mcp accept {each['name']})"


@mcp_command.command("show")
@click.argument("name", required=False)
@JSON
def show_settings(name: str | None, as_json: bool) -> None:
    """The settings of a server, or of all; credentials are blotted out."""
    try:
        servers = open_editor().get("mcp.servers")
    except NotFound:
        servers = {}
    if name is not None and name not in servers:
        raise NotFound(f"no MCP server {name!r}: openclaw mcp list shows them")
    print_json(servers if name is None else servers[name])


@mcp_command.command("set")
@click.argument("name")
@click.argument("settings")
@JSON
def set_server(name: str, settings: str, as_json: bool) -> None:
    """Add or replace a server. SETTINGS is JSON5: {command: "npx", args: ["-y", "…"]} or {url: "https://…"}."""
    given = parse_value(settings, "SETTINGS")
    if not isinstance(given, dict) or not name.strip() or "." in name:
        raise InvalidRequest('SETTINGS is an object such as {command: "npx"}, and NAME has no dots')
    plain = {key: given[key] for key in ("command", "url", "transport", "auth") if key in given}
    try:
        schema.launch(name, msgspec.convert(plain, McpServerSettings), workspace="")
    except (ConfigError, msgspec.ValidationError) as error:
        raise InvalidRequest(str(error)) from error
    change = open_editor().set(f'mcp.servers["{name}"]', given)
    for warning in () if as_json else change.warnings:
        click.echo(f"warning: {warning}", err=True)
    document = {"ok": True, "name": name, "changedPaths": list(change.changed)}
    show(document, f"{name} is set; try it with: openclaw mcp test {name}", as_json)


@mcp_command.command("unset")
@click.argument("name")
@JSON
def unset_server(name: str, as_json: bool) -> None:
    """Take a server out, and forget what was accepted of it."""
    open_editor().unset(f'mcp.servers["{name}"]')
    _accepted().change(name, _nothing)
    show({"ok": True, "name": name}, f"{name} is taken out", as_json)


@mcp_command.command("test")
@click.argument("name")
@JSON
def test(name: str, as_json: bool) -> None:
    """Start or reach a server and ask what it offers; the first look accepts its tools."""
    found = call("mcp.test", {"name": name}, timeout=None)
    lines = []
    for tool in found["tools"]:
        first = tool["description"].strip().partition("\n")[0]
        lines.append(f"{tool['name']}  {first[:100]}".rstrip())
    if found["changes"]:
        lines.append(f"\nnot accepted yet: {found['changes']}. Accept it with: openclaw mcp accept {name}")
    show(found, lines, as_json)


@mcp_command.command("accept")
@click.argument("name")
@click.option("--tool", help="Only this tool (the server's own name for it).")
@JSON
def accept(name: str, tool: str | None, as_json: bool) -> None:
    """Accept what a server offers now, after it changed."""
    accepted = _accepted()
    record = accepted.read().get(name)
    if record is None:
        raise NotFound(f"{name} was never seen: openclaw mcp test {name} looks at it")
    changed = schema.changes(record)
    now = now_ms()

    def accept_now(was: schema.AcceptedServer | None) -> schema.AcceptedServer | None:
        return schema.accept(was, now, tool) if was is not None else None

    accepted.change(name, accept_now)
    line = f"accepted: {changed}" if changed else "nothing changed since it was accepted"
    show({"ok": True, "name": name, "accepted": str(changed)}, line, as_json)


@mcp_command.command("serve")
@click.option("--session", metavar="KEY", help="The session whose policy holds (default: main).")
@click.option("--agent", "agent_id", metavar="ID", help="The agent whose tools these are.")
@click.option("--local", is_flag=True, help="Without the tools of the gateway, even when one runs.")
def serve(session: str | None, agent_id: str | None, local: bool) -> None:
    """Lend our tools to another program, over standard input and output."""
    from openclaw.gateway.mcp_server import serve

    with_client(partial(serve, session=session, agent_id=agent_id), local=local)


def _nothing(was: schema.AcceptedServer | None) -> None:
    """Removes the record."""


def _accepted() -> AcceptedMcpTools:
    return AcceptedMcpTools(Environment.of_process().home.state)


def _servers() -> list[dict[str, Any]]:
    """The configured servers, for the table and for --json."""
    _, loaded = read_home()
    records = _accepted().read()
    servers = []
    for name, settings in loaded.config.mcp.servers.items():
        record, transport, state, changes = records.get(name), "", "never seen", ""
        try:
            how = schema.launch(name, settings, workspace="")
            transport = how.transport or ""
            if record is not None and record.identity == schema.identity(how):
                changes = str(schema.changes(record))
                state = "changed since it was accepted" if changes else "accepted"
            else:
                record = None
        except OpenClawError as error:
            record, state = None, error.message
        tools = [tool.name for tool in record.accepted] if record else []
        state = state if settings.enabled else "switched off"
        about = {"name": name, "enabled": settings.enabled, "transport": transport, "state": state}
        servers.append({**about, "tools": tools, "changes": changes})
    return servers
