"""RPC methods `usage.*` and `sessions.usage`: spend by day and by session."""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from openclaw.budget import service
from openclaw.budget.service import BudgetService, ReportSpan, SpendSum
from openclaw.core.errors import InvalidRequest
from openclaw.protocol.params import NoParams, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import READ
from openclaw.sessions.params import SessionsUsageParams
from openclaw.sessions.service import SessionService
from openclaw.storage.database import Database


class UsageCostParams(Params, frozen=True, kw_only=True):
    """Params of `usage.cost`."""

    days: int | None = None
    agent_id: str | None = None
    agent_scope: Literal["all"] | None = None
    start_date: str | None = None
    end_date: str | None = None
    mode: str | None = None
    time_zone: str | None = None
    utc_offset: str | None = None


DEFAULT_DAYS = 30
MOST_DAYS = 400
RANGES = {"7d": 7, "30d": 30, "90d": 90, "1y": 365, "all": MOST_DAYS}
_OFFSET = re.compile(r"UTC([+-])(\d{1,2})(?::([0-5]\d))?\Z")


def usage_methods(sessions: SessionService, db: Database, budget: BudgetService) -> list[RpcMethod]:
    ledger = budget.ledger

    async def status(params: NoParams, caller: Caller) -> Any:
        # Providers that tell how much of a quota is left would stand here; none of ours does.
        return {"updatedAt": sessions.now, "providers": []}

    async def cost(params: UsageCostParams, caller: Caller) -> Any:
        zone = _zone(params.mode, params.time_zone, params.utc_offset, ledger.zone)
        first, last = _dates(params.start_date, params.end_date, params.days or DEFAULT_DAYS, sessions.now, zone)
        agent = sessions.key("main", params.agent_id).agent if params.agent_id else None
        days = await service.sum_by_day(db, _span(first, last, zone, agent), zone)
        return {
            "updatedAt": sessions.now,
            "days": (last - first).days + 1,
            "daily": [{"date": day, **service.sum_to_json(part)} for day, part in sorted(days.items())],
            "totals": service.sum_to_json(service.add_up(days.values())),
            "cacheStatus": _fresh(sessions.now),
        }

    async def usage(params: SessionsUsageParams, caller: Caller) -> Any:
        zone = _zone(params.mode, params.time_zone, params.utc_offset, ledger.zone)
        first, last = _dates(
            params.start_date, params.end_date, RANGES.get(params.range or "", DEFAULT_DAYS), sessions.now, zone
        )
        agent = sessions.key("main", params.agent_id).agent if params.agent_id else None
        key = str(sessions.key(params.key, params.agent_id)) if params.key else None
        span = _span(first, last, zone, agent, key)
        found = await _sessions(sessions, db, span, params.limit or 200)
        return {
            "updatedAt": sessions.now,
            "startDate": first.isoformat(),
            "endDate": last.isoformat(),
            "sessions": found,
            **await _aggregates(db, span, zone, len(found)),
            "creatorOptions": [],
            "cacheStatus": _fresh(sessions.now),
        }

    return [
        RpcMethod("usage.status", NoParams, status, READ),
        RpcMethod("usage.cost", UsageCostParams, cost, READ),
        RpcMethod("sessions.usage", SessionsUsageParams, usage, READ),
    ]


async def _sessions(sessions: SessionService, db: Database, span: ReportSpan, limit: int) -> list[dict[str, Any]]:
    """The conversations money was spent on, the dearest first, then the others."""
    spent = await service.sum_by(db, "session", span)
    rows = {row["key"]: row for row in await sessions.list(span.agent_id)}
    keys = [*spent, *(key for key in rows if key not in spent)]
    wanted = [key for key in keys if key in rows and span.session_key in (None, key)][:limit]
    return [
        {
            "key": key,
            "sessionId": rows[key]["sessionId"],
            "scope": "instance",
            "updatedAt": rows[key]["updatedAt"],
            "agentId": rows[key]["agentId"],
            "usage": service.sum_to_json(spent[key]) if key in spent else None,
            "hasContextWeight": False,
            **({"label": rows[key]["label"]} if rows[key].get("label") else {}),
        }
        for key in wanted
    ]


async def _aggregates(db: Database, span: ReportSpan, zone: tzinfo, count: int) -> dict[str, Any]:
    by_model = await service.sum_by(db, "model", span)
    agents = await service.sum_by(db, "agent", span)
    days = await service.sum_by_day(db, span, zone)
    providers: dict[str, SpendSum] = {}
    for ref, part in by_model.items():
        provider = ref.partition("/")[0]
        providers[provider] = providers.get(provider, SpendSum()) + part
    return {
        "totals": service.sum_to_json(service.add_up(days.values())),
        "aggregates": {
            "sessionCount": count,
            "byModel": [
                {"provider": ref.partition("/")[0], "model": ref.partition("/")[2], **_counted(part)}
                for ref, part in by_model.items()
            ],
            "byProvider": [{"provider": name, **_counted(part)} for name, part in providers.items()],
            "byAgent": [{"agentId": name, **_counted(part)} for name, part in agents.items()],
            "byChannel": [],
            "byCreator": [],
            "daily": [{"date": day, **service.sum_to_json(part)} for day, part in sorted(days.items())],
            "costDaily": [{"date": day, "totalCost": part.total_cost} for day, part in sorted(days.items())],
        },
    }


def _counted(part: SpendSum) -> dict[str, Any]:
    return {"count": part.calls, "failed": part.failed, "totals": service.sum_to_json(part)}


def _fresh(now: int) -> dict[str, Any]:
    """The cache status of the protocol: sums are always computed from the rows, so never stale."""
    return {"status": "fresh", "cachedFiles": 0, "pendingFiles": 0, "staleFiles": 0, "refreshedAt": now}


def _zone(mode: str | None, name: str | None, offset: str | None, own: tzinfo) -> tzinfo:
    """The time zone in which days are counted."""
    if mode == "utc":
        return UTC
    if mode == "gateway" or not (name or offset):
        return own
    if name:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidRequest(f"there is no time zone {name!r}: write one like Europe/Berlin") from error
    found = _OFFSET.match(offset or "")
    if found is None or int(found[2]) > 14:
        raise InvalidRequest(f"{offset!r} is no offset: write one like UTC+2 or UTC-3:30")
    shift = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return timezone(shift if found[1] == "+" else -shift)


def _dates(start: str | None, end: str | None, days: int, now: int, zone: tzinfo) -> tuple[date, date]:
    """The first and the last day of the report."""
    last = _date(end, "endDate") if end else datetime.fromtimestamp(now / 1000, zone).date()
    first = _date(start, "startDate") if start else last - timedelta(days=min(max(days, 1), MOST_DAYS) - 1)
    if first > last:
        raise InvalidRequest(f"startDate {first} is after endDate {last}")
    return first, last


def _date(text: str, what: Literal["startDate", "endDate"]) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(f"{what}: {text!r} is no date: write one like 2026-03-31") from error


def _span(first: date, last: date, zone: tzinfo, agent: str | None, key: str | None = None) -> ReportSpan:
    def midnight(day: date) -> int:
        return round(datetime.combine(day, time(), zone).timestamp() * 1000)

    return ReportSpan(since=midnight(first), until=midnight(last + timedelta(days=1)), agent_id=agent, session_key=key)
