"""`openclaw system`: tell the running assistant something, and look at its heartbeats."""

from typing import Any

import click

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


@click.group("system")
def command() -> None:
    """Tell the running assistant what happened, and see to its heartbeats."""


@command.command("event")
@click.argument("words", nargs=-1)
@click.option("--text", metavar="TEXT", help="What happened.")
@click.option("--mode", type=click.Choice(["now", "next-heartbeat"]), default="next-heartbeat", show_default=True)
@click.option("--session-key", metavar="KEY", help="Which conversation is told.")
@JSON
def event(words: tuple[str, ...], text: str | None, mode: str, session_key: str | None, as_json: bool) -> None:
    """Put a line up for the main conversation; with --mode now it is read at once."""
    said = (text or " ".join(words)).strip()
    if not said:
        raise click.UsageError('say what happened: openclaw system event --text "…"')
    params = {"text": said, "mode": mode, **({"sessionKey": session_key} if session_key else {})}
    _show(_ask("wake", params), as_json, "told" if mode == "now" else "waits for the next turn")


@command.group("heartbeat")
def heartbeat() -> None:
    """The regular look at what needs attention."""


@heartbeat.command("last")
@JSON
def last(as_json: bool) -> None:
    """What became of the last one."""
    from openclaw.cli.output import when
    from openclaw.core.visible import printable

    found = _ask("last-heartbeat", {})
    if found is None:
        _show(None, as_json, "none since the gateway started")
        return
    line = f"{when(found['ts'])}  {found['status']}  {printable(found['reason'] or found['preview'])}".rstrip()
    _show(found, as_json, line)


@heartbeat.command("enable")
@JSON
def enable(as_json: bool) -> None:
    """Switch heartbeats on until the gateway stops."""
    _show(_ask("set-heartbeats", {"enabled": True}), as_json, "heartbeats are on")


@heartbeat.command("disable")
@JSON
def disable(as_json: bool) -> None:
    """Switch heartbeats off until the gateway stops."""
    _show(_ask("set-heartbeats", {"enabled": False}), as_json, "heartbeats are off")


def _show(document: Any, as_json: bool, line: str) -> None:
    from openclaw.cli.output import print_json

    if as_json:
        print_json(document)
    else:
        click.echo(line)


def _ask(method: str, params: dict[str, Any]) -> Any:
    from openclaw.gateway.lock import running
    from openclaw.gateway.reach import call_gateway, find
    from openclaw.gateway.surroundings import Environment

    surroundings = Environment.of_process()
    if running(surroundings.home.state) is None:
        raise click.ClickException("the gateway is not running: start it with openclaw gateway start")
    return call_gateway(find(surroundings), method, params, timeout=30.0)
