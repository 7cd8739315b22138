"""`openclaw channels` and `openclaw pairing`: accounts on platforms, held messages, people who ask to be heard."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import click
import msgspec

from openclaw.channels.pairing import SenderPairing
from openclaw.channels.setup import SETUPS, ChannelSetup, SetupField, find_setup
from openclaw.cli.client import call, given, is_alone
from openclaw.cli.home import open_editor, read_home
from openclaw.cli.render import JSON, YES, ago, note, require_yes, say, shorten, show, table, when
from openclaw.config.load import load
from openclaw.core.errors import ConfigError, InvalidRequest
from openclaw.gateway import logs
from openclaw.gateway.logs import LogFiles, LogLine, format_log_line
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock

F = TypeVar("F", bound=Callable[..., Any])
NOBODY_RUNS = "The gateway does not run, so nothing is connected: openclaw gateway start"
TEXT_CHARS = 60
SEARCHED_LINES = 20_000
"""So many lines of the log are looked through for those of a channel."""


@click.group("channels")
def channels_command() -> None:
    """Where people talk to the assistant: connect Telegram and others, and see how they are doing."""


def _one_channel(function: F) -> F:
    """CHANNEL, also as an option, and the account on it."""
    options = (
        click.argument("named", metavar="[CHANNEL]", required=False),
        click.option("--channel", metavar="NAME", help=f"The same as CHANNEL: {', '.join(SETUPS)} or a plugin's."),
        click.option("--account", metavar="NAME", help="Which account of several; default when left out."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _credential_options(function: F) -> F:
    """What accounts are made of, from the table of the built-in channels."""
    fields = {each.option: each for setup in SETUPS.values() for each in setup.fields}
    for option, each in reversed(fields.items()):
        of = [other.label for other in SETUPS.values() if any(one.option == option for one in other.fields)]
        what = f"{each.label}{'; - reads it from standard input' if each.secret else ''}."
        names = "All" if len(of) == len(SETUPS) else " and ".join(filter(None, (", ".join(of[:-1]), of[-1])))
        help_line = f"{names}: {what[0].lower()}{what[1:]}"
        function = click.option(f"--{option}", metavar="TEXT", help=help_line)(function)
    return function


# Connecting.


@channels_command.command("add")
@_one_channel
@_credential_options
@click.option("--name", help="What this account is called in lists.")
@click.option("--use-env", is_flag=True, help="The credential is in the environment of the gateway; ask for nothing.")
@JSON
def add(
    named: str | None,
    channel: str | None,
    account: str | None,
    name: str | None,
    use_env: bool,
    as_json: bool,
    **options: str | None,
) -> None:
    """Connect an account: openclaw channels add telegram. Its credential is tried at once, and kept when it works.

    Secrets that are not given are asked for and typed unseen; others on this machine can read a command line.
    """
    setup = find_setup(_named(named, channel) or _ask_channel())
    found = _fields(setup, options)
    asks = sys.stdin.isatty() and not use_env
    if asks and not any(each.key in found for each in setup.fields if each.opens):
        say(setup.first, err=True)
        found = ask_fields(setup, found)
    _connect(setup, {**given(accountId=account, name=name), **found}, as_json)


@channels_command.command("login")
@_one_channel
@_credential_options
@JSON
def login(named: str | None, channel: str | None, account: str | None, as_json: bool, **options: str | None) -> None:
    """Sign an account in again, with a new credential or the one that is there, and connect it."""
    setup = find_setup(_require(named, channel))
    found = _fields(setup, options)
    if not found and sys.stdin.isatty():
        say("Enter keeps what is there.", err=True)
        found = ask_fields(setup, found, again=True)
    if found:
        _connect(setup, {**given(accountId=account), **found}, as_json)
        return
    name = account or "default"
    status = call("channels.status", {"probe": True, "channel": setup.channel}, timeout=90.0)
    there = [each for each in status["channelAccounts"].get(setup.channel, ()) if each["accountId"] == name]
    if not there or not there[0]["configured"]:
        raise InvalidRequest(f"{setup.label} has no account {name}: {_command('add', setup.channel, name)}")
    probe = there[0].get("probe") or {"ok": True}
    if not probe["ok"]:
        raise InvalidRequest(f"{setup.label}: {probe['error']}. A new one: {_command('login', setup.channel, name)}")
    alone = is_alone(Environment.of_process(), local=False)
    if not alone:
        call("channels.start", {"channel": setup.channel, "accountId": name})
    lines = [f"{setup.label}: {_who(probe)}the credential is good.", NOBODY_RUNS if alone else "It is connected anew."]
    show({"channel": setup.channel, "accountId": name, "probe": probe, "connects": not alone}, lines, as_json)


def _connect(setup: ChannelSetup, params: Mapping[str, str], as_json: bool) -> None:
    answer = call("channels.add", {"channel": setup.channel, **params}, timeout=90.0)
    show(answer, describe_added(setup, answer), as_json)


def describe_added(setup: ChannelSetup, answer: Mapping[str, Any]) -> list[str]:
    """What a person is told about an account that was added, and what they do next."""
    starts = "The gateway connects it now." if answer["connects"] else "Start the gateway: openclaw gateway start"
    return [f"{setup.label}: {_who(answer['probe'] or {})}tried, and saved.", starts, str(answer["next"])]


def _who(probe: Mapping[str, Any]) -> str:
    name = probe.get("name") or probe.get("id")
    return f"this is {name}; " if name else ""


def ask_fields(
    setup: ChannelSetup, found: Mapping[str, str], *, again: bool = False, indent: str = ""
) -> dict[str, str]:
    """Asks for what is not given yet; secrets are typed unseen. `again` asks only for what opens the account.

    Nothing typed for what cannot be left out ends the questions.
    """
    asked = dict(found)
    for each in setup.fields:
        if each.key in asked or not each.asked or each.unless in asked or (again and not each.opens):
            continue
        hint = f" ({each.hint})" if each.hint else ""
        typed = click.prompt(
            f"{indent}{each.label}{hint}", default="", show_default=False, hide_input=each.secret, err=True
        ).strip()
        if typed:
            asked[each.key] = typed
        elif not each.optional:
            break
    return asked


def _fields(setup: ChannelSetup, options: Mapping[str, str | None]) -> dict[str, str]:
    """What was given for this channel, by its name in the file; one secret may come from standard input."""
    own: dict[str, SetupField] = {each.option: each for each in setup.fields}
    found = {}
    for name, value in options.items():
        option = name.replace("_", "-")
        if value is None:
            continue
        if option not in own:
            known = ", ".join(f"--{each}" for each in own)
            raise click.UsageError(f"{setup.label} takes no --{option}; it takes {known}")
        if own[option].secret and value == "-":
            value = sys.stdin.readline().strip()
        if not value:
            raise click.UsageError(f"--{option} is empty")
        found[own[option].key] = value
    return found


def _ask_channel() -> str:
    if not sys.stdin.isatty():
        raise click.UsageError(f"say which channel: openclaw channels add {next(iter(SETUPS))}")
    for place, setup in enumerate(SETUPS.values(), 1):
        say(f"{place} {setup.label}", err=True)
    number = click.prompt("Which channel", type=click.IntRange(1, len(SETUPS)), default=1, err=True)
    return list(SETUPS)[number - 1]


def _named(named: str | None, channel: str | None) -> str | None:
    if named and channel and named != channel:
        raise click.UsageError(f"{named} or {channel}? Name one channel")
    return (named or channel or "").lower() or None


def _require(named: str | None, channel: str | None) -> str:
    found = _named(named, channel)
    if found is None:
        raise click.UsageError("say which channel, as in: openclaw channels status telegram")
    return found


def _command(verb: str, channel: str, account: str) -> str:
    which = "" if account == "default" else f" --account {account}"
    return f"openclaw channels {verb} {channel}{which}"


# Disconnecting.


@channels_command.command("logout")
@_one_channel
@JSON
def logout(named: str | None, channel: str | None, account: str | None, as_json: bool) -> None:
    """Sign an account out: its credential is forgotten here, and made worthless there where that can be done."""
    done = call("channels.logout", {"channel": _require(named, channel), **given(accountId=account)}, timeout=90.0)
    lines = ["The credential is forgotten." if done["cleared"] else _left(done)]
    lines += ["It is worthless on the platform too."] if done["loggedOut"] else []
    lines += [f"The platform was not told: {done['error']}"] if "error" in done else []
    lines += (
        ["A Telegram token stays good until @BotFather revokes it: /revoke"] if done["channel"] == "telegram" else []
    )
    show(done, [*lines, f"Connect it again: {_command('add', done['channel'], done['accountId'])}"], as_json)


def _left(done: Mapping[str, Any]) -> str:
    where = "a variable of the environment (TELEGRAM_BOT_TOKEN, MATRIX_…)"
    return f"It is disconnected until the gateway starts again: its credential is in {where}, take it out there."


@channels_command.command("remove")
@_one_channel
@click.option("--delete", is_flag=True, help="Take its settings and its credential out of the configuration.")
@YES
@JSON
def remove_account(
    named: str | None, channel: str | None, account: str | None, delete: bool, yes: bool, as_json: bool
) -> None:
    """Switch an account off; its settings stay, unless --delete takes them out as well."""
    where = _require(named, channel)
    if not delete:
        require_yes(f"Switch {where} off?", yes, f"{where} stays as it is")
    done = call("channels.remove", {"channel": where, "delete": delete, **given(accountId=account)}, timeout=90.0)
    again = f"Connect it again: {_command('add', where, done['accountId'])}"
    on = f"channels.{where}" if done["accountId"] == "default" else f"channels.{where}.accounts.{done['accountId']}"
    lines = ["Deleted.", again] if delete else ["Switched off.", f"On again: openclaw config set {on}.enabled true"]
    show(done, lines, as_json)


# How they are doing.


@channels_command.command("list")
@JSON
def list_accounts(as_json: bool) -> None:
    """The accounts that are configured, and the channels that could be."""
    status = call("channels.status", {})
    rows = [(label, each["accountId"], each["tokenSource"], _switched(each)) for label, each in _accounts(status)]
    absent = [setup for setup in SETUPS.values() if setup.channel not in status["channelAccounts"]]
    lines = [table(rows, ("channel", "account", "credential", ""), empty="No channel is connected yet.")]
    lines += [f"{setup.label} can be connected: openclaw channels add {setup.channel}" for setup in absent]
    document = {"accounts": status["channelAccounts"], "available": list(SETUPS)}
    show(document, lines, as_json)


def _switched(account: Mapping[str, Any]) -> str:
    if not account["configured"]:
        return "not configured"
    return "on" if account["enabled"] else "off"


@channels_command.command("status")
@_one_channel
@click.option("--probe", is_flag=True, help="Ask every platform whether the credential is good.")
@click.option(
    "--timeout", type=click.IntRange(1, 60_000), default=10_000, show_default=True, help="Milliseconds for --probe."
)
@JSON
def status(
    named: str | None, channel: str | None, account: str | None, probe: bool, timeout: int, as_json: bool
) -> int:
    """How the accounts are doing: connection, last messages, what waits, what is held, what to do about it."""
    params = {"probe": probe, "timeoutMs": timeout, **given(channel=_named(named, channel))}
    found = call("channels.status", params, timeout=timeout / 1000 + 30)
    lines = [_status_line(label, each) for label, each in _accounts(found) if account in (None, each["accountId"])] or [
        f"No channel is connected yet: openclaw channels add {next(iter(SETUPS))}"
    ]
    for issue in found["statusIssues"]:
        lines.append(f"{found['channelLabels'][issue['channel']]}: {issue['message']}. Next: {issue['fix']}")
    if is_alone(Environment.of_process(), local=False):
        lines.append(NOBODY_RUNS)
    show(found, lines, as_json)
    return 1 if any((each.get("probe") or {}).get("ok") is False for _, each in _accounts(found)) else 0


def _accounts(status: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for channel in status["channelOrder"]:
        for account in status["channelAccounts"][channel]:
            yield status["channelLabels"][channel], account


def _status_line(label: str, account: Mapping[str, Any]) -> str:
    """One line: Telegram (work): connected, this is @claw_bot; heard 2 min ago, sent 1 min ago; 1 held."""
    where = "" if account["accountId"] == "default" else f" ({account['accountId']})"
    on = f" on {account['node']}" if account.get("node") else ""
    told, probe, now, outbox = [account["healthState"] + on], account.get("probe"), time.time(), account["outbox"]
    if probe is not None and probe["ok"]:
        told.append(f"the platform says {probe.get('name') or probe.get('id')}")
    times = (("heard", account["lastInboundAt"]), ("sent", account["lastOutboundAt"]))
    told += [f"{what} {ago(at, now)} ago" for what, at in times if at]
    counts = (("waiting", "waiting"), ("held", "held"), ("refused", "refused"), ("doubled", "possibly doubled"))
    told += [f"{outbox[key]} {what}" for key, what in counts if outbox[key]]
    return f"{label}{where}: {', '.join(told)}"


@channels_command.command("logs")
@_one_channel
@click.option("--lines", "limit", type=click.IntRange(min=1), default=200, show_default=True, help="How many at most.")
@click.option("--follow", "-f", is_flag=True, help="Keep showing lines as they are written, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="The lines as they are in the file, one JSON object each.")
def show_logs(
    named: str | None, channel: str | None, account: str | None, limit: int, follow: bool, as_json: bool
) -> None:
    """What the gateway logged about channels, newest lines last."""
    environment = Environment.of_process()
    try:
        chosen = load(environment.home, environment.environ).config.logging.file
    except ConfigError:
        chosen = None  # must work with a broken configuration: that is when one reads the log
    place = LogFiles.of(environment.home.state, chosen)
    of = _named(named, channel)
    wanted = ":".join(filter(None, (of if of != "all" else None, account)))
    before = deque(_about(wanted, logs.last(place, SEARCHED_LINES)), maxlen=limit)
    if not before and not follow:
        note(f"Nothing about {wanted or 'channels'} is in the log at {place.directory}.")
    for text, line in chain(before, _about(wanted, logs.follow(place)) if follow else ()):
        click.echo(text if as_json else format_log_line(line, colours=sys.stdout.isatty()))


def _about(wanted: str, lines: Iterable[str]) -> Iterator[tuple[str, LogLine]]:
    """The lines of the log that channels wrote, and that name the wanted one."""
    for text in lines:
        line = logs.read(text)
        if line is not None and line.subsystem.startswith("channels") and wanted in line.message:
            yield text, line


# What is held.


@channels_command.command("held")
@JSON
def held(as_json: bool) -> None:
    """Messages that may or may not have arrived, and those that a platform refused: yours to send or drop."""
    messages = call("channels.held", {})["messages"]
    rows = [
        (
            each["number"],
            f"{each['channel']}:{each['to']}",
            when(each["updatedAt"]),
            shorten(" ".join(each["message"].split()) or f"{each['media']} files", TEXT_CHARS),
            f"{each['state']}: {each['error']}",
        )
        for each in messages
    ]
    lines = [table(rows, ("number", "to", "since", "message", "why"), empty="Nothing is held.")]
    if rows:
        lines.append("Send one after all, or drop it: openclaw channels release NUMBER, openclaw channels drop NUMBER")
    show({"messages": messages}, lines, as_json)


@channels_command.command("release")
@click.argument("numbers", nargs=-1, metavar="NUMBER…")
@click.option("--all", "everything", is_flag=True, help="All that are held.")
@JSON
def release(numbers: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Send held messages after all; they may arrive twice."""
    done = [call("channels.release", {"id": each["id"]}) for each in _held(numbers, everything)]
    sends = all(each["sends"] for each in done)
    after = "sent now" if sends else "sent when the gateway runs: openclaw gateway start"
    show({"released": done}, f"{len(done)} {after}" if done else "Nothing is held.", as_json)


