"""`openclaw status`: what is set up here."""

import time

import click

from openclaw.cli.client import ask_running
from openclaw.cli.render import JSON, ago, facts, note, show
from openclaw.cli.root import load
from openclaw.gateway.running import running_gateway
from openclaw.process.environment import Environment


@click.command("status")
@JSON
def status_command(as_json: bool) -> None:
    """What is set up here, in a few lines."""
    environment = Environment.of_process()
    answer = ask_running(environment, "status", {"includeCliProjection": True, "includeChannelSummary": False})
    # Without a gateway we look ourselves, which takes the configuration, the models and the database.
    document = answer["cliProjection"] if answer else load("setup.model_home", "describe_here")(environment)
    gateway = running_gateway(environment.home.state)
    used = document.pop("lastUsedAt")
    last = f", last {document['lastSession']} {ago(used, time.time())} ago" if used else ""
    pairs = (
        ("OpenClaw", document["version"]),
        ("model", f"{document['model']} ({document['modelWhy']})"),
        ("agent", f"{document['defaultAgent']}, workspace {document['workspace']}"),
        ("sessions", f"{document['sessions']}{last}"),
        ("gateway", f"running on port {gateway.port} (pid {gateway.pid})" if gateway else "not running"),
        ("commands", f"security {document['exec']['security']}, ask {document['exec']['ask']}"),
        ("config", f"{document['configPath']}{'' if document['configExists'] else ' (not there yet: defaults)'}"),
    )
    for problem in () if as_json else document["problems"]:
        note(problem)
    show(document, facts(pairs, 10), as_json)
