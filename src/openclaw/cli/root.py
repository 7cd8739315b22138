"""The root command: global options, lazily imported nouns, and the one place where an error becomes an exit code."""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from openclaw.cli.main import NOUNS, TASKS
from openclaw.core.deferred import difflib, json
from openclaw.core.errors import OpenClawError
from openclaw.core.lean import import_msgspec
from openclaw.version import __version__


def load(module: str, name: str) -> Any:
    """What is called `name` in a module below `openclaw.cli`, which is imported now."""
    import_msgspec()
    return getattr(importlib.import_module(f"openclaw.cli.{module}"), name)


class Nouns(click.Group):
    """Commands by name from the table; only the one that is used gets imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "help":
            return help_command
        if cmd_name not in NOUNS:
            return None
        command: click.Command = load(NOUNS[cmd_name][0], f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (*NOUNS, "help") and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], NOUNS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}.{hint} See openclaw --help.", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for task, nouns in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name, NOUNS[name][1]) for name in nouns.split()])


class Verbs(click.Group):
    """A noun's commands, of which those in `elsewhere` are in a module below `openclaw.cli` of their own.

    By name: the module, which has the command as NAME_command, and the line of help. What most people look at often
    does not wait for what few of the others need.
    """

    def __init__(self, *args: Any, elsewhere: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._elsewhere = elsewhere

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *self._elsewhere})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._elsewhere:
            return super().get_command(ctx, cmd_name)
        command: click.Command = load(self._elsewhere[cmd_name][0], f"{cmd_name.replace('-', '_')}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: command.get_short_help_str(limit=80) for name, command in self.commands.items()}
        lines = own | {name: text for name, (_, text) in self._elsewhere.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))


@click.group(
    cls=Nouns,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="OpenClaw: a personal assistant that lives on your machine. A bare openclaw opens a chat.",
)
@click.option("--profile", metavar="NAME", help="Use ~/.openclaw-NAME instead of ~/.openclaw.")
@click.option("--dev", is_flag=True, help="The same as --profile dev.")
@click.option("--log-level", metavar="LEVEL", help="error, warn, info or debug; logs go to standard error.")
@click.option("--no-color", is_flag=True, help="No colours.")
@click.option("-V", "--version", is_flag=True, help="Print the version.")
@click.pass_context
def root(
    ctx: click.Context, profile: str | None, dev: bool, log_level: str | None, no_color: bool, version: bool
) -> None:
    if version:
        click.echo(f"openclaw {__version__}")
        ctx.exit()
    if profile or dev:
        os.environ["OPENCLAW_PROFILE"] = profile or "dev"
    if no_color:
        os.environ["NO_COLOR"] = "1"
    if log_level:
        known = {"error": 40, "warn": 30, "warning": 30, "info": 20, "debug": 10, "trace": 10}
        if log_level.lower() not in known:
            raise click.UsageError(f"--log-level is one of error, warn, info, debug, not {log_level!r}")
        logging = importlib.import_module("logging")  # slow to load, and few ask for it
        shape = "%(levelname)s %(name)s: %(message)s"
        logging.basicConfig(level=known[log_level.lower()], stream=sys.stderr, format=shape)
    if ctx.invoked_subcommand is None:
        _begin(ctx)


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def help_command(words: tuple[str, ...]) -> None:
    """Show what a command does: openclaw help cron add."""
    root.main(args=[*words, "--help"], prog_name="openclaw", standalone_mode=False)


def _begin(ctx: click.Context) -> None:
    """Sets up the home, starts the gateway and prints its address; at a terminal it opens the chat."""
    note, start_home = load("render", "note"), load("setup.onboard", "start_home")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo(start_home())
        return
    chat = root.get_command(ctx, "chat")
    assert chat is not None
    try:
        note(start_home())
    except OpenClawError as error:
        # A chat in this process is better than none.
        note(f"the gateway is not running: {error.message}")
        ctx.invoke(chat, local=True)
    else:
        ctx.invoke(chat)


def print_error(message: str, *, as_json: bool) -> None:
    if as_json:
        document = {"ok": False, "error": {"type": "cli_error", "message": message}}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(f"error: {message}", err=True)


def run(arguments: Sequence[str]) -> int:
    """Runs a command line; gives the exit code (0 done, 1 failed, 2 usage error, 130 interrupted)."""
    try:
        outcome = root.main(args=list(arguments), prog_name="openclaw", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        return explain(error, as_json="--json" in arguments)
    return outcome if isinstance(outcome, int) else 0


def explain(error: BaseException, *, as_json: bool = False) -> int:
    """Says why a command ended; gives its exit code, and raises what is a bug."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case click.UsageError():
            if as_json:
                print_error(error.format_message(), as_json=True)
            else:
                error.show()
            return 2
        case click.Abort() | KeyboardInterrupt():
            nobody = "nobody is at a terminal to answer: see --help for a way to agree beforehand"
            click.echo("stopped" if sys.stdin.isatty() else nobody, err=True)
            return 130
        case click.ClickException():
            print_error(error.format_message(), as_json=as_json)
        case OpenClawError():
            print_error(error.message, as_json=as_json)
        case BrokenPipeError():
            # The reader closed the pipe, e.g. `head`: not an error, but Python would complain at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            print_error(f"{where}{error.strerror or error}. Check that the place exists and is yours.", as_json=as_json)
        case _:
            raise error
    return 1
