"""Who gets in, with what, and what everyone else is told: every row of the protocol's tables, as frames."""

import json
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from openclaw.core.errors import ConfigError, StateError
from openclaw.core.secret import Secret
from openclaw.protocol.auth import AuthPolicy, DeviceState
from openclaw.protocol.connect import Version
from openclaw.protocol.connect_request import Challenge, connect_request
from openclaw.protocol.connection import Close, Send
from openclaw.protocol.frames import RequestFrame, encode
from openclaw.protocol.handshake import Established
from openclaw.protocol.peer import Peer
from openclaw.protocol.scopes import ADMIN, PAIRING, READ, WRITE
from tests.protocol.support import LOCAL, NONCE, NOW, PAGE, POLICY, REMOTE, SECRET, Door, Seal, operator
from tests.protocol.test_connection import OFFER, SNAPSHOT

pytestmark = pytest.mark.anyio

PASSWORD = AuthPolicy(mode="password", secret=Secret(SECRET))
OPEN = AuthPolicy(mode="none")


def test_the_challenge_comes_first() -> None:
    frame = json.loads(Door().handshake().open().data)
    assert frame == {
        "type": "event",
        "event": "connect.challenge",
        "payload": {"nonce": NONCE, "ts": NOW, "capabilities": ["model-catalog-snapshot"]},
    }


# What comes before a good connect.


async def test_another_request_first_is_refused() -> None:
    knock = await Door().send('{"type":"req","id":"9","method":"health"}')
    assert knock.frames[0]["id"] == "9"
    assert knock.error == {"code": "INVALID_REQUEST", "message": "invalid handshake: first request must be connect"}
    assert knock.closed == Close(1008, "invalid handshake: first request must be connect")


async def test_text_that_is_no_json_ends_it_quietly() -> None:
    knock = await Door().send("hello")
    assert (knock.frames, knock.closed) == ([], Close(1000))


async def test_json_that_is_no_request_is_answered_and_the_socket_stays() -> None:
    knock = await Door().send('{"hello":1}')
    assert (knock.frames[0]["id"], knock.closed) == ("invalid", None)


def test_nobody_may_chat_about_anything_but_connect_for_long() -> None:
    handshake = Door().handshake()
    for _ in range(15):
        assert isinstance(handshake.feed("{}"), Send)
    assert handshake.feed("{}") == Close(1008, "invalid handshake: first request must be connect")


@pytest.mark.parametrize("text", ["x" * 65_537, "é" * 32_769, b"x" * 65_537])
async def test_a_large_first_frame_gets_no_answer(text: str | bytes) -> None:
    knock = await Door().send(text)
    assert (knock.frames, knock.closed) == ([], Close(1009))


def test_the_time_limit_is_data() -> None:
    assert Door().handshake().deadline == NOW + 15_000


def test_frames_wait_while_connect_is_judged() -> None:
    handshake = Door().handshake()
    assert isinstance(handshake.feed(_connect(device=Seal())), RequestFrame)
    for number in range(15):
        assert handshake.feed(f'{{"type":"req","id":"{number}","method":"health"}}') is None
    assert handshake.feed("{}") == Close(1008, "too many frames before connect was answered")


async def test_frames_that_waited_are_handed_over_in_order() -> None:
    handshake = Door().handshake()
    request = handshake.feed(_connect(device=Seal()))
    assert isinstance(request, RequestFrame)
    handshake.feed("one")
    established = await handshake.judge(request, NOW)
    handshake.feed("two")  # read in the moment in which the handshake ended
    assert isinstance(established, Established)
    assert established.waiting == ["one", "two"]


