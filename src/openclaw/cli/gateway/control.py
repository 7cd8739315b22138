"""`openclaw gateway start`, `stop`, `status` …, `acp`, `dashboard` and `doctor`: look after the gateway."""

import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from openclaw.cli.client import is_alone
from openclaw.cli.gateway.group import PORT
from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, ProgressLine, open_in_browser, print_json, say, show, waiting_for
from openclaw.cli.setup.gateway import gateway_up, web_address
from openclaw.cli.talk.message import RUN_CAPS, connect_running
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import strip_unprintable
from openclaw.gateway import doctor, process, running
from openclaw.gateway import status as gateway_status
from openclaw.gateway.client_target import exposure_of, find_gateway
from openclaw.gateway.exposure import shared_secret
from openclaw.gateway.running import RunningGateway, call_gateway, running_gateway
from openclaw.gateway.status import service_manager, wait_ready
from openclaw.process.environment import Environment
from openclaw.protocol.connect_request import CallFailed
from openclaw.storage.keys import StateKeys
from openclaw.version import __version__


@click.command("acp")
@click.option("--agent", "agent_id", metavar="ID", help="The agent that answers (default: the default one).")
@click.option("--local", is_flag=True, help="Without the gateway, even when one runs.")
def acp_command(agent_id: str | None, local: bool) -> None:
    """Serve the assistant to an editor (Agent Client Protocol), over standard input and output."""
    from openclaw.gateway.acp_server import serve
    from openclaw.gateway.local import local_gateway

    environment = Environment.of_process()
    # Decided once: a gateway that restarts is waited for, and not replaced by one in this process.
    connect = local_gateway if is_alone(environment, local) else connect_running
    asyncio.run(serve(partial(connect, environment, caps=RUN_CAPS), agent_id))


@click.command("start")
@click.option("--port", type=PORT, help="Listen here instead of gateway.port (18789); not with an installed service.")
@JSON
def start_command(port: int | None, as_json: bool) -> None:
    """Start the gateway in the background and wait until it is ready."""
    environment = Environment.of_process()
    services = service_manager(environment, port)
    state = environment.home.state
    found, plainly = running_gateway(state), ""
    if found is not None:
        document = {"started": False, "pid": found.pid, "port": found.port}
        _show(document, f"already running (pid {found.pid})", as_json)
        return
    with waiting_for("the gateway starts", quiet=as_json) as waiting:
        if services.state().installed:
            services.start()
            found = wait_ready(environment, waiting=waiting)
        else:
            arguments = ["--port", str(port)] if port is not None else []
            found = process.start(arguments, environment.environ, state, waiting=waiting)
            plainly = "\na plain background process: after a restart of this machine, start it again"
    _show({"started": True, "pid": found.pid, "port": found.port}, _reached(found) + plainly, as_json)


@click.command("stop")
@JSON
def stop_command(as_json: bool) -> None:
    """Stop the gateway; runs in progress get half a minute to finish."""
    environment = Environment.of_process()
    services = service_manager(environment)
    if services.state().active:
        services.stop()
    found = running.stop(environment.home.state, running.STOP_SECONDS)
    stopped = found is not None
    _show({"stopped": stopped, "pid": found.pid if found else None}, "stopped" if stopped else "not running", as_json)


@click.command("restart")
@JSON
def restart_command(as_json: bool) -> None:
    """Begin again with the configuration as it is now; start the gateway when it does not run."""
    environment = Environment.of_process()
    services = service_manager(environment)
    state = environment.home.state
    found = running_gateway(state)
    if services.state().active:
        services.restart()
        found = wait_ready(environment, not_pid=found.pid if found else 0)
    elif found is None:
        found = process.start([], environment.environ, state)
    elif found.version == __version__ and sys.platform != "win32":
        found = process.restart_gateway(state, found, running.RESTART_SECONDS + process.START_SECONDS)
    else:
        # A new version of the program needs a new process.
        running.stop(state, running.STOP_SECONDS)
        found = process.start(["--port", str(found.port)], environment.environ, state)
    _show({"restarted": True, "pid": found.pid, "port": found.port}, _reached(found), as_json)


@click.command("status")
@JSON
@click.option("--timeout", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="Seconds to wait.")
def status_command(as_json: bool, timeout: float) -> int:
    """Whether the gateway is installed, running, listening and answering."""
    environment = Environment.of_process()
    services = service_manager(environment)
    found = gateway_status.read_status(environment, services, timeout)
    show(found.document(), (f"{name:<9} {value}" for name, value in found.lines()), as_json)
    return 0 if found.ready else 1


