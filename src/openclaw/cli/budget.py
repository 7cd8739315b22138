"""`openclaw cost`: what model calls cost, by model, agent, session or day."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import click
import msgspec

from openclaw.budget import service
from openclaw.budget.ledger import CallRow, SpendLedger
from openclaw.budget.meter import explain_run
from openclaw.budget.service import GroupBy, SpendSum
from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, ProgressLine, dollars, now_ms, show, table, tokens, when
from openclaw.core.clock import zone_of
from openclaw.gateway.state import open_state
from openclaw.process.environment import local_timezone
from openclaw.process.tasks import SystemClock
from openclaw.storage.database import Database, find_run

BY = click.Choice(["model", "agent", "session", "day"])


@click.group("cost", invoke_without_command=True)
@click.option("--by", type=BY, default="model", show_default=True, help="What to add up by.")
@click.option("--days", type=click.IntRange(1, 400), default=30, show_default=True, help="How far to look back.")
@click.option("--agent", "agent_id", metavar="ID", help="Only this agent.")
@JSON
@click.pass_context
def cost_command(ctx: click.Context, by: GroupBy, days: int, agent_id: str | None, as_json: bool) -> None:
    """What calls to models cost. A call whose price is not known is counted, not guessed."""
    if ctx.invoked_subcommand is not None:
        return

    async def read() -> dict[str, SpendSum]:
        async with _books() as (db, _):
            since = now_ms() - days * 86_400_000
            return await service.sum_by(db, by, service.ReportSpan(since=since, agent_id=agent_id))

    found = asyncio.run(read())
    whole = service.add_up(found.values())
    documents = [{by: name, "calls": part.calls, **service.sum_to_json(part)} for name, part in found.items()]
    totals = {"calls": whole.calls, **service.sum_to_json(whole)}
    rows = [_sum_row(name, part) for name, part in found.items()]
    if len(rows) > 1:
        rows.append(_sum_row("all", whole))
    columns = (by, "calls", "in", "out", "cost", "no price" if whole.missing else "")
    listed = table(rows, columns, empty=f"No model was called in the last {days} days.")
    show({"by": by, "days": days, "rows": documents, "totals": totals}, listed, as_json)


@cost_command.command("explain")
@click.argument("run")
@JSON
def explain(run: str, as_json: bool) -> None:
    """Every call of RUN: who was asked, what came of it, what it cost."""

    async def read() -> tuple[list[CallRow], str]:
        async with _books() as (db, ledger):
            none = "has called a model: `openclaw runs list` shows what there is"
            calls = await ledger.of_run(await find_run(db, "model_calls", run, none))
            return calls, explain_run(calls, ledger.zone)

    calls, explanation = asyncio.run(read())
    document = {"runId": calls[0].run_id, "told": explanation, "calls": [_call_to_json(call) for call in calls]}
    show(document, _explain_lines(calls, explanation), as_json)


def _explain_lines(calls: list[CallRow], explanation: str) -> Iterator[str]:
    rows = []
    for call in calls:
        used = tokens(call.usage.prompt_tokens), tokens(call.usage.output)
        rows.append((call.attempt, when(call.at), call.ref, call.reason or call.state, *used, _money(call)))
    yield table(rows, ("call", "at", "model", "end", "in", "out", "cost"))
    known = [call.usage.cost.total for call in calls if call.usage.cost]
    yield f"\n{calls[0].session_key}: {dollars(sum(known))} for {len(calls)} call(s)"
    if explanation:
        yield explanation
    for call in calls:
        if call.error:
            yield f"call {call.attempt}: {call.error}"


def _money(call: CallRow) -> str:
    if call.state == "open":
        return f"~{dollars(call.estimate_usd)} (never settled)" if call.estimate_usd is not None else "unknown"
    if call.usage.cost is None:
        return "unknown" if call.usage.total_tokens else dollars(0.0)
    return dollars(call.usage.cost.total) if call.measured else f"~{dollars(call.usage.cost.total)}"


def _call_to_json(call: CallRow) -> dict[str, Any]:
    return {
        "attempt": call.attempt,
        "at": call.at,
        "endedAt": call.ended_at,
        "model": call.ref,
        "profile": call.profile or None,
        "state": call.state,
        "reason": call.reason or None,
        "error": call.error or None,
        "usage": msgspec.to_builtins(call.usage),
        "estimateUsd": call.estimate_usd,
        "measured": call.measured,
    }


def _sum_row(name: str, part: SpendSum) -> tuple[Any, ...]:
    prompt = part.input + part.cache_read + part.cache_write
    # Unknown is not free: a sum of nothing but unknown prices is no amount.
    cost = "unknown" if part.missing and not part.total_cost else dollars(part.total_cost)
    return name, part.calls, tokens(prompt), tokens(part.output), cost, part.missing or ""


@asynccontextmanager
async def _books() -> AsyncIterator[tuple[Database, SpendLedger]]:
    """Opens the database and the budget ledger for reading, without the whole assistant."""
    environment, loaded = read_home()
    clock = SystemClock()
    async with open_state(environment.home, clock, loaded.config.store, ProgressLine()) as (db, _):
        named = loaded.config.agents.defaults.user_timezone or local_timezone(environment.environ)
        yield db, SpendLedger(db, clock, zone_of(named))
