"""`openclaw daemon`: the service verbs of `openclaw gateway` under another name."""

import click

from openclaw.cli import gateway

command = click.Group(
    "daemon",
    help="Look after the gateway in the background: the same verbs as openclaw gateway.",
    commands={
        verb: gateway.command.commands[verb] for verb in ("install", "uninstall", "start", "stop", "restart", "status")
    },
)
