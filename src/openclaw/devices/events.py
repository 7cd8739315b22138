"""Events about devices: published when one asks to be paired, and when a setup code was used."""

from typing import Any

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import NotFound
from openclaw.devices.pairing import REQUESTED, SET_UP, DevicePairing, PendingRequest
from openclaw.protocol.events import EventBus
from openclaw.storage.database import Database


async def publish_requests(db: Database, pairing: DevicePairing, bus: EventBus, clock: Clock) -> None:
    """Publishes an event for each new pairing request, until cancelled."""
    async with db.listen(REQUESTED) as news:
        async for request_id in news:
            try:
                request = await pairing.waiting(request_id, millis(clock))
            except NotFound:
                continue  # already approved or expired
            bus.publish("device.pair.requested", request_to_json(request))


async def publish_setups(db: Database, bus: EventBus, clock: Clock) -> None:
    """Publishes an event for each used setup code, until cancelled."""
    async with db.listen(SET_UP) as news:
        async for told in news:
            setup_id, _, device_id = told.partition(" ")
            payload = {"setupId": setup_id, "deviceId": device_id, "ts": millis(clock)}
            bus.publish("device.pair.setup.completed", payload)


def request_to_json(request: PendingRequest) -> dict[str, Any]:
    claim = request.claim
    return {
        "requestId": request.request_id,
        "deviceId": claim.device_id,
        "role": claim.role,
        "scopes": list(claim.scopes),
        "platform": claim.platform,
        "clientId": claim.client_id,
        "clientMode": claim.client_mode,
        "displayName": claim.display_name,
        "remoteIp": claim.remote_ip,
    }