@click.command("install")
@click.option("--port", type=PORT, help="Listen here instead of gateway.port (18789).")
@click.option("--force", is_flag=True, help="Write the service anew even when it is installed.")
@JSON
def install_command(port: int | None, force: bool, as_json: bool) -> None:
    """Install the gateway as a service of this user, and start it."""
    environment = Environment.of_process()
    services = service_manager(environment, port)
    state = services.state()
    if state.installed and not state.drifted and not force:
        _show({"installed": False, "path": str(state.path)}, f"already installed: {state.path}", as_json)
        return
    services.install()
    found = wait_ready(environment)
    document = {"installed": True, "path": str(services.path), "pid": found.pid, "port": found.port}
    _show(document, f"installed {services.path}\n{_reached(found)}", as_json)
    if services.manager == "systemd" and not as_json:
        click.echo("To keep it running when you are logged out: loginctl enable-linger", err=True)


@click.command("uninstall")
@JSON
def uninstall_command(as_json: bool) -> None:
    """Stop the service and remove it; configuration and data stay."""
    services = service_manager(Environment.of_process())
    services.uninstall()
    _show({"uninstalled": True, "path": str(services.path)}, f"removed {services.path}", as_json)


@click.command("auth-token")
def auth_token_command() -> None:
    """Print the token or password that clients of this gateway need."""
    environment = Environment.of_process()
    secret = shared_secret(exposure_of(environment), environment.home.state)
    if secret is None:
        raise click.ClickException("no credential is asked of clients (gateway.auth.mode is none)")
    click.echo(secret.reveal())


@click.command("call")
@click.argument("method")
@click.option("--params", default="{}", metavar="JSON", help="The parameters, as a JSON object.")
@click.option("--url", help="A gateway elsewhere, such as ws://127.0.0.1:18789.")
@click.option("--port", type=PORT, help="The port on this machine.")
@click.option("--token", help="The token to present.")
@click.option("--password", help="The password to present.")
@click.option("--tls-fingerprint", metavar="SHA256", default="", help="Of its certificate, when nobody signed it.")
@click.option("--timeout", type=click.IntRange(min=1), default=10_000, show_default=True, help="Milliseconds to wait.")
@click.option("--expect-final", is_flag=True, help="Wait for the final answer of a run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document (the answer is JSON in any case).")
def call_command(
    method: str, params: str, tls_fingerprint: str, timeout: int, expect_final: bool, as_json: bool, **target: Any
) -> None:
    """Call METHOD of a running gateway and print its answer."""
    try:
        given = json.loads(params)
    except ValueError as error:
        raise click.UsageError(f"--params is not JSON: {error}") from error
    found = find_gateway(Environment.of_process(), fingerprint=tls_fingerprint, **target)
    print_json(call_gateway(found, method, given, timeout=timeout / 1000, expect_final=expect_final))


def _reached(found: RunningGateway) -> str:
    return f"the gateway is ready on port {found.port} (pid {found.pid})"


def _show(document: dict[str, Any], line: str, as_json: bool) -> None:
    show({"ok": True, **document}, line, as_json)


# `openclaw dashboard`.


@click.command("dashboard")
@click.option("--no-open", is_flag=True, help="Only print the link.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; opens nothing.")
def dashboard_command(no_open: bool, as_json: bool) -> None:
    """Open the web page of the gateway, which is started when it does not run.

    The link works once, for two minutes. It carries a code and not the token, and the page takes the code out of the
    address at once.
    """
    environment = Environment.of_process()
    address = web_address(gateway_up(environment))
    try:
        link = call_gateway(find_gateway(environment), "dashboard.link", {}, timeout=10)
    except CallFailed as error:
        if not error.message.startswith("unknown method"):
            raise
        raise InvalidRequest("the web page is switched off: set gateway.controlUi.enabled to true") from error
    url = address + link["path"]
    if as_json:
        print_json({"url": url, "address": address, "expiresAtMs": link["expiresAtMs"]})
        return
    if no_open or not open_in_browser(url):
        click.echo("Open this link in a browser on this machine within two minutes; it works once:", err=True)
        click.echo(url)
        return
    click.echo(f"opened {address} in your browser")