@channels_command.command("drop")
@click.argument("numbers", nargs=-1, metavar="NUMBER…")
@click.option("--all", "everything", is_flag=True, help="All that are held.")
@YES
@JSON
def drop(numbers: tuple[str, ...], everything: bool, yes: bool, as_json: bool) -> None:
    """Drop held messages for good."""
    found = _held(numbers, everything)
    if everything and found:
        require_yes(f"Drop {len(found)} messages?", yes, "they stay held")
    done = [call("channels.drop", {"id": each["id"]}) for each in found]
    show({"dropped": done}, f"{len(done)} dropped" if done else "Nothing is held.", as_json)


def _held(numbers: Sequence[str], everything: bool) -> list[dict[str, Any]]:
    """The held messages with these numbers or ids."""
    if bool(numbers) == everything:
        raise click.UsageError("say which, by the numbers of openclaw channels held, or --all")
    messages: list[dict[str, Any]] = call("channels.held", {})["messages"]
    if everything:
        return messages
    known = {name: each for each in messages for name in (str(each["number"]), each["id"])}
    if unknown := [each for each in numbers if each not in known]:
        raise InvalidRequest(f"{', '.join(unknown)} is not held: openclaw channels held")
    return [known[each] for each in dict.fromkeys(numbers)]


# People who ask.


