"""`openclaw runs` and `openclaw undo`: inspect recorded runs, undo file changes."""

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from openclaw.cli.client import call, call_in_parts
from openclaw.cli.home import read_home
from openclaw.cli.render import (
    JSON,
    dollars,
    note,
    print_json,
    say,
    shorten,
    show,
    table,
    when,
)
from openclaw.core.errors import InvalidRequest
from openclaw.core.text import strip_unprintable
from openclaw.process.tasks import SystemClock
from openclaw.security.label_service import open_journal
from openclaw.security.undo import UndoJournal, apply_undo, diff_step, plan_undo
from openclaw.security.undo_plan import RunChanges, UndoStep
from openclaw.storage.atomic import replace_file


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
