"""`openclaw cron` and `openclaw system`: scheduled jobs, system events, heartbeats."""

import time
from collections.abc import Iterator
from typing import Any

import click

from openclaw.cli.client import call, call_running
from openclaw.cli.render import JSON, ago, dollars, say, show, table, when
from openclaw.cli.root import Verbs
from openclaw.core.errors import Unavailable
from openclaw.gateway.running import running_gateway
from openclaw.process.environment import Environment

PAGE = 200
VERBS = {
    "add": ("cron_jobs", 'Add a job: openclaw cron add "every morning at 8" "Summarise my day".'),
    "edit": ("cron_jobs", "Change a job."),
    "next": ("cron_jobs", "Print the coming times of a job, or of an expression you are thinking about."),
}


@click.group("cron", cls=Verbs, elsewhere=VERBS)
def cron_command() -> None:
    """Jobs that run by the clock: add, list, change, run.

    They run while a gateway does; without one they can be managed all the same.
    """


@cron_command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are switched off.")
@JSON
def list_jobs(everything: bool, as_json: bool) -> None:
    """List the jobs, the next one first."""
    jobs: list[dict[str, Any]] = []
    page: dict[str, Any] = {"hasMore": True}
    while page["hasMore"]:
        page = call("cron.list", {"includeDisabled": everything, "limit": PAGE, "offset": len(jobs)})
        jobs += page["jobs"]
    none = 'no jobs: add one with openclaw cron add "every morning at 8" "…"'
    show({"jobs": jobs}, table(list(map(_row, jobs)), ["id", "name", "schedule", "next", "last"], empty=none), as_json)


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    last = job.get("lastRunStatus", "")
    if last and "lastRunAtMs" in job:
        last += f" {ago(job['lastRunAtMs'], time.time())} ago"
    following = when(job["nextRunAtMs"]) if "nextRunAtMs" in job else "off" if not job["enabled"] else "-"
    return job["id"][:8], job["name"][:40], _schedule(job["schedule"]), following, last


@cron_command.command("show")
@click.argument("job")
@JSON
def show_job(job: str, as_json: bool) -> None:
    """Show one job."""
    found = call("cron.get", {"id": job})
    show(found, _job_lines(found), as_json)


def _job_lines(job: dict[str, Any]) -> Iterator[str]:
    yield f"{job['name']}  ({job['id']})"
    yield f"schedule  {_schedule(job['schedule'])}"
    yield f"does      {job['payload'].get('message') or job['payload'].get('text', '')}"
    delivery = job["delivery"]
    where = " ".join(str(delivery[name]) for name in ("channel", "to") if delivery.get(name))
    yield f"delivery  {delivery['mode']} {where}".rstrip()
    yield next_line(job)
    state = job["state"]
    if "autoDisabled" in state:
        yield f"off since it failed: {state['autoDisabled']['reason']}"
    elif "lastError" in state:
        yield f"last error  {state['lastError']}"


@cron_command.command("rm")
@click.argument("job")
def remove(job: str) -> None:
    """Remove a job."""
    call("cron.remove", {"id": job})
    click.echo("removed")


@cron_command.command("enable")
@click.argument("job")
def enable(job: str) -> None:
    """Switch a job on."""
    say(next_line(call("cron.update", {"id": job, "patch": {"enabled": True}})))


@cron_command.command("disable")
@click.argument("job")
def disable(job: str) -> None:
    """Switch a job off."""
    call("cron.update", {"id": job, "patch": {"enabled": False}})
    click.echo("switched off")


@cron_command.command("run")
@click.argument("job")
@click.option("--due", is_flag=True, help="Only if it is due.")
def run(job: str, due: bool) -> int:
    """Run a job now; needs a running gateway."""
    if running_gateway(Environment.of_process().home.state) is None:
        raise Unavailable("no gateway is running: start one with openclaw gateway start")
    answer = call("cron.run", {"id": job, "mode": "due" if due else "force"})
    if not answer["enqueued"]:
        click.echo(f"not started: {answer.get('reason', '')}")
        return 1
    click.echo(f"started; its result: openclaw cron runs {job}")
    return 0


@cron_command.command("runs")
@click.argument("job", required=False)
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True)
@JSON
def list_runs(job: str | None, limit: int, as_json: bool) -> None:
    """What became of the runs, with their cost."""
    whose = {"id": call("cron.get", {"id": job})["id"]} if job else {"scope": "all"}
    entries = call("cron.runs", {**whose, "limit": limit})["entries"]
    rows = []
    for entry in entries:
        result = (entry.get("error") or entry.get("summary") or "").replace("\n", " ")[:60]
        took, cost = f"{entry.get('durationMs', 0) / 1000:.1f} s", dollars(entry.get("costUsd"))
        rows.append((when(entry["runAtMs"]), entry["jobName"][:30], entry["status"], took, cost, result))
    columns = ("at", "job", "status", "took", "cost", "result")
    show({"entries": entries}, table(rows, columns, empty="no runs yet"), as_json)


@cron_command.command("status")
@JSON
def status(as_json: bool) -> None:
    """Whether jobs run, how many there are, which is next."""
    found = call("cron.status")
    following = when(found["nextWakeAtMs"]) if found.get("nextWakeAtMs") else "none"
    show(found, f"{'on' if found['enabled'] else 'off'}, {found['jobs']} job(s), next: {following}", as_json)


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


def next_line(job: dict[str, Any]) -> str:
    return f"next      {when(job['nextRunAtMs']) if 'nextRunAtMs' in job else 'never'}"


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
    show(call_running("wake", params), "told" if mode == "now" else "waits for the next turn", as_json)


@system_command.group("heartbeat")
def heartbeat() -> None:
    """The regular look at what needs attention."""


@heartbeat.command("last")
@JSON
def last(as_json: bool) -> None:
    """What became of the last one."""
    found = call_running("last-heartbeat")
    line = "none since the gateway started"
    if found is not None:
        line = f"{when(found['ts'])}  {found['status']}  {found['reason'] or found['preview']}".rstrip()
    show(found, line, as_json)


@heartbeat.command("enable")
@JSON
def enable_heartbeats(as_json: bool) -> None:
    """Switch heartbeats on until the gateway stops."""
    show(call_running("set-heartbeats", {"enabled": True}), "heartbeats are on", as_json)


@heartbeat.command("disable")
@JSON
def disable_heartbeats(as_json: bool) -> None:
    """Switch heartbeats off until the gateway stops."""
    show(call_running("set-heartbeats", {"enabled": False}), "heartbeats are off", as_json)