async def test_a_gateway_that_is_not_ready_says_when_to_come_back() -> None:
    knock = await Door(replace(POLICY, ready=False)).knock()
    assert knock.error == {
        "code": "UNAVAILABLE",
        "message": "gateway starting; retry shortly",
        "details": {"reason": "startup-sidecars"},
        "retryable": True,
        "retryAfterMs": 500,
    }
    assert knock.closed is not None and knock.closed.code == 1013


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"client.id": "my-bot"}, "at /client/id: must be equal to one of the allowed values"),
        ({"client.mode": "shell"}, "at /client/mode: must be equal to one of the allowed values"),
        ({"client": ...}, "must have required property 'client'"),
        ({"surprise": 1}, "at root: unexpected property 'surprise'"),
        ({"minProtocol": 0}, "at /minProtocol: must be >= 1"),
        ({"device": None}, "at /device: must NOT be null"),
        ({"client.buildId": "x" * 97}, "at /client/buildId: must NOT have more than 96 characters"),
    ],
)
async def test_connect_params_are_closed(change: dict[str, Any], rule: str) -> None:
    knock = await Door().knock(change=change)
    assert knock.error == {"code": "INVALID_REQUEST", "message": f"invalid connect params: {rule}"}
    assert knock.closed is not None and knock.closed.code == 1008


# Protocol range.


@pytest.mark.parametrize(
    ("low", "high", "change", "inside"),
    [
        (4, 4, {}, True),
        (1, 9, {}, True),
        (3, 3, {}, False),
        (5, 6, {}, False),
        (3, 4, {"client.mode": "probe"}, True),
        (3, 3, {"client.mode": "probe"}, True),
        (2, 2, {"client.mode": "probe"}, False),
        (5, 5, {"client.mode": "probe"}, False),
    ],
)
async def test_the_protocol_range_must_hold_ours(low: int, high: int, change: dict[str, Any], inside: bool) -> None:
    knock = await Door().knock(change={"minProtocol": low, "maxProtocol": high, **change})
    assert (knock.inside is not None) is inside
    if not inside:
        assert knock.error == {
            "code": "INVALID_REQUEST",
            "message": "protocol mismatch",
            "details": {
                "code": "PROTOCOL_MISMATCH",
                "clientMinProtocol": low,
                "clientMaxProtocol": high,
                "expectedProtocol": 4,
                "minimumProbeProtocol": 3,
            },
        }
        assert knock.closed == Close(1002, "protocol mismatch")


async def test_a_node_may_be_one_version_behind() -> None:
    node = operator(client_id="node-host", mode="node", role="node", min_protocol=3, max_protocol=3)
    assert (await Door().knock(node, device=Seal())).inside


async def test_an_unknown_role_is_refused() -> None:
    knock = await Door().knock(change={"role": "worker"})
    assert knock.error == {"code": "INVALID_REQUEST", "message": "invalid role: worker"}
    assert knock.closed is not None and knock.closed.code == 1008


# Web pages.


@pytest.mark.parametrize(
    ("host", "origin", "allowed", "reason"),
    [
        ("127.0.0.1:18789", "http://127.0.0.1:18789", (), None),
        ("localhost:18789", "http://localhost:18789", (), None),
        ("[::1]:18789", "http://[::1]:18789", (), None),
        ("192.168.1.2:18789", "http://192.168.1.2:18789", (), None),
        ("claw.example", "https://claw.example", ("https://claw.example",), None),
        ("127.0.0.1:18789", "https://ui.example", ("https://ui.example/",), None),
        ("claw.lan:18789", "http://claw.lan:18789", (), None),
        ("127.0.0.1:18789", "https://evil.example", (), "origin not allowed"),
        ("127.0.0.1:18789", "http://127.0.0.1:3000", (), "origin not allowed"),
        ("127.0.0.1:18789", "null", (), "origin invalid"),
        ("127.0.0.1:18789", "", (), "origin invalid"),
        # A page whose domain was pointed at this machine: origin and host agree, and still it is a stranger.
        ("evil.example:18789", "http://evil.example:18789", (), "host not known"),
        ("127.0.0.1.evil.example:18789", "http://127.0.0.1.evil.example:18789", (), "host not known"),
        ("x@127.0.0.1:18789", "http://127.0.0.1:18789", (), "origin not allowed"),
    ],
)
async def test_only_our_own_pages_get_in(host: str, origin: str, allowed: tuple[str, ...], reason: str | None) -> None:
    door = Door(replace(POLICY, allowed_origins=allowed, known_hosts=("claw.lan",)))
    page = operator(client_id="openclaw-control-ui", mode="webchat")
    knock = await door.knock(page, device=Seal(), peer=Peer(remote_ip="127.0.0.1", host=host, origin=origin))
    if reason is None:
        assert not knock.frames or knock.error["code"] == "NOT_PAIRED"
    else:
        assert knock.error["details"] == {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": reason}
        assert knock.error["code"] == "INVALID_REQUEST"
        assert knock.closed is not None and knock.closed.code == 1008


async def test_an_origin_counts_for_every_client() -> None:
    knock = await Door().knock(peer=replace(LOCAL, origin="https://evil.example"))
    assert knock.error["details"]["code"] == "CONTROL_UI_ORIGIN_NOT_ALLOWED"


async def test_the_control_ui_has_an_origin_or_is_not_it() -> None:
    knock = await Door().knock(operator(client_id="openclaw-control-ui", mode="webchat"), device=Seal())
    assert knock.error["details"] == {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": "origin missing"}


# Secrets.


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        (POLICY, {"token": Secret(SECRET)}),
        (POLICY, {"token": None, "password": Secret(SECRET)}),
        (PASSWORD, {"token": None, "password": Secret(SECRET)}),
        (PASSWORD, {"token": Secret(SECRET)}),
        (PASSWORD, {"token": Secret("wrong"), "password": Secret(SECRET)}),
        (OPEN, {"token": None}),
        (OPEN, {"token": Secret("anything")}),
    ],
)
async def test_the_right_secret_opens_the_door_in_either_field(policy: AuthPolicy, fields: dict[str, Any]) -> None:
    assert (await Door(policy).knock(operator(**fields))).connection.method == policy.mode


