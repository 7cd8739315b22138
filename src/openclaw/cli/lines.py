"""A conversation line by line: for pipes, for terminals that can do no more, and for a process without a gateway."""

import asyncio
import contextlib
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import click

from openclaw.cli.chosen import Chosen
from openclaw.cli.output import note
from openclaw.cli.running import RunScreen, TerminalApprover, drive, interruptible
from openclaw.core.errors import OpenClawError
from openclaw.core.visible import printable
from openclaw.gateway import reach
from openclaw.gateway.app import assistant
from openclaw.gateway.clock import SystemClock
from openclaw.gateway.surroundings import Environment
from openclaw.turns.turn import RunRequest
from openclaw.version import __version__

WELCOME = """\
OpenClaw {version}, answering with {model}.
Type a message and press Enter. Ctrl-C stops an answer, Ctrl-D or /exit leaves, /help says what else there is.
"""


def _lines() -> Iterator[str]:
    """What a person types or a pipe brings, until the end."""
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
    """The same conversation as on the web page: the gateway does the work and answers commands."""
    from openclaw.cli.remote import ask

    agents = reach.call_gateway(chosen.target(surroundings), "agents.list", {}, timeout=30)
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
    """A conversation in this process."""
    return asyncio.run(_here(surroundings, chosen))


async def _here(surroundings: Environment, chosen: Chosen) -> int:
    async with assistant(surroundings, clock=SystemClock(), approver=TerminalApprover(), warn=note) as app:
        key = app.key(chosen.session_key, chosen.agent_id)
        situation = app.models.situation(key.agent)
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
