"""`openclaw agent`: sends one message and prints the answer."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from openclaw.cli.client import given
from openclaw.cli.render import SKILL, skill_directories
from openclaw.cli.root import load
from openclaw.cli.talk.message import RUN_CAPS, ask, run_with_client
from openclaw.cli.talk.screen import DEFAULT_TIMEOUT
from openclaw.core.errors import InvalidRequest


@click.command("agent")
@click.option("-m", "--message", metavar="TEXT", help="What to say; `-` reads standard input.")
@click.option("--message-file", metavar="FILE", type=click.Path(), help="Read the message from a file.")
@click.option(
    "--session-key", "sessionKey", metavar="KEY", help="The conversation to continue (default: the agent's main one)."
)
@click.option("--agent", "agentId", metavar="ID", help="Which agent answers.")
@click.option("--model", metavar="REF", help="provider/model or an alias, for this message only.")
@click.option("--thinking", metavar="LEVEL", help="off, minimal, low, medium, high, xhigh, max or adaptive.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="Give up after this long (600).")
@click.option("--deliver", is_flag=True, default=None, help="Also send the answer to a chat: where you last wrote.")
@click.option("--channel", metavar="NAME", help="With --deliver: the channel of that chat.")
@click.option("--to", metavar="CHAT", help="With --deliver: the chat there, or CHANNEL:CHAT.")
@click.option("--account", "accountId", metavar="NAME", help="With --deliver: the account that sends it.")
@SKILL
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end instead of streaming.")
@click.option("--local", is_flag=True, help="Run in this process even when a gateway is running.")
def agent_command(
    message: str | None,
    message_file: str | None,
    timeout: float | None,
    skills: tuple[str, ...],
    as_json: bool,
    local: bool,
    **chosen: Any,
) -> int:
    """Send one message to the assistant and print its answer.

    The answer goes to standard output; tool calls and notices, one quiet line each, to standard error. Ctrl-C stops
    the run and keeps the conversation in order.
    """
    if os.environ.get("OPENCLAW_SHELL") == "exec":
        raise InvalidRequest("this shell was opened by the assistant itself: it does not send messages to itself")
    if message is not None and message_file is not None:
        raise click.UsageError("give --message or --message-file, not both")
    if message_file is not None:
        try:
            message = Path(message_file).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{message_file} is not a text file in UTF-8") from error
        except OSError as error:
            raise InvalidRequest(f"cannot read {message_file}: {error.strerror}") from error
    if message == "-":
        message = sys.stdin.buffer.read().decode(errors="replace")
    elif message is not None:
        # Invalid bytes arrive as surrogates, which cannot be encoded again.
        message = os.fsencode(message).decode(errors="replace")
    if not message or not message.strip():
        raise click.UsageError('say something: openclaw agent --message "…"')
    if sys.stderr.isatty():
        load("workspace", "tell_of_checkout")()  # reads the configuration, and a script is not told
    params = given(message=message, cwd=str(Path.cwd()), **chosen)
    limit = DEFAULT_TIMEOUT if timeout is None else timeout
    asking = partial(ask, params=params, as_json=as_json, limit=limit, skills=skill_directories(skills))
    return run_with_client(asking, local=local, caps=RUN_CAPS)