@pytest.mark.parametrize(
    ("policy", "fields", "with_device", "code", "details"),
    [
        (
            POLICY,
            {"token": Secret("wrong")},
            False,
            "INVALID_REQUEST",
            {
                "code": "AUTH_TOKEN_MISMATCH",
                "authReason": "token_mismatch",
                "canRetryWithDeviceToken": False,
                "recommendedNextStep": "update_auth_credentials",
            },
        ),
        (
            POLICY,
            {"token": Secret("wrong")},
            True,
            "INVALID_REQUEST",
            {
                "code": "AUTH_TOKEN_MISMATCH",
                "authReason": "token_mismatch",
                "canRetryWithDeviceToken": True,
                "recommendedNextStep": "retry_with_device_token",
            },
        ),
        (
            POLICY,
            {"token": None},
            True,
            "INVALID_REQUEST",
            {
                "code": "AUTH_TOKEN_MISSING",
                "authReason": "token_missing",
                "canRetryWithDeviceToken": False,
                "recommendedNextStep": "update_auth_configuration",
            },
        ),
        (POLICY, {"token": None}, False, "NOT_PAIRED", {"code": "DEVICE_IDENTITY_REQUIRED"}),
        (
            PASSWORD,
            {"token": None, "password": Secret("wrong")},
            False,
            "INVALID_REQUEST",
            {
                "code": "AUTH_PASSWORD_MISMATCH",
                "authReason": "password_mismatch",
                "canRetryWithDeviceToken": False,
                "recommendedNextStep": "update_auth_credentials",
            },
        ),
        (
            PASSWORD,
            {"token": None},
            True,
            "INVALID_REQUEST",
            {
                "code": "AUTH_PASSWORD_MISSING",
                "authReason": "password_missing",
                "canRetryWithDeviceToken": False,
                "recommendedNextStep": "update_auth_configuration",
            },
        ),
        (
            POLICY,
            {"token": None, "device_token": Secret("stale")},
            True,
            "INVALID_REQUEST",
            {
                "code": "AUTH_DEVICE_TOKEN_MISMATCH",
                "authReason": "device_token_mismatch",
                "canRetryWithDeviceToken": False,
                "recommendedNextStep": "update_auth_credentials",
            },
        ),
    ],
)
async def test_a_wrong_secret_is_told_what_to_do(
    policy: AuthPolicy, fields: dict[str, Any], with_device: bool, code: str, details: dict[str, Any]
) -> None:
    knock = await Door(policy).knock(operator(**fields), device=Seal() if with_device else None)
    assert (knock.error["code"], knock.error["details"]) == (code, details)
    assert knock.closed == Close(1008, knock.error["message"])
    assert SECRET not in json.dumps(knock.frames)


