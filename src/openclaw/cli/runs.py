"""`openclaw runs`: what a run asked its models and what they said; once more, elsewhere, or as a file."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from openclaw.gateway.app import App
    from openclaw.turns.recording import RecordedCall


@click.group("runs")
def command() -> None:
    """Runs on record: list them, look at them, replay them, export them."""


@command.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def listed(limit: int, as_json: bool) -> None:
    """The latest runs, the newest first."""

    async def work(app: "App") -> None:
        from openclaw.cli.output import dollars, print_json, table, when

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

    _with_assistant(work)


@command.command("show")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--requests", is_flag=True, help="Also the exact bytes of every request.")
def show(run: str, as_json: bool, requests: bool) -> None:
    """What RUN asked and what it was told, call by call."""

    async def work(app: "App") -> None:
        from openclaw.cli.output import print_json
        from openclaw.core.visible import printable

        recorder = app.accounts.recorder
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
                click.echo(f"  {type(message).__name__.lower()}: {_short(printable(message.text))}")
            seen = len(request.messages)
            click.echo(f"  -> {_ending(call)}")
            if requests:
                click.echo(printable(encode(request).decode(errors="replace")))

    _with_assistant(work)


@command.command("replay")
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
        from openclaw.cli.output import print_json

        run_id = await app.accounts.recorder.find(run)
        calls = await app.accounts.recorder.calls(run_id)
        if model is not None:
            await _compared(app, run_id, calls, model, as_json)
            return
        from openclaw.turns.replaying import replay as once_more

        found = await once_more(calls, app.accounts.recorder.encode, app.clock)
        code = 0 if found.identical else 1
        if as_json:
            where = found.difference
            difference = {"call": where.call, "what": where.what} if where else None
            print_json({"runId": run_id, "identical": found.identical, "calls": found.calls, "difference": difference})
        else:
            click.echo(str(found))

    _with_assistant(work)
    return code


@command.command("export")
@click.argument("run")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Where to; standard output when left out.")
def export(run: str, output: str | None) -> None:
    """RUN as one JSON file without secrets, which `openclaw.testing.RecordedRun` loads as a test case."""

    async def work(app: "App") -> None:
        from pathlib import Path

        from openclaw.cli.output import note
        from openclaw.gateway.redaction import Redactor, secret_variables, secrets_in
        from openclaw.store.atomic import replace
        from openclaw.turns.agents import agent_ids
        from openclaw.turns.replaying import export as exported

        run_id = await app.accounts.recorder.find(run)
        calls = await app.accounts.recorder.calls(run_id)
        rows = await app.db.read("SELECT session_key FROM runs WHERE run_id = :run", {"run": run_id})
        key = rows[0]["session_key"] if rows else ""
        redact = Redactor()
        redact.know(secrets_in(app.config))
        redact.know(secret_variables(app.loaded.variables))
        for agent_id in agent_ids(app.config.agents):
            redact.know(secrets_in(app.models.situation(agent_id).keyring.stored))
        data = exported(run_id, key, calls, redact)
        if output is None:
            click.echo(data.decode(), nl=False)
        else:
            replace(Path(output), data)
            note(f"{output}: {len(calls)} call(s), {len(data):,} bytes")

    _with_assistant(work)


async def _compared(app: "App", run_id: str, calls: "list[RecordedCall]", ref: str, as_json: bool) -> None:
    from openclaw.cli.output import print_json
    from openclaw.core.visible import printable

    rows = []
    async for each in app.models.ask_again(app.key(None, None), calls, ref):
        rows.append({"call": each.call, "same": each.same, "recorded": _gist(each.recorded), "now": _gist(each.now)})
        if not as_json:
            click.echo(f"call {each.call}: {'the same' if each.same else 'different'}")
            if not each.same:
                click.echo(f"  recorded: {_short(printable(_gist(each.recorded)))}")
                click.echo(f"  {ref}: {_short(printable(_gist(each.now)))}")
    if as_json:
        print_json({"runId": run_id, "model": ref, "calls": rows})


def _gist(message: Any) -> str:
    called = [f"{call.name}({', '.join(map(str, call.arguments.values()))})" for call in message.calls]
    return " ".join(part for part in (message.text.strip(), *called) if part)


def _ending(call: "RecordedCall") -> str:
    from openclaw.core.visible import printable

    if call.failure is not None:
        return f"failed: {call.failure.message} ({call.failure.reason})"
    return _short(printable(_gist(call.reply))) if call.reply is not None else "broke off"


def _shown(call: "RecordedCall", encode: "Callable[[Any], bytes] | None") -> dict[str, Any]:
    import msgspec

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


def _with_assistant(work: "Callable[[App], Awaitable[None]]") -> None:
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
