"""Jobs for the command line: through the gateway when one runs, else in the store itself."""

import asyncio
from typing import Any

from openclaw.core.errors import Unavailable
from openclaw.cron.book import JobBook, job_to_json, run_shown
from openclaw.cron.store import CronStore
from openclaw.gateway.clock import SystemClock
from openclaw.gateway.lock import running
from openclaw.gateway.surroundings import Environment, local_timezone, state

TIMEOUT = 30.0
PAGE = 200


def call(action: str, **given: Any) -> Any:
    """Does what a command asks; gives jobs and runs as the wire shows them."""
    surroundings = Environment.of_process()
    if action == "next" or running(surroundings.home.state) is None:
        return asyncio.run(_in_store(surroundings, action, given))
    from openclaw.gateway.reach import call_gateway, find

    target = find(surroundings)

    def rpc(method: str, params: dict[str, Any]) -> Any:
        return call_gateway(target, method, params, timeout=TIMEOUT)

    match action:
        case "list":
            jobs: list[Any] = []
            while True:
                page = rpc("cron.list", {"includeDisabled": given["everything"], "limit": PAGE, "offset": len(jobs)})
                jobs += page["jobs"]
                if not page["hasMore"]:
                    return jobs
        case "add":
            defaults = {"sessionTarget": "main" if given["job"]["payload"]["kind"] == "systemEvent" else "isolated"}
            job = {"wakeMode": "now", "name": _name(given["job"]), **defaults, **given["job"]}
            return rpc("cron.add", job)
        case "update":
            return rpc("cron.update", {"id": given["name"], "patch": given["patch"]})
        case "run":
            return rpc("cron.run", {"id": given["name"], "mode": "due" if given["due"] else "force"})
        case "runs":
            named = {"id": rpc("cron.get", {"id": given["name"]})["id"]} if given["name"] else {"scope": "all"}
            return rpc("cron.runs", {**named, "limit": given["limit"]})["entries"]
        case "status":
            return rpc("cron.status", {})
        case _:
            return rpc(f"cron.{action}", {"id": given["name"]})


async def _in_store(surroundings: Environment, action: str, given: dict[str, Any]) -> Any:
    clock = SystemClock()
    async with state(surroundings.home, clock) as (db, _):
        store = CronStore(db)
        zone = local_timezone(surroundings.environ) or "UTC"
        book = JobBook(store, clock, local_zone=zone, check_agent=lambda agent: None)
        match action:
            case "list":
                return [job_to_json(job) for job in await book.list(include_disabled=given["everything"])]
            case "add":
                return job_to_json(await book.add(given["job"]))
            case "update":
                return job_to_json(await book.update(given["name"], given["patch"]))
            case "get":
                return job_to_json(await book.find(given["name"]))
            case "remove":
                return {"ok": True, "removed": await book.remove(given["name"])}
            case "next":
                return await book.coming(given["name"], given["count"])
            case "runs":
                named = (await book.find(given["name"])).id if given["name"] else None
                return [run_shown(fire) for fire in (await store.runs(named, limit=given["limit"]))[0]]
            case "status":
                return {"enabled": False, "jobs": await store.count(), "nextWakeAtMs": await store.next_wake()}
            case _:
                raise Unavailable("no gateway is running: start one with openclaw gateway start")


def _name(job: dict[str, Any]) -> str:
    text = " ".join(str(job["payload"].get("message") or job["payload"].get("text")).split())
    return text if len(text) <= 60 else text[:59] + "…"