async def test_a_setup_code_lets_a_new_device_in_from_another_machine() -> None:
    door = Door()
    door.desk.setup_code = "a-code"
    knock = await door.knock(operator(token=None, setup_code=Secret("a-code")), peer=REMOTE, device=Seal())
    assert (knock.connection.method, knock.connection.caller.scopes) == ("bootstrap-token", (READ,))
    first, second = (json.loads(knock.connection.hello("1", OFFER, SNAPSHOT).data)["payload"]["auth"] for _ in range(2))
    token = {"deviceToken": "t" * 43, "role": "operator", "scopes": [READ], "issuedAtMs": NOW + 5}
    assert first["deviceTokens"] == [token] and first["deviceToken"] == "t" * 43
    assert "deviceTokens" not in second
    assert door.limiter.cleared and door.requests_of() == []


async def test_a_setup_code_for_less_is_named() -> None:
    door = Door()
    door.desk.setup_code = "a-code"
    who = operator(token=None, scopes=(READ, ADMIN), setup_code=Secret("a-code"))
    knock = await door.knock(who, peer=REMOTE, device=Seal())
    assert knock.error["details"]["code"] == "AUTH_SCOPE_MISMATCH"
    assert knock.closed is not None and knock.closed.code == 1008


async def test_a_bad_setup_code_is_refused() -> None:
    door = Door()
    knock = await door.knock(operator(token=None, setup_code=Secret("12345")), device=Seal())
    assert (knock.error["code"], knock.error["details"]["code"]) == ("INVALID_REQUEST", "AUTH_BOOTSTRAP_TOKEN_INVALID")
    assert door.limiter.failures == ["127.0.0.1"]


async def test_a_gateway_without_its_secret_does_not_start() -> None:
    with pytest.raises(ConfigError, match=r"set gateway\.auth\.token"):
        AuthPolicy()


@pytest.mark.parametrize("peer", [LOCAL, REMOTE])
async def test_too_many_failures_wait_even_on_this_machine(peer: Peer) -> None:
    door = Door()
    door.limiter.wait = 4_000
    knock = await door.knock(peer=peer)
    assert knock.error["details"]["code"] == "AUTH_RATE_LIMITED"
    assert (knock.error["retryable"], knock.error["retryAfterMs"]) == (True, 4_000)
    assert knock.closed is not None and knock.closed.code == 1008


async def test_only_wrong_secrets_count_as_failures() -> None:
    door = Door()
    await door.knock(operator(token=Secret("wrong")))
    await door.knock(operator(token=Secret("wrong")), device=Seal())
    await door.knock(operator(token=None, device_token=Secret("wrong")), device=Seal())
    assert len(door.limiter.failures) == 3
    await door.knock(operator(token=None))
    await door.knock(operator(token=None), device=Seal())
    assert len(door.limiter.failures) == 3
    await door.knock()
    assert door.limiter.cleared == ["127.0.0.1"]


async def test_a_failure_through_our_proxy_is_the_clients_own() -> None:
    door = Door(replace(POLICY, trusted_proxies=("nonsense", "10.0.0.0/31")))
    through = Peer.of("10.0.0.1", {"host": "claw", "x-forwarded-for": "6.6.6.6, 203.0.113.9"})
    await door.knock(operator(token=Secret("wrong")), peer=through)
    await door.knock(operator(token=Secret("wrong")), peer=replace(through, remote_ip="10.0.0.2"))
    assert door.limiter.failures == ["203.0.113.9", "10.0.0.2"]


# Without a device.


