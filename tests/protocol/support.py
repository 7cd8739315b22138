"""A gateway's door in memory: a desk without a database, a device key, and frames to knock with."""

import hashlib
import json
from typing import Any

from msgspec.structs import replace

from openclaw.core.secret import Secret
from openclaw.protocol.auth import (
    AuthLimiter,
    AuthPolicy,
    DeviceClaim,
    DeviceGrant,
    DeviceState,
    DeviceToken,
    SetupTokens,
    device_id,
    to_base64url,
)
from openclaw.protocol.connect import Version
from openclaw.protocol.connect_request import Challenge, ConnectOptions, Signer, connect_request
from openclaw.protocol.connection import Close, Connection, Send
from openclaw.protocol.frames import RequestFrame, encode, parse_from_server
from openclaw.protocol.handshake import Established, Handshake
from openclaw.protocol.peer import Peer
from openclaw.protocol.scopes import READ, covers

NOW = 1_700_000_000_000
NONCE = "3f0c1f7e-9a2b-4a8e-8f11-0c5a1d2e3f40"
SECRET = "the-shared-secret"
POLICY = AuthPolicy(secret=Secret(SECRET))
LOCAL = Peer(remote_ip="127.0.0.1", host="127.0.0.1:18789")
REMOTE = Peer(remote_ip="192.168.1.20", host="192.168.1.2:18789")
PAGE = replace(LOCAL, origin="http://127.0.0.1:18789")


class Seal:
    """A stand-in for a key pair: whoever knows the public key can verify, which is all a test needs."""

    def __init__(self, name: str = "laptop") -> None:
        key = hashlib.sha256(name.encode()).digest()
        self.public_key = to_base64url(key)
        self.device_id = device_id(key)
        self._key = key

    def sign(self, text: str) -> str:
        return to_base64url(hashlib.sha256(self._key + text.encode()).digest())


def verify(public_key: bytes, signature: bytes, message: bytes) -> bool:
    return signature == hashlib.sha256(public_key + message).digest()


class Desk:
    """The pairing book on a slip of paper."""

    def __init__(self) -> None:
        self.devices: dict[str, DeviceState] = {}
        self.tokens: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        self.requests: list[tuple[DeviceClaim, str]] = []
        self.broken: Exception | None = None
        self.setup_code = ""
        self.setup_scopes: tuple[str, ...] = (READ,)

    async def find(self, claim: DeviceClaim, token: Secret | None) -> DeviceState | None:
        if self.broken:
            raise self.broken
        found = self.devices.get(claim.device_id)
        if found is None or token is None:
            return found
        owner, role, scopes = self.tokens.get(token.reveal(), ("", "", ()))
        good = (owner, role) == (claim.device_id, claim.role)
        return replace(found, token_scopes=scopes if good else None)

    async def admit(self, claim: DeviceClaim, *, approve: bool, issue: bool, now: int) -> DeviceToken | None:
        if approve:
            before = self.devices.get(claim.device_id, DeviceState(roles=(), scopes=()))
            self.devices[claim.device_id] = DeviceState(
                roles=tuple(dict.fromkeys((*before.roles, claim.role))),
                scopes=tuple(dict.fromkeys((*before.scopes, *claim.scopes))),
                platform=claim.platform,
                device_family=claim.device_family,
            )
        if not issue:
            return None
        token = f"token-{len(self.tokens)}-{'x' * 36}"
        self.tokens[token] = (claim.device_id, claim.role, claim.scopes)
        return DeviceToken(Secret(token), now)

    async def set_up(self, claim: DeviceClaim, code: Secret, *, now: int) -> SetupTokens | None:
        if code.reveal() != self.setup_code:
            return None
        if not covers(self.setup_scopes, claim.scopes):
            return SetupTokens(())
        return SetupTokens(((DeviceGrant(claim.role, self.setup_scopes), DeviceToken(Secret("t" * 43), now)),))

    async def request(self, claim: DeviceClaim, reason: str, *, now: int) -> str:
        self.requests.append((claim, reason))
        return f"request-{len(self.requests)}"


class Unlimited(AuthLimiter):
    def __init__(self) -> None:
        super().__init__()
        self.failures: list[str] = []
        self.cleared: list[str] = []
        self.wait = 0

    def wait_ms(self, key: str, now: int) -> int:
        return self.wait

    def fail(self, key: str, now: int) -> None:
        self.failures.append(key)

    def clear(self, key: str) -> None:
        self.cleared.append(key)


async def judged(handshake: Handshake, data: bytes | str, now: int) -> tuple[Send | Close | Established | None, ...]:
    """What one frame leads to."""
    found = handshake.feed(data)
    if not isinstance(found, RequestFrame):
        return (found,)
    outcome = await handshake.judge(found, now)
    return (outcome,) if isinstance(outcome, Established) else (outcome.answer, outcome.close)


class Knock:
    """What came of one attempt to get in."""

    def __init__(self, *done: Send | Close | Established | None) -> None:
        self.frames: list[Any] = [json.loads(action.data) for action in done if isinstance(action, Send)]
        self.closed = next((action for action in done if isinstance(action, Close)), None)
        self.inside = next((action for action in done if isinstance(action, Established)), None)

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.frames[-1]["error"])

    @property
    def connection(self) -> Connection:
        assert self.inside is not None, (self.frames, self.closed)
        return self.inside.connection


class Door:
    """One gateway that many can knock at."""

    def __init__(self, policy: AuthPolicy = POLICY) -> None:
        self.policy = policy
        self.desk = Desk()
        self.limiter: Any = Unlimited()

    def requests_of(self) -> list[str]:
        """The reasons a person was asked about."""
        return [reason for _, reason in self.desk.requests]

    def handshake(self, peer: Peer = LOCAL) -> Handshake:
        return Handshake(
            self.policy,
            peer,
            conn_id="conn-1",
            nonce=NONCE,
            now=NOW,
            limiter=self.limiter,
            directory=self.desk,
            verify=verify,
        )

    async def send(self, data: bytes | str, peer: Peer = LOCAL, now: int = NOW + 5) -> Knock:
        handshake = self.handshake(peer)
        return Knock(*await judged(handshake, data, now))

    async def knock(
        self,
        who: ConnectOptions | None = None,
        *,
        peer: Peer = LOCAL,
        device: Signer | None = None,
        version: Version = "v3",
        change: dict[str, Any] | None = None,
    ) -> Knock:
        """Knocks as `who`; `change` overwrites what the connect params say (dotted names)."""
        request = connect_request(who or operator(), Challenge(NONCE, NOW), "c1", device, version)
        frame = json.loads(encode(request))
        for path, value in (change or {}).items():
            *parents, last = path.split(".")
            place = frame["params"]
            for parent in parents:
                place = place.setdefault(parent, {})
            if value is ...:
                place.pop(last, None)
            else:
                place[last] = value
        return await self.send(json.dumps(frame), peer)


def operator(**fields: Any) -> ConnectOptions:
    given: dict[str, Any] = {"version": "1.0", "platform": "Linux", "scopes": (READ,), "token": Secret(SECRET)}
    return ConnectOptions(**(given | fields))


def event_of(action: Send | Close | None) -> Any:
    assert isinstance(action, Send), action
    return parse_from_server(action.data)