@click.group("pairing")
def pairing_command() -> None:
    """People who ask to be heard on a channel: see them, let them in, take it back."""


@pairing_command.command("list")
@click.argument("channel", required=False)
@JSON
def list_senders(channel: str | None, as_json: bool) -> None:
    """Who waits with which code, and who was let in, on CHANNEL or on all."""
    asked = (Environment.of_process().home.state / "credentials").glob("*-pairing.json")
    names = [channel] if channel else sorted(path.name.removesuffix("-pairing.json") for path in asked)
    document, waiting, let_in = {}, [], []
    for name in names:
        senders = _senders(name)
        document[name] = {"requests": msgspec.to_builtins(senders.waiting()), "allowFrom": list(senders.let_in())}
        waiting += [(name, each.id, f"waits since {when(each.created_at)}", each.code) for each in senders.waiting()]
        let_in += [(name, who, "let in", "") for who in senders.let_in()]
    rows = [*waiting, *let_in]
    show(document, table(rows, ("channel", "who", "", "code"), empty="Nobody waits, and nobody was let in."), as_json)


@pairing_command.command("approve")
@click.argument("channel")
@click.argument("code")
@click.option("--guest", is_flag=True, help="Never as the owner, also when there is none yet.")
def approve(channel: str, code: str, guest: bool) -> None:
    """Let in whoever has CODE on CHANNEL. The first of all becomes the owner, unless --guest says otherwise."""
    let_in = _senders(channel).approve(code)
    say(f"{let_in.id} is heard on {channel} from now on.")
    _, loaded = read_home()
    if loaded.config.commands.owner_allow_from or guest:
        return
    name = f"{channel}:{let_in.id}"
    open_editor().set("commands.ownerAllowFrom", [name])
    say(f"There was no owner yet: {name} may command the assistant now (commands.ownerAllowFrom).")


@pairing_command.command("remove")
@click.argument("channel")
@click.argument("sender")
def remove(channel: str, sender: str) -> None:
    """Take back that SENDER was let in on CHANNEL."""
    _senders(channel).remove(sender)
    say(f"{sender} has to ask again on {channel}.")


def _senders(channel: str) -> SenderPairing:
    return SenderPairing(Environment.of_process().home.state, channel, SystemClock())