@pytest.mark.parametrize(
    ("who", "peer", "kept"),
    [
        (("cli", "cli"), LOCAL, True),
        (("cli", "cli"), replace(LOCAL, host="localhost:18789"), True),
        (("cli", "cli"), replace(LOCAL, remote_ip="::ffff:127.0.0.1"), True),
        (("gateway-client", "backend"), LOCAL, True),
        (("cli", "probe"), LOCAL, False),
        (("openclaw-tui", "ui"), LOCAL, False),
        (("gateway-client", "ui"), LOCAL, False),
        (("cli", "cli"), REMOTE, False),
        (("cli", "cli"), replace(LOCAL, host="claw.example"), False),
        (("cli", "cli"), replace(LOCAL, proxied=True), False),
        (("cli", "cli"), PAGE, False),
    ],
)
@pytest.mark.parametrize("policy", [POLICY, OPEN], ids=["token", "none"])
async def test_scopes_without_a_device_are_for_programs_on_this_machine(
    who: tuple[str, str], peer: Peer, kept: bool, policy: AuthPolicy
) -> None:
    client_id, mode = who
    knock = await Door(policy).knock(operator(client_id=client_id, mode=mode, scopes=(ADMIN, READ)), peer=peer)
    assert knock.connection.caller.scopes == ((ADMIN, READ) if kept else ())


async def test_scopes_that_do_not_exist_are_worth_nothing() -> None:
    knock = await Door().knock(operator(scopes=(READ, "operator.root", READ)))
    assert knock.connection.caller.scopes == (READ,)


async def test_the_upgrade_request_can_cap_the_scopes() -> None:
    peer = Peer.of("127.0.0.1", {"host": "localhost:1", "x-openclaw-scopes": "operator.write, operator.pairing"})
    knock = await Door().knock(operator(scopes=(ADMIN, READ, PAIRING)), peer=peer)
    assert knock.connection.caller.scopes == (READ, PAIRING)


async def test_a_node_needs_a_device() -> None:
    knock = await Door().knock(operator(client_id="node-host", mode="node", role="node"))
    assert (knock.error["code"], knock.error["details"]) == ("NOT_PAIRED", {"code": "DEVICE_IDENTITY_REQUIRED"})
    assert knock.error["message"] == "device identity required"


async def test_the_control_ui_needs_a_device() -> None:
    knock = await Door().knock(operator(client_id="openclaw-control-ui", mode="webchat"), peer=PAGE)
    assert knock.error["code"] == "INVALID_REQUEST"
    assert knock.error["details"] == {"code": "CONTROL_UI_DEVICE_IDENTITY_REQUIRED"}


# Device proof.


@pytest.mark.parametrize("version", ["v3", "v2"])
async def test_both_signature_versions_prove_a_device(version: Version) -> None:
    seal = Seal()
    knock = await Door().knock(operator(device_family=" iPhone "), device=seal, version=version)
    assert knock.connection.caller.device_id == seal.device_id


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        ({"device.id": "0" * 64}, "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch"),
        ({"device.publicKey": "not base64!"}, "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch"),
        ({"device.signedAt": NOW - 120_001}, "DEVICE_AUTH_SIGNATURE_EXPIRED", "device-signature-stale"),
        ({"device.signedAt": NOW + 120_006}, "DEVICE_AUTH_SIGNATURE_EXPIRED", "device-signature-stale"),
        ({"device.nonce": " "}, "DEVICE_AUTH_NONCE_REQUIRED", "device-nonce-missing"),
        ({"device.nonce": "another"}, "DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch"),
        ({"device.signature": "AAAA"}, "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature"),
        ({"device.signature": "%%%"}, "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature"),
        ({"scopes": ["operator.admin"]}, "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature"),
        ({"role": "node"}, "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature"),
        ({"client.platform": "Windows"}, "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature"),
        ({"client.id": "test"}, "DEVICE_AUTH_SIGNATURE_INVALID", "device-signature"),
        ({"device.id": "0" * 64, "device.nonce": "another"}, "DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch"),
        (
            {"device.signedAt": 0, "device.nonce": "another"},
            "DEVICE_AUTH_SIGNATURE_EXPIRED",
            "device-signature-stale",
        ),
        (
            {
                "device.publicKey": "AAAA",
                "device.id": "709e80c88487a2411e1ee4dfb9f22a861492d20c4765150c0c794abd70f8147c",
            },
            "DEVICE_AUTH_PUBLIC_KEY_INVALID",
            "device-public-key",
        ),
    ],
)
async def test_a_proof_that_does_not_fit_is_refused(change: dict[str, Any], code: str, reason: str) -> None:
    knock = await Door().knock(device=Seal(), change=change)
    assert (knock.error["code"], knock.error["details"]) == ("INVALID_REQUEST", {"code": code, "reason": reason})
    assert knock.closed is not None and knock.closed.code == 1008


