"""The handshake of a socket: a challenge, one `connect`, and then a `Connection` or a close.

It holds no socket, no clock and no database. Feed it frames; do what the actions say. Four of them are questions about
devices, which only the device directory can answer: pass the reply to `answer`, or let `settle` do both.

    handshake = Handshake(policy, peer, conn_id=…, nonce=…, now=ms, limiter=limiter, verify=signature.verify)
    for action in await settle(handshake, handshake.feed(data, now), directory, now): …
"""

from collections.abc import Generator, Sequence
from typing import Protocol

from msgspec import Struct

from openclaw.core.errors import OpenClawError
from openclaw.core.secret import Secret
from openclaw.protocol import auth, rejections
from openclaw.protocol.auth import (
    AuthMethod,
    AuthPolicy,
    DeviceClaim,
    DeviceState,
    DeviceToken,
    PairingReason,
    SetupTokens,
    Verify,
    check_proof,
    redact_text,
)
from openclaw.protocol.connect import ConnectParams
from openclaw.protocol.connection import Close, Connection, Send, make_close
from openclaw.protocol.frames import (
    CLOSE_NORMAL,
    CLOSE_POLICY,
    CLOSE_TOO_BIG,
    MAX_BYTES_BEFORE_CONNECT,
    MAX_FRAMES_WHILE_CONNECTING,
    MINIMUM_PROBE_PROTOCOL,
    PROTOCOL,
    EventFrame,
    NotARequest,
    NotJson,
    RequestFrame,
    encode,
    failure,
    parse_request,
    size,
)
from openclaw.protocol.peer import NoProxyUser, Peer, client_ip, origin_problem
from openclaw.protocol.rejections import Rejection
from openclaw.protocol.rpc import Caller, MethodRefusal, read_params, to_error_shape
from openclaw.protocol.scopes import ROLES, Role, covers

CHALLENGE_CAPABILITIES = ("model-catalog-snapshot",)


class FindDevice(Struct, frozen=True):
    """Question: what may this device do, and is its token valid? Reply: DeviceState or None."""

    claim: DeviceClaim
    token: Secret | None


class AdmitDevice(Struct, frozen=True):
    """Question: record that it connects, `approve` its request, `issue` a token. Reply: DeviceToken or None."""

    claim: DeviceClaim
    approve: bool
    issue: bool


class RequestPairing(Struct, frozen=True):
    """Question: what is the id of this pairing request? Reply: the request id."""

    claim: DeviceClaim
    reason: PairingReason


class UseSetupCode(Struct, frozen=True):
    """Question: what does this code grant this device? Reply: SetUp; without tokens when it requests more than the code
    grants; None when the code is invalid."""

    claim: DeviceClaim
    code: Secret


class Established(Struct, frozen=True):
    """The client is connected: answer `request_id` with `connection.hello(…)`, then read the waiting frames."""

    connection: Connection
    request_id: str
    waiting: tuple[bytes | str, ...] = ()


Question = FindDevice | AdmitDevice | RequestPairing | UseSetupCode
Reply = DeviceState | DeviceToken | SetupTokens | str | OpenClawError | None
Action = Send | Close | Established | Question


class HandshakeLimiter(Protocol):
    """Counts failed attempts by address."""

    def wait_ms(self, key: str, now: int) -> int:
        """Milliseconds until this address may try again; 0 when it may now."""
        ...

    def fail(self, key: str, now: int) -> None: ...

    def clear(self, key: str) -> None: ...


class DeviceDirectory(Protocol):
    """What a handshake needs of the store of paired devices."""

    async def standing(self, claim: DeviceClaim, token: Secret | None) -> DeviceState | None: ...

    async def admit(self, claim: DeviceClaim, *, approve: bool, issue: bool, now: int) -> DeviceToken | None: ...

    async def request(self, claim: DeviceClaim, reason: str, *, now: int) -> str: ...

    async def set_up(self, claim: DeviceClaim, code: Secret, *, now: int) -> SetupTokens | None: ...


class _Rejected(Exception):
    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.error.code)
        self.rejection = rejection


Judging = Generator[Question, Reply, Connection]