# `openclaw doctor`.

COLOURS = {"critical": "red", "warn": "yellow", "info": "cyan"}


@click.command("doctor")
@click.option("--fix", "--repair", "fix", is_flag=True, help="Repair what is safe to repair, after showing the plan.")
@click.option("--yes", is_flag=True, help="Do not ask before repairing.")
@JSON
def doctor_command(fix: bool, yes: bool, as_json: bool) -> int:
    """Find out what is wrong here. Exits with 1 when something critical remains."""
    environment = Environment.of_process()
    context = doctor.collect_context(environment)
    findings = doctor.run_checks(context, ProgressLine(quiet=as_json))
    if not as_json:
        _print_findings(findings)
    repaired: list[tuple[doctor.DoctorFinding, str]] = []
    if fix and any(finding.fix for finding in findings):
        if not as_json:
            plan = [f"  {finding.id}: {finding.fix.plan}" for finding in findings if finding.fix]
            click.echo("\n".join(("\nPlan:", *plan)))
        if yes or (not as_json and sys.stdin.isatty() and click.confirm("Do this?")):
            repaired = list(doctor.repair(findings))
            context = doctor.collect_context(environment)
            findings = doctor.run_checks(context)
        elif not as_json:
            click.echo("Nothing was changed. Add --yes to go on without a question.")
    counts = doctor.summary(findings)
    done = [(finding.id, finding.fix.plan if finding.fix else "", error) for finding, error in repaired]
    documents = [{"checkId": name, "plan": plan, "error": error or None} for name, plan, error in done]
    lines = [f"failed: {plan}: {error}" if error else f"done: {plan}" for _, plan, error in done]
    if repaired:
        lines.append(f"Left: {counts['critical']} critical, {counts['warn']} warnings.")
    show({**doctor.report(context, findings), "repaired": documents}, lines, as_json)
    return 1 if counts["critical"] else 0


# `openclaw security`.


@click.group("security")
def security_command() -> None:
    """Look for dangerous settings and files."""


@security_command.command("audit")
@click.option("--deep", is_flag=True, help="Read the workspaces too, verify the record, and try the running gateway.")
@click.option("--fix", is_flag=True, help="Take rights of others away, and unset dangerous settings.")
@JSON
def audit_command(deep: bool, fix: bool, as_json: bool) -> int:
    """What is dangerous here, why, and the command that mends it. Exits with 1 when something critical remains."""
    from openclaw.gateway.audit.service import audit

    environment = Environment.of_process()
    context = doctor.collect_context(environment)
    findings = audit(context, deep=deep)
    repaired: list[tuple[doctor.DoctorFinding, str]] = []
    if fix:
        repaired = list(doctor.repair(findings))
        context = doctor.collect_context(environment)
        findings = audit(context, deep=deep)
    if not as_json:
        for finding, error in repaired:
            plan = finding.fix.plan if finding.fix else ""
            click.echo(f"failed: {plan}: {error}" if error else f"done: {plan}")
        _print_findings(findings)
    counts = doctor.summary(findings)
    done = [{"checkId": finding.id, "error": error or None} for finding, error in repaired]
    told = f"{counts['critical']} critical, {counts['warn']} warnings, {counts['info']} for your information."
    show({**doctor.report(context, findings), "repaired": done}, [told], as_json)
    return 1 if counts["critical"] else 0


@security_command.command("rotate-owner-secret")
def rotate_command() -> None:
    """Replace the key with which your ids are hashed in prompts."""
    environment = Environment.of_process()
    if read_home()[1].config.commands.owner_display_secret is not None:
        raise InvalidRequest(
            "the key is set in the configuration: openclaw config set commands.ownerDisplaySecret NEW, or unset it"
        )
    StateKeys(environment.home.state).rotate()
    click.echo("The key is new. A running gateway uses it after: openclaw gateway restart")


def _print_findings(findings: Sequence[doctor.DoctorFinding]) -> None:
    if not findings:
        click.echo("Everything is fine.")
    for finding in findings:
        mark = click.style(f"{finding.severity:<8}", fg=COLOURS[finding.severity])
        click.echo(f"{mark} {strip_unprintable(finding.title)}  [{finding.id}]")
        for line in finding.detail.splitlines():
            say(f"           {line}")
        if finding.remediation:
            click.echo(f"         → {finding.remediation}")
