"""`openclaw pairing`: senders who wait for approval on a channel, and those who were approved."""

from __future__ import annotations

import click
import msgspec

from openclaw.channels.pairing import SenderPairing
from openclaw.cli.render import print_json, table, when
from openclaw.config.edit import Editor
from openclaw.config.load import load
from openclaw.core.text import strip_unprintable
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock


@click.group("pairing")
def pairing_command() -> None:
    """People who ask to be heard on a channel: see them, let them in, take it back."""


@pairing_command.command("list")
@click.argument("channel", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def listed(channel: str | None, as_json: bool) -> None:
    """Who waits with which code, and who was let in, on CHANNEL or on all."""

    here = _here()
    names = [channel] if channel else _channels(here)
    found = {name: _senders(here, name) for name in names}
    if as_json:
        print_json(
            {
                name: {"requests": msgspec.to_builtins(one.waiting()), "allowFrom": list(one.let_in())}
                for name, one in found.items()
            }
        )
        return
    rows = [
        (name, strip_unprintable(each.id), f"waits since {when(each.created_at)}", each.code)
        for name, one in found.items()
        for each in one.waiting()
    ]
    rows += [(name, strip_unprintable(who), "let in", "") for name, one in found.items() for who in one.let_in()]
    click.echo(table(rows, ("channel", "who", "", "code")) if rows else "Nobody waits, and nobody was let in.")


@pairing_command.command("approve")
@click.argument("channel")
@click.argument("code")
@click.option("--guest", is_flag=True, help="Never as the owner, also when there is none yet.")
def approve(channel: str, code: str, guest: bool) -> None:
    """Let in whoever has CODE on CHANNEL. The first of all becomes the owner, unless --guest says otherwise."""

    here = _here()
    let_in = _senders(here, channel).approve(code)
    click.echo(strip_unprintable(f"{let_in.id} is heard on {channel} from now on."))
    if load(here.home, here.environ).config.commands.owner_allow_from or guest:
        return
    name = f"{channel}:{let_in.id}"
    Editor(here.home, here.environ).set("commands.ownerAllowFrom", [name])
    click.echo(
        strip_unprintable(f"There was no owner yet: {name} may command the assistant now (commands.ownerAllowFrom).")
    )


@pairing_command.command("remove")
@click.argument("channel")
@click.argument("sender")
def remove(channel: str, sender: str) -> None:
    """Take back that SENDER was let in on CHANNEL."""

    _senders(_here(), channel).remove(sender)
    click.echo(strip_unprintable(f"{sender} has to ask again on {channel}."))


def _here() -> Environment:

    return Environment.of_process()


def _senders(here: Environment, channel: str) -> SenderPairing:

    return SenderPairing(here.home.state, channel, SystemClock())


def _channels(here: Environment) -> list[str]:
    """Channels on which somebody ever asked."""
    found = (here.home.state / "credentials").glob("*-pairing.json")
    return sorted(path.name.removesuffix("-pairing.json") for path in found)
