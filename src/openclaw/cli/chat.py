"""`openclaw chat`: a conversation in the terminal."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openclaw.gateway.app import Surroundings

WELCOME = """\
OpenClaw {version}, answering with {model}.
Type a message and press Enter. Ctrl-C stops an answer, Ctrl-D or /exit leaves, /help says what else there is.
"""
HELP = """\
/help       this text
/status     what answers, in which session
/exit       leave (so does Ctrl-D)
Everything else goes to the assistant."""


@click.command("chat")
@click.option("--session-key", metavar="KEY", help="The conversation to continue (default: the agent's main one).")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent answers.")
@click.option("--model", metavar="REF", help="provider/model or an alias, while this chat lasts.")
@click.option("--thinking", metavar="LEVEL", help="How hard to think.")
@click.option("--local", is_flag=True, help="Run in this process even when a gateway is running.")
def command(
    session_key: str | None = None,
    agent_id: str | None = None,
    model: str | None = None,
    thinking: str | None = None,
    local: bool = False,
) -> int:
    """Talk to the assistant in this terminal; through the gateway when one is running."""
    import contextlib

    from openclaw.gateway.app import Surroundings
    from openclaw.gateway.lock import running

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives input() its line editing

    surroundings = Surroundings.of_process()
    if not local and running(surroundings.home.state) is not None:
        return _through_gateway(surroundings, session_key, agent_id, model, thinking)
    return _here(surroundings, session_key, agent_id, model, thinking)


def _lines() -> "Iterator[str]":
    """What a person types, until they leave."""
    while True:
        try:
            line = input("you> ").strip()
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return
        if line in ("/exit", "/quit"):
            return
        if line:
            yield line


def _through_gateway(
    surroundings: "Surroundings",
    session_key: str | None,
    agent_id: str | None,
    model: str | None,
    thinking: str | None,
) -> int:
    """The same conversation as in the web page: the gateway does the work and answers commands."""
    from openclaw.cli.remote import ask
    from openclaw.core.errors import OpenClawError
    from openclaw.gateway import reach
    from openclaw.version import __version__

    target = reach.find(surroundings)
    agents = reach.ask(target, "agents.list", {}, timeout=10)
    wanted = agent_id or agents["defaultId"]
    primary = next((each["model"]["primary"] for each in agents["agents"] if each["id"] == wanted), "its model")
    click.echo(WELCOME.format(version=__version__, model=model or primary))
    given = {"sessionKey": session_key, "agentId": agent_id, "model": model, "thinking": thinking}
    given = {name: value for name, value in given.items() if value is not None}
    for line in _lines():
        try:
            ask(
                reach.find(surroundings),
                {"message": line, "cwd": str(surroundings.cwd), **given},
                as_json=False,
                limit=0,
            )
        except OpenClawError as error:
            click.echo(f"error: {error.message}", err=True)
        click.echo()
    return 0


def _here(
    surroundings: "Surroundings",
    session_key: str | None,
    agent_id: str | None,
    model: str | None,
    thinking: str | None,
) -> int:
    """A conversation in this process."""
    import asyncio
    import sys
    import uuid

    from openclaw.cli.output import note
    from openclaw.cli.running import Shown, TerminalApprover, drive, interruptible
    from openclaw.core.errors import OpenClawError
    from openclaw.gateway.app import assistant
    from openclaw.gateway.clock import SystemClock
    from openclaw.turns.turn import Turn
    from openclaw.version import __version__

    async def main() -> int:
        async with assistant(surroundings, clock=SystemClock(), approver=TerminalApprover(), warn=note) as app:
            key = app.key(session_key, agent_id)
            situation = app.situation(key.agent)
            ref = situation.resolve(model) if model else situation.default
            click.echo(WELCOME.format(version=__version__, model=ref))
            lines = _lines()
            while (line := await asyncio.to_thread(next, lines, None)) is not None:
                if line == "/help":
                    click.echo(HELP)
                    continue
                if line == "/status":
                    click.echo(f"{ref} ({situation.pick.why}), session {key}")
                    continue
                turn = Turn(
                    run_id=str(uuid.uuid4()),
                    key=key,
                    text=line,
                    model=model,
                    thinking=thinking,
                    place=str(surroundings.cwd),
                )
                shown = Shown(live=True)
                task = asyncio.ensure_future(drive(app, turn, shown))
                with interruptible(task):
                    try:
                        await task
                    except asyncio.CancelledError:
                        note("\nstopped")
                    except OpenClawError as error:
                        click.echo(f"error: {error.message}", err=True)
                if shown.end is not None and shown.end.error:
                    click.echo(f"error: {shown.end.error}", err=True)
                sys.stdout.write("\n")
            return 0

    return asyncio.run(main())
