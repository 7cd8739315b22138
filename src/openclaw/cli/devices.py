"""`openclaw devices`: approve, reject and remove devices that connect to this gateway."""

import time
from collections.abc import Mapping
from typing import Any

import click

from openclaw.cli.render import ago, print_json, table
from openclaw.core.errors import NotFound
from openclaw.core.text import strip_unprintable
from openclaw.gateway.client_target import call_gateway, find_gateway
from openclaw.process.environment import Environment

JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


@click.group("devices")
def devices_command() -> None:
    """Browsers, terminals and programs that may come in: approve, reject, remove."""


@devices_command.command("list")
@JSON
def list_devices(as_json: bool) -> None:
    """Who waits to be let in, and who is."""

    found = _ask("device.pair.list", {})
    if as_json:
        print_json(found)
        return
    waiting, paired = found["pending"], found["paired"]
    if waiting:
        cells = [(_id(each, "requestId"), _who(each), _from(each), _scopes(each)) for each in waiting]
        click.echo(table(cells, ("waits", "device", "from", "asks for")))
        click.echo("Let one in: openclaw devices approve REQUEST\n")
    if paired:
        now = _now()
        cells = [(_id(each, "deviceId"), _who(each), ago(_seen(each), now), _scopes(each)) for each in paired]
        click.echo(table(cells, ("device", "name", "approved", "may")))
    if not waiting and not paired:
        click.echo("No device has come yet. `openclaw dashboard` lets a browser in; `openclaw tui --url` asks for it.")


@devices_command.command("setup-code")
@click.option("--url", metavar="URL", help="Where the device finds the gateway, such as wss://home.example.org.")
@click.option(
    "--profile",
    type=click.Choice(["full", "limited", "node", "voice-node"]),
    default="full",
    help="What it may do: full reads, writes and approves; limited does not approve; node only lends its abilities.",
)
@JSON
def setup_code(url: str | None, profile: str, as_json: bool) -> None:
    """Make a code that lets one new device in, within ten minutes, without another approval."""

    params = {"publicUrl": url} if url else {}
    made = _ask("device.pair.setupCode", params | ({"bootstrapProfile": profile} if profile != "full" else {}))
    if as_json:
        print_json(made)
        return
    click.echo(made["setupCode"])
    click.echo(f"for {made['gatewayUrl']}; good once, for ten minutes. Whoever has it is let in.", err=True)


@devices_command.command("approve")
@click.argument("request_id", metavar="REQUEST", required=False)
@JSON
def approve(request_id: str | None, as_json: bool) -> None:
    """Let in the device behind REQUEST (or the start of it); the only one that waits, when none is named."""

    request = _waiting(request_id)
    answer = _ask("device.pair.approve", {"requestId": request["requestId"]})
    if as_json:
        print_json(answer)
    else:
        click.echo(f"{_who(request)} may come in: {_scopes(request)}")


@devices_command.command("reject")
@click.argument("request_id", metavar="REQUEST")
def reject(request_id: str) -> None:
    """Send the device behind REQUEST away; it may ask again."""
    request = _waiting(request_id)
    _ask("device.pair.reject", {"requestId": request["requestId"]})
    click.echo(f"{_who(request)} was not let in")


@devices_command.command("remove")
@click.argument("device_id", metavar="DEVICE")
def remove(device_id: str) -> None:
    """Take access away from DEVICE (its id, or the start of it); it must be approved again to come back."""

    paired = [each for each in _ask("device.pair.list", {})["paired"] if each["deviceId"].startswith(device_id)]
    if len(paired) != 1:
        raise NotFound(f"{device_id!r} fits {len(paired)} devices: see openclaw devices list")
    _ask("device.pair.remove", {"deviceId": paired[0]["deviceId"]})
    click.echo(f"{_who(paired[0])} has no access any more")


def _waiting(wanted: str | None) -> Mapping[str, Any]:
    """The request that `wanted` names."""

    pending = _ask("device.pair.list", {})["pending"]
    found = [each for each in pending if each["requestId"].startswith(wanted or "")]
    if len(found) == 1:
        return dict(found[0])
    if not pending:
        raise NotFound("no device waits: let it connect first, then approve it")
    raise NotFound(f"{len(found)} requests fit: name one of {', '.join(each['requestId'] for each in pending)}")


def _ask(method: str, params: Mapping[str, Any]) -> Any:

    return call_gateway(find_gateway(Environment.of_process()), method, params, timeout=30.0)


def _id(each: Mapping[str, Any], name: str) -> str:
    return str(each[name]) if name == "requestId" else str(each[name])[:16]


def _who(each: Mapping[str, Any]) -> str:

    name = each.get("label") or each.get("displayName") or each.get("clientId") or each.get("deviceId")
    return strip_unprintable(" ".join(f"{name} ({each.get('platform') or 'unknown'})".split()))


def _from(each: Mapping[str, Any]) -> str:
    return str(each.get("remoteIp") or "")


def _scopes(each: Mapping[str, Any]) -> str:
    scopes = each.get("scopes") or each.get("approvedScopes") or ()
    return ", ".join(str(scope).removeprefix("operator.") for scope in scopes)


def _seen(each: Mapping[str, Any]) -> int:
    return int(each.get("approvedAtMs") or each.get("createdAtMs") or 0)


def _now() -> float:

    return time.time()
