"""A client after its handshake: filters and numbers its events, and decides when to close it. It holds no socket."""

from typing import Any, Protocol

from msgspec import Struct

from openclaw.protocol import frames
from openclaw.protocol.auth import AuthMethod, DeviceToken, SetupTokens
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures, hello_ok
from openclaw.protocol.events import BusEvent
from openclaw.protocol.frames import INVALID_REQUEST, ErrorShape, RequestFrame, Response, encode, failure
from openclaw.protocol.rpc import Caller
from openclaw.protocol.scopes import ADMIN, is_wrong_role, receivable_events

# Actions for whoever holds the socket.


class Send(Struct, frozen=True):
    """Send these bytes as one text message."""

    data: bytes


class Close(Struct, frozen=True):
    """Close the socket, after everything sent before."""

    code: int
    reason: str = ""


SLOW = Close(frames.CLOSE_POLICY, "slow consumer")


class Disconnected(Exception):
    """The other side is gone; nothing more can be sent."""

    def __init__(self, code: int = 1006, reason: str = "") -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code = code
        self.reason = reason


MAX_ROLE_ERRORS = 10
TOOL_EVENTS = "tool-events"
_OF_TOOLS = frozenset({"tool", "command_output"})
_PER_SESSION = frozenset(("session.message", "session.tool", "session.approval"))


# Withdrawn access.


class DeviceRemoved(Struct, frozen=True):
    device_id: str


class TokenRevoked(Struct, frozen=True):
    """A device's token for one role was rotated or revoked."""

    device_id: str
    role: str


class GatewayAuthChanged(Struct, frozen=True):
    """The shared secret or the auth mode changed."""


AccessChange = DeviceRemoved | TokenRevoked | GatewayAuthChanged


class Withdraws(Protocol):
    """The connections of a gateway, as far as a change of authority concerns them."""

    def is_connected(self, device_id: str) -> bool: ...

    def withdraw(self, change: AccessChange) -> int:
        """Ends the connections that `change` concerns; gives how many."""
        ...


# The connection.


class Connection:
    """One client, from hello to close."""

    def __init__(
        self, caller: Caller, method: AuthMethod, issued: DeviceToken | None = None, set_up: SetupTokens | None = None
    ) -> None:
        self.caller = caller
        self.method = method
        self.seq = 0
        self.dropped = 0
        self.follows_sessions = False
        """Set by `sessions.subscribe`: receives `sessions.changed`, and `session.message` of every session."""
        self.followed: set[str] = set()
        """Session keys of `sessions.messages.subscribe`."""
        self._audible = receivable_events(caller.scopes)
        self._issued = issued
        self._set_up = set_up
        self._role_errors = 0

    def hello(self, request_id: str, offer: ServerFeatures, snapshot: HelloSnapshot) -> Send:
        """The answer to `connect`; a new device token is sent here only."""
        auth: dict[str, Any] = {"role": self.caller.role, "scopes": list(self.caller.scopes), "method": self.method}
        if self._issued is not None:
            auth |= {"deviceToken": self._issued.token.reveal(), "issuedAtMs": self._issued.issued_at_ms}
            self._issued = None
        if self._set_up is not None:
            auth["deviceTokens"] = [
                {
                    "deviceToken": token.token.reveal(),
                    "role": grant.role,
                    "scopes": list(grant.scopes),
                    "issuedAtMs": token.issued_at_ms,
                }
                for grant, token in self._set_up.tokens
            ]
            self._set_up = None
        payload = hello_ok(offer, snapshot, self.caller.conn_id, auth, self.caller.may(ADMIN))
        return Send(encode(Response(id=request_id, ok=True, payload=payload)))

    def receive(self, data: bytes | str) -> RequestFrame | Send | Close | None:
        """The request in one frame, or the answer to a bad one; None for text that cannot be answered."""
        # A character takes at most four bytes, so the size of a short message need not be counted.
        if 4 * len(data) > frames.MAX_PAYLOAD_BYTES and frames.size(data) > frames.MAX_PAYLOAD_BYTES:
            return Close(frames.CLOSE_TOO_BIG)
        match frames.parse_request(data):
            case RequestFrame(method="connect") as request:
                error = ErrorShape(code=INVALID_REQUEST, message="connect is only valid as the first request")
                return Send(encode(failure(request.id, error)))
            case RequestFrame() as request:
                return request
            case frames.NotARequest() as problem:
                return Send(encode(problem.answer()))
            case frames.NotJson():
                return None

    def answer(self, response: Response, buffered: int) -> tuple[Send | Close, ...]:
        """Sends an answer; closes the connection of a client that keeps using the wrong role, or does not read."""
        if buffered > frames.MAX_BUFFERED_BYTES:
            return (SLOW,)
        sent = Send(encode(response))
        if response.ok or not is_wrong_role(response.error):
            self._role_errors = 0
            return (sent,)
        self._role_errors += 1
        if self._role_errors <= MAX_ROLE_ERRORS:
            return (sent,)
        return sent, Close(frames.CLOSE_POLICY, "repeated unauthorized role")

    def hear(self, news: BusEvent, buffered: int) -> Send | Close | None:
        """Numbers and sends `news` if this client may receive it and subscribed to it.

        `buffered` is what the socket still holds; an event that is dropped because of it uses up its number.
        """
        event = news.event
        if event not in self._audible:
            return None
        if event == "agent":
            wanted = news.payload.get("stream") not in _OF_TOOLS or TOOL_EVENTS in self.caller.caps
        elif event == "sessions.changed":
            wanted = self.follows_sessions
        elif event in _PER_SESSION:
            everywhere = self.follows_sessions and event == "session.message"
            wanted = everywhere or news.session_key in self.followed
        else:
            wanted = True
        if not wanted:
            return None
        self.seq += 1
        if buffered > frames.MAX_BUFFERED_BYTES:
            if not news.droppable:
                return SLOW
            self.dropped += 1
            return None
        return Send(news.numbered(self.seq))

    def withdrawn(self, change: AccessChange) -> Close | None:
        """The close that `change` requires for this connection; None when it is not affected."""
        match change:
            case DeviceRemoved(device_id) if device_id == self.caller.device_id:
                return Close(frames.CLOSE_WITHDRAWN, "device removed")
            case TokenRevoked(device_id, role) if (device_id, role) == (self.caller.device_id, self.caller.role):
                return Close(frames.CLOSE_WITHDRAWN, "device token withdrawn")
            case GatewayAuthChanged() if self.method not in ("device-token", "bootstrap-token"):
                return Close(frames.CLOSE_WITHDRAWN, "gateway auth changed")
        return None
