"""`openclaw logs`: what the gateway logged."""

import sys
from itertools import chain

import click

from openclaw.config.load import load
from openclaw.core.errors import ConfigError
from openclaw.gateway import logs
from openclaw.gateway.logs import LEVELS, LogFiles, format_log_line
from openclaw.process.environment import Environment


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
