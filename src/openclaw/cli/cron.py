"""`openclaw cron` and `openclaw system`: scheduled jobs, system events, heartbeats."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from openclaw.automation.cron.schedule import AtSchedule, Schedule, load_zone, next_fires, parse_duration
from openclaw.automation.cron.words import describe_schedule, parse_schedule
from openclaw.cli.client import call, call_running, given, with_client
from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, YES, ago, dollars, now_ms, say, shorten, show, table, when
from openclaw.core.errors import Unavailable
from openclaw.gateway.process import running_gateway
from openclaw.process.environment import Environment, local_timezone
from openclaw.protocol.client import GatewayClient

F = TypeVar("F", bound=Callable[..., Any])
PAGE = 200
JOB_OPTIONS = ("name", "description", "agentId", "wakeMode", "misfire", "deleteAfterRun")
TURN_OPTIONS = ("message", "model", "thinking", "timeoutSeconds", "lightContext")
"""Options that are fields of a job, or of its agent turn, under the same name."""
WHERE_OPTIONS = ("channel", "to", "account", "thread_id", "best_effort_deliver")


@click.group("cron")
def cron_command() -> None:
    """Jobs that run by the clock: add, list, change, run.

    They run while a gateway does; without one they can be managed all the same.
    """


def _job_options(function: F) -> F:
    """The options that describe a job."""
    options = [
        click.option("--at", metavar="WHEN", help="Once: tomorrow 8am, monday at 9, 20m, or an ISO date."),
        click.option("--every", metavar="DURATION", help="Again and again: 90s, 20m, 2h, 1d."),
        click.option(
            "--cron", "expr", metavar="WHEN", help="By the calendar: every morning at 8, or a cron expression."
        ),
        click.option("--tz", metavar="ZONE", help="IANA time zone of the times; yours when left out."),
        click.option("--exact", is_flag=True, help="Do not spread jobs that start on the full hour."),
        click.option("--stagger", metavar="DURATION", help="Spread the start over this long."),
        click.option("--name", metavar="TEXT", help="A name."),
        click.option("--description", metavar="TEXT", help="A longer note."),
        click.option("-m", "--message", metavar="TEXT", help="A task for the agent, in a conversation of its own."),
        click.option("--system-event", metavar="TEXT", help="A line that the main conversation is told."),
        click.option("--agent", "agentId", metavar="ID", help="Which agent."),
        click.option("--model", metavar="REF", help="Which model."),
        click.option("--thinking", metavar="LEVEL", help="How hard to think."),
        click.option(
            "--timeout-seconds", "timeoutSeconds", type=click.FloatRange(min=0), help="Longest run; 0 is no limit."
        ),
        click.option("--tools", metavar="NAMES", help="Only these tools, separated by commas."),
        click.option(
            "--light-context/--full-context",
            "lightContext",
            default=None,
            help="The message alone: no workspace files.",
        ),
        click.option(
            "--wake", "wakeMode", type=click.Choice(["now", "next-heartbeat"]), help="When a system event is heard."
        ),
        click.option("--announce", is_flag=True, help="Tell the result where you last wrote (the default)."),
        click.option("--channel", metavar="NAME", help="Tell it on this channel: last, owner, telegram, …"),
        click.option("--to", metavar="CHAT", help="Tell it in this chat, with --channel or as CHANNEL:CHAT."),
        click.option("--account", metavar="NAME", help="The account on that channel that tells it."),
        click.option("--thread-id", metavar="ID", help="The thread or topic in that chat."),
        click.option("--no-deliver", is_flag=True, help="Keep the result in the history only."),
        click.option(
            "--best-effort-deliver", is_flag=True, help="The run counts as done also if nobody could be told."
        ),
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
        click.option(
            "--delete-after-run/--keep-after-run", "deleteAfterRun", default=None, help="Remove it after a good run."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@cron_command.command("add")
@click.argument("words", nargs=-1, metavar='["WHEN" "PROMPT"]')
@_job_options
@click.option("--disabled", is_flag=True, help="Do not switch it on yet.")
@YES
@JSON
def add(words: tuple[str, ...], yes: bool, as_json: bool, **options: Any) -> None:
    """Add a job: openclaw cron add "every morning at 8" "Summarise my day".

    WHEN is in words or a cron expression. What it means is shown before it is saved.
    """
    if words:
        if len(words) != 2 or options["expr"] or options["message"]:
            raise click.UsageError('say when and what: openclaw cron add "every morning at 8" "…"')
        options["expr"], options["message"] = words
    job = _job(options)
    if "schedule" not in job:
        raise click.UsageError("say when: --at, --every or --cron")
    if "payload" not in job:
        raise click.UsageError("say what: --message or --system-event")
    if options["disabled"]:
        job["enabled"] = False
    meaning = describe_schedule(msgspec.convert(job["schedule"], Schedule), _zone(options), now_ms())
    if sys.stdin.isatty() and not (yes or as_json):
        say(meaning)
        click.confirm("Add it?", default=True, abort=True)
    payload = job["payload"]
    text = " ".join(str(payload.get("message") or payload.get("text")).split())
    target = "main" if payload["kind"] == "systemEvent" else "isolated"
    made = call("cron.add", {"wakeMode": "now", "name": shorten(text, 60), "sessionTarget": target, **job})
    show(made, [f"added {made['id']}  {made['name']}", f"when      {meaning}", _next_line(made)], as_json)


@cron_command.command("edit")
@click.argument("job")
@_job_options
@JSON
def edit(job: str, as_json: bool, **options: Any) -> None:
    """Change a job."""
    patch = _job(options)
    if not patch:
        raise click.UsageError("say what to change: openclaw cron edit --help")
    changed = call("cron.update", {"id": job, "patch": patch})
    show(changed, [f"changed {changed['id']}  {changed['name']}", _next_line(changed)], as_json)


@cron_command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are switched off.")
@JSON
def list_jobs(everything: bool, as_json: bool) -> None:
    """List the jobs, the next one first."""

    async def every_page(client: GatewayClient) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = []
        while True:
            page = await client.call("cron.list", {"includeDisabled": everything, "limit": PAGE, "offset": len(jobs)})
            jobs += page["jobs"]
            if not page["hasMore"]:
                return jobs

    jobs = with_client(every_page)
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
    yield _next_line(job)
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
    say(_next_line(call("cron.update", {"id": job, "patch": {"enabled": True}})))


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

    async def ask(client: GatewayClient) -> list[dict[str, Any]]:
        whose = {"id": (await client.call("cron.get", {"id": job}))["id"]} if job else {"scope": "all"}
        entries: list[dict[str, Any]] = (await client.call("cron.runs", {**whose, "limit": limit}))["entries"]
        return entries

    entries = with_client(ask)
    rows = []
    for entry in entries:
        result = (entry.get("error") or entry.get("summary") or "").replace("\n", " ")[:60]
        took, cost = f"{entry.get('durationMs', 0) / 1000:.1f} s", dollars(entry.get("costUsd"))
        rows.append((when(entry["runAtMs"]), entry["jobName"][:30], entry["status"], took, cost, result))
    columns = ("at", "job", "status", "took", "cost", "result")
    show({"entries": entries}, table(rows, columns, empty="no runs yet"), as_json)


@cron_command.command("next")
@click.argument("job", required=False)
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=5, show_default=True)
@click.option("--cron", "expr", metavar="WHEN", help="Of this expression, or of these words, without a job.")
@click.option("--tz", metavar="ZONE", help="Its time zone.")
@JSON
def next_(job: str | None, count: int, expr: str | None, tz: str | None, as_json: bool) -> None:
    """Print the coming times of a job, or of an expression you are thinking about."""
    if (job is None) == (expr is None):
        raise click.UsageError("name a job, or give an expression with --cron")
    zone = load_zone(tz) if tz else None
    if expr is not None:
        times = list(next_fires(parse_schedule(expr, tz or local_zone(), now_ms()), now_ms(), count=count))
    else:
        found = call("cron.get", {"id": job})
        first = found.get("nextRunAtMs") if found["enabled"] else None
        schedule: Schedule = msgspec.convert(found["schedule"], Schedule)
        times = [] if first is None else [first, *next_fires(schedule, first, found["id"], count - 1)]
    moments = (datetime.fromtimestamp(at / 1000, UTC).astimezone(zone) for at in times)
    lines = [moment.strftime("%a %Y-%m-%d %H:%M:%S %Z") for moment in moments]
    show({"fires": times}, lines or "never again", as_json)


@cron_command.command("status")
@JSON
def status(as_json: bool) -> None:
    """Whether jobs run, how many there are, which is next."""
    found = call("cron.status")
    following = when(found["nextWakeAtMs"]) if found.get("nextWakeAtMs") else "none"
    show(found, f"{'on' if found['enabled'] else 'off'}, {found['jobs']} job(s), next: {following}", as_json)


def _job(options: dict[str, Any]) -> dict[str, Any]:
    """The options as a job; only those that were given."""
    if options["message"] and options["system_event"]:
        raise click.UsageError("give --message or --system-event, not both")
    payload: dict[str, Any] | None = None
    if options["system_event"]:
        payload = {"kind": "systemEvent", "text": options["system_event"]}
    elif any(options[name] is not None for name in (*TURN_OPTIONS, "tools")):
        tools = [name.strip() for name in options["tools"].split(",")] if options["tools"] else None
        payload = given(kind="agentTurn", toolsAllow=tools, **{name: options[name] for name in TURN_OPTIONS})
    delivery: dict[str, Any] | None = None
    if options["webhook"]:
        delivery = {"mode": "webhook", "to": options["webhook"]}
    elif options["no_deliver"]:
        delivery = {"mode": "none"}
    elif options["announce"] or any(options[name] for name in WHERE_OPTIONS):
        named = {"accountId": options["account"], "threadId": options["thread_id"]}
        careless = options["best_effort_deliver"] or None
        delivery = given(mode="announce", channel=options["channel"], to=options["to"], bestEffort=careless, **named)
    plain = {name: options[name] for name in JOB_OPTIONS}
    watch = _watches(options) or None
    return given(**plain, schedule=_schedule_of(options), payload=payload, delivery=delivery, watch=watch)


def _schedule_of(options: dict[str, Any]) -> dict[str, Any] | None:
    if sum(options[name] is not None for name in ("at", "every", "expr")) > 1:
        raise click.UsageError("give one of --at, --every and --cron")
    if options["at"] is not None:
        once = parse_schedule(options["at"], _zone(options), now_ms())
        if not isinstance(once, AtSchedule):
            raise click.UsageError(f"{options['at']!r} comes again and again: use --cron for it")
        return {"kind": "at", "at": once.at}
    if options["every"] is not None:
        return {"kind": "every", "everyMs": parse_duration(options["every"])}
    if options["expr"] is None:
        return None
    schedule: dict[str, Any] = msgspec.to_builtins(parse_schedule(options["expr"], _zone(options), now_ms()))
    if options["exact"] or options["stagger"]:
        schedule["staggerMs"] = 0 if options["exact"] else parse_duration(options["stagger"])
    return schedule


def _imap(text: str) -> dict[str, Any]:
    """Parses USER@HOST[/MAILBOX]; the user may contain an @."""
    account, _, mailbox = text.partition("/")
    user, _, host = account.rpartition("@")
    if not user or not host:
        raise click.UsageError("write --when-imap USER@HOST or USER@HOST/MAILBOX")
    named = {"mailbox": mailbox} if mailbox else {}
    return {"kind": "mail", "host": host, "user": user, "passwordEnv": "IMAP_PASSWORD", **named}


def _watches(options: dict[str, Any]) -> list[dict[str, Any]]:
    imap, silent = options["when_imap"], options["when_silent"]
    return [
        *({"kind": "file", "path": str(Path(path).expanduser().absolute())} for path in options["when_file"]),
        *({"kind": "command", "argv": shlex.split(line)} for line in options["when_command"]),
        *({"kind": "http", "url": url} for url in options["when_url"]),
        *({"kind": "mail", "path": str(Path(path).expanduser().absolute())} for path in options["when_mail"]),
        *([_imap(imap)] if imap else []),
        *([{"kind": "silence", "longerThanMs": parse_duration(silent)}] if silent else []),
        *([{"kind": "due"}] if options["when_due"] else []),
    ]


def local_zone() -> str:
    """The person's zone: as configured, else the machine's."""
    environment, loaded = read_home()
    return loaded.config.agents.defaults.user_timezone or local_timezone(environment.environ) or "UTC"


def _zone(options: dict[str, Any]) -> str:
    return load_zone(options["tz"]).key if options["tz"] else local_zone()


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


def _next_line(job: dict[str, Any]) -> str:
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
