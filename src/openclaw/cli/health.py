"""`openclaw health`: whether the gateway is well."""

import click


@click.command("health")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--timeout", type=click.IntRange(min=1), default=10_000, show_default=True, help="Milliseconds to wait.")
def command(as_json: bool, timeout: int) -> None:
    """Ask the running gateway how it is."""
    import time

    from openclaw.cli.output import print_json
    from openclaw.core.errors import OpenClawError
    from openclaw.gateway import process
    from openclaw.gateway.lock import running
    from openclaw.gateway.reach import call_gateway, find
    from openclaw.gateway.surroundings import Environment

    surroundings = Environment.of_process()
    started = time.monotonic()
    found = running(surroundings.home.state)
    if found is None:
        raise click.ClickException("the gateway is not running: start it with openclaw gateway start")
    told = process.ask(found, timeout / 1000)
    if not told.answers:
        raise click.ClickException(f"the gateway (pid {found.pid}) does not answer: {told.problem}")
    if not told.ready:
        raise click.ClickException(f"the gateway (pid {found.pid}) is not ready: {', '.join(told.failing)}")
    try:
        document = call_gateway(find(surroundings), "health", {}, timeout=timeout / 1000)
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
