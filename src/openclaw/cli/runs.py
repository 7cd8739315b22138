"""`openclaw agent`, `openclaw runs` and `openclaw undo`: send a message, inspect recorded runs, undo file changes."""

import os
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from openclaw.cli.client import call, call_in_parts, given, with_client
from openclaw.cli.home import read_home
from openclaw.cli.render import (
    JSON,
    SKILL,
    dollars,
    note,
    print_json,
    say,
    shorten,
    show,
    skill_directories,
    table,
    when,
)
from openclaw.cli.talk.message import RUN_CAPS, ask
from openclaw.cli.talk.screen import DEFAULT_TIMEOUT
from openclaw.cli.workspace import tell_of_checkout
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import strip_unprintable
from openclaw.process.tasks import SystemClock
from openclaw.security.label_service import open_journal
from openclaw.security.undo import UndoJournal, apply_undo, diff_step, plan_undo
from openclaw.security.undo_plan import RunChanges, UndoStep
from openclaw.storage.atomic import replace_file

# `openclaw agent`.


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
    tell_of_checkout()
    params = given(message=message, cwd=str(Path.cwd()), **chosen)
    limit = DEFAULT_TIMEOUT if timeout is None else timeout
    asking = partial(ask, params=params, as_json=as_json, limit=limit, skills=skill_directories(skills))
    return with_client(asking, local=local, caps=RUN_CAPS)


# `openclaw runs`.


@click.group("runs")
def runs_command() -> None:
    """Runs on record: list them, look at them, replay them, export them."""


@runs_command.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@JSON
def list_runs(limit: int, as_json: bool) -> None:
    """The latest runs, the newest first."""
    found = call("runs.list", {"limit": limit})
    rows = []
    for run in found["runs"]:
        calls, cost = run["calls"] or "not kept", dollars(run["costUsd"])
        rows.append((run["runId"], run["sessionKey"], when(run["startedAt"]), run["status"], calls, cost))
    columns = ("run", "session", "started", "status", "calls", "cost")
    show(found, table(rows, columns, empty="No run yet."), as_json)


@runs_command.command("show")
@click.argument("run")
@JSON
@click.option("--requests", is_flag=True, help="Also the exact bytes of every request.")
def show_run(run: str, as_json: bool, requests: bool) -> None:
    """What RUN asked and what it was told, call by call."""
    parts: list[dict[str, Any]] = []
    call_in_parts("runs.get", {"runId": run, "includeRequests": requests}, parts.append)
    document = {"runId": parts[0]["runId"], "calls": [part["call"] for part in parts]}
    show(document, _call_lines(parts), as_json)


def _call_lines(parts: list[dict[str, Any]]) -> Iterator[str]:
    for number, part in enumerate(parts, 1):
        asked = part["call"]
        yield (
            f"call {number}  {asked['model']}  thinking {asked['thinking']}, {len(asked['tools'])} tools, "
            f"{asked['messages']} messages, request {asked['wire'][:12]}"
        )
        yield from (f"  {message['role']}: {message['text']}" for message in part["added"])
        yield f"  -> {part['outcome']}"
        if "request" in asked:
            yield asked["request"]


@runs_command.command("replay")
@click.argument("run")
@click.option("--model", metavar="REF", help="Send the recorded requests to this model and compare (real calls).")
@JSON
def replay(run: str, model: str | None, as_json: bool) -> int:
    """Run RUN once more against the recorded answers; no tool is run and, without --model, no model is called.

    Says `identical` or where the first difference is (exit code 1).
    """
    if model is not None:
        _compare(run, model, as_json)
        return 0
    found = call("runs.replay", {"runId": run}, timeout=None)
    text = found.pop("text")
    show(found, text, as_json)
    return 0 if found["identical"] else 1


def _compare(run: str, model: str, as_json: bool) -> None:
    parts: list[dict[str, Any]] = []

    def take(part: dict[str, Any]) -> None:
        parts.append(part)
        if not as_json and (found := part["call"]):
            click.echo(f"call {found['call']}: {'the same' if found['same'] else 'different'}")
            if not found["same"]:
                say(f"  recorded: {_short(found['recorded'])}")
                say(f"  {model}: {_short(found['now'])}")

    call_in_parts("runs.compare", {"runId": run, "model": model}, take)
    if as_json:
        found = [part["call"] for part in parts if part["call"]]
        print_json({"runId": parts[0]["runId"], "model": model, "calls": found})


