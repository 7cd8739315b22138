"""`openclaw prompt`: build, inspect, compare and lint the system prompt; `openclaw audit`: what plugins changed."""

import difflib
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.cli.client import call, given
from openclaw.cli.render import JSON, show, table, when
from openclaw.prompt import diff as prompt_diff
from openclaw.prompt.build import Prompt
from openclaw.prompt.report import PromptReport, render_detail, render_list

# `openclaw audit`.


@click.group("audit")
def audit_command() -> None:
    """What plugins changed: list it, and check that nobody has touched the record."""


@click.command("list")
@click.option("--run", "run_id", metavar="RUN", help="Only of this run, or of those whose id begins like this.")
@click.option("--plugin", metavar="ID", help="Only by this plugin.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--diff", "with_text", is_flag=True, help="Also the text that was added, where it is still on record.")
@JSON
def list_changes(run_id: str | None, plugin: str | None, limit: int, with_text: bool, as_json: bool) -> None:
    """Say what plugins changed or were refused, the latest first: which field, by whom, how much."""
    found = call("audit.list", given(runId=run_id, plugin=plugin, limit=limit, includeText=with_text))
    lines = []
    for entry in found["entries"]:
        lines.append(_change_line(entry))
        lines += [f"      + {line}" for line in entry.get("text", "").splitlines()]
    show(found, lines or "No plugin has changed anything.", as_json)


@audit_command.command("verify")
@JSON
def verify(as_json: bool) -> int:
    """Check the record from its oldest entry to its newest. Exit code 1 when it was touched."""
    checked = call("audit.verify", timeout=None)
    span = f"entries {checked['first']} to {checked['last']}" if checked["entries"] else "no entries"
    verdict = f"{span}: the record {'is whole' if checked['ok'] else 'was touched'}"
    show(checked, [*checked["problems"], *checked["notes"], verdict], as_json)
    return 0 if checked["ok"] else 1


audit_command.add_command(list_changes)


def _change_line(entry: dict[str, Any]) -> str:
    change = f"{entry.get('beforeChars', 0):,} → {entry.get('afterChars', 0):,} chars"
    if refused := entry.get("refused"):
        change = f"refused: {refused}"
    note = f" ({entry['note']})" if entry.get("note") else ""
    run = f" run {entry['runId'][:8]}" if entry.get("runId") else ""
    what = f"{entry['plugin']} {entry['hook']} {entry['field']}: {change}{note}"
    return f"{entry['seq']:>5} {when(entry['at'])}{run} {what}"


# `openclaw prompt`.

OFFLINE = (
    "No gateway runs, so no channel is connected: the `message` tool, buttons, reactions and whatever else a channel "
    "can do are not in this prompt. Start one with `openclaw gateway start` to see them."
)


def for_whom(function: Any) -> Any:
    """The options that select whose prompt is meant."""
    for option in (
        click.option("--channel", metavar="NAME", default="", help="As if asked through it; webchat is the web page."),
        click.option("--guest", is_flag=True, help="As if somebody other than the owner wrote."),
        click.option("--model", metavar="REF", help="For this model."),
        click.option(
            "--mode", type=click.Choice(["full", "minimal", "none"]), help="Instead of the mode the session would have."
        ),
        click.option(
            "--session-key", "sessionKey", metavar="KEY", help="For this session (default: the agent's main one)."
        ),
        click.option("--agent", "agentId", metavar="ID", help="For this agent."),
    ):
        function = option(function)
    return function


@click.group("prompt")
def prompt_command() -> None:
    """The system prompt: build it, see what is in it, compare it. No model is called."""


@prompt_command.command("build")
@for_whom
@click.option("--json", "as_json", is_flag=True, help="Also the tools and the report, as one JSON document.")
def build(as_json: bool, **whom: Any) -> None:
    """Print the prompt that the next message of a session would send, byte for byte."""
    found = _preview(whom)
    prompt = _prompt(found)
    if not as_json:
        click.echo(prompt.text)
        return
    text = {"text": prompt.text, "stable": prompt.stable, "dynamic": prompt.dynamic}
    show({**text, "tools": found["tools"], "report": found["report"]}, "", True)


