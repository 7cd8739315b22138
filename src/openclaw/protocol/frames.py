"""The frames of gateway protocol 4: parses bytes into frozen values, or into a problem that says how to answer.

Params and payloads stay raw until someone who knows their type decodes them, so each byte is decoded once.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from openclaw.core.deferred import json
from openclaw.core.text import replace_surrogates
from openclaw.protocol.params import describe

PROTOCOL = 4
MINIMUM_PROBE_PROTOCOL = 3

MAX_BYTES_BEFORE_CONNECT = 65_536
MAX_PAYLOAD_BYTES = 26_214_400
MAX_BUFFERED_BYTES = 52_428_800
MAX_FRAMES_WHILE_CONNECTING = 15
MAX_WAITING_REQUESTS = 256
MAX_WAITING_BYTES = 52_428_800

HANDSHAKE_TIMEOUT_MS = 15_000
TICK_INTERVAL_MS = 30_000

INVALID_REQUEST = "INVALID_REQUEST"
UNAVAILABLE = "UNAVAILABLE"
FORBIDDEN = "FORBIDDEN"
NOT_PAIRED = "NOT_PAIRED"

CLOSE_NORMAL = 1000
CLOSE_PROTOCOL = 1002
CLOSE_POLICY = 1008
CLOSE_TOO_BIG = 1009
CLOSE_INTERNAL = 1011
CLOSE_NOT_READY = 1013
CLOSE_TICK_TIMEOUT = 4000
CLOSE_WITHDRAWN = 4001

MAX_CLOSE_REASON_BYTES = 123
UNKNOWN_ID = "invalid"
"""The id of an answer to a frame without an id."""

Id = Annotated[str, Meta(min_length=1)]


class ErrorShape(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Why a request failed; `details["code"]` is the machine-readable reason."""

    code: str
    message: str
    details: Any = None
    retryable: bool | None = None
    retry_after_ms: int | None = None


class RequestFrame(
    Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="req",
):
    """A client's request; `params` is still JSON text, empty when there are none."""

    id: Id
    method: Annotated[str, Meta(min_length=1)]
    params: Raw = Raw()
    traceparent: Annotated[str, Meta(max_length=128)] | UnsetType = UNSET
    expected_profile_id: Annotated[str, Meta(min_length=1, max_length=128)] | UnsetType = UNSET


class Response(Struct, frozen=True, kw_only=True, tag_field="type", tag="res"):
    """An answer; one request may get several."""

    id: str
    ok: bool
    payload: Any = UNSET
    error: ErrorShape | UnsetType = UNSET


class StateVersion(Struct, frozen=True):
    presence: int
    health: int


class EventFrame(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="event"):
    """An event from the gateway; `seq` counts the broadcasts of one connection."""

    event: str
    payload: Any = UNSET
    seq: int | UnsetType = UNSET
    state_version: StateVersion | UnsetType = UNSET
    recipient_profile_id: str | UnsetType = UNSET


class NotJson(Struct, frozen=True):
    """Text that is not JSON: it cannot be answered."""


class NotARequest(Struct, frozen=True):
    """JSON, but not a request: answered under its own id if it has one."""

    id: str
    message: str

    def answer(self) -> Response:
        return failure(self.id, ErrorShape(code=INVALID_REQUEST, message=self.message))


# A union, because decoding a single type would accept a frame without `type`.
_request = msgspec.json.Decoder(RequestFrame | Response)
_syntax = msgspec.json.Decoder(Raw)
_from_server = msgspec.json.Decoder(Response | EventFrame)


encode = msgspec.json.Encoder().encode
"""Encodes a frame, or the params and payload of one."""


def parse_request(data: bytes | str) -> RequestFrame | NotJson | NotARequest:
    """Parses one frame from a client. Never raises."""
    try:
        try:
            frame = _request.decode(data)
        except msgspec.ValidationError as error:
            _syntax.decode(data)  # The type error may precede a syntax error.
            return NotARequest(_own_id(data), f"invalid request frame: {describe(str(error))}")
    except (msgspec.DecodeError, UnicodeError):
        mended = _mended(data)
        return NotJson() if mended is None else parse_request(mended)
    except RecursionError:
        return NotARequest(UNKNOWN_ID, "invalid request frame: nested too deeply")
    if isinstance(frame, RequestFrame):
        return frame
    return NotARequest(frame.id or UNKNOWN_ID, "invalid request frame: at /type: must be req")


def parse_from_server(data: bytes | str) -> Response | EventFrame | None:
    """Parses one frame from a gateway and decodes its payload; None for anything else."""
    try:
        frame: Response | EventFrame = _from_server.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return frame


def failure(request_id: str, error: ErrorShape, payload: Any = UNSET) -> Response:
    return Response(id=request_id, ok=False, error=error, payload=payload)


def size(data: bytes | str) -> int:
    """The length of a text message in bytes."""
    return len(data) if isinstance(data, bytes) or data.isascii() else len(data.encode("utf-8", "replace"))


def close_reason(message: str) -> str:
    """`message` truncated to what a close frame can carry, never inside a character."""
    return message.encode("utf-8", "replace")[:MAX_CLOSE_REASON_BYTES].decode("utf-8", "ignore")


class _HasId(Struct):
    id: Any = None


_has_id = msgspec.json.Decoder(_HasId)


def _own_id(data: bytes | str) -> str:
    try:
        found = _has_id.decode(data).id
    except msgspec.ValidationError:
        return UNKNOWN_ID
    return found if isinstance(found, str) and found else UNKNOWN_ID


def _mended(data: bytes | str) -> str | None:
    """The same JSON without lone surrogates, which clients produce that cut a string inside an emoji."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if "\\ud" not in text and "\\uD" not in text:
        return None
    try:
        value = json.loads(text)
        mended = replace_surrogates(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return None
    return mended if mended != text else None
