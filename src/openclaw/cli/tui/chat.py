"""`openclaw chat` and `openclaw tui`: a conversation in the terminal, full-screen or line by line."""

import asyncio
import contextlib
import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from openclaw.cli.render import note
from openclaw.cli.screen import RunScreen, TerminalApprover, drive, interruptible
from openclaw.core.errors import OpenClawError
from openclaw.core.secret import Secret
from openclaw.core.text import printable
from openclaw.gateway import client_target
from openclaw.gateway.app import open_app
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.runs.request import RunRequest
from openclaw.version import __version__

if TYPE_CHECKING:
    from openclaw.gateway.client_target import ClientTarget


NO_TEXTUAL = (
    "Line by line, because the package textual is not installed; `scripts/run` installs it, and so does "
    "`pip install textual` in the environment OpenClaw runs in."
)


@click.command("chat")
@click.option("--session-key", metavar="KEY", help="The conversation to continue (default: the agent's main one).")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent answers.")
@click.option("--model", metavar="REF", help="provider/model or an alias, while this chat lasts.")
@click.option("--thinking", metavar="LEVEL", help="How hard to think.")
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
    session_key: str | None = None,
    agent_id: str | None = None,
    model: str | None = None,
    thinking: str | None = None,
    plain: bool = False,
    no_mouse: bool = False,
    url: str | None = None,
    token: str | None = None,
    password: str | None = None,
    tls_fingerprint: str = "",
    local: bool = False,
) -> int:
    """Talk to the assistant in this terminal, through the gateway, which is started when it does not run.

    Without a terminal (in a pipe) every line of standard input is a message.
    """
    import os
    import sys

    from openclaw.core.errors import InvalidRequest
    from openclaw.core.secret import Secret
    from openclaw.process.environment import Environment

    if os.environ.get("OPENCLAW_SHELL") == "exec":
        raise InvalidRequest("this shell was opened by the assistant itself: it does not send messages to itself")
    surroundings = Environment.of_process()
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if url and not (token or password) and _elsewhere(url) and at_terminal:
        token = click.prompt(f"Token of {url}", hide_input=True)
    chosen = Chosen(
        session_key=session_key,
        agent_id=agent_id,
        model=model,
        thinking=thinking,
        url=url,
        token=Secret(token) if token else None,
        password=Secret(password) if password else None,
        fingerprint=tls_fingerprint,
    )
    screen = at_terminal and not (plain or local) and os.environ.get("TERM", "dumb") != "dumb"
    if screen and not _has_textual():
        click.echo(NO_TEXTUAL, err=True)
        screen = False
    if not local and not _reachable(surroundings, chosen, starts=at_terminal):
        local = True
    if screen and not local:
        return _screen(surroundings, chosen, mouse=not no_mouse)

    return here(surroundings, chosen) if local else through_gateway(surroundings, chosen)


def _elsewhere(url: str) -> bool:
    """Whether `url` is on another machine: this home's credentials are not sent there."""
    from openclaw.gateway.client_target import find
    from openclaw.process.environment import Environment

    return find(Environment.of_process(), url=url).identity is not None


def _has_textual() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("textual") is not None
    except ModuleNotFoundError:
        return False


def _reachable(surroundings: "Environment", chosen: "Chosen", *, starts: bool) -> bool:
    """Whether a gateway can be reached; at a terminal one is started when none runs."""
    from openclaw.cli.render import note
    from openclaw.core.errors import OpenClawError
    from openclaw.gateway.process import running

    if chosen.url or surroundings.environ.get("OPENCLAW_GATEWAY_URL") or running(surroundings.home.state) is not None:
        return True
    if not starts:
        return False
    from openclaw.cli.client import gateway_up

    try:
        gateway_up(surroundings)
    except OpenClawError as error:
        note(f"In this process, because the gateway does not start: {error.message}")
        return False
    return True


def _screen(surroundings: "Environment", chosen: "Chosen", *, mouse: bool) -> int:
    from openclaw.cli.tui.app import ChatApp
    from openclaw.cli.tui.session import ChatOptions, ChatSession
    from openclaw.process.tasks import SystemClock

    clock = SystemClock()
    wishes = ChatOptions(
        session_key=chosen.session_key or "main",
        agent_id=chosen.agent_id,
        model=chosen.model,
        thinking=chosen.thinking,
        cwd=surroundings.cwd,
    )
    session = ChatSession(wishes, lambda: chosen.target(surroundings), clock)
    app = ChatApp(session, clock, surroundings.cwd)
    app.run(mouse=mouse)
    if session.connection == "refused":
        click.echo(f"error: {session.trouble}", err=True)
        return 1
    return app.return_code or 0


