"""`device.*`: which devices may connect."""

from typing import Any

import msgspec

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import NotFound
from openclaw.devices.pairing import REQUESTED, PairedDevice, Pairing, PendingRequest
from openclaw.gateway.audience import Audience
from openclaw.gateway.bus import Bus
from openclaw.store.db import Database
from openclaw.wire.caller import Caller
from openclaw.wire.connection import DeviceRemoved, TokenWithdrawn
from openclaw.wire.params.devices import (
    DevicePairApproveParams,
    DevicePairRejectParams,
    DevicePairRemoveParams,
    DevicePairRenameParams,
    DeviceTokenRevokeParams,
    DeviceTokenRotateParams,
)
from openclaw.wire.params.kinds import NoParams
from openclaw.wire.rpc import Method, refusal
from openclaw.wire.scopes import PAIRING, covers, missing_scope


def methods(pairing: Pairing, audience: Audience, bus: Bus, clock: Clock) -> list[Method]:
    async def listed(params: NoParams, caller: Caller) -> Any:
        pending = [_pending(request) for request in await pairing.pending(millis(clock))]
        paired = [
            {**_shown(device), "connected": audience.is_connected(device.device_id)}
            for device in await pairing.paired()
        ]
        return {"pending": pending, "paired": paired}

    async def approve(params: DevicePairApproveParams, caller: Caller) -> Any:
        request = await pairing.waiting(params.request_id, millis(clock))
        # Nobody gives away more than they hold. What stands under a request id never changes, so this cannot be raced.
        if not covers(caller.scopes, request.claim.scopes):
            raise refusal(missing_scope(next(scope for scope in request.claim.scopes if not caller.may(scope))))
        device = await pairing.approve(params.request_id, millis(clock))
        _resolved(bus, params.request_id, device.device_id, "approved", millis(clock))
        return {"ok": True, "requestId": params.request_id, "device": _shown(device)}

    async def reject(params: DevicePairRejectParams, caller: Caller) -> Any:
        request = await pairing.reject(params.request_id, millis(clock))
        _resolved(bus, params.request_id, request.claim.device_id, "rejected", millis(clock))
        return {"ok": True, "requestId": params.request_id}

    async def remove(params: DevicePairRemoveParams, caller: Caller) -> Any:
        await pairing.remove(params.device_id)
        closed = audience.withdraw(DeviceRemoved(params.device_id))
        return {"ok": True, "deviceId": params.device_id, "closed": closed}

    async def rename(params: DevicePairRenameParams, caller: Caller) -> Any:
        return {"ok": True, "device": _shown(await pairing.rename(params.device_id, params.label))}

    async def rotate(params: DeviceTokenRotateParams, caller: Caller) -> Any:
        token = await pairing.rotate(params.device_id, params.role, params.scopes, millis(clock))
        audience.withdraw(TokenWithdrawn(params.device_id, params.role))
        return {
            "ok": True,
            "deviceId": params.device_id,
            "role": params.role,
            "token": token.token.reveal(),
            "issuedAtMs": token.issued_at_ms,
        }

    async def revoke(params: DeviceTokenRevokeParams, caller: Caller) -> Any:
        await pairing.revoke(params.device_id, params.role)
        audience.withdraw(TokenWithdrawn(params.device_id, params.role))
        return {"ok": True, "deviceId": params.device_id, "role": params.role}

    return [
        Method("device.pair.list", NoParams, listed, PAIRING),
        Method("device.pair.approve", DevicePairApproveParams, approve, PAIRING),
        Method("device.pair.reject", DevicePairRejectParams, reject, PAIRING),
        Method("device.pair.remove", DevicePairRemoveParams, remove, PAIRING),
        Method("device.pair.rename", DevicePairRenameParams, rename, PAIRING),
        Method("device.token.rotate", DeviceTokenRotateParams, rotate, PAIRING),
        Method("device.token.revoke", DeviceTokenRevokeParams, revoke, PAIRING),
    ]


async def tell_requests(db: Database, pairing: Pairing, bus: Bus, clock: Clock) -> None:
    """Tells those who may approve that a device waits; ends when it is cancelled."""
    async with db.listen(REQUESTED) as news:
        async for request_id in news:
            try:
                request = await pairing.waiting(request_id, millis(clock))
            except NotFound:
                continue  # approved or expired in the meantime
            bus.publish("device.pair.requested", _pending(request))


def _resolved(bus: Bus, request_id: str, device_id: str, decision: str, now: int) -> None:
    payload = {"requestId": request_id, "deviceId": device_id, "decision": decision, "ts": now}
    bus.publish("device.pair.resolved", payload)


def _pending(request: PendingRequest) -> dict[str, Any]:
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


def _shown(device: PairedDevice) -> dict[str, Any]:
    """A device as lists show it; its tokens only by what they are good for."""
    shown: dict[str, Any] = msgspec.to_builtins(device)
    return {_camel(name): value for name, value in shown.items()}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
