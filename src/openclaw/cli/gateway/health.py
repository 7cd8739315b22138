"""`openclaw health`: how the gateway is."""

import time

import click

from openclaw.cli.client import NOT_RUNNING, find_running
from openclaw.cli.render import JSON, now_ms, show
from openclaw.core.errors import OpenClawError
from openclaw.gateway import process
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
