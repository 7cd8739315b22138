"""The client's side of the handshake: who it is, the `connect` request, and how a call can fail.

Apart from `client`, because `sync_client` needs it too and does without asyncio.
"""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.secret import Secret
from openclaw.protocol import frames
from openclaw.protocol.connect import (
    ClientId,
    ClientMode,
    ConnectAuth,
    ConnectClient,
    ConnectDevice,
    ConnectParams,
    Version,
    signed_text,
)
from openclaw.protocol.frames import ErrorShape, EventFrame, RequestFrame, Response, encode
from openclaw.protocol.scopes import Role

CALL_TIMEOUT = 30.0


class Signer(Protocol):
    """A device identity: its id, its public key as base64url, and signatures in the same form."""

    @property
    def device_id(self) -> str: ...

    @property
    def public_key(self) -> str: ...

    def sign(self, text: str) -> str: ...


class ConnectOptions(Struct, frozen=True, kw_only=True):
    """The identity of a client and what it requests."""

    client_id: ClientId = "cli"
    mode: ClientMode = "cli"
    version: str
    platform: str
    role: Role = "operator"
    scopes: tuple[str, ...] = ()
    caps: tuple[str, ...] = ()
    token: Secret | None = None
    prove: Callable[[str], Secret] | None = None
    """Makes the token of the challenge's nonce, so that no secret is sent."""
    password: Secret | None = None
    device_token: Secret | None = None
    setup_code: Secret | None = None
    device_family: str | None = None
    display_name: str | None = None
    instance_id: str | None = None
    min_protocol: int = frames.PROTOCOL
    max_protocol: int = frames.PROTOCOL


class Challenge(Struct, frozen=True):
    nonce: str
    ts: int


def read_challenge(event: EventFrame) -> Challenge:
    """The challenge in the first event; raises when it has no nonce."""
    payload: Any = event.payload
    nonce = payload.get("nonce") if isinstance(payload, dict) else None
    ts = payload.get("ts") if isinstance(payload, dict) else None
    if event.event != "connect.challenge" or not isinstance(nonce, str) or not nonce.strip():
        raise InvalidRequest("the gateway sent no challenge: is this really an OpenClaw gateway?")
    if not isinstance(ts, int) or isinstance(ts, bool) or ts < 0:
        raise InvalidRequest("the gateway's challenge has no valid time")
    return Challenge(nonce, ts)


def connect_request(
    introduction: ConnectOptions,
    challenge: Challenge,
    request_id: str,
    signer: Signer | None = None,
    version: Version = "v3",
) -> RequestFrame:
    """The `connect` request, signed when there is a signer."""
    if introduction.prove is not None:
        introduction = replace(introduction, token=introduction.prove(challenge.nonce))
    params = _params(introduction)
    if signer is not None:
        device = ConnectDevice(
            id=signer.device_id,
            public_key=signer.public_key,
            signature=signer.sign(signed_text(params, signer.device_id, challenge.ts, challenge.nonce, version)),
            signed_at=challenge.ts,
            nonce=challenge.nonce,
        )
        params = replace(params, device=device)
    return RequestFrame(id=request_id, method="connect", params=Raw(encode(params)))


def _params(who: ConnectOptions) -> ConnectParams:
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


# How a call fails.


class CallFailed(OpenClawError):
    """The gateway answered with an error; `error` is the whole error, `payload` what came with it."""

    def __init__(self, error: ErrorShape, payload: Any = None) -> None:
        super().__init__(error.message)
        self.code = error.code
        self.error = error
        self.payload = payload

    @property
    def reason(self) -> str:
        """The machine-readable reason `details.code`, or an empty string."""
        details = self.error.details
        found = details.get("code") if isinstance(details, dict) else None
        return found if isinstance(found, str) else ""


class ConnectionLost(OpenClawError):
    """The connection is lost; `close_code` is the gateway's, if it sent one."""

    code = "UNAVAILABLE"

    def __init__(self, message: str, *, close_code: int | None = None) -> None:
        super().__init__(message)
        self.close_code = close_code


class CallTimeout(OpenClawError):
    """The gateway did not answer in time."""

    code = "UNAVAILABLE"


def call_failed(response: Response) -> CallFailed:
    error = response.error if isinstance(response.error, ErrorShape) else ErrorShape(code="UNAVAILABLE", message="?")
    return CallFailed(error, None if response.payload is UNSET else response.payload)