async def test_a_proof_is_judged_before_its_token() -> None:
    knock = await Door().knock(operator(token=Secret("wrong")), device=Seal(), change={"device.nonce": "another"})
    assert knock.error["details"]["code"] == "DEVICE_AUTH_NONCE_MISMATCH"


# Pairing.


async def test_a_new_device_on_this_machine_is_approved_silently() -> None:
    door = Door()
    knock = await door.knock(operator(client_id="openclaw-tui", mode="ui", scopes=(ADMIN, READ)), device=Seal())
    assert knock.connection.caller.scopes == (ADMIN, READ)
    assert door.requests_of() == []
    assert door.desk.devices[Seal().device_id].scopes == (ADMIN, READ)


def _paired(door: Door, seal: Seal, **fields: Any) -> None:
    given: dict[str, Any] = {"roles": ("operator",), "scopes": (READ,), "platform": "linux"}
    door.desk.devices[seal.device_id] = DeviceState(**(given | fields))


@pytest.mark.parametrize(
    ("peer", "who", "record", "reason", "silent"),
    [
        (REMOTE, {}, None, "not-paired", False),
        (LOCAL, {}, None, "not-paired", True),
        (replace(LOCAL, proxied=True), {}, None, "not-paired", False),
        (replace(LOCAL, host="claw.lan"), {}, None, "not-paired", False),
        (PAGE, {"client_id": "openclaw-control-ui", "mode": "webchat"}, None, "not-paired", True),
        (PAGE, {"client_id": "webchat-ui", "mode": "webchat"}, None, "not-paired", True),
        (PAGE, {}, None, "not-paired", False),
        (REMOTE, {}, {"roles": ("node",)}, "role-upgrade", False),
        (LOCAL, {}, {"roles": ("node",)}, "role-upgrade", True),
        (REMOTE, {"scopes": (WRITE,)}, {}, "scope-upgrade", False),
        (LOCAL, {"scopes": (WRITE,)}, {}, "scope-upgrade", True),
        (REMOTE, {"platform": "Darwin"}, {}, "metadata-upgrade", False),
        (LOCAL, {"platform": "Darwin"}, {}, "metadata-upgrade", True),
        (
            PAGE,
            {"client_id": "openclaw-control-ui", "mode": "webchat", "platform": "Darwin"},
            {},
            "metadata-upgrade",
            False,
        ),
        (REMOTE, {"device_family": "iPad"}, {"device_family": "iphone"}, "metadata-upgrade", False),
    ],
)
async def test_what_is_new_needs_approval_unless_it_is_here(
    peer: Peer, who: dict[str, Any], record: dict[str, Any] | None, reason: str, silent: bool
) -> None:
    door, seal = Door(), Seal()
    if record is not None:
        _paired(door, seal, **record)
    introduction = operator(**who)
    knock = await door.knock(introduction, peer=peer, device=seal)
    if silent:
        assert knock.connection.caller.device_id == seal.device_id
        return
    assert door.requests_of() == [reason]
    error = knock.error
    assert error["code"] == "NOT_PAIRED"
    details = error["details"]
    assert (details["code"], details["reason"]) == ("PAIRING_REQUIRED", reason)
    assert (details["requestId"], details["deviceId"]) == ("request-1", seal.device_id)
    assert (details["requestedRole"], details["requestedScopes"]) == ("operator", list(introduction.scopes))
    assert ("approvedRoles" in details) is (record is not None)
    assert knock.closed is not None and knock.closed.code == 1008
    assert knock.closed.reason.startswith("pairing required: ")
    assert knock.closed.reason.endswith("(requestId: request-1)")


