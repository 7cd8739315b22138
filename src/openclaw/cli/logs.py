"""`openclaw health` and `logs`: how the gateway is, what it logged."""

import sys
import time
from itertools import chain

import click

from openclaw.cli.client import NOT_RUNNING, find_running
from openclaw.cli.render import JSON, now_ms, show
from openclaw.config.load import load
from openclaw.core.errors import ConfigError, OpenClawError
from openclaw.gateway import logs, process
from openclaw.gateway.logs import LEVELS, LogFiles, format_log_line
from openclaw.gateway.running import call_gateway, running_gateway
from openclaw.process.environment import Environment


@click.command("health")
@JSON
@click.option("--timeout", type=click.IntRange(min=1), default=10_000, show_default=True, help="Milliseconds to wait.")
def health_command(as_json: bool, timeout: int) -> int:
    """Ask the running gateway how it is."""
    environment = Environment.of_process()
    began = time.monotonic()
    found = running_gateway(environment.home.state)
    if found is None:
        raise click.ClickException(NOT_RUNNING)
    health = process.ask_health(found, timeout / 1000)
    if not health.answers:
        raise click.ClickException(f"the gateway (pid {found.pid}) does not answer: {health.problem}")
    if not health.ready:
        raise click.ClickException(f"the gateway (pid {found.pid}) is not ready: {', '.join(health.failing)}")
    try:
        document = call_gateway(find_running(environment, found), "health", {}, timeout=timeout / 1000)
        protocol = "answers"
    except OpenClawError as error:
        document = {"ok": False, "ts": now_ms(), "error": error.message}
        protocol = f"does not answer: {error.message}"
    took = round((time.monotonic() - began) * 1000)
    ready = f"gateway   ready on port {found.port} (pid {found.pid}), asked in {took} ms"
    show({**document, "durationMs": took}, [ready, f"protocol  {protocol}"], as_json)
    return 0 if document.get("ok") else 1


@click.command("logs")
@click.option("--follow", "-f", is_flag=True, help="Keep showing lines as they are written, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(min=1), default=200, show_default=True, help="How many lines at the most.")
@click.option("--level", type=click.Choice(["error", "warn", "info", "debug", "trace"]), help="Only this and worse.")
@click.option("--session", metavar="KEY", help="Only lines of this session.")
@click.option("--run", metavar="ID", help="Only lines of this run.")
@click.option("--json", "as_json", is_flag=True, help="The lines as they are in the file, one JSON object each.")
def logs_command(
    follow: bool, limit: int, level: str | None, session: str | None, run: str | None, as_json: bool
) -> None:
    """The gateway's log, newest lines last."""
    environment = Environment.of_process()
    home = environment.home
    try:
        chosen = load(home, environment.environ).config.logging.file
    except ConfigError:
        chosen = None  # must work with a broken configuration: that is when one reads the log
    place = LogFiles.of(home.state, chosen)
    least = LEVELS[level] if level else 0
    colours = sys.stdout.isatty()
    if not place.files() and not follow:
        click.echo(f"Nothing has been written to {place.directory} yet.", err=True)
        return
    coming = logs.follow(place) if follow else iter(())
    for text in chain(logs.last(place, limit), coming):
        line = logs.read(text)
        if line is None or LEVELS.get(line.level, 0) < least:
            continue
        if (session and line.session_key != session) or (run and line.run_id != run):
            continue
        click.echo(text if as_json else format_log_line(line, colours=colours))
