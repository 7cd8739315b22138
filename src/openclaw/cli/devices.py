"""`openclaw devices`: approve, reject and remove devices that connect to this gateway."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from openclaw.cli.render import JSON, ago, say, show, table
from openclaw.core.errors import NotFound
from openclaw.core.text import strip_unprintable
from openclaw.gateway.client_target import find_gateway
from openclaw.gateway.running import call_gateway
from openclaw.process.environment import Environment


@click.group("devices")
def devices_command() -> None:
    """Browsers, terminals and programs that may come in: approve, reject, remove."""


@devices_command.command("list")
@JSON
def list_devices(as_json: bool) -> None:
    """Who waits to be let in, and who is."""
    found = _ask("device.pair.list")
    show(found, _tables(found["pending"], found["paired"]), as_json)


def _tables(waiting: list[dict[str, Any]], paired: list[dict[str, Any]]) -> Iterator[str]:
    if waiting:
        rows = [(each["requestId"], _who(each), each.get("remoteIp") or "", _scopes(each)) for each in waiting]
        yield table(rows, ("waits", "device", "from", "asks for"))
        yield "Let one in: openclaw devices approve REQUEST\n"
    if paired:
        now = time.time()
        rows = [(each["deviceId"][:16], _who(each), ago(_approved_at(each), now), _scopes(each)) for each in paired]
        yield table(rows, ("device", "name", "approved", "may"))
    if not waiting and not paired:
        yield "No device has come yet. `openclaw dashboard` lets a browser in; `openclaw tui --url URL` asks for it."


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
    made = _ask("device.pair.setupCode", **params, **({"bootstrapProfile": profile} if profile != "full" else {}))
    show(made, made["setupCode"], as_json)
    if not as_json:
        click.echo(f"for {made['gatewayUrl']}; good once, for ten minutes. Whoever has it is let in.", err=True)


@devices_command.command("approve")
@click.argument("request_id", metavar="REQUEST", required=False)
@JSON
def approve(request_id: str | None, as_json: bool) -> None:
    """Let in the device behind REQUEST (or the start of it); the only one that waits, when none is named."""
    request = _waiting(request_id)
    answer = _ask("device.pair.approve", requestId=request["requestId"])
    show(answer, f"{_who(request)} may come in: {_scopes(request)}", as_json)


@devices_command.command("reject")
@click.argument("request_id", metavar="REQUEST")
def reject(request_id: str) -> None:
    """Send the device behind REQUEST away; it may ask again."""
    request = _waiting(request_id)
    _ask("device.pair.reject", requestId=request["requestId"])
    say(f"{_who(request)} was not let in")


@devices_command.command("remove")
@click.argument("device_id", metavar="DEVICE")
def remove(device_id: str) -> None:
    """Take access away from DEVICE (its id, or the start of it); it must be approved again to come back."""
    paired = [each for each in _ask("device.pair.list")["paired"] if each["deviceId"].startswith(device_id)]
    if len(paired) != 1:
        raise NotFound(f"{device_id!r} fits {len(paired)} devices: see openclaw devices list")
    _ask("device.pair.remove", deviceId=paired[0]["deviceId"])
    say(f"{_who(paired[0])} has no access any more")


def _waiting(wanted: str | None) -> Mapping[str, Any]:
    """The request that `wanted` names."""
    pending = _ask("device.pair.list")["pending"]
    found = [each for each in pending if each["requestId"].startswith(wanted or "")]
    if len(found) == 1:
        return dict(found[0])
    if not pending:
        raise NotFound("no device waits: let it connect first, then approve it")
    raise NotFound(f"{len(found)} requests fit: name one of {', '.join(each['requestId'] for each in pending)}")


def _ask(method: str, **params: Any) -> Any:
    return call_gateway(find_gateway(Environment.of_process()), method, params, timeout=30.0)


def _who(each: Mapping[str, Any]) -> str:
    name = each.get("label") or each.get("displayName") or each.get("clientId") or each.get("deviceId")
    return strip_unprintable(" ".join(f"{name} ({each.get('platform') or 'unknown'})".split()))


def _scopes(each: Mapping[str, Any]) -> str:
    scopes = each.get("scopes") or each.get("approvedScopes") or ()
    return ", ".join(str(scope).removeprefix("operator.") for scope in scopes)


def _approved_at(each: Mapping[str, Any]) -> int:
    return int(each.get("approvedAtMs") or each.get("createdAtMs") or 0)