# The options.


class Chosen(Struct, frozen=True, kw_only=True):
    """The options a person gave."""

    session_key: str | None = None
    agent_id: str | None = None
    model: str | None = None
    thinking: str | None = None
    url: str | None = None
    token: Secret | None = None
    password: Secret | None = None
    fingerprint: str = ""

    def target(self, surroundings: "Environment") -> "ClientTarget":
        from openclaw.gateway.client_target import find

        return find(
            surroundings,
            url=self.url,
            token=self.token.reveal() if self.token else None,
            password=self.password.reveal() if self.password else None,
            fingerprint=self.fingerprint,
        )

    def params(self) -> dict[str, Any]:
        given = {
            "sessionKey": self.session_key,
            "agentId": self.agent_id,
            "model": self.model,
            "thinking": self.thinking,
        }
        return {name: value for name, value in given.items() if value is not None}


# Line by line.

WELCOME = """\
OpenClaw {version}, answering with {model}.
Type a message and press Enter. Ctrl-C stops an answer, Ctrl-D or /exit leaves, /help says what else there is.
"""


def _lines() -> Iterator[str]:
    """The lines a person types or a pipe brings, until the end."""
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives input() its line editing
    while True:
        try:
            line = input("you> " if at_terminal else "").strip()
        except (EOFError, KeyboardInterrupt):
            if at_terminal:
                click.echo()
            return
        if line in ("/exit", "/quit"):
            return
        if line:
            yield line


def _welcome(model: str) -> None:
    if sys.stdin.isatty():
        click.echo(WELCOME.format(version=__version__, model=printable(model)))


def through_gateway(surroundings: Environment, chosen: Chosen) -> int:
    """Chats through the gateway, which runs the turns and answers commands."""
    from openclaw.cli.client import ask

    agents = client_target.call_gateway(chosen.target(surroundings), "agents.list", {}, timeout=30)
    wanted = chosen.agent_id or agents["defaultId"]
    primary = next((each["model"]["primary"] for each in agents["agents"] if each["id"] == wanted), "its model")
    _welcome(chosen.model or primary)
    code = 0
    for line in _lines():
        try:
            params = {"message": line, "cwd": str(surroundings.cwd), **chosen.params()}
            code = ask(chosen.target(surroundings), params, as_json=False, limit=0)
        except OpenClawError as error:
            click.echo(f"error: {printable(error.message)}", err=True)
            code = 1
        click.echo()
    return code if not sys.stdin.isatty() else 0


def here(surroundings: Environment, chosen: Chosen) -> int:
    """Chats in this process, without a gateway."""
    return asyncio.run(_here(surroundings, chosen))


async def _here(surroundings: Environment, chosen: Chosen) -> int:
    async with open_app(surroundings, clock=SystemClock(), approver=TerminalApprover(), warn=note) as app:
        key = app.key(chosen.session_key, chosen.agent_id)
        situation = app.models.model_set(key.agent)
        _welcome(str(situation.resolve(chosen.model) if chosen.model else situation.default))
        lines = _lines()
        code = 0
        while (line := await asyncio.to_thread(next, lines, None)) is not None:
            turn = RunRequest(
                run_id=str(uuid.uuid4()),
                key=key,
                text=line,
                model=chosen.model,
                thinking=chosen.thinking,
                place=str(surroundings.cwd),
            )
            code = await _answer(app, turn)
            sys.stdout.write("\n")
        return code if not sys.stdin.isatty() else 0


async def _answer(app: Any, turn: RunRequest) -> int:
    shown = RunScreen(live=True)
    task = asyncio.ensure_future(drive(app, turn, shown))
    with interruptible(task):
        try:
            await task
        except asyncio.CancelledError:
            note("\nstopped")
            return 130
        except OpenClawError as error:
            click.echo(f"error: {printable(error.message)}", err=True)
            return 1
    if shown.end is not None and shown.end.error:
        click.echo(f"error: {printable(shown.end.error)}", err=True)
        return 1
    return 0
