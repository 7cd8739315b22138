"""The handshake of a socket: a challenge, one `connect`, and then a `Connection` or a close.

It holds no socket and no clock. Feed it frames until it returns the request to judge; frames that arrive while it is
judged are fed too, and handed on with the connection.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from openclaw.core.errors import OpenClawError
from openclaw.core.secret import Secret
from openclaw.protocol import auth, frames, rejections
from openclaw.protocol.auth import AuthMethod, DeviceClaim, DeviceState, DeviceToken, SetupTokens
from openclaw.protocol.connect import ConnectParams, redact_text
from openclaw.protocol.connection import Close, Connection, Send
from openclaw.protocol.frames import RequestFrame, close_reason, encode, failure
from openclaw.protocol.peer import NoProxyUser, Peer, client_ip, origin_problem
from openclaw.protocol.rejections import Rejected
from openclaw.protocol.rpc import Caller, MethodRefusal, read_params, to_error_shape
from openclaw.protocol.scopes import PEER, ROLES, Role, covers

CHALLENGE_CAPABILITIES = ("model-catalog-snapshot",)


class Established(Struct, frozen=True):
    """The client is connected: answer `request_id` with `connection.hello(…)`, then read the waiting frames."""

    connection: Connection
    request_id: str
    waiting: Sequence[bytes | str] = ()
    """Grows while frames are still fed to the handshake."""


class Refused(Struct, frozen=True):
    """The client is not let in: send the answer, then close."""

    answer: Send
    close: Close


class DeviceDirectory(Protocol):
    """What a handshake needs of the store of paired devices."""

    async def find(self, claim: DeviceClaim, token: Secret | None) -> DeviceState | None:
        """What this device may do, and whether its token is valid."""
        ...

    async def admit(self, claim: DeviceClaim, *, approve: bool, issue: bool, now: int) -> DeviceToken | None:
        """Records that it connects, approves its request, issues a token."""
        ...

    async def request(self, claim: DeviceClaim, reason: str, *, now: int) -> str:
        """The id of its pairing request."""
        ...

    async def set_up(self, claim: DeviceClaim, code: Secret, *, now: int) -> SetupTokens | None:
        """What a setup code grants it: no tokens when it requests more, None when the code is invalid."""
        ...


class Handshake:
    """One socket before it is a connection. Times are milliseconds since the epoch."""

    def __init__(
        self,
        policy: auth.AuthPolicy,
        peer: Peer,
        *,
        conn_id: str,
        nonce: str,
        now: int,
        limiter: auth.AuthLimiter,
        directory: DeviceDirectory,
        verify: auth.Verify,
    ) -> None:
        self.policy = policy
        self.peer = peer
        self.deadline = now + policy.handshake_timeout_ms
        self._conn_id = conn_id
        self._nonce = nonce
        self._opened = now
        self._limiter = limiter
        self._directory = directory
        self._verify = verify
        self._ip = client_ip(peer, policy.trusted_proxies)
        self._judging = False
        self._waiting: list[bytes | str] = []
        self._strays = 0

    def open(self) -> Send:
        """The challenge, sent first."""
        payload = {"nonce": self._nonce, "ts": self._opened, "capabilities": list(CHALLENGE_CAPABILITIES)}
        return Send(encode(frames.EventFrame(event="connect.challenge", payload=payload)))

    def feed(self, data: bytes | str) -> RequestFrame | Send | Close | None:
        """Takes one frame from the client: the request to judge, or what to do about the frame."""
        if frames.size(data) > frames.MAX_BYTES_BEFORE_CONNECT:
            return Close(frames.CLOSE_TOO_BIG)
        if self._judging:
            self._waiting.append(data)
            if len(self._waiting) > frames.MAX_FRAMES_WHILE_CONNECTING:
                return Close(frames.CLOSE_POLICY, "too many frames before connect was answered")
            return None
        match frames.parse_request(data):
            case frames.NotJson():
                return Close(frames.CLOSE_NORMAL)
            case frames.NotARequest() as problem:
                self._strays += 1
                if self._strays > frames.MAX_FRAMES_WHILE_CONNECTING:
                    return Close(frames.CLOSE_POLICY, rejections.CONNECT_FIRST)
                return Send(encode(problem.answer()))
            case RequestFrame() as request:
                self._judging = True
                return request

    async def judge(self, request: RequestFrame, now: int) -> Established | Refused:
        """Decides about the first request."""
        try:
            connection = await self._judge(request, now)
        except Rejected as rejected:
            error, close = rejected.error, rejected.close
        except OpenClawError as failed:
            error, close = to_error_shape(failed), frames.CLOSE_INTERNAL
        else:
            return Established(connection, request.id, self._waiting)
        return Refused(Send(encode(failure(request.id, error))), Close(close, close_reason(error.message)))

    async def _judge(self, request: RequestFrame, now: int) -> Connection:
        """All checks, in the order clients rely on."""
        if request.method != "connect":
            raise rejections.invalid(rejections.CONNECT_FIRST)
        if not self.policy.ready:
            raise rejections.starting()
        try:
            params = read_params("connect", ConnectParams, request.params)
        except MethodRefusal as refused:
            raise rejections.invalid(refused.message) from None
        if not auth.protocol_fits(params):
            raise rejections.protocol_mismatch(params)
        role = _role(params)
        allowed, hosts = self.policy.allowed_origins, self.policy.known_hosts
        if problem := origin_problem(self.peer, params.client.id, allowed, hosts):
            raise rejections.origin(problem)
        if auth.is_peer(self.policy, params.auth, self._nonce):
            return self._connection(params, "operator", (PEER,), "token")
        # Guesses lock out an address, and whoever guesses may share it with the owner: what is no guess is judged.
        locked = self.policy.mode != "none" and self._limiter.wait_ms(self._ip, now)
        if locked and not await self._is_no_guess(params, role, now):
            raise rejections.rate_limited(locked)
        credential = self._check_secret(params, now)
        if params.device is None:
            method = self._without_device(params, role, credential)
            return self._connection(params, role, auth.granted_without_device(params, self.peer, method), method)
        if broken := auth.check_proof(params, self._nonce, now, self._verify):
            raise rejections.bad_proof(broken)
        if isinstance(credential, auth.SharedSecretClaim) and auth.needs_no_pairing(params, credential.method):
            return self._connection(params, role, auth.requested_scopes(params, self.peer), credential.method)
        return await self._judge_device(params, role, credential, now)

    async def _is_no_guess(self, params: ConnectParams, role: Role, now: int) -> bool:
        """Whether the client shows a secret nobody guesses, or the signature of a device that is paired."""
        credential = auth.judge_credential(self.policy, params.auth, params.device is not None, self.peer)
        if isinstance(credential, auth.SharedSecretClaim) and auth.is_guess_proof(self.policy.secret):
            return True
        if params.device is None or auth.check_proof(params, self._nonce, now, self._verify):
            return False
        token = credential.token if isinstance(credential, auth.TryDeviceToken) else None
        known = await self._directory.find(self._claim(params, role), token)
        # Of an unknown token the answer would be "wrong", which is one more guess.
        return known is not None and (token is None or known.token_scopes is not None)

    def _check_secret(self, params: ConnectParams, now: int) -> auth.Credential:
        mode = self.policy.mode
        has_device = params.device is not None
        credential = auth.judge_credential(self.policy, params.auth, has_device, self.peer)
        match credential:
            case NoProxyUser(reason):
                raise rejections.not_vouched(reason)
            case auth.WrongCredential():
                raise self._failed(rejections.wrong_secret(mode, has_device), now)
            case auth.MissingCredential() if has_device:
                raise rejections.missing_secret(mode)
            case auth.SharedSecretClaim(method) if method != "none":
                self._limiter.clear(self._ip)
        return credential

    def _without_device(self, params: ConnectParams, role: Role, credential: auth.Credential) -> AuthMethod:
        vouched = isinstance(credential, auth.SharedSecretClaim) and auth.needs_no_pairing(params, credential.method)
        if params.client.id == "openclaw-control-ui" and not vouched:
            raise rejections.control_ui_device_required()
        if role != "operator" or not isinstance(credential, auth.SharedSecretClaim):
            raise rejections.device_required()
        return credential.method

    async def _judge_device(
        self, params: ConnectParams, role: Role, credential: auth.Credential, now: int
    ) -> Connection:
        claim = self._claim(params, role)
        if isinstance(credential, auth.TrySetupCode):
            return await self._judge_setup(params, role, claim, credential.code, now)
        token = credential.token if isinstance(credential, auth.TryDeviceToken) else None
        known = await self._directory.find(claim, token)
        method = self._device_method(credential, claim, known, now)
        reason = auth.pairing_reason(known, claim)
        if reason and not (
            auth.approves_silently(reason, self.peer, params.client.id, method)
            or auth.approves_by_proxy(reason, claim, self.policy, method)
        ):
            request_id = await self._directory.request(claim, reason, now=now)
            raise rejections.pairing_required(reason, request_id, claim, known)
        issue = method != "device-token"
        issued = await self._directory.admit(claim, approve=reason is not None, issue=issue, now=now)
        return self._connection(params, role, claim.scopes, method, claim.device_id, issued)

    async def _judge_setup(
        self, params: ConnectParams, role: Role, claim: DeviceClaim, code: Secret, now: int
    ) -> Connection:
        done = await self._directory.set_up(claim, code, now=now)
        if done is None:
            raise self._failed(rejections.wrong_setup_code(), now)
        if not done.tokens:
            raise rejections.narrow_setup_code()
        self._limiter.clear(self._ip)
        own = next(token for grant, token in done.tokens if grant.role == role)
        return self._connection(params, role, claim.scopes, "bootstrap-token", claim.device_id, own, done)

    def _device_method(
        self, credential: auth.Credential, claim: DeviceClaim, known: DeviceState | None, now: int
    ) -> AuthMethod:
        match credential:
            case auth.SharedSecretClaim(method):
                return method
            case auth.TryDeviceToken(_, field):
                token_scopes = known.token_scopes if known else None
                if token_scopes is None:
                    wrong = rejections.wrong_secret(self.policy.mode, True)
                    raise self._failed(wrong if field == "token" else rejections.wrong_device_token(), now)
                if not covers(token_scopes, claim.scopes):
                    raise rejections.narrow_device_token()
                self._limiter.clear(self._ip)
                return "device-token"
            case _:
                raise AssertionError(f"a device came with {credential}, which was judged before")

    def _failed(self, rejected: Rejected, now: int) -> Rejected:
        self._limiter.fail(self._ip, now)
        return rejected

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


def _role(params: ConnectParams) -> Role:
    for role in ROLES:
        if role == (params.role or "operator"):
            return role
    raise rejections.invalid(f"invalid role: {params.role}")