@runs_command.command("export")
@click.argument("run")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Where to; standard output when left out.")
def export(run: str, output: str | None) -> None:
    """RUN as one JSON file without secrets, which `openclaw.testing.RecordedRun` loads as a test case."""
    parts: list[dict[str, Any]] = []
    call_in_parts("runs.export", {"runId": run}, parts.append)
    text = "".join(part["data"] for part in parts)
    if output is None:
        click.echo(text, nl=False)
    else:
        data = text.encode()
        replace_file(Path(output), data)
        note(f"{output}: {parts[0]['calls']} call(s), {len(data):,} bytes")


def _short(text: str) -> str:
    return shorten(" ".join(strip_unprintable(text).split()), 160)


# `openclaw undo`.

RUN_CHARS = 12
UNDO_WORDS = {"restore": "put back", "remove": "remove (it was new)", "nothing": "nothing", "conflict": "CHANGED SINCE"}


@click.command("undo")
@click.argument("run", required=False)
@click.option("--list", "listing", is_flag=True, help="Runs that changed files, the latest first.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask before putting files back.")
@click.option("--force", is_flag=True, help="Also put back files that somebody changed since.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; nobody is asked.")
def undo_command(run: str | None, listing: bool, dry_run: bool, yes: bool, force: bool, as_json: bool) -> None:
    """Undo what tools did to files in RUN: its id, the start of it, or `last`.

    A file that was changed since is shown and left alone unless you agree. What commands did is not undone.
    """
    environment, loaded = read_home()
    journal = open_journal(environment.home.state, loaded.config.security, SystemClock())
    if listing:
        _list_changes(journal.stories(), as_json)
        return
    if not run:
        raise InvalidRequest("say which run: `openclaw undo last`, or an id from `openclaw undo --list`")
    changes = journal.find(run)
    steps = plan_undo(journal, changes)
    chosen = [step for step in steps if step.does in ("restore", "remove") or (force and step.does == "conflict")]
    if not as_json:
        _show_plan(journal, changes, steps, force)
    if not force and not as_json and not dry_run and sys.stdin.isatty():
        chosen += [step for step in steps if step.does == "conflict" and _agrees(f"Put {step.path} back anyway?")]
    done: list[str] = []
    if chosen and not dry_run and (yes or force or as_json or _agrees(f"Put {len(chosen)} file(s) back?")):
        done = apply_undo(journal, changes, chosen, f"undo-{uuid.uuid4().hex[:12]}")
    left = [step.path for step in steps if step.does in ("conflict", "lost") and step.path not in done]
    run_id = changes.run.run_id
    found = [{"path": step.path, "does": step.does, "why": step.why} for step in steps]
    document = {"runId": run_id, "steps": found, "undone": done, "left": left, "commands": list(changes.commands)}
    show(document, [] if dry_run else f"{len(done)} file(s) are as they were before {run_id}.", as_json)
    if left and not dry_run:
        raise InvalidRequest(f"{len(left)} file(s) were left as they are: look at the difference, then use --force")


def _agrees(question: str) -> bool:
    return not sys.stdin.isatty() or click.confirm(question, default=False, err=True)


def _show_plan(journal: UndoJournal, changes: RunChanges, steps: list[UndoStep], force: bool) -> None:
    for step in steps:
        what = UNDO_WORDS.get(step.does, "cannot be undone")
        say(f"{what}: {step.path}{f' ({step.why})' if step.why else ''}")
        if step.does == "conflict" and not force:
            say(diff_step(journal, step))
    for ran in changes.commands:
        say(f"not undone: the command {ran}")


def _list_changes(found: list[RunChanges], as_json: bool) -> None:
    documents, rows = [], []
    for each in found:
        run, files = each.run, list(each.changes)
        what = {"files": files, "commands": list(each.commands)}
        documents.append({"runId": run.run_id, "sessionKey": run.session_key, "at": run.at, **what})
        names = ", ".join(path.rpartition("/")[2] for path in files[:3])
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        rows.append((run.run_id[:RUN_CHARS], when(run.at), run.session_key, names + more))
    if not found and not as_json:
        note("no run on record changed files")
        return
    show(documents, table(rows, ("run", "when", "session", "files")), as_json)
