"""`openclaw agent`: one message, one answer."""

import click


@click.command("agent")
@click.option("-m", "--message", metavar="TEXT", help="What to say; `-` reads standard input.")
@click.option("--message-file", metavar="FILE", type=click.Path(), help="Read the message from a file.")
@click.option("--session-key", metavar="KEY", help="The conversation to continue (default: the agent's main one).")
@click.option("--agent", "agent_id", metavar="ID", help="Which agent answers.")
@click.option("--model", metavar="REF", help="provider/model or an alias, for this message only.")
@click.option("--thinking", metavar="LEVEL", help="off, minimal, low, medium, high, xhigh, max or adaptive.")
@click.option("--timeout", metavar="SECONDS", type=click.FloatRange(min=0), help="Give up after this long (600).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end instead of streaming.")
@click.option("--local", is_flag=True, help="Run in this process even when a gateway is running.")
def command(
    message: str | None,
    message_file: str | None,
    session_key: str | None,
    agent_id: str | None,
    model: str | None,
    thinking: str | None,
    timeout: float | None,
    as_json: bool,
    local: bool,
) -> int:
    """Send one message to the assistant and print its answer.

    The answer goes to standard output; tool calls and notices, one quiet line each, to standard error. Ctrl-C stops
    the run and keeps the conversation in order.
    """
    import os
    import sys
    from pathlib import Path

    from openclaw.core.errors import InvalidRequest

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
        # Bytes that are no text arrive as halves of characters, which nobody can send on.
        message = os.fsencode(message).decode(errors="replace")
    if not message or not message.strip():
        raise click.UsageError('say something: openclaw agent --message "…"')
    if not local and _gateway_is_running():
        return _through_gateway(message, session_key, agent_id, model, thinking, timeout, as_json)
    from openclaw.cli.running import ask

    return ask(
        message,
        session_key=session_key,
        agent_id=agent_id,
        model=model,
        thinking=thinking,
        timeout=timeout,
        as_json=as_json,
    )


def _gateway_is_running() -> bool:
    from openclaw.gateway.lock import running
    from openclaw.gateway.surroundings import Environment

    return running(Environment.of_process().home.state) is not None


def _through_gateway(
    message: str,
    session_key: str | None,
    agent_id: str | None,
    model: str | None,
    thinking: str | None,
    timeout: float | None,
    as_json: bool,
) -> int:
    from openclaw.cli.remote import ask
    from openclaw.cli.running import DEFAULT_TIMEOUT
    from openclaw.gateway.reach import find
    from openclaw.gateway.surroundings import Environment

    surroundings = Environment.of_process()
    given = {
        "message": message,
        "sessionKey": session_key,
        "agentId": agent_id,
        "model": model,
        "thinking": thinking,
        "cwd": str(surroundings.cwd),
    }
    params = {name: value for name, value in given.items() if value is not None}
    return ask(find(surroundings), params, as_json=as_json, limit=DEFAULT_TIMEOUT if timeout is None else timeout)
