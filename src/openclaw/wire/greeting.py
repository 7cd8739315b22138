"""The client's half of the handshake, without a socket: from a challenge to the `connect` that answers it. Pure."""

from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret
from openclaw.wire.frames import PROTOCOL, EventFrame, RequestFrame, raw
from openclaw.wire.params.connect import ClientId, ClientMode, ConnectAuth, ConnectClient, ConnectDevice, ConnectParams
from openclaw.wire.proof import Version, signed_fields
from openclaw.wire.scopes import Role


class Signer(Protocol):
    """A device identity: its id, its public key as base64url, and signatures in the same form."""

    @property
    def device_id(self) -> str: ...

    @property
    def public_key(self) -> str: ...

    def sign(self, text: str) -> str: ...


class Introduction(Struct, frozen=True, kw_only=True):
    """Who a client is and what it asks for."""

    client_id: ClientId = "cli"
    mode: ClientMode = "cli"
    version: str
    platform: str
    role: Role = "operator"
    scopes: tuple[str, ...] = ()
    caps: tuple[str, ...] = ()
    token: Secret | None = None
    password: Secret | None = None
    device_token: Secret | None = None
    setup_code: Secret | None = None
    device_family: str | None = None
    display_name: str | None = None
    instance_id: str | None = None
    min_protocol: int = PROTOCOL
    max_protocol: int = PROTOCOL


class Challenge(Struct, frozen=True):
    nonce: str
    ts: int


def read_challenge(event: EventFrame) -> Challenge:
    """The challenge in the first event; one without a nonce is no gateway of ours."""
    payload: Any = event.payload
    nonce = payload.get("nonce") if isinstance(payload, dict) else None
    ts = payload.get("ts") if isinstance(payload, dict) else None
    if event.event != "connect.challenge" or not isinstance(nonce, str) or not nonce.strip():
        raise InvalidRequest("the gateway sent no challenge: is this really an OpenClaw gateway?")
    if not isinstance(ts, int) or isinstance(ts, bool) or ts < 0:
        raise InvalidRequest("the gateway's challenge has no valid time")
    return Challenge(nonce, ts)


def connect_request(
    introduction: Introduction,
    challenge: Challenge,
    request_id: str,
    signer: Signer | None = None,
    version: Version = "v3",
) -> RequestFrame:
    """The `connect` request, signed when there is an identity to sign with."""
    params = _params(introduction)
    if signer is not None:
        fields = signed_fields(params, signer.device_id, challenge.ts, challenge.nonce)
        device = ConnectDevice(
            id=signer.device_id,
            public_key=signer.public_key,
            signature=signer.sign(fields.text(version)),
            signed_at=challenge.ts,
            nonce=challenge.nonce,
        )
        params = replace(params, device=device)
    return RequestFrame(id=request_id, method="connect", params=raw(params))


def _params(who: Introduction) -> ConnectParams:
    auth = None
    if who.token or who.password or who.device_token or who.setup_code:
        auth = ConnectAuth(
            token=_text(who.token),
            password=_text(who.password),
            device_token=_text(who.device_token),
            bootstrap_token=_text(who.setup_code),
        )
    client = ConnectClient(
        id=who.client_id,
        version=who.version,
        platform=who.platform,
        mode=who.mode,
        display_name=who.display_name,
        device_family=who.device_family,
        instance_id=who.instance_id,
    )
    return ConnectParams(
        min_protocol=who.min_protocol,
        max_protocol=who.max_protocol,
        client=client,
        role=who.role,
        scopes=who.scopes,
        caps=who.caps or None,
        auth=auth,
    )


def _text(secret: Secret | None) -> str | None:
    return secret.reveal() if secret else None