class Handshake:
    """One socket before it is a connection. Times are milliseconds since the epoch."""

    def __init__(
        self,
        policy: AuthPolicy,
        peer: Peer,
        *,
        conn_id: str,
        nonce: str,
        now: int,
        limiter: HandshakeLimiter,
        verify: Verify,
    ) -> None:
        self.policy = policy
        self.peer = peer
        self.deadline = now + policy.handshake_timeout_ms
        self._conn_id = conn_id
        self._nonce = nonce
        self._opened = now
        self._limiter = limiter
        self._verify = verify
        self._ip = client_ip(peer, policy.trusted_proxies)
        self._judging: Judging | None = None
        self._request_id = ""
        self._waiting: list[bytes | str] = []
        self._strays = 0
        self.over = False

    def open(self) -> Send:
        """The challenge, sent first."""
        payload = {"nonce": self._nonce, "ts": self._opened, "capabilities": list(CHALLENGE_CAPABILITIES)}
        return Send(encode(EventFrame(event="connect.challenge", payload=payload)))

    def expire(self) -> tuple[Action, ...]:
        """Closes after the time limit, unless the handshake is over."""
        return () if self.over else self._end(make_close(CLOSE_NORMAL))

    def feed(self, data: bytes | str, now: int) -> tuple[Action, ...]:
        """Takes one frame from the client."""
        if self.over:
            return ()
        if size(data) > MAX_BYTES_BEFORE_CONNECT:
            return self._end(make_close(CLOSE_TOO_BIG))
        if self._judging is not None:
            self._waiting.append(data)
            if len(self._waiting) > MAX_FRAMES_WHILE_CONNECTING:
                return self._end(make_close(CLOSE_POLICY, "too many frames before connect was answered"))
            return ()
        match parse_request(data):
            case NotJson():
                return self._end(make_close(CLOSE_NORMAL))
            case NotARequest() as problem:
                self._strays += 1
                if self._strays > MAX_FRAMES_WHILE_CONNECTING:
                    return self._end(make_close(CLOSE_POLICY, rejections.CONNECT_FIRST))
                return (Send(encode(problem.answer())),)
            case RequestFrame() as request:
                self._request_id = request.id
                self._judging = self._judge(request, now)
                return self._advance(None)

    def answer(self, reply: Reply) -> tuple[Action, ...]:
        """Takes the reply to the last question; an `OpenClawError` ends the handshake with an error answer."""
        if self.over or self._judging is None:
            return ()
        if isinstance(reply, OpenClawError):
            return self._reject(rejections.broken(to_error_shape(reply)))
        return self._advance(reply)

    def _advance(self, reply: Reply) -> tuple[Action, ...]:
        assert self._judging is not None
        try:
            return (self._judging.send(reply),)
        except StopIteration as done:
            self.over = True
            return (Established(done.value, self._request_id, tuple(self._waiting)),)
        except _Rejected as rejected:
            return self._reject(rejected.rejection)

    def _reject(self, rejection: Rejection) -> tuple[Action, ...]:
        answer = Send(encode(failure(self._request_id, rejection.error)))
        return self._end(answer, make_close(rejection.close, rejection.error.message))

    def _end(self, *actions: Action) -> tuple[Action, ...]:
        self.over = True
        return actions

    def _judge(self, request: RequestFrame, now: int) -> Judging:
        """All checks, in the order clients rely on."""
        if request.method != "connect":
            raise _Rejected(rejections.not_connect())
        if not self.policy.ready:
            raise _Rejected(rejections.starting())
        try:
            params = read_params("connect", ConnectParams, request.params)
        except MethodRefusal as refused:
            raise _Rejected(rejections.invalid(refused.message)) from None
        if not auth.protocol_fits(params, PROTOCOL, MINIMUM_PROBE_PROTOCOL):
            raise _Rejected(rejections.protocol_mismatch(params))
        role = _role(params)
        allowed, hosts = self.policy.allowed_origins, self.policy.known_hosts
        if problem := origin_problem(self.peer, params.client.id, allowed, hosts):
            raise _Rejected(rejections.origin(problem))
        credential = self._check_secret(params, now)
        if params.device is None:
            method = self._without_device(params, role, credential)
            return self._connection(params, role, auth.granted_without_device(params, self.peer, method), method)
        if broken := check_proof(params, self._nonce, now, self._verify):
            raise _Rejected(rejections.bad_proof(broken))
        if isinstance(credential, auth.SharedSecretClaim) and auth.needs_no_pairing(params, credential.method):
            return self._connection(params, role, auth.requested_scopes(params, self.peer), credential.method)
        return (yield from self._judge_device(params, role, credential, now))

    def _check_secret(self, params: ConnectParams, now: int) -> auth.Credential:
        mode = self.policy.mode
        if mode != "none" and (wait := self._limiter.wait_ms(self._ip, now)):
            raise _Rejected(rejections.rate_limited(wait))
        has_device = params.device is not None
        credential = auth.judge_credential(self.policy, params.auth, has_device, self.peer)
        match credential:
            case NoProxyUser(reason):
                raise _Rejected(rejections.not_vouched(reason))
            case auth.WrongCredential():
                raise self._failed(rejections.wrong_secret(mode, has_device), now)
            case auth.MissingCredential() if has_device:
                raise _Rejected(rejections.missing_secret(mode))
            case auth.SharedSecretClaim(method) if method != "none":
                self._limiter.clear(self._ip)
        return credential

    def _without_device(self, params: ConnectParams, role: Role, credential: auth.Credential) -> AuthMethod:
        vouched = isinstance(credential, auth.SharedSecretClaim) and auth.needs_no_pairing(params, credential.method)
        if params.client.id == "openclaw-control-ui" and not vouched:
            raise _Rejected(rejections.control_ui_device_required())
        if role != "operator" or not isinstance(credential, auth.SharedSecretClaim):
            raise _Rejected(rejections.device_required())
        return credential.method

    def _judge_device(self, params: ConnectParams, role: Role, credential: auth.Credential, now: int) -> Judging:
        claim = self._claim(params, role)
        if isinstance(credential, auth.TrySetupCode):
            return (yield from self._judge_setup(params, role, claim, credential.code, now))
        token = credential.token if isinstance(credential, auth.TryDeviceToken) else None
        found = yield FindDevice(claim, token)
        standing = found if isinstance(found, DeviceState) else None
        method = self._device_method(credential, claim, standing, now)
        reason = auth.pairing_reason(standing, claim)
        if reason and not (
            auth.approves_silently(reason, self.peer, params.client.id, method)
            or auth.approves_by_proxy(reason, claim, self.policy, method)
        ):
            request_id = yield RequestPairing(claim, reason)
            raise _Rejected(rejections.pairing_required(reason, str(request_id), claim, standing))
        issued = yield AdmitDevice(claim, approve=reason is not None, issue=method != "device-token")
        fresh = issued if isinstance(issued, DeviceToken) else None
        return self._connection(params, role, claim.scopes, method, claim.device_id, fresh)

    def _judge_setup(self, params: ConnectParams, role: Role, claim: DeviceClaim, code: Secret, now: int) -> Judging:
        done = yield UseSetupCode(claim, code)
        if not isinstance(done, SetupTokens):
            raise self._failed(rejections.wrong_setup_code(), now)
        if not done.tokens:
            raise _Rejected(rejections.narrow_setup_code())
        self._limiter.clear(self._ip)
        own = next(token for grant, token in done.tokens if grant.role == role)
        return self._connection(params, role, claim.scopes, "bootstrap-token", claim.device_id, own, done)

    def _device_method(
        self, credential: auth.Credential, claim: DeviceClaim, standing: DeviceState | None, now: int
    ) -> AuthMethod:
        match credential:
            case auth.SharedSecretClaim(method):
                return method
            case auth.TryDeviceToken(_, field):
                token_scopes = standing.token_scopes if standing else None
                if token_scopes is None:
                    wrong = rejections.wrong_secret(self.policy.mode, True)
                    raise self._failed(wrong if field == "token" else rejections.wrong_device_token(), now)
                if not covers(token_scopes, claim.scopes):
                    raise _Rejected(rejections.narrow_device_token())
                self._limiter.clear(self._ip)
                return "device-token"
            case _:
                raise AssertionError(f"a device came with {credential}, which was judged before")

    def _failed(self, rejection: Rejection, now: int) -> _Rejected:
        self._limiter.fail(self._ip, now)
        return _Rejected(rejection)

    def _claim(self, params: ConnectParams, role: Role) -> DeviceClaim:
        assert params.device is not None
        client = params.client
        return DeviceClaim(
            device_id=params.device.id,
            public_key=params.device.public_key.rstrip("="),
            role=role,
            scopes=auth.requested_scopes(params, self.peer) if role == "operator" else (),
            platform=redact_text(client.platform),
            device_family=redact_text(client.device_family or ""),
            display_name=client.display_name or "",
            client_id=client.id,
            client_mode=client.mode,
            remote_ip=self._ip,
        )

    def _connection(
        self,
        params: ConnectParams,
        role: Role,
        scopes: tuple[str, ...],
        method: AuthMethod,
        device_id: str | None = None,
        issued: DeviceToken | None = None,
        set_up: SetupTokens | None = None,
    ) -> Connection:
        client = params.client
        caller = Caller(
            conn_id=self._conn_id,
            role=role,
            scopes=scopes,
            client_id=client.id,
            client_mode=client.mode,
            version=client.version,
            platform=client.platform,
            device_family=client.device_family or "",
            display_name=client.display_name or "",
            instance_id=client.instance_id or "",
            device_id=device_id,
            caps=frozenset(params.caps or ()),
            commands=params.commands or (),
            remote_ip=self._ip,
            local=self.peer.local,
        )
        return Connection(caller, method, issued, set_up)


