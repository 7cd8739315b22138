"""`openclaw chat`: a conversation in the terminal."""

import click

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
def command(
    session_key: str | None = None, agent_id: str | None = None, model: str | None = None, thinking: str | None = None
) -> int:
    """Talk to the assistant in this terminal."""
    import asyncio
    import contextlib
    import sys
    import uuid

    from openclaw.cli.output import note
    from openclaw.cli.running import Shown, TerminalApprover, drive, interruptible
    from openclaw.core.errors import OpenClawError
    from openclaw.gateway.app import Surroundings, assistant
    from openclaw.gateway.clock import SystemClock
    from openclaw.turns.turn import Turn
    from openclaw.version import __version__

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives input() its line editing

    surroundings = Surroundings.of_process()

    async def main() -> int:
        async with assistant(surroundings, clock=SystemClock(), approver=TerminalApprover(), warn=note) as app:
            key = app.key(session_key, agent_id)
            situation = app.situation(key.agent)
            ref = situation.resolve(model) if model else situation.default
            click.echo(WELCOME.format(version=__version__, model=ref))
            while True:
                try:
                    line = (await asyncio.to_thread(input, "you> ")).strip()
                except (EOFError, KeyboardInterrupt):
                    click.echo()
                    return 0
                if line in ("/exit", "/quit"):
                    return 0
                if line == "/help":
                    click.echo(HELP)
                elif line == "/status":
                    click.echo(f"{ref} ({situation.pick.why}), session {key}")
                elif line:
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

    return asyncio.run(main())
