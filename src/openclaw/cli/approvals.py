"""`openclaw approvals`: questions that wait, and what was allowed for good."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from openclaw.approvals.grants import ApprovalFile

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")
AGENT = click.option("--agent", "agent_id", metavar="ID", help="Which agent (default: all for list, else main).")


@click.group("approvals")
def command() -> None:
    """Answer questions about commands; see and take back what was allowed for good."""


@command.command("list")
@AGENT
@JSON
def list_grants(agent_id: str | None, as_json: bool) -> None:
    """What was allowed for good, by agent."""
    from openclaw.cli.output import print_json, table
    from openclaw.core.visible import printable

    document = _file().read()
    rows = [
        {"agent": name, **entry}
        for name, agent in sorted(document.agents.items())
        for entry in agent.allowlist
        if agent_id in (None, name)
    ]
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo(
            "Nothing is allowed for good. Answer a question with always, or: openclaw approvals allowlist add PATTERN"
        )
        return
    cells = [
        (str(row.get("id") or "-"), row["agent"], printable(row["pattern"]), printable(_arguments(row))) for row in rows
    ]
    click.echo(table(cells, ("id", "agent", "program", "arguments")))


def _arguments(row: dict[str, Any]) -> str:
    pattern = str(row.get("argPattern") or "any")
    return f"exactly: {row.get('lastUsedCommand')}" if pattern.startswith("sha256:") else pattern


@command.command("get")
@JSON
def get(as_json: bool) -> None:
    """The whole document, with the hash that `set --base-hash` takes."""
    from openclaw.cli.output import print_json

    file = _file()
    print_json({"hash": file.hash, "file": file.shown()} if as_json else file.shown())


@command.command("set")
@click.option("--file", "source", type=click.Path(exists=True, dir_okay=False), help="Read it from this file.")
@click.option("--stdin", is_flag=True, help="Read it from standard input.")
@click.option("--base-hash", metavar="HASH", help="Only if it has not changed since.")
def set_document(source: str | None, stdin: bool, base_hash: str | None) -> None:
    """Put another document in place of the one there is."""
    import sys
    from pathlib import Path

    import msgspec

    from openclaw.core.errors import InvalidRequest

    if bool(source) == stdin:
        raise click.UsageError("give either --file PATH or --stdin")
    data = Path(source).read_bytes() if source else sys.stdin.buffer.read()
    try:
        document = msgspec.json.decode(data, type=dict[str, Any])
    except ValueError as error:
        raise InvalidRequest(f"that is not a JSON object: {error}") from error
    _file().put(document, base_hash, _now())
    click.echo("the approvals are set")


@command.group("allowlist")
def allowlist() -> None:
    """Programs that run without being asked about."""


@allowlist.command("add")
@click.argument("pattern")
@click.option("--args", "arguments", metavar="REGEX", help="Only with arguments like this.")
@AGENT
def add(pattern: str, arguments: str | None, agent_id: str | None) -> None:
    """Let a program run without being asked about: its name, or a path that may hold * and ?."""
    import re
    import secrets

    from openclaw.core.errors import InvalidRequest
    from openclaw.core.keys import DEFAULT_AGENT, normalise_agent

    if not pattern.strip():
        raise InvalidRequest("name a program: git, or /usr/bin/git")
    try:
        re.compile(arguments or "")
    except re.error as error:
        raise InvalidRequest(f"--args is not a regular expression: {error}") from error
    entry = {"id": secrets.token_hex(4), "pattern": pattern.strip(), **({"argPattern": arguments} if arguments else {})}
    _file().allow(normalise_agent(agent_id or DEFAULT_AGENT), [entry], _now())
    click.echo(f"{entry['id']}: {pattern} runs without being asked about; code in its arguments still is")


@allowlist.command("remove")
@click.argument("wanted", metavar="ID_OR_PATTERN")
@AGENT
def remove(wanted: str, agent_id: str | None) -> None:
    """Take back what was allowed for good: by its id, or its pattern."""
    for agent, entry in _file().withdraw(wanted, agent_id, _now()):
        click.echo(f"taken back from {agent}: {entry['pattern']} ({_arguments(entry)})")


@command.command("pending")
@JSON
def pending(as_json: bool) -> None:
    """Questions of the running gateway that wait for an answer."""
    from openclaw.cli.output import print_json
    from openclaw.core.visible import printable

    found = _ask("exec.approval.list", {})
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("No question waits.")
    for question in found:
        request = question["request"]
        click.echo(f"{question['id']}  {request['agentId']}  in {printable(request['cwd'])}")
        click.echo(f"    {printable(request['command'])}")
        click.echo(f"    {printable(request['warningText'])}")


@command.command("resolve")
@click.argument("wanted", metavar="ID")
@click.argument("decision", type=click.Choice(["allow-once", "allow-always", "deny"]))
def resolve(wanted: str, decision: str) -> None:
    """Answer the question ID of the running gateway."""
    _ask("exec.approval.resolve", {"id": wanted, "decision": decision})
    click.echo(f"{wanted}: {decision}")


def _file() -> "ApprovalFile":
    from openclaw.approvals.grants import ApprovalFile
    from openclaw.gateway.surroundings import Environment

    return ApprovalFile(Environment.of_process().home.state / "exec-approvals.json")


def _now() -> int:
    from openclaw.core.clock import millis
    from openclaw.gateway.clock import SystemClock

    return millis(SystemClock())


def _ask(method: str, params: dict[str, Any]) -> Any:
    from openclaw.gateway.lock import running
    from openclaw.gateway.reach import call_gateway, find
    from openclaw.gateway.surroundings import Environment

    surroundings = Environment.of_process()
    if running(surroundings.home.state) is None:
        raise click.ClickException("the gateway is not running, so no question waits: openclaw gateway start")
    return call_gateway(find(surroundings), method, params, timeout=30.0)
