"""`openclaw status`, `health` and `logs`: what is set up here, how the gateway is, what it logged."""

import asyncio
import sys
import time
from functools import cache
from itertools import chain

import click

from openclaw.agent.settings import agent_ids, default_agent
from openclaw.cli.models import load_model_set as assess
from openclaw.cli.render import ago, note, print_json
from openclaw.config.load import load
from openclaw.core.errors import ConfigError, OpenClawError
from openclaw.gateway import logs, process
from openclaw.gateway.client_target import call_gateway, find_gateway
from openclaw.gateway.logs import LEVELS, LogFiles, format_log_line
from openclaw.gateway.process import running_gateway
from openclaw.gateway.state import open_state
from openclaw.models.discover import probe_servers
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.version import __version__
from openclaw.workspace.seed import workspace_of


@click.command("health")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--timeout", type=click.IntRange(min=1), default=10_000, show_default=True, help="Milliseconds to wait.")
def health_command(as_json: bool, timeout: int) -> None:
    """Ask the running gateway how it is."""

    environment = Environment.of_process()
    started = time.monotonic()
    found = running_gateway(environment.home.state)
    if found is None:
        raise click.ClickException("the gateway is not running: start it with openclaw gateway start")
    told = process.ask_health(found, timeout / 1000)
    if not told.answers:
        raise click.ClickException(f"the gateway (pid {found.pid}) does not answer: {told.problem}")
    if not told.ready:
        raise click.ClickException(f"the gateway (pid {found.pid}) is not ready: {', '.join(told.failing)}")
    try:
        document = call_gateway(find_gateway(environment), "health", {}, timeout=timeout / 1000)
        protocol = "answers"
    except OpenClawError as error:
        document = {"ok": False, "ts": round(time.time() * 1000), "error": error.message}
        protocol = f"does not answer: {error.message}"
    took = round((time.monotonic() - started) * 1000)
    if as_json:
        print_json({**document, "durationMs": took})
    else:
        click.echo(f"gateway   ready on port {found.port} (pid {found.pid}), asked in {took} ms")
        click.echo(f"protocol  {protocol}")
    if not document.get("ok"):
        raise click.exceptions.Exit(1)


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
        if line is None:
            continue
        if LEVELS.get(line.level, 0) < least:
            continue
        if (session and line.session_key != session) or (run and line.run_id != run):
            continue
        click.echo(text if as_json else format_log_line(line, colours=colours))


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def status_command(as_json: bool) -> None:
    """What is set up here, in a few lines."""

    async def main() -> None:
        clock = SystemClock()
        environment = Environment.of_process()
        home = environment.home
        loaded = load(home, environment.environ)
        config = loaded.config
        problems = [str(problem) for problem in (*loaded.issues, *loaded.warnings)]
        agent = default_agent(config.agents)
        asked = not environment.environ.get("OPENCLAW_NO_LOCAL_MODELS")
        situation = assess(config, loaded.variables, home, cache(probe_servers) if asked else lambda: ())
        async with open_state(home, clock) as (_, index):
            sessions = await index.list()
        execution = config.tools.exec
        document = {
            "version": __version__,
            "stateDir": str(home.state),
            "configPath": str(home.config),
            "configExists": loaded.exists,
            "usedLastGood": loaded.used_last_good,
            "problems": problems,
            "agents": list(agent_ids(config.agents)),
            "defaultAgent": agent,
            "workspace": str(workspace_of(config.agents, agent, environment)),
            "model": str(situation.default),
            "modelWhy": situation.pick.why,
            "fallbacks": [str(ref) for ref in situation.fallbacks],
            "exec": {"security": execution.security, "ask": execution.ask},
            "sessions": len(sessions),
            "lastSession": sessions[0].session_key if sessions else None,
        }
        if as_json:
            print_json(document)
            return
        for problem in problems:
            note(problem)
        gateway = running_gateway(home.state)
        last = f", last {sessions[0].session_key} {ago(sessions[0].updated_at, clock.now())} ago" if sessions else ""
        there = "" if loaded.exists else " (not there yet: defaults)"
        lines = (
            ("OpenClaw", __version__),
            ("model", f"{document['model']} ({document['modelWhy']})"),
            ("agent", f"{agent}, workspace {document['workspace']}"),
            ("sessions", f"{len(sessions)}{last}"),
            ("gateway", f"running on port {gateway.port} (pid {gateway.pid})" if gateway else "not running"),
            ("commands", f"security {execution.security}, ask {execution.ask}"),
            ("config", f"{home.config}{there}"),
        )
        for name, value in lines:
            click.echo(f"{name:<9} {value}")

    asyncio.run(main())
