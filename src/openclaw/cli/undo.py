"""`openclaw undo`: files back as they were before a run changed them."""

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from openclaw.undo.journal import Journal
    from openclaw.undo.plan import Story, UndoStep

RUN_CHARS = 12


@click.command("undo")
@click.argument("run", required=False)
@click.option("--list", "listing", is_flag=True, help="Runs that changed files, the latest first.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask before putting files back.")
@click.option("--force", is_flag=True, help="Also put back files that somebody changed since.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; nobody is asked.")
def command(run: str | None, listing: bool, dry_run: bool, yes: bool, force: bool, as_json: bool) -> None:
    """Undo what tools did to files in RUN: its id, the start of it, or `last`.

    A file that was changed since is shown and left alone unless you agree. What commands did is not undone.
    """
    from openclaw.core.errors import InvalidRequest

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


def _journal() -> "Journal":
    from openclaw.config.load import load
    from openclaw.gateway.clock import SystemClock
    from openclaw.gateway.labelling import journal
    from openclaw.gateway.surroundings import Environment

    here = Environment.of_process()
    return journal(here.home.state, load(here.home, here.environ).config.security, SystemClock())


def _steps(journal: "Journal", told: "Story") -> "list[UndoStep]":
    from openclaw.undo.back import steps

    return steps(journal, told)


def _carry_out(journal: "Journal", told: "Story", chosen: "list[UndoStep]") -> list[str]:
    import uuid

    from openclaw.undo.back import carry_out

    return carry_out(journal, told, chosen, f"undo-{uuid.uuid4().hex[:12]}")


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        return True
    return click.confirm(question, default=False, err=True)


def _show(journal: "Journal", told: "Story", steps: "list[UndoStep]", force: bool) -> None:
    from openclaw.core.visible import printable
    from openclaw.undo.back import difference

    words = {"restore": "put back", "remove": "remove (it was new)", "nothing": "nothing", "conflict": "CHANGED SINCE"}
    for step in steps:
        what = words.get(step.does, "cannot be undone")
        click.echo(printable(f"{what}: {step.path}{f' ({step.why})' if step.why else ''}"))
        if step.does == "conflict" and not force:
            click.echo(printable(difference(journal, step)))
    for ran in told.commands:
        click.echo(printable(f"not undone: the command {ran}"))


def _report(
    told: "Story", steps: "list[UndoStep]", done: list[str], left: list[str], *, as_json: bool, dry_run: bool
) -> None:
    from openclaw.cli.output import print_json

    if as_json:
        found: list[dict[str, Any]] = [{"path": step.path, "does": step.does, "why": step.why} for step in steps]
        print_json(
            {"runId": told.run.run_id, "steps": found, "undone": done, "left": left, "commands": list(told.commands)}
        )
    elif not dry_run:
        click.echo(f"{len(done)} file(s) are as they were before {told.run.run_id}.")


def _list(stories: "list[Story]", as_json: bool) -> None:
    from openclaw.cli.output import note, print_json, table, when
    from openclaw.core.visible import printable

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
        rows.append([each.run.run_id[:RUN_CHARS], when(each.run.at), each.run.session_key, printable(names + more)])
    click.echo(table(rows, ("run", "when", "session", "files")))
