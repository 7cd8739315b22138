"""The options of `openclaw gateway run`, and the tables of `gateway` and `daemon`."""

from typing import Any

import click

from openclaw.cli.root import Verbs, load

PORT = click.IntRange(0, 65_535)
VERBS = {
    "start": ("gateway.control", "Start the gateway in the background and wait until it is ready."),
    "stop": ("gateway.control", "Stop the gateway; runs in progress get half a minute to finish."),
    "restart": ("gateway.control", "Begin again with the configuration as it is now."),
    "status": ("gateway.control", "Whether the gateway is installed, running, listening and answering."),
    "install": ("gateway.control", "Install the gateway as a service of this user, and start it."),
    "uninstall": ("gateway.control", "Stop the service and remove it; configuration and data stay."),
    "auth-token": ("gateway.control", "Print the token or password that clients of this gateway need."),
    "call": ("gateway.control", "Call METHOD of a running gateway and print its answer."),
}
DAEMON = ("install", "uninstall", "start", "stop", "restart", "status")


class Gateway(Verbs):
    """The group; without a verb, `openclaw gateway` is `openclaw gateway run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ("-h", "--help")):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group("gateway", cls=Gateway, elsewhere=VERBS)
def gateway_command() -> None:
    """Run the gateway, or look after it in the background. Without a verb: run."""


@gateway_command.command("run")
@click.option("--port", type=PORT, help="Listen here instead of gateway.port (18789).")
@click.option("--bind", metavar="MODE", help="loopback, lan or custom instead of gateway.bind.")
@click.option("--auth", metavar="MODE", help="token, password or none instead of gateway.auth.mode.")
@click.option("--token", help="The token clients need. Others can see it: prefer OPENCLAW_GATEWAY_TOKEN.")
@click.option("--password", help="The password clients need. Prefer --password-file or OPENCLAW_GATEWAY_PASSWORD.")
@click.option("--password-file", type=click.File(), metavar="FILE", help="Read the password from FILE.")
@click.option("--force", is_flag=True, help="Stop the gateway that runs already and take its place.")
@click.option("--verbose", is_flag=True, help="Show everything on the console.")
@click.option(
    "--safe-mode",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    show_default=True,
    help="Start without channels, plugins and cron; auto does so after three crashes within five minutes.",
)
@click.option("--no-console", is_flag=True, hidden=True)
def run(password_file: Any, **options: Any) -> None:
    """Run the gateway here, until it is stopped."""
    if password_file is not None:
        options["password"] = password_file.readline().strip()
    load("gateway.run", "run_gateway")(**options)


@click.group("daemon", cls=Verbs, elsewhere={verb: VERBS[verb] for verb in DAEMON})
def daemon_command() -> None:
    """Look after the gateway in the background: the same verbs as openclaw gateway."""
