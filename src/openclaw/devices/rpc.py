"""RPC methods `device.*`: setup codes, pairing requests, devices and tokens."""

import base64
from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest
from openclaw.devices.events import request_to_json
from openclaw.devices.pairing import DevicePairing
from openclaw.protocol.connection import DeviceRemoved, TokenRevoked, Withdraws
from openclaw.protocol.events import EventBus
from openclaw.protocol.params import NonEmpty, NoParams, Params
from openclaw.protocol.rpc import Caller, RpcMethod, refusal
from openclaw.protocol.scopes import ADMIN, PAIRING, covers, missing_scope


class DevicePairApproveParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.approve`."""

    request_id: NonEmpty


class DevicePairSetupCodeParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.setupCode`."""

    public_url: NonEmpty | None = None
    prefer_remote_url: bool | None = None
    include_qr: bool | None = None
    bootstrap_profile: Literal["limited", "node", "voice-node"] | None = None
    join_url: Literal[True] | None = None


class DevicePairSetupStatusParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.setupStatus`."""

    setup_id: Annotated[str, Meta(min_length=1, max_length=128)]


class DevicePairRejectParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.reject`."""

    request_id: NonEmpty


class DevicePairRemoveParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.remove`."""

    device_id: NonEmpty


class DevicePairRenameParams(Params, frozen=True, kw_only=True):
    """Params of `device.pair.rename`."""

    device_id: NonEmpty
    label: Annotated[str, Meta(min_length=1, max_length=64)]


class DeviceTokenRotateParams(Params, frozen=True, kw_only=True):
    """Params of `device.token.rotate`."""

    device_id: NonEmpty
    role: NonEmpty
    scopes: tuple[NonEmpty, ...] | None = None


class DeviceTokenRevokeParams(Params, frozen=True, kw_only=True):
    """Params of `device.token.revoke`."""

    device_id: NonEmpty
    role: NonEmpty


def devices_methods(
    pairing: DevicePairing, connections: Withdraws, bus: EventBus, clock: Clock, outside: Callable[[], str]
) -> list[RpcMethod]:
    """The methods; `outside` gives the gateway's address for other machines, empty when they cannot reach it."""

    async def setup_code(params: DevicePairSetupCodeParams, caller: Caller) -> Any:
        url = public_url(params.public_url) if params.public_url else outside()
        if not url:
            raise InvalidRequest(
                "this gateway listens on its own machine only, so no other device can reach it: set gateway.bind, or"
                " give publicUrl (--url), the address under which a proxy or tunnel offers it"
            )
        made = pairing.codes.make(params.bootstrap_profile or "full", millis(clock))
        sheet = msgspec.json.encode({"url": url, "bootstrapToken": made.token.reveal()})
        return {
            "setupId": made.setup_id,
            "setupCode": base64.urlsafe_b64encode(sheet).decode().rstrip("="),
            "gatewayUrl": url,
            "urlSource": "publicUrl" if params.public_url else "bind",
            "expiresAtMs": made.expires_at_ms,
        }

    async def setup_status(params: DevicePairSetupStatusParams, caller: Caller) -> Any:
        status, device_id = pairing.codes.status(params.setup_id, millis(clock))
        return {"setupId": params.setup_id, "status": status, **({"deviceId": device_id} if device_id else {})}

    async def listed(params: NoParams, caller: Caller) -> Any:
        pending = [request_to_json(request) for request in await pairing.pending(millis(clock))]
        paired = [
            {**msgspec.to_builtins(device), "connected": connections.is_connected(device.device_id)}
            for device in await pairing.paired()
        ]
        return {"pending": pending, "paired": paired}

    async def approve(params: DevicePairApproveParams, caller: Caller) -> Any:
        request = await pairing.waiting(params.request_id, millis(clock))
        # A caller cannot grant more than it has. The request of an id never changes, so this check has no race.
        if not covers(caller.scopes, request.claim.scopes):
            raise refusal(missing_scope(next(scope for scope in request.claim.scopes if not caller.may(scope))))
        device = await pairing.approve(params.request_id, millis(clock))
        _resolved(bus, params.request_id, device.device_id, "approved", millis(clock))
        return {"ok": True, "requestId": params.request_id, "device": device}

    async def reject(params: DevicePairRejectParams, caller: Caller) -> Any:
        request = await pairing.reject(params.request_id, millis(clock))
        _resolved(bus, params.request_id, request.claim.device_id, "rejected", millis(clock))
        return {"ok": True, "requestId": params.request_id}

    async def remove(params: DevicePairRemoveParams, caller: Caller) -> Any:
        await pairing.remove(params.device_id)
        closed = connections.withdraw(DeviceRemoved(params.device_id))
        return {"ok": True, "deviceId": params.device_id, "closed": closed}

    async def rename(params: DevicePairRenameParams, caller: Caller) -> Any:
        return {"ok": True, "device": await pairing.rename(params.device_id, params.label)}

    async def rotate(params: DeviceTokenRotateParams, caller: Caller) -> Any:
        token = await pairing.rotate(params.device_id, params.role, params.scopes, millis(clock))
        connections.withdraw(TokenRevoked(params.device_id, params.role))
        return {
            "ok": True,
            "deviceId": params.device_id,
            "role": params.role,
            "token": token.token.reveal(),
            "issuedAtMs": token.issued_at_ms,
        }

    async def revoke(params: DeviceTokenRevokeParams, caller: Caller) -> Any:
        await pairing.revoke(params.device_id, params.role)
        connections.withdraw(TokenRevoked(params.device_id, params.role))
        return {"ok": True, "deviceId": params.device_id, "role": params.role}

    return [
        RpcMethod("device.pair.list", NoParams, listed, PAIRING),
        RpcMethod("device.pair.approve", DevicePairApproveParams, approve, PAIRING),
        RpcMethod("device.pair.reject", DevicePairRejectParams, reject, PAIRING),
        RpcMethod("device.pair.setupCode", DevicePairSetupCodeParams, setup_code, ADMIN, advertised=False),
        RpcMethod("device.pair.setupStatus", DevicePairSetupStatusParams, setup_status, ADMIN, advertised=False),
        RpcMethod("device.pair.remove", DevicePairRemoveParams, remove, PAIRING),
        RpcMethod("device.pair.rename", DevicePairRenameParams, rename, PAIRING),
        RpcMethod("device.token.rotate", DeviceTokenRotateParams, rotate, PAIRING),
        RpcMethod("device.token.revoke", DeviceTokenRevokeParams, revoke, PAIRING),
    ]


def public_url(given: str) -> str:
    """Normalises an address to a WebSocket URL for a setup code."""
    parts = urlsplit(given.strip())
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.hostname or parts.username or parts.password:
        raise InvalidRequest(f"{given!r} is no address of a gateway: write wss://host, or https://host")
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _resolved(bus: EventBus, request_id: str, device_id: str, decision: str, now: int) -> None:
    payload = {"requestId": request_id, "deviceId": device_id, "decision": decision, "ts": now}
    bus.publish("device.pair.resolved", payload)