async def test_what_was_approved_before_needs_no_one() -> None:
    door, seal = Door(), Seal()
    _paired(door, seal, scopes=(WRITE,))
    knock = await door.knock(operator(scopes=(READ,), platform=" LINUX "), peer=REMOTE, device=seal)
    assert knock.connection.caller.scopes == (READ,)


async def test_a_device_gets_a_token_and_may_come_back_with_it() -> None:
    door, seal = Door(), Seal()
    first = await door.knock(device=seal)
    (token,) = door.desk.tokens
    assert first.connection.method == "token"
    for fields in ({"token": Secret(token)}, {"token": None, "device_token": Secret(token)}):
        again = await door.knock(operator(**fields), peer=REMOTE, device=seal)
        assert again.connection.method == "device-token"
        assert again.connection.caller.scopes == (READ,)
    assert list(door.desk.tokens) == [token]


async def test_a_token_is_worth_nothing_in_other_hands() -> None:
    door = Door()
    await door.knock(device=Seal("laptop"))
    (token,) = door.desk.tokens
    thief = await door.knock(operator(token=None, device_token=Secret(token)), device=Seal("thief"))
    assert thief.error["details"]["code"] == "AUTH_DEVICE_TOKEN_MISMATCH"


async def test_a_token_opens_only_what_it_was_made_for() -> None:
    door, seal = Door(), Seal()
    await door.knock(device=seal)
    (token,) = door.desk.tokens
    wider = await door.knock(operator(token=None, device_token=Secret(token), scopes=(ADMIN,)), device=seal)
    assert (wider.error["code"], wider.error["details"]["code"]) == ("INVALID_REQUEST", "AUTH_SCOPE_MISMATCH")


async def test_a_device_without_its_token_still_needs_the_secret() -> None:
    door, seal = Door(), Seal()
    _paired(door, seal)
    knock = await door.knock(operator(token=None), device=seal)
    assert knock.error["details"]["code"] == "AUTH_TOKEN_MISSING"


async def test_a_node_has_no_operator_scopes() -> None:
    node = operator(client_id="node-host", mode="node", role="node", scopes=(ADMIN,))
    knock = await Door().knock(node, device=Seal())
    assert (knock.connection.caller.role, knock.connection.caller.scopes) == ("node", ())


async def test_a_book_that_cannot_be_read_is_our_fault_not_theirs() -> None:
    door = Door()
    door.desk.broken = StateError("the database is locked")
    knock = await door.knock(device=Seal())
    assert knock.error == {"code": "UNAVAILABLE", "message": "the database is locked"}
    assert knock.closed is not None and knock.closed.code == 1011


def _connect(device: Seal) -> str:
    return encode(connect_request(operator(), Challenge(NONCE, NOW), "c1", device)).decode()


values = st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.lists(st.text(max_size=4), max_size=2)
paths = st.sampled_from(
    """minProtocol maxProtocol client client.id client.mode client.platform client.version role scopes caps device
    device.id device.publicKey device.signature device.signedAt device.nonce auth auth.token auth.password
    auth.deviceToken auth.bootstrapToken permissions modelCatalog""".split()
)


@given(st.dictionaries(paths, values, max_size=3), st.sampled_from([LOCAL, REMOTE, PAGE]), st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_connect_is_let_in_or_answered_and_closed(change: dict[str, Any], peer: Peer, with_device: bool) -> None:
    tops = {path for path in change if "." not in path}
    change = {path: value for path, value in change.items() if "." not in path or path.split(".")[0] not in tops}

    async def knock() -> None:
        found = await Door().knock(change=change, peer=peer, device=Seal() if with_device else None)
        if found.inside is None:
            assert found.closed is not None
            assert found.error["code"] in ("INVALID_REQUEST", "NOT_PAIRED")
            assert len(found.closed.reason.encode()) <= 123

    anyio.run(knock)


@given(st.lists(st.text(max_size=40) | st.binary(max_size=40), max_size=20))
def test_no_frames_can_break_the_handshake(frames: list[str | bytes]) -> None:
    handshake = Door().handshake()
    for frame in frames:
        assert isinstance(handshake.feed(frame), Send | Close)
