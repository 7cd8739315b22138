"""`openclaw status`, `health` and `logs`: what is set up here, how the gateway is, what it logged."""

import asyncio
import sys
import time
from collections.abc import Sequence
from itertools import chain

import click

from openclaw.agent.settings import agent_ids, default_agent
from openclaw.cli.home import NOT_RUNNING, read_home
from openclaw.cli.render import JSON, ProgressLine, ago, facts, note, now_ms, show
from openclaw.cli.setup.model_home import load_model_set, local_servers
from openclaw.config.load import load
from openclaw.config.settings import StateStoreSettings
from openclaw.core.errors import ConfigError, OpenClawError
from openclaw.gateway import logs, process
from openclaw.gateway.client_target import call_gateway, find_gateway
from openclaw.gateway.logs import LEVELS, LogFiles, format_log_line
from openclaw.gateway.process import running_gateway
from openclaw.gateway.state import open_state
from openclaw.process.environment import Environment, Home
from openclaw.process.tasks import SystemClock
from openclaw.sessions.index import SessionRow
from openclaw.version import __version__
from openclaw.workspace.seed import workspace_of


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
        document = call_gateway(find_gateway(environment), "health", {}, timeout=timeout / 1000)
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


@click.command("status")
@JSON
def status_command(as_json: bool) -> None:
    """What is set up here, in a few lines."""
    environment, loaded = read_home()
    home, config = environment.home, loaded.config
    agent = default_agent(config.agents)
    models = load_model_set(config, loaded.variables, home, local_servers(environment.environ))
    sessions = asyncio.run(_sessions(home, loaded.config.store))
    policy = config.tools.exec
    document = {
        "version": __version__,
        "stateDir": str(home.state),
        "configPath": str(home.config),
        "configExists": loaded.exists,
        "usedLastGood": loaded.used_last_good,
        "problems": [str(problem) for problem in (*loaded.issues, *loaded.warnings)],
        "agents": list(agent_ids(config.agents)),
        "defaultAgent": agent,
        "workspace": str(workspace_of(config.agents, agent, environment)),
        "model": str(models.default),
        "modelWhy": models.pick.why,
        "fallbacks": [str(ref) for ref in models.fallbacks],
        "exec": {"security": policy.security, "ask": policy.ask},
        "sessions": len(sessions),
        "lastSession": sessions[0].session_key if sessions else None,
    }
    gateway = running_gateway(home.state)
    last = f", last {sessions[0].session_key} {ago(sessions[0].updated_at, time.time())} ago" if sessions else ""
    pairs = (
        ("OpenClaw", __version__),
        ("model", f"{document['model']} ({document['modelWhy']})"),
        ("agent", f"{agent}, workspace {document['workspace']}"),
        ("sessions", f"{len(sessions)}{last}"),
        ("gateway", f"running on port {gateway.port} (pid {gateway.pid})" if gateway else "not running"),
        ("commands", f"security {policy.security}, ask {policy.ask}"),
        ("config", f"{home.config}{'' if loaded.exists else ' (not there yet: defaults)'}"),
    )
    for problem in () if as_json else (*loaded.issues, *loaded.warnings):
        note(str(problem))
    show(document, facts(pairs, 10), as_json)


async def _sessions(home: Home, store: StateStoreSettings) -> Sequence[SessionRow]:
    async with open_state(home, SystemClock(), store, ProgressLine()) as (_, index):
        return await index.list()
