"""A proxy that says who somebody is: when it is believed, what that opens, and what everyone else is told."""

import pytest
from msgspec.structs import replace

from openclaw.core.secret import Secret
from openclaw.protocol.auth import AuthPolicy
from openclaw.protocol.peer import (
    NoProxyUser,
    Peer,
    ProxyRules,
    ProxyUser,
    authenticate_by_proxy,
    is_proxy_authenticated,
)
from openclaw.protocol.scopes import ADMIN, PAIRING, READ, WRITE
from tests.protocol.support import LOCAL, SECRET, Door, Seal, operator

RULES = ProxyRules(
    proxies=("10.0.0.0/28", "fd00::5"),
    user_header="x-forwarded-user",
    required_headers=("x-forwarded-proto",),
    allow_users=("ann@example.org",),
)
GOOD = [("x-forwarded-user", "ann@example.org"), ("x-forwarded-proto", "https")]
POLICY = AuthPolicy(mode="trusted-proxy", secret=Secret(SECRET), allowed_origins=("https://chat.example.org",))
ANN = Peer(remote_ip="10.0.0.5", host="chat.example.org", proxied=True, vouched=ProxyUser("ann@example.org"))
PAGE = replace(ANN, origin="https://chat.example.org")


def test_the_proxy_is_believed() -> None:
    assert authenticate_by_proxy(RULES, "10.0.0.5", GOOD) == ProxyUser("ann@example.org")
    assert authenticate_by_proxy(RULES, "fd00::5", GOOD) == ProxyUser("ann@example.org")
    assert authenticate_by_proxy(
        replace(RULES, allow_users=()), "10.0.0.5", [("x-forwarded-user", "eve"), GOOD[1]]
    ) == ProxyUser("eve")


@pytest.mark.parametrize(
    ("address", "headers", "reason"),
    [
        ("10.0.0.99", GOOD, "untrusted_source"),
        ("", GOOD, "untrusted_source"),
        ("127.0.0.1", GOOD, "untrusted_source"),
        ("10.0.0.5", [GOOD[0]], "missing_header_x-forwarded-proto"),
        ("10.0.0.5", [GOOD[0], ("x-forwarded-proto", " ")], "missing_header_x-forwarded-proto"),
        ("10.0.0.5", [GOOD[1]], "user_missing"),
        ("10.0.0.5", [("x-forwarded-user", "  "), GOOD[1]], "user_missing"),
        ("10.0.0.5", [*GOOD, ("x-forwarded-user", "eve@example.org")], "user_ambiguous"),
        ("10.0.0.5", [("x-forwarded-user", ""), *GOOD], "user_ambiguous"),
        ("10.0.0.5", [("x-forwarded-user", "eve@example.org"), GOOD[1]], "user_not_allowed"),
        ("10.0.0.5", [("x-forwarded-user", "ANN@example.org"), GOOD[1]], "user_not_allowed"),
    ],
)
def test_everyone_else_is_not(address: str, headers: list[tuple[str, str]], reason: str) -> None:
    assert authenticate_by_proxy(RULES, address, headers) == NoProxyUser(f"trusted_proxy_{reason}")


def test_a_proxy_on_this_machine_has_to_be_allowed() -> None:
    rules = replace(RULES, proxies=("127.0.0.1",))
    assert authenticate_by_proxy(rules, "127.0.0.1", GOOD) == NoProxyUser("trusted_proxy_loopback_source")
    assert authenticate_by_proxy(replace(rules, allow_loopback=True), "127.0.0.1", GOOD) == ProxyUser("ann@example.org")


def test_what_came_through_a_proxy_on_this_machine_is_not_local() -> None:
    assert LOCAL.local
    assert not replace(LOCAL, vouched=ProxyUser("ann")).local


@pytest.mark.parametrize(
    ("peer", "vouched"),
    [
        (LOCAL, None),
        (replace(LOCAL, vouched=NoProxyUser("x")), None),
        (ANN, True),
        (replace(ANN, vouched=NoProxyUser("x")), False),
    ],
)
def test_programs_of_this_machine_are_asked_for_the_secret_instead(peer: Peer, vouched: bool | None) -> None:
    assert is_proxy_authenticated(peer) is vouched


@pytest.mark.anyio
@pytest.mark.parametrize("device", [None, Seal()])
async def test_a_page_comes_in_without_pairing_and_keeps_its_scopes(device: Seal | None) -> None:
    door = Door(POLICY)
    who = operator(client_id="openclaw-control-ui", mode="ui", token=None, scopes=(ADMIN, READ))
    inside = (await door.knock(who, peer=PAGE, device=device)).connection
    assert (inside.method, inside.caller.scopes) == ("trusted-proxy", (ADMIN, READ))
    assert door.desk.devices == {} and door.desk.requests == []


@pytest.mark.anyio
async def test_the_proxy_may_narrow_what_a_page_gets() -> None:
    who = operator(client_id="openclaw-control-ui", mode="ui", token=None, scopes=(ADMIN, READ))
    inside = (await Door(POLICY).knock(who, peer=replace(PAGE, scopes_cap=(READ,)))).connection
    assert inside.caller.scopes == (READ,)


@pytest.mark.anyio
async def test_a_page_from_elsewhere_stays_out_though_the_proxy_knows_the_person() -> None:
    who = operator(client_id="openclaw-control-ui", mode="ui", token=None)
    knock = await Door(POLICY).knock(who, peer=replace(ANN, origin="https://evil.example.net"))
    assert knock.error["details"]["code"] == "CONTROL_UI_ORIGIN_NOT_ALLOWED"


@pytest.mark.anyio
async def test_past_the_proxy_nobody_comes_in_from_another_machine_even_with_the_secret() -> None:
    door = Door(POLICY)
    peer = replace(ANN, vouched=NoProxyUser("trusted_proxy_untrusted_source"))
    knock = await door.knock(peer=peer)
    assert knock.error["details"]["code"] == "AUTH_UNAUTHORIZED"
    assert knock.error["details"]["authReason"] == "trusted_proxy_untrusted_source"
    assert knock.closed is not None and knock.closed.code == 1008
    assert SECRET not in str(knock.frames)


@pytest.mark.anyio
async def test_programs_of_this_machine_come_in_with_the_secret() -> None:
    local = replace(LOCAL, vouched=NoProxyUser("trusted_proxy_untrusted_source"))
    inside = (await Door(POLICY).knock(peer=local)).connection
    assert (inside.method, inside.caller.scopes) == ("token", (READ,))
    door = Door(POLICY)
    knock = await door.knock(operator(token=Secret("wrong")), peer=local)
    assert knock.error["details"]["code"] == "AUTH_TOKEN_MISMATCH" and door.limiter.failures


@pytest.mark.anyio
async def test_another_client_through_the_proxy_has_no_scopes_without_a_device() -> None:
    assert (await Door(POLICY).knock(operator(token=None), peer=ANN)).connection.caller.scopes == ()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("allowed", "asked", "paired"),
    [((), (READ,), False), ((READ,), (READ,), True), ((READ,), (READ, WRITE), False), ((WRITE,), (READ,), True)],
)
async def test_a_device_of_somebody_known_is_paired_up_to_what_is_allowed(
    allowed: tuple[str, ...], asked: tuple[str, ...], paired: bool
) -> None:
    door = Door(replace(POLICY, auto_approve=allowed))
    knock = await door.knock(operator(token=None, scopes=asked), peer=ANN, device=Seal())
    if paired:
        assert knock.connection.caller.scopes == asked
    else:
        assert knock.error["details"]["code"] == "PAIRING_REQUIRED"
    assert PAIRING not in str(door.desk.devices)
