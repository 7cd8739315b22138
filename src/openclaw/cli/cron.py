"""`openclaw cron` and `openclaw system`: scheduled jobs, system events, heartbeats."""

import asyncio
import os
import shlex
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from openclaw.automation.cron.schedule import CronSchedule, Schedule, load_zone, next_fires, parse_duration, parse_time
from openclaw.cli.client import open_client
from openclaw.cli.render import ago, dollars, print_json, table, when
from openclaw.core.errors import Unavailable
from openclaw.core.text import strip_unprintable
from openclaw.gateway.client_target import call_gateway, find_gateway
from openclaw.gateway.process import running_gateway
from openclaw.process.environment import Environment, local_timezone

if TYPE_CHECKING:
    from openclaw.protocol.client import GatewayClient

F = TypeVar("F", bound=Callable[..., Any])

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


@click.group("cron")
def cron_command() -> None:
    """Jobs that run by the clock: add, list, change, run.

    They run while a gateway does; without one they can be managed all the same.
    """


def _timing(added: bool) -> Callable[[F], F]:
    options = [
        click.option("--at", metavar="WHEN", help="Once: an ISO date, or a time from now such as 20m."),
        click.option("--every", metavar="DURATION", help="Again and again: 90s, 20m, 2h, 1d."),
        click.option("--cron", "expr", metavar="EXPR", help="By the calendar: five fields, or six with seconds."),
        click.option("--tz", metavar="ZONE", help="IANA time zone for --cron, and for --at without one."),
        click.option("--exact", is_flag=True, help="Do not spread jobs that start on the full hour."),
        click.option("--stagger", metavar="DURATION", help="Spread the start over this long."),
        click.option("--name", metavar="TEXT", help="A name."),
        click.option("--description", metavar="TEXT", help="A longer note."),
        click.option("-m", "--message", metavar="TEXT", help="A task for the agent, in a conversation of its own."),
        click.option("--system-event", metavar="TEXT", help="A line that the main conversation is told."),
        click.option("--agent", "agent_id", metavar="ID", help="Which agent."),
        click.option("--model", metavar="REF", help="Which model."),
        click.option("--thinking", metavar="LEVEL", help="How hard to think."),
        click.option("--timeout-seconds", type=click.FloatRange(min=0), help="Longest run; 0 is no limit."),
        click.option("--tools", metavar="NAMES", help="Only these tools, separated by commas."),
        click.option("--wake", type=click.Choice(["now", "next-heartbeat"]), help="When a system event is heard."),
        click.option("--announce", is_flag=True, help="Tell the result in the main conversation (the default)."),
        click.option("--no-deliver", is_flag=True, help="Keep the result in the history only."),
        click.option("--webhook", metavar="URL", help="Send the result to this address."),
        click.option("--misfire", type=click.Choice(["once", "skip", "all"]), help="What to do about missed times."),
        click.option("--when-file", multiple=True, metavar="PATH", help="Only when this file or folder changed."),
        click.option(
            "--when-command", multiple=True, metavar="LINE", help="Only when its exit code or output changed."
        ),
        click.option("--when-url", multiple=True, metavar="URL", help="Only when its status or content changed."),
        click.option("--when-mail", multiple=True, metavar="MAILDIR", help="Only when new mail came into it."),
        click.option("--when-imap", metavar="USER@HOST", help="Only when new mail came; password in IMAP_PASSWORD."),
        click.option("--when-silent", metavar="TIME", help="Only when nobody has written for so long."),
        click.option("--when-due", is_flag=True, help="Only when a line in the notes is due."),
        click.option("--delete-after-run/--keep-after-run", default=None, help="Remove it after a good run."),
    ]
    if added:
        options.append(click.option("--disabled", is_flag=True, help="Do not switch it on yet."))

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@cron_command.command("add")
@click.argument("words", nargs=-1, metavar='["EXPR" "PROMPT"]')
@_timing(True)
@JSON
def add(words: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Add a job: openclaw cron add "0 7 * * *" "Summarise my day"."""

    if words:
        if len(words) != 2 or given["expr"] or given["message"]:
            raise click.UsageError('give a cron expression and a prompt: openclaw cron add "0 7 * * *" "…"')
        given["expr"], given["message"] = words
    job = _job(given)
    if "schedule" not in job:
        raise click.UsageError("say when: --at, --every or --cron")
    if "payload" not in job:
        raise click.UsageError("say what: --message or --system-event")
    if given["disabled"]:
        job["enabled"] = False
    made = _call("add", job=job)
    if as_json:
        print_json(made)
    else:
        click.echo(f"added {made['id']}  {made['name']}")
        _say_next(made)


@cron_command.command("edit")
@click.argument("job")
@_timing(False)
@JSON
def edit(job: str, as_json: bool, **given: Any) -> None:
    """Change a job."""

    patch = _job(given)
    if not patch:
        raise click.UsageError("say what to change: openclaw cron edit --help")
    changed = _call("update", name=job, patch=patch)
    if as_json:
        print_json(changed)
    else:
        click.echo(f"changed {changed['id']}  {changed['name']}")
        _say_next(changed)


@cron_command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are switched off.")
@JSON
def list_(everything: bool, as_json: bool) -> None:
    """List the jobs, the next one first."""

    jobs = _call("list", everything=everything)
    if as_json:
        print_json({"jobs": jobs})
        return
    if not jobs:
        click.echo('no jobs: add one with openclaw cron add "0 7 * * *" "…"')
        return
    rows = []
    for job in jobs:
        last = job.get("lastRunStatus", "")
        if last and "lastRunAtMs" in job:
            last += f" {ago(job['lastRunAtMs'], time.time())} ago"
        following = when(job["nextRunAtMs"]) if "nextRunAtMs" in job else "off" if not job["enabled"] else "-"
        rows.append([job["id"][:8], strip_unprintable(job["name"])[:40], _schedule(job["schedule"]), following, last])
    click.echo(table(rows, ["id", "name", "schedule", "next", "last"]))


@cron_command.command("show")
@click.argument("job")
@JSON
def show(job: str, as_json: bool) -> None:
    """Show one job."""

    found = _call("get", name=job)
    if as_json:
        print_json(found)
        return
    state = found["state"]
    click.echo(f"{strip_unprintable(found['name'])}  ({found['id']})")
    click.echo(f"schedule  {_schedule(found['schedule'])}")
    click.echo(f"does      {strip_unprintable(found['payload'].get('message') or found['payload'].get('text', ''))}")
    click.echo(f"delivery  {found['delivery']['mode']}")
    _say_next(found)
    if "autoDisabled" in state:
        click.echo(f"off since it failed: {strip_unprintable(state['autoDisabled']['reason'])}")
    elif "lastError" in state:
        click.echo(f"last error  {strip_unprintable(state['lastError'])}")


@cron_command.command("rm")
@click.argument("job")
def remove(job: str) -> None:
    """Remove a job."""
    _call("remove", name=job)
    click.echo("removed")


@cron_command.command("enable")
@click.argument("job")
def enable(job: str) -> None:
    """Switch a job on."""
    _say_next(_call("update", name=job, patch={"enabled": True}))


@cron_command.command("disable")
@click.argument("job")
def disable(job: str) -> None:
    """Switch a job off."""
    _call("update", name=job, patch={"enabled": False})
    click.echo("switched off")


@cron_command.command("run")
@click.argument("job")
@click.option("--due", is_flag=True, help="Only if it is due.")
def run(job: str, due: bool) -> None:
    """Run a job now; needs a running gateway."""
    answer = _call("run", name=job, due=due)
    if not answer["enqueued"]:
        click.echo(f"not started: {answer.get('reason', '')}")
        raise click.exceptions.Exit(1)
    click.echo(f"started; its result: openclaw cron runs {job}")


@cron_command.command("runs")
@click.argument("job", required=False)
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True)
@JSON
def runs(job: str | None, limit: int, as_json: bool) -> None:
    """What became of the runs, with their cost."""

    entries = _call("runs", name=job, limit=limit)
    if as_json:
        print_json({"entries": entries})
        return
    rows = [
        [
            when(entry["runAtMs"]),
            strip_unprintable(entry["jobName"])[:30],
            entry["status"],
            f"{entry.get('durationMs', 0) / 1000:.1f} s",
            dollars(entry.get("costUsd")),
            strip_unprintable(entry.get("error") or entry.get("summary") or "").replace("\n", " ")[:60],
        ]
        for entry in entries
    ]
    click.echo(table(rows, ["at", "job", "status", "took", "cost", "result"]) if rows else "no runs yet")


@cron_command.command("next")
@click.argument("job", required=False)
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=5, show_default=True)
@click.option("--cron", "expr", metavar="EXPR", help="Of this expression, without a job.")
@click.option("--tz", metavar="ZONE", help="Its time zone.")
@JSON
def next_(job: str | None, count: int, expr: str | None, tz: str | None, as_json: bool) -> None:
    """Print the coming times of a job, or of an expression you are thinking about."""

    if (job is None) == (expr is None):
        raise click.UsageError("name a job, or give an expression with --cron")
    place = load_zone(tz) if tz else None
    if expr is not None:
        found = next_fires(CronSchedule(expr=expr, tz=tz or _local_zone()), round(time.time() * 1000), count=count)
    else:
        found = _call("next", name=job, count=count)
    if as_json:
        print_json({"fires": list(found)})
        return
    for at in found:
        click.echo(datetime.fromtimestamp(at / 1000, UTC).astimezone(place).strftime("%a %Y-%m-%d %H:%M:%S %Z"))
    if not found:
        click.echo("never again")


@cron_command.command("status")
@JSON
def status(as_json: bool) -> None:
    """Whether jobs run, how many there are, which is next."""

    told = _call("status")
    if as_json:
        print_json(told)
        return
    following = when(told["nextWakeAtMs"]) if told.get("nextWakeAtMs") else "none"
    click.echo(f"{'on' if told['enabled'] else 'off'}, {told['jobs']} job(s), next: {following}")


def _job(given: dict[str, Any]) -> dict[str, Any]:
    """The options as a job; only those that were given."""
    schedule = _schedule_of(given)
    if given["message"] and given["system_event"]:
        raise click.UsageError("give --message or --system-event, not both")
    payload: dict[str, Any] = {}
    if given["system_event"]:
        payload = {"kind": "systemEvent", "text": given["system_event"]}
    elif any(given[name] is not None for name in ("message", "model", "thinking", "timeout_seconds", "tools")):
        payload = {
            "kind": "agentTurn",
            "message": given["message"],
            "model": given["model"],
            "thinking": given["thinking"],
            "timeoutSeconds": given["timeout_seconds"],
            "toolsAllow": [name.strip() for name in given["tools"].split(",")] if given["tools"] else None,
        }
    delivery: dict[str, Any] | None = None
    if given["webhook"]:
        delivery = {"mode": "webhook", "to": given["webhook"]}
    elif given["no_deliver"] or given["announce"]:
        delivery = {"mode": "none" if given["no_deliver"] else "announce"}
    found = {
        "name": given["name"],
        "description": given["description"],
        "agentId": given["agent_id"],
        "schedule": schedule,
        "payload": {name: value for name, value in payload.items() if value is not None} or None,
        "delivery": delivery,
        "wakeMode": given["wake"],
        "misfire": given["misfire"],
        "deleteAfterRun": given["delete_after_run"],
        "watch": _watches(given) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _schedule_of(given: dict[str, Any]) -> dict[str, Any] | None:

    if sum(given[name] is not None for name in ("at", "every", "expr")) > 1:
        raise click.UsageError("give one of --at, --every and --cron")
    if given["at"] is not None:
        at = parse_time(given["at"], given["tz"], now=round(time.time() * 1000))
        return {"kind": "at", "at": datetime.fromtimestamp(at / 1000, UTC).isoformat()}
    if given["every"] is not None:
        return {"kind": "every", "everyMs": parse_duration(given["every"])}
    if given["expr"] is None:
        return None
    schedule: dict[str, Any] = {"kind": "cron", "expr": given["expr"], "tz": given["tz"] or _local_zone()}
    if given["exact"] or given["stagger"]:
        schedule["staggerMs"] = 0 if given["exact"] else parse_duration(given["stagger"])
    return schedule


def _imap(text: str) -> dict[str, Any]:
    """Parses USER@HOST[/MAILBOX]; the user may contain an @."""
    account, _, mailbox = text.partition("/")
    user, _, host = account.rpartition("@")
    if not user or not host:
        raise click.UsageError("write --when-imap USER@HOST or USER@HOST/MAILBOX")
    named = {"mailbox": mailbox} if mailbox else {}
    return {"kind": "mail", "host": host, "user": user, "passwordEnv": "IMAP_PASSWORD", **named}


def _watches(given: dict[str, Any]) -> list[dict[str, Any]]:

    return [
        *({"kind": "file", "path": str(Path(path).expanduser().absolute())} for path in given["when_file"]),
        *({"kind": "command", "argv": shlex.split(line)} for line in given["when_command"]),
        *({"kind": "http", "url": url} for url in given["when_url"]),
        *({"kind": "mail", "path": str(Path(path).expanduser().absolute())} for path in given["when_mail"]),
        *([_imap(given["when_imap"])] if given["when_imap"] else []),
        *([{"kind": "silence", "longerThanMs": parse_duration(given["when_silent"])}] if given["when_silent"] else []),
        *([{"kind": "due"}] if given["when_due"] else []),
    ]


def _local_zone() -> str:

    return local_timezone(os.environ) or "UTC"


def _schedule(schedule: dict[str, Any]) -> str:
    match schedule["kind"]:
        case "at":
            return f"at {schedule['at']}"
        case "every":
            seconds = schedule["everyMs"] / 1000
            for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
                if seconds % size == 0:
                    return f"every {seconds // size:.0f}{unit}"
            return f"every {seconds:g}s"
        case _:
            return f"{schedule['expr']} ({schedule.get('tz', 'UTC')})"


def _say_next(job: dict[str, Any]) -> None:

    click.echo(f"next      {when(job['nextRunAtMs'])}" if "nextRunAtMs" in job else "next      never")


PAGE = 200


def _call(action: str, **given: Any) -> Any:
    """Does what a command asks; gives jobs and runs as the wire shows them."""

    environment = Environment.of_process()
    if action == "run" and running_gateway(environment.home.state) is None:
        raise Unavailable("no gateway is running: start one with openclaw gateway start")

    async def main() -> Any:
        async with open_client(environment) as client:
            return await _answer(client, action, given)

    return asyncio.run(main())


async def _answer(client: "GatewayClient", action: str, given: dict[str, Any]) -> Any:
    match action:
        case "list":
            jobs: list[Any] = []
            while True:
                asked = {"includeDisabled": given["everything"], "limit": PAGE, "offset": len(jobs)}
                page = await client.call("cron.list", asked)
                jobs += page["jobs"]
                if not page["hasMore"]:
                    return jobs
        case "add":
            defaults = {"sessionTarget": "main" if given["job"]["payload"]["kind"] == "systemEvent" else "isolated"}
            job = {"wakeMode": "now", "name": _name(given["job"]), **defaults, **given["job"]}
            return await client.call("cron.add", job)
        case "update":
            return await client.call("cron.update", {"id": given["name"], "patch": given["patch"]})
        case "run":
            return await client.call("cron.run", {"id": given["name"], "mode": "due" if given["due"] else "force"})
        case "runs":
            named = {"id": (await client.call("cron.get", {"id": given["name"]}))["id"]} if given["name"] else {}
            asked = {**(named or {"scope": "all"}), "limit": given["limit"]}
            return (await client.call("cron.runs", asked))["entries"]
        case "next":
            return _coming(await client.call("cron.get", {"id": given["name"]}), given["count"])
        case "status":
            return await client.call("cron.status", {})
        case _:
            return await client.call(f"cron.{action}", {"id": given["name"]})


def _coming(job: dict[str, Any], count: int) -> list[int]:
    """The next moments of a job."""

    first = job.get("nextRunAtMs")
    if not job["enabled"] or first is None:
        return []
    schedule: Schedule = msgspec.convert(job["schedule"], Schedule)
    return [first, *next_fires(schedule, first, job["id"], count - 1)]


def _name(job: dict[str, Any]) -> str:
    text = " ".join(str(job["payload"].get("message") or job["payload"].get("text")).split())
    return text if len(text) <= 60 else text[:59] + "…"


# `openclaw system`.


@click.group("system")
def system_command() -> None:
    """Tell the running assistant what happened, and see to its heartbeats."""


@system_command.command("event")
@click.argument("words", nargs=-1)
@click.option("--text", metavar="TEXT", help="What happened.")
@click.option("--mode", type=click.Choice(["now", "next-heartbeat"]), default="next-heartbeat", show_default=True)
@click.option("--session-key", metavar="KEY", help="Which conversation is told.")
@JSON
def event(words: tuple[str, ...], text: str | None, mode: str, session_key: str | None, as_json: bool) -> None:
    """Put a line up for the main conversation; with --mode now it is read at once."""
    said = (text or " ".join(words)).strip()
    if not said:
        raise click.UsageError('say what happened: openclaw system event --text "…"')
    params = {"text": said, "mode": mode, **({"sessionKey": session_key} if session_key else {})}
    _show(_ask("wake", params), as_json, "told" if mode == "now" else "waits for the next turn")


@system_command.group("heartbeat")
def heartbeat() -> None:
    """The regular look at what needs attention."""


@heartbeat.command("last")
@JSON
def last(as_json: bool) -> None:
    """What became of the last one."""

    found = _ask("last-heartbeat", {})
    if found is None:
        _show(None, as_json, "none since the gateway started")
        return
    line = f"{when(found['ts'])}  {found['status']}  {strip_unprintable(found['reason'] or found['preview'])}".rstrip()
    _show(found, as_json, line)


@heartbeat.command("enable")
@JSON
def enable_heartbeats(as_json: bool) -> None:
    """Switch heartbeats on until the gateway stops."""
    _show(_ask("set-heartbeats", {"enabled": True}), as_json, "heartbeats are on")


@heartbeat.command("disable")
@JSON
def disable_heartbeats(as_json: bool) -> None:
    """Switch heartbeats off until the gateway stops."""
    _show(_ask("set-heartbeats", {"enabled": False}), as_json, "heartbeats are off")


def _show(document: Any, as_json: bool, line: str) -> None:

    if as_json:
        print_json(document)
    else:
        click.echo(line)


def _ask(method: str, params: dict[str, Any]) -> Any:

    environment = Environment.of_process()
    if running_gateway(environment.home.state) is None:
        raise click.ClickException("the gateway is not running: start it with openclaw gateway start")
    return call_gateway(find_gateway(environment), method, params, timeout=30.0)
