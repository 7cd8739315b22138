"""`openclaw sessions`: the conversations on this machine."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from openclaw.sessions.index import SessionIndex, SessionRow


@click.group("sessions")
def command() -> None:
    """List, show and export conversations."""


@command.command("list")
@click.option("--agent", "agent_id", metavar="ID", help="Only this agent's.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at the most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def list_sessions(agent_id: str | None, limit: int, as_json: bool) -> None:
    """The conversations, most recent first."""

    async def work(index: "SessionIndex", now: float) -> None:
        from openclaw.cli.output import ago, dollars, note, print_json, table, tokens
        from openclaw.core.visible import printable

        for problem in (await index.rebuild()).problems:
            note(printable(problem))
        rows = await index.list(agent_id=agent_id)
        shown = rows[:limit]
        if as_json:
            print_json(
                {
                    "path": str(index.state / "agents"),
                    "count": len(shown),
                    "totalCount": len(rows),
                    "sessions": [_document(row, now) for row in shown],
                }
            )
        elif not rows:
            click.echo('No conversations yet. Start one: openclaw agent --message "hello"')
        else:
            cells = [
                (
                    row.session_key,
                    row.session_id[:8],
                    ago(row.updated_at, now),
                    str(row.messages),
                    tokens(row.total_tokens),
                    dollars(row.cost_usd),
                    row.title,
                )
                for row in shown
            ]
            click.echo(table(cells, ("key", "id", "used", "messages", "tokens", "cost", "title")))
            if len(rows) > limit:
                click.echo(f"… and {len(rows) - limit} more (--limit)")

    _with_index(work)


@command.command("show")
@click.argument("session")
@click.option("--tools", is_flag=True, help="Also tool calls and their results.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show(session: str, tools: bool, as_json: bool) -> None:
    """What was said in SESSION (a key, an id or the start of one)."""

    async def work(index: "SessionIndex", now: float) -> None:
        import msgspec

        from openclaw.cli.output import note, print_json, when
        from openclaw.core.visible import printable
        from openclaw.sessions.files import load
        from openclaw.sessions.transcript import build_context

        row = await index.find(session)
        loaded = load(_transcript(index, row))
        context = build_context(loaded.entries)
        problems = (*loaded.problems, *context.problems)
        if as_json:
            document = _document(row, now)
            document["messages"] = msgspec.to_builtins(context.messages)
            document["problems"] = msgspec.to_builtins(problems)
            print_json(document)
            return
        for problem in problems:
            note(f"{problem.kind}: {problem.detail}")
        for message in context.messages:
            for who, text in _lines(message, tools):
                click.echo(f"{when(message.timestamp)}  {who}: {printable(text)}")

    _with_index(work)


@command.command("export")
@click.argument("session")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to FILE instead of standard output.")
@click.option(
    "--format", "kind", type=click.Choice(["markdown", "html", "jsonl"]), default="markdown", show_default=True
)
@click.option("--html", is_flag=True, help="The same as --format html: one page that needs nothing else.")
def export(session: str, output: str | None, kind: str, html: bool) -> None:
    """SESSION as one file, to keep or to share. Tool results may contain private data: look before you share."""

    async def work(index: "SessionIndex", now: float) -> None:
        row = await index.find(session)
        text = _exported(row, _transcript(index, row), "html" if html else kind)
        if output is None:
            click.echo(text, nl=not text.endswith("\n"))
            return
        _save(output, text)
        click.echo(output)

    _with_index(work)


def _transcript(index: "SessionIndex", row: "SessionRow") -> "Path":
    from openclaw.core.errors import NotFound

    path = index.path(row.agent_id, row.session_id)
    if not path.exists():
        raise NotFound(f"nothing has been said in {row.session_key} yet")
    return path


def _save(output: str, text: str) -> None:
    from pathlib import Path

    from openclaw.core.errors import InvalidRequest

    try:
        with Path(output).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InvalidRequest(f"{output} is already there: give another name") from error
    except OSError as error:
        raise InvalidRequest(f"cannot write {output}: {error.strerror}") from error


def _exported(row: "SessionRow", path: "Path", kind: str) -> str:
    """The whole conversation, also what was summarised since."""
    from openclaw.cli.output import dollars, when
    from openclaw.sessions.files import load
    from openclaw.sessions.history import rows_of

    if kind == "jsonl":
        return path.read_text(errors="replace")
    messages = [each.message for each in rows_of(load(path).entries)]
    if kind == "html":
        from openclaw.gateway.exporting import ExportHeader, page

        facts = {
            "Conversation": row.session_key,
            "Last used": when(row.updated_at),
            "Model": f"{row.provider}/{row.model}" if row.model else "",
            "Tokens": f"{row.total_tokens:,}" if row.total_tokens else "",
            "Cost": dollars(row.cost_usd),
        }
        return page(
            ExportHeader(title=row.title or row.session_key, facts=tuple((k, v) for k, v in facts.items() if v)),
            messages,
        )
    parts = [f"# {row.title or row.session_key}\n"]
    for message in messages:
        parts += [f"**{who}** ({when(message.timestamp)})\n\n{said}\n" for who, said in _lines(message, True)]
    return "\n".join(parts)


def _lines(message: Any, tools: bool) -> list[tuple[str, str]]:
    """Who said what, for people."""
    from openclaw.core.messages import Assistant, ToolResult

    match message:
        case Assistant():
            said = [("assistant", message.text)] if message.text.strip() else []
            if message.error_message:
                said.append(("error", message.error_message))
            return said + [("call", f"{call.name} {call.arguments}") for call in message.calls if tools]
        case ToolResult():
            return [(f"{message.tool_name} result", message.text)] if tools else []
        case _:
            return [("you", message.text)]


def _document(row: "SessionRow", now: float) -> dict[str, Any]:
    return {
        "key": row.session_key,
        "sessionId": row.session_id,
        "agentId": row.agent_id,
        "title": row.title,
        "status": row.status,
        "updatedAt": row.updated_at,
        "ageMs": max(0, round(now * 1000) - row.updated_at),
        "messages": row.messages,
        "inputTokens": row.input_tokens,
        "outputTokens": row.output_tokens,
        "cacheRead": row.cache_read_tokens,
        "cacheWrite": row.cache_write_tokens,
        "totalTokens": row.total_tokens,
        "contextTokens": row.context_tokens,
        "estimatedCostUsd": row.cost_usd,
        "model": row.model,
        "modelProvider": row.provider,
    }


def _with_index(work: "Callable[[SessionIndex, float], Coroutine[Any, Any, None]]") -> None:
    """Runs `work` with the index of this home open."""
    import asyncio

    from openclaw.gateway.clock import SystemClock
    from openclaw.gateway.surroundings import Environment, state

    async def main() -> None:
        clock = SystemClock()
        async with state(Environment.of_process().home, clock) as (_, index):
            await work(index, clock.now())

    asyncio.run(main())
