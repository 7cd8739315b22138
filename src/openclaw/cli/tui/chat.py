"""`openclaw chat` and `openclaw tui`: a conversation in the terminal, full-screen or line by line."""

import os
import sys
from importlib.util import find_spec
from typing import Any

import click

from openclaw.cli.render import SKILL, note, skill_directories
from openclaw.cli.setup.gateway import gateway_up
from openclaw.cli.tui.lines import ChatArguments, talk
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.secret import Secret
from openclaw.gateway.client_target import find_gateway
from openclaw.gateway.running import running_gateway
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock

NO_TEXTUAL = (
    "Line by line, because the package textual is not installed; `scripts/run` installs it, and so does "
    "`pip install textual` in the environment OpenClaw runs in."
)


@click.command("chat")
@click.option("--session-key", metavar="KEY", help="The conversation to continue (default: the agent's main one).")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent answers.")
@click.option("--model", metavar="REF", help="provider/model or an alias, while this chat lasts.")
@click.option("--thinking", metavar="LEVEL", help="How hard to think.")
@SKILL
@click.option("--plain", is_flag=True, help="Line by line, without a screen of its own.")
@click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal, for selecting text.")
@click.option(
    "--url", metavar="URL", help="Another gateway: wss://host:18789, or ws://127.0.0.1:PORT through a tunnel."
)
@click.option("--token", help="Its token; asked for, unseen, when it is missing.")
@click.option("--password", help="Its password, where it wants one instead.")
@click.option("--tls-fingerprint", metavar="SHA256", default="", help="Of its certificate, when nobody signed it.")
@click.option("--local", is_flag=True, help="Run in this process, line by line, even when a gateway is running.")
def chat_command(
    plain: bool,
    no_mouse: bool,
    url: str | None,
    token: str | None,
    password: str | None,
    local: bool,
    skills: tuple[str, ...],
    **chosen: Any,
) -> int:
    """Talk to the assistant in this terminal, through the gateway, which is started when it does not run.

    Without a terminal (in a pipe) every line of standard input is a message.
    """
    if os.environ.get("OPENCLAW_SHELL") == "exec":
        raise InvalidRequest("this shell was opened by the assistant itself: it does not send messages to itself")
    environment = Environment.of_process()
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    # A gateway on another machine gets an identity, and none of this home's credentials.
    if url and not (token or password) and at_terminal and find_gateway(environment, url=url).signer is not None:
        token = click.prompt(f"Token of {url}", hide_input=True)
    arguments = ChatArguments(
        skills=skill_directories(skills),
        url=url,
        token=Secret(token) if token else None,
        password=Secret(password) if password else None,
        **chosen,
    )
    screen = at_terminal and not (plain or local) and os.environ.get("TERM", "dumb") != "dumb"
    if screen and not _has_textual():
        click.echo(NO_TEXTUAL, err=True)
        screen = False
    local = local or not _reachable(environment, url, starts=at_terminal)
    if screen and not local:
        return _run_screen(environment, arguments, mouse=not no_mouse)
    return talk(environment, arguments, local=local)


tui_command = chat_command


def _has_textual() -> bool:
    try:
        return find_spec("textual") is not None
    except ModuleNotFoundError:  # an import hook may say so instead of giving None
        return False


def _reachable(environment: Environment, url: str | None, *, starts: bool) -> bool:
    """Whether a gateway can be reached; at a terminal one is started when none runs."""
    known = url or environment.environ.get("OPENCLAW_GATEWAY_URL")
    if known or running_gateway(environment.home.state) is not None:
        return True
    if not starts:
        return False
    try:
        gateway_up(environment)
    except OpenClawError as error:
        note(f"In this process, because the gateway does not start: {error.message}")
        return False
    return True


def _run_screen(environment: Environment, arguments: ChatArguments, *, mouse: bool) -> int:
    from openclaw.cli.tui.app import ChatApp
    from openclaw.cli.tui.session import ChatSession

    clock = SystemClock()
    session = ChatSession(arguments, environment, clock)
    app = ChatApp(session, clock, environment.cwd)
    app.run(mouse=mouse)
    if session.connection == "refused":
        click.echo(f"error: {session.trouble}", err=True)
        return 1
    return app.return_code or 0