async def resolve_actions(
    handshake: Handshake, actions: Sequence[Action], directory: DeviceDirectory, now: int
) -> tuple[Send | Close | Established, ...]:
    """Answers all questions in `actions` from `directory`, until only things to do are left."""
    done: list[Send | Close | Established] = []
    waiting = list(actions)
    while waiting:
        action = waiting.pop(0)
        if isinstance(action, Send | Close | Established):
            done.append(action)
        else:
            waiting += handshake.answer(await ask_directory(action, directory, now))
    return tuple(done)


async def ask_directory(question: Question, directory: DeviceDirectory, now: int) -> Reply:
    """Puts one question to the device directory."""
    try:
        match question:
            case FindDevice(claim, token):
                return await directory.standing(claim, token)
            case AdmitDevice(claim, approve, issue):
                return await directory.admit(claim, approve=approve, issue=issue, now=now)
            case RequestPairing(claim, reason):
                return await directory.request(claim, reason, now=now)
            case UseSetupCode(claim, code):
                return await directory.set_up(claim, code, now=now)
    except OpenClawError as error:
        return error


def _role(params: ConnectParams) -> Role:
    for role in ROLES:
        if role == (params.role or "operator"):
            return role
    raise _Rejected(rejections.invalid(f"invalid role: {params.role}"))
