"""`openclaw agent`, `openclaw runs` and `openclaw undo`: send a message, inspect recorded runs, undo file changes."""

import asyncio
import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from openclaw.agent.settings import agent_ids
from openclaw.cli.client import RUN_CAPS, ask, open_client, with_assistant
from openclaw.cli.render import dollars, note, print_json, table, when
from openclaw.config.load import load
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import strip_unprintable
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.security.label_service import open_journal
from openclaw.security.redaction import Redactor, secret_variables, secrets_in
from openclaw.security.undo import apply_undo, diff_step, plan_undo
from openclaw.storage.atomic import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw.gateway.app import App
    from openclaw.models.recording import RecordedCall
    from openclaw.security.undo import UndoJournal
    from openclaw.security.undo_plan import RunChanges, UndoStep


# `openclaw agent`.


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
def agent_command(
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
    given = {
        "message": message,
        "sessionKey": session_key,
        "agentId": agent_id,
        "model": model,
        "thinking": thinking,
    }
    return _ask({name: value for name, value in given.items() if value is not None}, timeout, as_json, local)


def _ask(params: dict[str, Any], timeout: float | None, as_json: bool, local: bool) -> int:

    from openclaw.cli.screen import DEFAULT_TIMEOUT

    environment = Environment.of_process()
    limit = DEFAULT_TIMEOUT if timeout is None else timeout

    async def main() -> int:
        async with open_client(environment, local=local, caps=RUN_CAPS) as client:
            told = {**params, "cwd": str(environment.cwd)}
            return await ask(client, told, as_json=as_json, limit=limit)

    return asyncio.run(main())


# `openclaw runs`.


@click.group("runs")
def runs_command() -> None:
    """Runs on record: list them, look at them, replay them, export them."""


@runs_command.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def listed(limit: int, as_json: bool) -> None:
    """The latest runs, the newest first."""

    async def work(app: "App") -> None:

        rows = await app.db.read(
            "SELECT runs.*, (SELECT COUNT(*) FROM call_records WHERE call_records.run_id = runs.run_id) AS recorded "
            "FROM runs ORDER BY started_at DESC, run_id LIMIT :limit",
            {"limit": limit},
        )
        if as_json:
            print_json({"runs": [_listed(dict(row)) for row in rows]})
        elif not rows:
            click.echo("No run yet.")
        else:
            lines = [
                (
                    row["run_id"],
                    row["session_key"],
                    when(row["started_at"]),
                    row["status"],
                    str(row["recorded"] or "not kept"),
                    dollars(row["cost_usd"]),
                )
                for row in rows
            ]
            click.echo(table(lines, ("run", "session", "started", "status", "calls", "cost")))

    with_assistant(work)


@runs_command.command("show")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--requests", is_flag=True, help="Also the exact bytes of every request.")
def show(run: str, as_json: bool, requests: bool) -> None:
    """What RUN asked and what it was told, call by call."""

    async def work(app: "App") -> None:

        recorder = app.budget.recorder
        run_id = await recorder.find(run)
        calls = await recorder.calls(run_id)
        encode = recorder.encode
        if as_json:
            print_json({"runId": run_id, "calls": [_shown(call, encode if requests else None) for call in calls]})
            return
        seen = 0
        for number, call in enumerate(calls, 1):
            request = call.request
            click.echo(
                f"call {number}  {request.model.ref}  thinking {request.thinking}, {len(request.tools)} tools, "
                f"{len(request.messages)} messages, request {call.wire[:12]}"
            )
            for message in request.messages[seen:] if seen <= len(request.messages) else request.messages:
                click.echo(f"  {type(message).__name__.lower()}: {_short(strip_unprintable(message.text))}")
            seen = len(request.messages)
            click.echo(f"  -> {_ending(call)}")
            if requests:
                click.echo(strip_unprintable(encode(request).decode(errors="replace")))

    with_assistant(work)


@runs_command.command("replay")
@click.argument("run")
@click.option("--model", metavar="REF", help="Send the recorded requests to this model and compare (real calls).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def replay(run: str, model: str | None, as_json: bool) -> int:
    """Run RUN once more against the recorded answers; no tool is run and, without --model, no model is called.

    Says `identical` or where the first difference is (exit code 1).
    """
    code = 0

    async def work(app: "App") -> None:
        nonlocal code

        run_id = await app.budget.recorder.find(run)
        calls = await app.budget.recorder.calls(run_id)
        if model is not None:
            await _compared(app, run_id, calls, model, as_json)
            return
        from openclaw.runs.replay import replay as once_more

        found = await once_more(calls, app.budget.recorder.encode, app.clock)
        code = 0 if found.identical else 1
        if as_json:
            where = found.difference
            difference = {"call": where.call, "what": where.what} if where else None
            print_json({"runId": run_id, "identical": found.identical, "calls": found.calls, "difference": difference})
        else:
            click.echo(str(found))

    with_assistant(work)
    return code


@runs_command.command("export")
@click.argument("run")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Where to; standard output when left out.")
def export(run: str, output: str | None) -> None:
    """RUN as one JSON file without secrets, which `openclaw.testing.RecordedRun` loads as a test case."""

    async def work(app: "App") -> None:

        from openclaw.runs.replay import export as exported

        run_id = await app.budget.recorder.find(run)
        calls = await app.budget.recorder.calls(run_id)
        rows = await app.db.read("SELECT session_key FROM runs WHERE run_id = :run", {"run": run_id})
        key = rows[0]["session_key"] if rows else ""
        redact = Redactor()
        redact.know(secrets_in(app.live.config))
        redact.know(secret_variables(app.live.current.variables))
        for agent_id in agent_ids(app.live.config.agents):
            redact.know(secrets_in(app.models.model_set(agent_id).keyring.stored))
        data = exported(run_id, key, calls, redact)
        if output is None:
            click.echo(data.decode(), nl=False)
        else:
            replace_file(Path(output), data)
            note(f"{output}: {len(calls)} call(s), {len(data):,} bytes")

    with_assistant(work)


async def _compared(app: "App", run_id: str, calls: "list[RecordedCall]", ref: str, as_json: bool) -> None:

    rows = []
    async for each in app.routes.ask_again(app.key(None, None), calls, ref):
        rows.append({"call": each.call, "same": each.same, "recorded": _gist(each.recorded), "now": _gist(each.now)})
        if not as_json:
            click.echo(f"call {each.call}: {'the same' if each.same else 'different'}")
            if not each.same:
                click.echo(f"  recorded: {_short(strip_unprintable(_gist(each.recorded)))}")
                click.echo(f"  {ref}: {_short(strip_unprintable(_gist(each.now)))}")
    if as_json:
        print_json({"runId": run_id, "model": ref, "calls": rows})


def _gist(message: Any) -> str:
    called = [f"{call.name}({', '.join(map(str, call.arguments.values()))})" for call in message.calls]
    return " ".join(part for part in (message.text.strip(), *called) if part)


def _ending(call: "RecordedCall") -> str:

    if call.failure is not None:
        return f"failed: {call.failure.message} ({call.failure.reason})"
    return _short(strip_unprintable(_gist(call.reply))) if call.reply is not None else "broke off"


def _shown(call: "RecordedCall", encode: "Callable[[Any], bytes] | None") -> dict[str, Any]:

    document = {
        "callId": call.call_id,
        "model": call.request.model.ref,
        "thinking": call.request.thinking,
        "messages": len(call.request.messages),
        "tools": [tool.name for tool in call.request.tools],
        "wire": call.wire,
        "events": len(call.events),
        "reply": msgspec.to_builtins(call.reply) if call.reply else None,
        "failure": msgspec.to_builtins(call.failure) if call.failure else None,
    }
    return document | ({"request": encode(call.request).decode(errors="replace")} if encode else {})


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "runId": row["run_id"],
        "sessionKey": row["session_key"],
        "status": row["status"],
        "startedAt": row["started_at"],
        "endedAt": row["ended_at"],
        "calls": row["recorded"],
        "costUsd": row["cost_usd"],
        "error": row["error"] or None,
    }


def _short(text: str, limit: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


# `openclaw undo`.

RUN_CHARS = 12


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

    journal = _journal()
    if listing:
        _list(journal.stories(), as_json)
        return
    if not run:
        raise InvalidRequest("say which run: `openclaw undo last`, or an id from `openclaw undo --list`")
    told = journal.find(run)
    steps = _steps(journal, told)
    chosen = [step for step in steps if step.does in ("restore", "remove") or (force and step.does == "conflict")]
    if not as_json:
        _show(journal, told, steps, force)
    if not force and not as_json and not dry_run and sys.stdin.isatty():
        chosen += [step for step in steps if step.does == "conflict" and _agrees(f"Put {step.path} back anyway?")]
    done: list[str] = []
    if chosen and not dry_run and (yes or force or as_json or _agrees(f"Put {len(chosen)} file(s) back?")):
        done = _carry_out(journal, told, chosen)
    left = [step.path for step in steps if step.does in ("conflict", "lost") and step.path not in done]
    _report(told, steps, done, left, as_json=as_json, dry_run=dry_run)
    if left and not dry_run:
        raise InvalidRequest(f"{len(left)} file(s) were left as they are: look at the difference, then use --force")


def _journal() -> "UndoJournal":

    here = Environment.of_process()
    return open_journal(here.home.state, load(here.home, here.environ).config.security, SystemClock())


def _steps(journal: "UndoJournal", told: "RunChanges") -> "list[UndoStep]":

    return plan_undo(journal, told)


def _carry_out(journal: "UndoJournal", told: "RunChanges", chosen: "list[UndoStep]") -> list[str]:

    return apply_undo(journal, told, chosen, f"undo-{uuid.uuid4().hex[:12]}")


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        return True
    return click.confirm(question, default=False, err=True)


def _show(journal: "UndoJournal", told: "RunChanges", steps: "list[UndoStep]", force: bool) -> None:

    words = {"restore": "put back", "remove": "remove (it was new)", "nothing": "nothing", "conflict": "CHANGED SINCE"}
    for step in steps:
        what = words.get(step.does, "cannot be undone")
        click.echo(strip_unprintable(f"{what}: {step.path}{f' ({step.why})' if step.why else ''}"))
        if step.does == "conflict" and not force:
            click.echo(strip_unprintable(diff_step(journal, step)))
    for ran in told.commands:
        click.echo(strip_unprintable(f"not undone: the command {ran}"))


def _report(
    told: "RunChanges", steps: "list[UndoStep]", done: list[str], left: list[str], *, as_json: bool, dry_run: bool
) -> None:

    if as_json:
        found: list[dict[str, Any]] = [{"path": step.path, "does": step.does, "why": step.why} for step in steps]
        print_json(
            {"runId": told.run.run_id, "steps": found, "undone": done, "left": left, "commands": list(told.commands)}
        )
    elif not dry_run:
        click.echo(f"{len(done)} file(s) are as they were before {told.run.run_id}.")


def _list(stories: "list[RunChanges]", as_json: bool) -> None:

    if as_json:
        print_json(
            [
                {
                    "runId": each.run.run_id,
                    "sessionKey": each.run.session_key,
                    "at": each.run.at,
                    "files": list(each.changes),
                    "commands": list(each.commands),
                }
                for each in stories
            ]
        )
        return
    if not stories:
        note("no run on record changed files")
        return
    rows = []
    for each in stories:
        names = ", ".join(path.rpartition("/")[2] for path in list(each.changes)[:3])
        more = f" and {len(each.changes) - 3} more" if len(each.changes) > 3 else ""
        rows.append(
            [each.run.run_id[:RUN_CHARS], when(each.run.at), each.run.session_key, strip_unprintable(names + more)]
        )
    click.echo(table(rows, ("run", "when", "session", "files")))
