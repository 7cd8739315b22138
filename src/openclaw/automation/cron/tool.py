"""The `cron` tool: the agent schedules reminders, jobs and wake-ups."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from openclaw.automation.cron.jobs import CronJob, normalize_job
from openclaw.automation.cron.service import Scheduler
from openclaw.automation.cron.store import job_to_json, run_to_json
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.text import Origin, clip, merge_origins
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools.base import json_output

ACTIONS = ("status", "list", "get", "add", "update", "remove", "run", "runs", "wake")
READS = ("status", "list", "get", "runs")
PAGE = 200
RUNS_PAGE = 20
MOST_CONTEXT = 10
CONTEXT_CHARS = 700
LINE_CHARS = 220

DESCRIPTION = """Scheduled jobs and wake events. add (job), list, get|remove|run|runs (jobId), update (jobId, patch), \
wake (text, mode).
job: {name, schedule, payload, delivery?, sessionTarget?, enabled?, deleteAfterRun?, misfire?}
schedule: {"kind":"at","at":"2027-01-31T09:30:00+01:00"} (no offset: UTC) | {"kind":"every","everyMs":3600000} | \
{"kind":"cron","expr":"0 9 * * 1-5","tz":"Europe/Berlin"}
payload: {"kind":"systemEvent","text"} is told in the main conversation: for reminders, worded to read as one when it \
fires; contextMessages (0-10) adds recent lines. {"kind":"agentTurn","message"} is a run of its own, announced here.
delivery of agentTurn: {"mode":"announce","channel","to"} | {"mode":"none"} | {"mode":"webhook","to":"https://…"}"""

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "includeDisabled": {"type": "boolean"},
        "agentId": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": PAGE},
        "offset": {"type": "integer", "minimum": 0},
        "job": {"type": "object"},
        "jobId": {"type": "string"},
        "runMode": {"type": "string", "enum": ["due", "force"], "description": "run: due only if it is due"},
        "patch": {"type": "object"},
        "text": {"type": "string"},
        "mode": {"type": "string", "enum": ["now", "next-heartbeat"]},
        "contextMessages": {"type": "integer", "minimum": 0, "maximum": MOST_CONTEXT},
    },
    "required": ["action"],
}


class CronTool:
    """`cron`: manages jobs; `add_event` and the recent messages of a session come from the gateway."""

    spec = ToolSpec(
        name="cron",
        label="Cron",
        description=DESCRIPTION,
        parameters=PARAMETERS,
        summary=(
            "scheduled jobs, wake events and reminders (write a reminder so that it reads as one when it fires, with "
            "the context it needs)"
        ),
        aliases={"id": "jobId"},
        rare=("includeDisabled", "agentId", "limit", "offset", "runMode"),
        absent={
            "gatewayUrl": "jobs are those of this gateway; leave it out",
            "gatewayToken": "jobs are those of this gateway; leave it out",
            "timeoutMs": "nothing here waits on a network; leave it out",
            "in": "a job cannot move its own next check; change its schedule with update",
            "sessionKey": "wake speaks to this conversation, and a job names its own in job.sessionTarget",
        },
    )

    def __init__(
        self,
        scheduler: Scheduler,
        add_event: Callable[[SessionKey, str, str, Sequence[Origin]], Awaitable[None]],
        recent: Callable[[str, int], Awaitable[Sequence[str]]],
    ) -> None:
        self._scheduler = scheduler
        self._book = scheduler.book
        self._add_event = add_event
        self._recent = recent

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE if args.get("action") in READS else Effects.SCHEDULES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset() if args.get("action") in READS else frozenset(("cron",))

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            return await self._act(args, context)
        except OpenClawError as error:
            return Output.failed(error.message)

    async def _act(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        action = str(args.get("action") or "")
        key = parse_session_key(context.session_key or "main", context.agent_id)
        own = key.rest.split(":")[1] if key.is_cron else None
        if own is not None and action not in (*READS, "remove"):
            return Output.failed(f"a scheduled run may list jobs and remove its own, not {action}")
        match action:
            case "status":
                return json_output(await self._scheduler.status())
            case "list":
                return json_output(await self._list(args, own))
            case "add":
                return json_output(job_to_json(await self._add(args, context)))
            case "wake":
                text = str(args.get("text") or "").strip()
                if not text:
                    return Output.failed("wake needs a text")
                await self._add_event(key, text, str(args.get("mode") or "now"), context.origins)
                return json_output({"ok": True})
            case "get" | "update" | "remove" | "run" | "runs":
                return await self._on_job(action, args, own, context.origins)
            case _:
                return Output.failed(f"{action!r} is no action: use one of {', '.join(ACTIONS)}")

    async def _list(self, args: Mapping[str, Any], own: str | None) -> dict[str, Any]:
        everything, agent = bool(args.get("includeDisabled")), args.get("agentId") or None
        found = await self._book.list(include_disabled=everything, agent_id=agent)
        jobs = [job for job in found if own in (None, job.id)]
        limit, offset = _page(args, PAGE)
        following = {"nextOffset": offset + limit} if offset + limit < len(jobs) else {}
        return {"jobs": [job_to_json(job) for job in jobs[offset : offset + limit]], "total": len(jobs), **following}

    async def _on_job(self, action: str, args: Mapping[str, Any], own: str | None, origins: Sequence[Origin]) -> Output:
        named = str(args.get("jobId") or "").strip()
        if not named:
            return Output.failed(f"{action} needs a jobId: list shows them")
        job = await self._book.find(named)
        if own not in (None, job.id):
            return Output.failed("a scheduled run may touch its own job only")
        match action:
            case "update":
                patch = args.get("patch") or args.get("job")
                if not isinstance(patch, dict):
                    return Output.failed('update needs a patch, for example {"enabled": false}')
                _refuse_commands(patch)
                changed = await self._book.update(job.id, _labelled(patch, (*job.origins, *origins)))
                return json_output(job_to_json(changed))
            case "remove":
                return json_output({"ok": True, "removed": await self._book.remove(job.id)})
            case "get":
                return json_output(job_to_json(job))
            case "run":
                run_id = await self._scheduler.run_now(job.id, only_due=args.get("runMode") == "due")
                if run_id is None:
                    return json_output({"ok": True, "ran": False, "reason": "it is not due"})
                return json_output({"ok": True, "runId": run_id})
            case _:
                limit, offset = _page(args, RUNS_PAGE)
                entries, total = await self._book.store.runs(job.id, limit=limit, offset=offset)
                return json_output({"entries": [run_to_json(entry) for entry in entries], "total": total})

    async def _delivery(self, context: ToolContext) -> dict[str, Any]:
        """A result goes to the conversation that asked for the job."""
        key = parse_session_key(context.session_key or "main", context.agent_id)
        address = await self._scheduler.context.outbox.routes.of(key)
        if address is None:
            return {"mode": "announce"}
        thread = {} if address.thread is None else {"threadId": address.thread}
        where = {"channel": address.channel, "to": address.to, "accountId": address.account, **thread}
        return {"mode": "announce", **where}

    async def _add(self, args: Mapping[str, Any], context: ToolContext) -> CronJob:
        raw = args.get("job")
        if not isinstance(raw, dict):
            # Models often write the job's fields beside the action.
            raw = {name: value for name, value in args.items() if name not in ("action", "contextMessages", "mode")}
        job = _labelled(normalize_job(raw), context.origins)
        _refuse_commands(job)
        job.setdefault("agentId", context.agent_id)
        job.setdefault("owner", {"agentId": context.agent_id, "sessionKey": context.session_key})
        payload = job.get("payload")
        if isinstance(payload, dict) and payload.get("kind") == "agentTurn":
            job.setdefault("delivery", await self._delivery(context))
        count = args.get("contextMessages") or 0
        if isinstance(payload, dict) and payload.get("kind") == "systemEvent" and isinstance(count, int) and count > 0:
            lines = await self._recent(context.session_key, min(count, MOST_CONTEXT))
            job["payload"] = {**payload, "text": with_context(str(payload.get("text", "")), lines)}
        return await self._book.add(job)


def _page(args: Mapping[str, Any], usual: int) -> tuple[int, int]:
    return args.get("limit") or usual, args.get("offset") or 0


def with_context(text: str, lines: Sequence[str]) -> str:
    """A reminder with the messages that preceded it."""
    kept: list[str] = []
    room = CONTEXT_CHARS
    for line in reversed(lines):
        flat = clip(" ".join(line.split()), LINE_CHARS)
        if len(flat) > room:
            break
        room -= len(flat)
        kept.append(f"- {flat}")
    return "\n".join((text, "", "Recent context:", *reversed(kept))) if kept else text


def _labelled(job: Mapping[str, Any], origins: Sequence[Origin]) -> dict[str, Any]:
    """The raw job with the labels of what the model had read; it cannot set or clear them itself."""
    return {**job, "origins": msgspec.to_builtins(merge_origins(origins))}


def _refuse_commands(job: Mapping[str, Any]) -> None:
    """Refuses watches that run a program or read outside the workspace: they would bypass the approval of commands."""
    if job.get("watch"):
        raise InvalidRequest("watches are set by people: openclaw cron add --help")
