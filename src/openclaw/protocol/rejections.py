"""All rejections of a handshake: the error the client reads and the close code that follows. Pure."""

from typing import Any

from openclaw.protocol import frames
from openclaw.protocol.auth import CODES, DeviceClaim, DeviceState, Mode, PairingReason, Reason, secret_kind
from openclaw.protocol.connect import ConnectParams
from openclaw.protocol.frames import INVALID_REQUEST, NOT_PAIRED, ErrorShape

CONNECT_FIRST = "invalid handshake: first request must be connect"
STARTUP_RETRY_MS = 500

_PAIRING = {
    "not-paired": ("device is not approved yet", "Approve this device: openclaw devices approve"),
    "role-upgrade": ("device asks for a new role", "Approve the new role: openclaw devices approve"),
    "scope-upgrade": ("device asks for more scopes", "Approve the wider scopes: openclaw devices approve"),
    "metadata-upgrade": ("device details changed", "Approve the changed device: openclaw devices approve"),
}


class Rejected(Exception):
    """An error answer to `connect`, and the close code that follows it."""

    def __init__(self, error: ErrorShape, close: int = frames.CLOSE_POLICY) -> None:
        super().__init__(error.code)
        self.error = error
        self.close = close


def invalid(message: str, **details: Any) -> Rejected:
    return Rejected(ErrorShape(code=INVALID_REQUEST, message=message, details=details or None))


def starting() -> Rejected:
    error = ErrorShape(
        code=frames.UNAVAILABLE,
        message="gateway starting; retry shortly",
        details={"reason": "startup-sidecars"},
        retryable=True,
        retry_after_ms=STARTUP_RETRY_MS,
    )
    return Rejected(error, frames.CLOSE_NOT_READY)


def protocol_mismatch(params: ConnectParams) -> Rejected:
    details = {
        "code": "PROTOCOL_MISMATCH",
        "clientMinProtocol": params.min_protocol,
        "clientMaxProtocol": params.max_protocol,
        "expectedProtocol": frames.PROTOCOL,
        "minimumProbeProtocol": frames.MINIMUM_PROBE_PROTOCOL,
    }
    error = ErrorShape(code=INVALID_REQUEST, message="protocol mismatch", details=details)
    return Rejected(error, frames.CLOSE_PROTOCOL)


def origin(reason: str) -> Rejected:
    return invalid(
        "origin not allowed: open the page from the gateway itself or add it to gateway.controlUi.allowedOrigins",
        code="CONTROL_UI_ORIGIN_NOT_ALLOWED",
        reason=reason,
    )


def rate_limited(retry_after_ms: int) -> Rejected:
    error = ErrorShape(
        code=INVALID_REQUEST,
        message="unauthorized: too many failed attempts; wait and retry",
        details={"code": "AUTH_RATE_LIMITED", "authReason": "rate_limited"},
        retryable=True,
        retry_after_ms=retry_after_ms,
    )
    return Rejected(error)


def _unauthorized(message: str, code: str, reason: str, next_step: str, *, retry: bool = False) -> Rejected:
    return invalid(
        f"unauthorized: {message}",
        code=code,
        authReason=reason,
        canRetryWithDeviceToken=retry,
        recommendedNextStep=next_step,
    )


def not_vouched(reason: str) -> Rejected:
    return _unauthorized(
        f"no trusted proxy vouches for this connection ({reason}); check gateway.trustedProxies and"
        " gateway.auth.trustedProxy",
        "AUTH_UNAUTHORIZED",
        reason,
        "update_auth_configuration",
    )


def wrong_secret(mode: Mode, has_device: bool) -> Rejected:
    kind = secret_kind(mode)
    retry = has_device and kind == "token"
    message = f"gateway {kind} mismatch; check gateway.auth.{kind}"
    step = "retry_with_device_token" if retry else "update_auth_credentials"
    return _unauthorized(message, f"AUTH_{kind.upper()}_MISMATCH", f"{kind}_mismatch", step, retry=retry)


def missing_secret(mode: Mode) -> Rejected:
    kind = secret_kind(mode)
    message = f"gateway {kind} missing; send the value of gateway.auth.{kind}"
    return _unauthorized(message, f"AUTH_{kind.upper()}_MISSING", f"{kind}_missing", "update_auth_configuration")


def device_required() -> Rejected:
    details = {"code": "DEVICE_IDENTITY_REQUIRED"}
    return Rejected(ErrorShape(code=NOT_PAIRED, message="device identity required", details=details))


def control_ui_device_required() -> Rejected:
    return invalid(
        "control ui needs a device identity: open it over https or on localhost",
        code="CONTROL_UI_DEVICE_IDENTITY_REQUIRED",
    )


def bad_proof(reason: Reason) -> Rejected:
    return invalid(f"device proof refused: {reason}", code=CODES[reason], reason=reason)


def wrong_device_token() -> Rejected:
    message = "device token mismatch; pair this device again or rotate its token"
    return _unauthorized(message, "AUTH_DEVICE_TOKEN_MISMATCH", "device_token_mismatch", "update_auth_credentials")


def narrow_device_token() -> Rejected:
    message = "the device token does not carry the scopes asked for"
    return _unauthorized(message, "AUTH_SCOPE_MISMATCH", "scope_mismatch", "update_auth_credentials")


def narrow_setup_code() -> Rejected:
    return invalid(
        "this setup code is for less than the device asks for; make another one, or ask for less",
        code="AUTH_SCOPE_MISMATCH",
        authReason="scope_mismatch",
    )


def wrong_setup_code() -> Rejected:
    message = "the setup code is not valid; make a new one"
    return _unauthorized(message, "AUTH_BOOTSTRAP_TOKEN_INVALID", "bootstrap_token_invalid", "update_auth_credentials")


def pairing_required(reason: PairingReason, request_id: str, claim: DeviceClaim, known: DeviceState | None) -> Rejected:
    what, hint = _PAIRING[reason]
    details: dict[str, Any] = {
        "code": "PAIRING_REQUIRED",
        "reason": reason,
        "requestId": request_id,
        "remediationHint": f"{hint} {request_id}",
        "deviceId": claim.device_id,
        "requestedRole": claim.role,
        "requestedScopes": list(claim.scopes),
        "recommendedNextStep": "wait_then_retry",
        "retryable": True,
        "pauseReconnect": False,
    }
    if known is not None:
        details |= {"approvedRoles": list(known.roles), "approvedScopes": list(known.scopes)}
    message = f"pairing required: {what} (requestId: {request_id})"
    return Rejected(ErrorShape(code=NOT_PAIRED, message=message, details=details))
