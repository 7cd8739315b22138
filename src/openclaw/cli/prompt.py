"""`openclaw prompt`: build, inspect, compare and lint the system prompt; `openclaw audit`: what plugins changed."""

import asyncio
import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from openclaw.cli.client import with_assistant
from openclaw.cli.render import print_json, table, when
from openclaw.core.errors import OpenClawError
from openclaw.core.text import strip_unprintable
from openclaw.prompt import diff as blaming
from openclaw.prompt.diff import diff as compare
from openclaw.prompt.lint import lint as check
from openclaw.prompt.report import render_detail, render_list
from openclaw.security.audit import digest

if TYPE_CHECKING:
    from openclaw.gateway.app import App
    from openclaw.prompt.build import Prompt
    from openclaw.prompt.builder import BuiltPrompt
    from openclaw.security.audit import AuditEntry


# `openclaw audit`.


@click.group("audit")
def audit_command() -> None:
    """What plugins changed: list it, and check that nobody has touched the record."""


@click.command("list")
@click.option("--run", "run_id", metavar="RUN", help="Only of this run, or of those whose id begins like this.")
@click.option("--plugin", metavar="ID", help="Only by this plugin.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--diff", "with_text", is_flag=True, help="Also the text that was added, where it is still on record.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def listed(run_id: str | None, plugin: str | None, limit: int, with_text: bool, as_json: bool) -> None:
    """Say what plugins changed or were refused, the latest first: which field, by whom, how much."""

    async def work(app: "App") -> None:

        found = [entry for entry in app.audit.entries(run_id) if plugin in (None, entry.plugin)][:limit]
        texts = await _texts(app, found) if with_text else {}
        if as_json:
            documents = [msgspec.to_builtins(entry) for entry in found]
            print_json({"entries": [{**each, **_text(texts, each["seq"])} for each in documents]})
            return
        for entry in found:
            click.echo(_line(entry))
            for line in texts.get(entry.seq, "").splitlines():
                click.echo(f"      + {line}")
        if not found:
            click.echo("No plugin has changed anything.")

    with_assistant(work)


@audit_command.command("verify")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def verify(as_json: bool) -> int:
    """Check the record from its oldest entry to its newest. Exit code 1 when it was touched."""
    problems: list[str] = []

    async def work(app: "App") -> None:

        checked = await asyncio.to_thread(app.audit.verify, await app.archive.witnessed())
        problems.extend(checked.problems)
        if as_json:
            print_json({"ok": not problems, **msgspec.to_builtins(checked)})
            return
        for line in (*checked.problems, *checked.notes):
            click.echo(line)
        span = f"entries {checked.first} to {checked.last}" if checked.entries else "no entries"
        click.echo(f"{span}: " + ("the record was touched" if problems else "the record is whole"))

    with_assistant(work)
    return 1 if problems else 0


audit_command.add_command(listed)


def _line(entry: "AuditEntry") -> str:

    change = f"refused: {entry.refused}" if entry.refused else f"{entry.before_chars:,} → {entry.after_chars:,} chars"
    note = f" ({entry.note})" if entry.note else ""
    run = f" run {entry.run_id[:8]}" if entry.run_id else ""
    return strip_unprintable(
        f"{entry.seq:>5} {when(entry.at)}{run} {entry.plugin} {entry.hook} {entry.field}: {change}{note}"
    )


def _text(texts: dict[int, str], seq: int) -> dict[str, Any]:
    return {"text": texts[seq]} if seq in texts else {}


async def _texts(app: "App", found: "list[AuditEntry]") -> dict[int, str]:
    """The texts that entries put into prompts, found by digest in the recorded prompts of their runs."""

    known: dict[str, str] = {}
    for run_id in {entry.run_id for entry in found if entry.run_id}:
        pieces: list[str] = []
        try:
            pieces += [piece.text for piece in (await app.archive.find(run_id)).prompt.sections]
            for call in (await app.budget.recorder.calls(run_id))[:1]:
                pieces += [message.text for message in call.request.messages]
        except OpenClawError:
            pass
        known |= {digest(text): text for piece in pieces for text in _inside(piece)}
    return {entry.seq: known[entry.after_sha256] for entry in found if entry.after_sha256 in known}


def _inside(piece: str) -> list[str]:
    """A piece of a prompt, and the text between the markers in it."""

    fenced = re.findall(r"<<<([A-Z_]+) [^\n]*>>>\n(.*?)\n<<<END_\1 ", piece, re.DOTALL)
    return [piece, piece.strip(), *(text for _, text in fenced)]


# `openclaw prompt`.

MODES = click.Choice(["full", "minimal", "none"])


def for_whom(function: Any) -> Any:
    """The options that select whose prompt is meant."""
    for option in (
        click.option("--channel", metavar="NAME", default="", help="As if asked through this channel."),
        click.option("--model", metavar="REF", help="For this model."),
        click.option("--mode", type=MODES, help="Instead of the mode the session would have."),
        click.option("--session-key", metavar="KEY", help="For this session (default: the agent's main one)."),
        click.option("--agent", "agent_id", metavar="ID", help="For this agent."),
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
    """Print the prompt of a run without the gateway, whose tools and their sections are not in it."""

    async def work(app: "App") -> None:

        briefing = await _preview(app, whom)
        if not as_json:
            click.echo(briefing.prompt.text)
            return
        print_json(
            {
                "text": briefing.prompt.text,
                "stable": briefing.prompt.stable,
                "dynamic": briefing.prompt.dynamic,
                "tools": [
                    {"name": tool.spec.name, "description": tool.spec.description, "parameters": tool.spec.parameters}
                    for tool in sorted(app.toolset().of(), key=lambda tool: tool.spec.name)
                ],
                "report": msgspec.to_builtins(briefing.report),
            }
        )

    with_assistant(work)


@prompt_command.command("report")
@for_whom
@click.option("--run", "run_id", metavar="RUN", help="Of a run on record instead of the next one.")
@click.option("--detail", is_flag=True, help="Every section, tool and skill.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def report(run_id: str | None, detail: bool, as_json: bool, **whom: Any) -> None:
    """Say what the prompt is made of: sources, sizes, what was cut."""

    async def work(app: "App") -> None:

        found = (await app.archive.find(run_id)).report if run_id else (await _preview(app, whom)).report
        if as_json:
            print_json(msgspec.to_builtins(found))
        else:
            click.echo((render_detail if detail else render_list)(found))

    with_assistant(work)


@prompt_command.command("diff")
@click.argument("before")
@click.argument("after", default="now")
@for_whom
@click.option("--text", "as_text", is_flag=True, help="Also the changed lines.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def diff(before: str, after: str, as_text: bool, as_json: bool, **whom: Any) -> None:
    """Compare two prompts, and say whether the cached prefix held.

    BEFORE and AFTER are run ids, `agent:ID` for an agent's prompt as it is now, or `now` (the default for AFTER).
    """

    async def work(app: "App") -> None:

        old, new = await _named(app, before, whom), await _named(app, after, whom)
        found = compare(old, new)
        if as_json:
            print_json(msgspec.to_builtins(found))
            return
        click.echo(str(found))
        if as_text:
            lines = difflib.unified_diff(old.text.splitlines(), new.text.splitlines(), before, after, lineterm="", n=1)
            click.echo("\n".join(lines))

    with_assistant(work)


@prompt_command.command("blame")
@for_whom
@click.option("--line", type=click.IntRange(min=1), help="Only this line.")
@click.option("--grep", "wanted", metavar="TEXT", help="Only lines that contain TEXT.")
def blame(line: int | None, wanted: str | None, **whom: Any) -> None:
    """Say for every line of the prompt where it comes from."""

    async def work(app: "App") -> None:

        prompt = (await _preview(app, whom)).prompt
        for item in (blaming.blame_line(prompt, line),) if line else blaming.blame(prompt):
            if wanted is None or wanted.lower() in item.text.lower():
                side = "cached" if item.stable else "fresh"
                click.echo(f"{item.number:>5} {side:<6} {item.label:<9} {item.source[-32:]:<32} {item.text[:140]}")

    with_assistant(work)


@prompt_command.command("lint")
@for_whom
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def lint(as_json: bool, **whom: Any) -> int:
    """Look for what is worth mending in the workspace files. Exit code 1 when there is something."""
    findings: list[dict[str, Any]] = []

    async def work(app: "App") -> None:

        briefing = await _preview(app, whom)
        limit = app.live.config.agents.defaults.bootstrap_max_chars
        found = check(briefing.facts, max_file_chars=limit)
        findings.extend({**msgspec.to_builtins(finding), "text": str(finding)} for finding in found)
        findings.extend({"kind": "content", "text": text} for text in briefing.report.findings)
        if as_json:
            print_json({"count": len(findings), "findings": findings})
        elif findings:
            click.echo("\n".join(finding["text"] for finding in findings))
        else:
            click.echo("Nothing to mend.")

    with_assistant(work)
    return 1 if findings else 0


@prompt_command.command("runs")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
def runs(limit: int) -> None:
    """List the runs whose prompts are on record, latest first."""

    async def work(app: "App") -> None:

        rows = await app.archive.recent(limit)
        if rows:
            click.echo(table([(run, key, when(at)) for run, key, at in rows], ("run", "session", "sent")))
        else:
            click.echo("No run yet.")

    with_assistant(work)


prompt_command.add_command(listed, "audit")


async def _preview(app: "App", whom: dict[str, Any]) -> "BuiltPrompt":
    """Builds the prompt that `openclaw agent` would send from this terminal, or a channel would."""

    key = app.key(whom["session_key"], whom["agent_id"])
    return app.preparer.preview(
        app.toolset(),
        key,
        model=whom["model"],
        mode=whom["mode"],
        channel=whom["channel"],
        terminal="" if whom["channel"] else str(Path.cwd()),
        files=await app.preparer.bootstrap_files(key),
    )


async def _named(app: "App", name: str, whom: dict[str, Any]) -> "Prompt":
    if name == "now":
        return (await _preview(app, whom)).prompt
    if name.startswith("agent:"):
        return (await _preview(app, {**whom, "session_key": None, "agent_id": name.removeprefix("agent:")})).prompt
    return (await app.archive.find(name)).prompt
