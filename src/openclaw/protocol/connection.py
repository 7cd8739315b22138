"""A client after its handshake: filters and numbers its events, and decides when to close it. It holds no socket.

match connection.receive(data):
    case Request() as request: …            # intake, then rpc.dispatch
    case Send(data) | Close() as action: …  # answer, or end
for action in connection.answer(response, buffered): …
action = connection.hear(broadcast, buffered)   # Send, Close, or None when it is not for this client
"""

from typing import Any, Protocol

from msgspec import Struct

from openclaw.protocol.auth import AuthMethod, DeviceToken, SetupTokens
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures, hello_ok
from openclaw.protocol.frames import (
    CLOSE_POLICY,
    CLOSE_TOO_BIG,
    CLOSE_WITHDRAWN,
    INVALID_REQUEST,
    MAX_BUFFERED_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_WAITING_BYTES,
    MAX_WAITING_REQUESTS,
    UNAVAILABLE,
    ErrorShape,
    EventFrame,
    NotARequest,
    NotJson,
    RequestFrame,
    Response,
    StateVersion,
    close_reason,
    encode,
    failure,
    parse_request,
    size,
    success,
    to_raw_json,
)
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


def make_close(code: int, message: str = "") -> Close:
    return Close(code, close_reason(message))


# Broadcasts.

MAX_ROLE_ERRORS = 10
TOOL_EVENTS = "tool-events"

_DROPPABLE = frozenset(("tick", "health", "presence", "heartbeat", "node.presence", "node.hostStats", "session.typing"))
_PER_SESSION = frozenset(("session.message", "session.tool", "session.approval"))

TOO_MANY = ErrorShape(code=UNAVAILABLE, message="too many requests are waiting; try again", retryable=True)


class Broadcast:
    """One event for all permitted clients. It is encoded once, for the first: only the sequence number differs."""

    __slots__ = ("_head", "_payload", "_tail", "droppable", "event", "session_key", "stream")

    def __init__(
        self,
        event: str,
        payload: Any,
        *,
        droppable: bool,
        session_key: str | None,
        stream: str | None,
        state_version: StateVersion | None,
    ) -> None:
        self.event = event
        self.droppable = droppable
        self.session_key = session_key
        self.stream = stream
        """Of an `agent` event; `tool` goes only to clients that asked for it."""
        self._payload = payload
        self._head = b""
        self._tail = b"}" if state_version is None else b',"stateVersion":%b}' % bytes(to_raw_json(state_version))

    def numbered(self, seq: int) -> bytes:
        """The encoded frame with this sequence number."""
        if not self._head:
            self._head = encode(EventFrame(event=self.event, payload=self._payload))[:-1] + b',"seq":'
        return b"%b%d%b" % (self._head, seq, self._tail)


def broadcast(
    event: str,
    payload: Any,
    *,
    droppable: bool | None = None,
    session_key: str | None = None,
    stream: str | None = None,
    state_version: StateVersion | None = None,
) -> Broadcast:
    """Makes a broadcast. `droppable` means that a slow client may miss it; by default only events that the next one
    supersedes are."""
    return Broadcast(
        event,
        payload,
        droppable=event in _DROPPABLE if droppable is None else droppable,
        session_key=session_key,
        stream=stream,
        state_version=state_version,
    )


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
        auth: dict[str, Any] = {
            "role": self.caller.role,
            "scopes": list(self.caller.scopes),
            "method": self.method,
        }
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
        return Send(encode(success(request_id, payload)))

    def receive(self, data: bytes | str) -> RequestFrame | Send | Close | None:
        """The request in one frame, or the answer to a bad one; None for text that cannot be answered."""
        if size(data) > MAX_PAYLOAD_BYTES:
            return make_close(CLOSE_TOO_BIG)
        match parse_request(data):
            case RequestFrame(method="connect") as request:
                error = ErrorShape(code=INVALID_REQUEST, message="connect is only valid as the first request")
                return Send(encode(failure(request.id, error)))
            case RequestFrame() as request:
                return request
            case NotARequest() as problem:
                return Send(encode(problem.answer()))
            case NotJson():
                return None

    def answer(self, response: Response, buffered: int) -> tuple[Send | Close, ...]:
        """Sends an answer; closes the connection of a client that keeps using the wrong role, or does not read."""
        if buffered > MAX_BUFFERED_BYTES:
            return (_slow(),)
        sent = Send(encode(response))
        if not is_wrong_role(response.error):
            self._role_errors = 0
            return (sent,)
        self._role_errors += 1
        if self._role_errors <= MAX_ROLE_ERRORS:
            return (sent,)
        return sent, make_close(CLOSE_POLICY, "repeated unauthorized role")

    def wants(self, news: Broadcast) -> bool:
        """Whether this client may receive `news` and subscribed to it."""
        if news.event not in self._audible:
            return False
        if news.event == "agent" and news.stream == "tool":
            return TOOL_EVENTS in self.caller.caps
        if news.event == "sessions.changed":
            return self.follows_sessions
        if news.event in _PER_SESSION:
            everywhere = self.follows_sessions and news.event == "session.message"
            return everywhere or news.session_key in self.followed
        return True

    def hear(self, news: Broadcast, buffered: int) -> Send | Close | None:
        """Numbers and sends `news`; `buffered` is what the socket still holds. A dropped event uses up its number."""
        if not self.wants(news):
            return None
        self.seq += 1
        if buffered > MAX_BUFFERED_BYTES:
            if not news.droppable:
                return _slow()
            self.dropped += 1
            return None
        return Send(news.numbered(self.seq))

    def tell(self, event: str, payload: Any, buffered: int) -> Send | Close:
        """An event for this client only, without a sequence number."""
        if buffered > MAX_BUFFERED_BYTES:
            return _slow()
        return Send(encode(EventFrame(event=event, payload=payload)))

    def withdrawn(self, change: AccessChange) -> Close | None:
        """The close that `change` requires for this connection; None when it is not affected."""
        match change:
            case DeviceRemoved(device_id) if device_id == self.caller.device_id:
                return make_close(CLOSE_WITHDRAWN, "device removed")
            case TokenRevoked(device_id, role) if (device_id, role) == (self.caller.device_id, self.caller.role):
                return make_close(CLOSE_WITHDRAWN, "device token withdrawn")
            case GatewayAuthChanged() if self.method not in ("device-token", "bootstrap-token"):
                return make_close(CLOSE_WITHDRAWN, "gateway auth changed")
        return None


# Waiting requests.


class RequestIntake:
    """Limits how many operator requests, and bytes of them, may wait to start."""

    def __init__(self, requests: int = MAX_WAITING_REQUESTS, size: int = MAX_WAITING_BYTES) -> None:
        self._requests = requests
        self._size = size
        self.waiting = 0
        self.bytes = 0

    def offer(self, size: int) -> "RequestSlot | None":
        """A slot for a request of `size` bytes; None when the limit is reached."""
        if self.waiting >= self._requests or self.bytes + size > self._size:
            return None
        return RequestSlot(self, size)


class RequestSlot:
    """One waiting request; leaving twice is harmless."""

    __slots__ = ("_intake", "_size")

    def __init__(self, intake: RequestIntake, size: int) -> None:
        intake.waiting += 1
        intake.bytes += size
        self._intake: RequestIntake | None = intake
        self._size = size

    def leave(self) -> None:
        if self._intake is not None:
            self._intake.waiting -= 1
            self._intake.bytes -= self._size
            self._intake = None


def _slow() -> Close:
    return make_close(CLOSE_POLICY, "slow consumer")
