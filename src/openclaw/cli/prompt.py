"""`openclaw prompt`: the system prompt as something that can be built, read, compared and checked."""

from typing import TYPE_CHECKING, Any

import click

from openclaw.cli.audit import listed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from openclaw.gateway.app import App
    from openclaw.prompt.build import Prompt
    from openclaw.turns.briefing import BuiltPrompt

MODES = click.Choice(["full", "minimal", "none"])


def for_whom(function: Any) -> Any:
    """The options that say whose prompt is meant."""
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
def command() -> None:
    """The system prompt: build it, see what is in it, compare it. No model is called."""


@command.command("build")
@for_whom
@click.option("--json", "as_json", is_flag=True, help="Also the tools and the report, as one JSON document.")
def build(as_json: bool, **whom: Any) -> None:
    """Print the prompt of a run without the gateway, whose tools and their sections are not in it."""

    async def work(app: "App") -> None:
        import msgspec

        from openclaw.cli.output import print_json

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
                    for tool in sorted(app.tools.of(), key=lambda tool: tool.spec.name)
                ],
                "report": msgspec.to_builtins(briefing.report),
            }
        )

    with_assistant(work)


@command.command("report")
@for_whom
@click.option("--run", "run_id", metavar="RUN", help="Of a run on record instead of the next one.")
@click.option("--detail", is_flag=True, help="Every section, tool and skill.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def report(run_id: str | None, detail: bool, as_json: bool, **whom: Any) -> None:
    """Say what the prompt is made of: sources, sizes, what was cut."""

    async def work(app: "App") -> None:
        import msgspec

        from openclaw.cli.output import print_json
        from openclaw.prompt.show import render_detail, render_list

        found = (await app.archive.find(run_id)).report if run_id else (await _preview(app, whom)).report
        if as_json:
            print_json(msgspec.to_builtins(found))
        else:
            click.echo((render_detail if detail else render_list)(found))

    with_assistant(work)


@command.command("diff")
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
        import msgspec

        from openclaw.cli.output import print_json
        from openclaw.prompt.diff import diff as compare

        old, new = await _named(app, before, whom), await _named(app, after, whom)
        found = compare(old, new)
        if as_json:
            print_json(msgspec.to_builtins(found))
            return
        click.echo(str(found))
        if as_text:
            import difflib

            lines = difflib.unified_diff(old.text.splitlines(), new.text.splitlines(), before, after, lineterm="", n=1)
            click.echo("\n".join(lines))

    with_assistant(work)


@command.command("blame")
@for_whom
@click.option("--line", type=click.IntRange(min=1), help="Only this line.")
@click.option("--grep", "wanted", metavar="TEXT", help="Only lines that contain TEXT.")
def blame(line: int | None, wanted: str | None, **whom: Any) -> None:
    """Say for every line of the prompt where it comes from."""

    async def work(app: "App") -> None:
        from openclaw.prompt import blame as blaming

        prompt = (await _preview(app, whom)).prompt
        for item in (blaming.at(prompt, line),) if line else blaming.blame(prompt):
            if wanted is None or wanted.lower() in item.text.lower():
                side = "cached" if item.stable else "fresh"
                click.echo(f"{item.number:>5} {side:<6} {item.label:<9} {item.source[-32:]:<32} {item.text[:140]}")

    with_assistant(work)


@command.command("lint")
@for_whom
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def lint(as_json: bool, **whom: Any) -> int:
    """Look for what is worth mending in the workspace files. Exit code 1 when there is something."""
    findings: list[dict[str, Any]] = []

    async def work(app: "App") -> None:
        import msgspec

        from openclaw.cli.output import print_json
        from openclaw.prompt.lint import lint as check

        briefing = await _preview(app, whom)
        limit = app.config.agents.defaults.bootstrap_max_chars
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


@command.command("runs")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
def runs(limit: int) -> None:
    """List the runs whose prompts are on record, latest first."""

    async def work(app: "App") -> None:
        from openclaw.cli.output import table, when

        rows = await app.archive.recent(limit)
        if rows:
            click.echo(table([(run, key, when(at)) for run, key, at in rows], ("run", "session", "sent")))
        else:
            click.echo("No run yet.")

    with_assistant(work)


command.add_command(listed, "audit")


async def _preview(app: "App", whom: dict[str, Any]) -> "BuiltPrompt":
    """What `openclaw agent` would send from this terminal, or a channel would."""
    from pathlib import Path

    key = app.key(whom["session_key"], whom["agent_id"])
    return app.preview(
        key,
        model=whom["model"],
        mode=whom["mode"],
        channel=whom["channel"],
        terminal="" if whom["channel"] else str(Path.cwd()),
        files=await app.bootstrap_files(key),
    )


async def _named(app: "App", name: str, whom: dict[str, Any]) -> "Prompt":
    if name == "now":
        return (await _preview(app, whom)).prompt
    if name.startswith("agent:"):
        return (await _preview(app, {**whom, "session_key": None, "agent_id": name.removeprefix("agent:")})).prompt
    return (await app.archive.find(name)).prompt


def with_assistant(work: "Callable[[App], Awaitable[None]]") -> None:
    """Does `work` with an assistant of this terminal."""
    import asyncio

    from openclaw.cli.output import note
    from openclaw.cli.running import TerminalApprover
    from openclaw.gateway.app import assistant
    from openclaw.gateway.clock import SystemClock
    from openclaw.gateway.surroundings import Environment

    async def main() -> None:
        async with assistant(
            Environment.of_process(), clock=SystemClock(), approver=TerminalApprover(), warn=note
        ) as app:
            await work(app)

    asyncio.run(main())
