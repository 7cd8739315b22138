"""`openclaw pairing`: senders who wait for approval on a channel, and those who were approved."""

import click
import msgspec

from openclaw.channels.pairing import SenderPairing
from openclaw.cli.home import open_editor, read_home
from openclaw.cli.render import JSON, say, show, table, when
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock


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
