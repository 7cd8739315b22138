"""`openclaw cron add`, `edit` and `next`: jobs from words and options, and when they would run."""

import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from openclaw.automation.cron.schedule import AtSchedule, Schedule, load_zone, next_fires, parse_duration
from openclaw.automation.cron.words import describe_schedule, parse_schedule
from openclaw.cli.client import call, given
from openclaw.cli.cron import next_line
from openclaw.cli.home import read_home
from openclaw.cli.render import JSON, YES, now_ms, say, shorten, show
from openclaw.process.environment import local_timezone

F = TypeVar("F", bound=Callable[..., Any])
JOB_OPTIONS = ("name", "description", "agentId", "wakeMode", "misfire", "deleteAfterRun")
TURN_OPTIONS = ("message", "model", "thinking", "timeoutSeconds", "lightContext")
"""Options that are fields of a job, or of its agent turn, under the same name."""
WHERE_OPTIONS = ("channel", "to", "account", "thread_id", "best_effort_deliver")


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


@click.command("add")
@click.argument("words", nargs=-1, metavar='["WHEN" "PROMPT"]')
@_job_options
@click.option("--disabled", is_flag=True, help="Do not switch it on yet.")
@YES
@JSON
def add_command(words: tuple[str, ...], yes: bool, as_json: bool, **options: Any) -> None:
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
    show(made, [f"added {made['id']}  {made['name']}", f"when      {meaning}", next_line(made)], as_json)


@click.command("edit")
@click.argument("job")
@_job_options
@JSON
def edit_command(job: str, as_json: bool, **options: Any) -> None:
    """Change a job."""
    patch = _job(options)
    if not patch:
        raise click.UsageError("say what to change: openclaw cron edit --help")
    changed = call("cron.update", {"id": job, "patch": patch})
    show(changed, [f"changed {changed['id']}  {changed['name']}", next_line(changed)], as_json)


@click.command("next")
@click.argument("job", required=False)
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=5, show_default=True)
@click.option("--cron", "expr", metavar="WHEN", help="Of this expression, or of these words, without a job.")
@click.option("--tz", metavar="ZONE", help="Its time zone.")
@JSON
def next_command(job: str | None, count: int, expr: str | None, tz: str | None, as_json: bool) -> None:
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