@prompt_command.command("report")
@for_whom
@click.option("--run", "run_id", metavar="RUN", help="Of a run on record instead of the next one.")
@click.option("--detail", is_flag=True, help="Every section, tool and skill.")
@JSON
def report(run_id: str | None, detail: bool, as_json: bool, **whom: Any) -> None:
    """Say what the prompt is made of: sources, sizes, what was cut."""
    found = (call("prompt.preview", {"runId": run_id}) if run_id else _preview(whom))["report"]
    render = render_detail if detail else render_list
    show(found, render(msgspec.convert(found, PromptReport)), as_json)


@prompt_command.command("diff")
@click.argument("before")
@click.argument("after", default="now")
@for_whom
@click.option("--text", "as_text", is_flag=True, help="Also the changed lines.")
@JSON
def diff(before: str, after: str, as_text: bool, as_json: bool, **whom: Any) -> None:
    """Compare two prompts, and say whether the cached prefix held.

    BEFORE and AFTER are run ids, `agent:ID` for an agent's prompt as it is now, or `now` (the default for AFTER).
    """
    old, new = _named(before, whom), _named(after, whom)
    found = prompt_diff.diff(old, new)
    show(msgspec.to_builtins(found), str(found), as_json)
    if as_text and not as_json:
        lines = difflib.unified_diff(old.text.splitlines(), new.text.splitlines(), before, after, lineterm="", n=1)
        click.echo("\n".join(lines))


@prompt_command.command("blame")
@for_whom
@click.option("--line", type=click.IntRange(min=1), help="Only this line.")
@click.option("--grep", "wanted", metavar="TEXT", help="Only lines that contain TEXT.")
def blame(line: int | None, wanted: str | None, **whom: Any) -> None:
    """Say for every line of the prompt where it comes from."""
    prompt = _prompt(_preview(whom))
    for item in (prompt_diff.blame_line(prompt, line),) if line else prompt_diff.blame(prompt):
        if wanted is None or wanted.lower() in item.text.lower():
            side = "cached" if item.stable else "fresh"
            click.echo(f"{item.number:>5} {side:<6} {item.label:<9} {item.source[-32:]:<32} {item.text[:140]}")


@prompt_command.command("lint")
@for_whom
@JSON
def lint(as_json: bool, **whom: Any) -> int:
    """Look for what is worth mending in the workspace files. Exit code 1 when there is something."""
    findings = _preview(whom)["findings"]
    lines = [finding["text"] for finding in findings] or "Nothing to mend."
    show({"count": len(findings), "findings": findings}, lines, as_json)
    return 1 if findings else 0


@prompt_command.command("runs")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
def runs(limit: int) -> None:
    """List the runs whose prompts are on record, latest first."""
    found = call("prompt.runs", {"limit": limit})["runs"]
    rows = [(run["runId"], run["sessionKey"], when(run["createdAt"])) for run in found]
    click.echo(table(rows, ("run", "session", "sent"), empty="No run yet."))


prompt_command.add_command(list_changes, "audit")


def _preview(whom: dict[str, Any]) -> Any:
    """The prompt that `openclaw agent` would send from this terminal, or a channel would."""
    cwd = None if whom["channel"] else str(Path.cwd())
    found = call("prompt.preview", given(**whom, cwd=cwd))
    if not found["live"]:
        click.echo(OFFLINE, err=True)
    return found


def _prompt(found: dict[str, Any]) -> Prompt:
    return msgspec.convert(found["prompt"], Prompt)


def _named(name: str, whom: dict[str, Any]) -> Prompt:
    if name == "now":
        return _prompt(_preview(whom))
    if name.startswith("agent:"):
        return _prompt(_preview({**whom, "sessionKey": None, "agentId": name.removeprefix("agent:")}))
    return _prompt(call("prompt.preview", {"runId": name}))
