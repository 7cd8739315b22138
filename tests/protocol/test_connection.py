"""A client that is in: its numbers, what it hears, and when it is shown out."""

import json
from typing import Any

import pytest

from openclaw.core.secret import Secret
from openclaw.protocol.auth import DeviceToken
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures
from openclaw.protocol.connection import (
    Close,
    Connection,
    DeviceRemoved,
    GatewayAuthChanged,
    Send,
    TokenRevoked,
)
from openclaw.protocol.events import BusEvent
from openclaw.protocol.frames import ErrorShape, RequestFrame, Response, StateVersion, failure
from openclaw.protocol.rpc import Caller
from openclaw.protocol.scopes import ADMIN, APPROVALS, READ, wrong_role
from tests.protocol.support import event_of

FULL = 52_428_801
SNAPSHOT = HelloSnapshot(
    presence=(),
    health={"ok": True},
    state_version=StateVersion(1, 2),
    uptime_ms=7,
    config_path="/c",
    state_dir="/s",
    auth_mode="token",
)
OFFER = ServerFeatures(version="1", methods=["health"], events=["tick"])


def connection(**fields: Any) -> Connection:
    given: dict[str, Any] = {"conn_id": "c", "scopes": (READ,)}
    return Connection(Caller(**(given | fields)), "token")


def test_broadcasts_are_numbered_from_one_on_each_connection() -> None:
    first, second = connection(), connection()
    news = BusEvent("chat", {"state": "delta"})
    assert [event_of(first.hear(news, 0)).seq for _ in range(3)] == [1, 2, 3]
    assert event_of(second.hear(news, 0)).seq == 1


def test_what_a_client_may_not_hear_leaves_no_gap() -> None:
    client = connection()
    assert client.hear(BusEvent("exec.approval.requested", {}), 0) is None
    assert client.hear(BusEvent("never.heard.of", {}), 0) is None
    assert event_of(client.hear(BusEvent("chat", {}), 0)).seq == 1


def test_a_tick_carries_the_time_to_everyone() -> None:
    frame = json.loads(_data(connection(scopes=()).hear(BusEvent("tick", {"ts": 1234}), 0)))
    assert frame == {"type": "event", "event": "tick", "payload": {"ts": 1234}, "seq": 1}


def test_presence_carries_the_version_of_the_state() -> None:
    frame = json.loads(_data(connection().hear(BusEvent("presence", {}, state_version=StateVersion(3, 4)), 0)))
    assert frame["stateVersion"] == {"presence": 3, "health": 4}


def test_tool_events_go_to_those_who_asked() -> None:
    news = BusEvent("agent", {"stream": "tool"})
    assert connection().hear(news, 0) is None
    assert connection(caps=frozenset(("tool-events",))).hear(news, 0)
    assert connection().hear(BusEvent("agent", {"stream": "lifecycle"}), 0)


@pytest.mark.parametrize(
    ("event", "everywhere", "followed", "heard"),
    [
        ("sessions.changed", False, {"s"}, False),
        ("sessions.changed", True, set(), True),
        ("session.message", False, set(), False),
        ("session.message", True, set(), True),
        ("session.message", False, {"s"}, True),
        ("session.message", False, {"other"}, False),
        ("session.tool", True, set(), False),
        ("session.tool", False, {"s"}, True),
        ("session.approval", False, {"s"}, True),
        ("chat", False, set(), True),
    ],
)
def test_session_events_need_a_subscription(event: str, everywhere: bool, followed: set[str], heard: bool) -> None:
    client = connection(scopes=(READ, APPROVALS))
    client.follows_sessions = everywhere
    client.followed |= followed
    assert (client.hear(BusEvent(event, {}, "s"), 0) is not None) is heard


def test_a_slow_client_misses_what_it_can_do_without() -> None:
    client = connection()
    assert client.hear(BusEvent("tick", {}), FULL) is None
    assert client.hear(BusEvent("chat", {"state": "delta"}), FULL) is None
    assert event_of(client.hear(BusEvent("chat", {"state": "final"}), FULL - 1)).seq == 3


def test_a_slow_client_is_cut_when_it_would_miss_more() -> None:
    slow = Close(1008, "slow consumer")
    assert connection().hear(BusEvent("chat", {"state": "final"}), FULL) == slow
    assert connection().answer(Response(id="1", ok=True, payload={}), FULL) == (slow,)


def test_the_wrong_role_is_forgiven_ten_times_in_a_row() -> None:
    client = connection()
    wrong = failure("1", wrong_role("operator"))
    for _ in range(10):
        assert len(client.answer(wrong, 0)) == 1
    sent, close = client.answer(wrong, 0)
    assert isinstance(sent, Send)
    assert isinstance(close, Close) and close.code == 1008


def test_a_good_answer_forgives_the_wrong_role() -> None:
    client = connection()
    for _ in range(5):
        for _ in range(10):
            assert len(client.answer(failure("1", wrong_role("operator")), 0)) == 1
        client.answer(failure("1", ErrorShape(code="FORBIDDEN", message="missing scope: x")), 0)


def test_frames_after_hello() -> None:
    client = connection()
    assert isinstance(client.receive('{"type":"req","id":"1","method":"health"}'), RequestFrame)
    assert client.receive("not json") is None
    assert json.loads(_data(client.receive('{"id":"7"}')))["id"] == "7"
    again = json.loads(_data(client.receive('{"type":"req","id":"1","method":"connect"}')))
    assert again["error"]["code"] == "INVALID_REQUEST"
    assert client.receive(b" " * 26_214_401) == Close(1009)
    assert client.receive(b" " * 26_214_400) is None


@pytest.mark.parametrize(
    ("change", "method", "code"),
    [
        (DeviceRemoved("d"), "token", 4001),
        (DeviceRemoved("other"), "token", None),
        (TokenRevoked("d", "operator"), "device-token", 4001),
        (TokenRevoked("d", "operator"), "token", 4001),
        (TokenRevoked("d", "node"), "device-token", None),
        (TokenRevoked("other", "operator"), "device-token", None),
        (GatewayAuthChanged(), "token", 4001),
        (GatewayAuthChanged(), "password", 4001),
        (GatewayAuthChanged(), "none", 4001),
        (GatewayAuthChanged(), "device-token", None),
    ],
)
def test_authority_that_is_gone_closes_the_connection(change: Any, method: Any, code: int | None) -> None:
    closed = Connection(Caller(conn_id="c", device_id="d"), method).withdrawn(change)
    assert (closed.code if closed else None) == code


def test_a_client_without_a_device_outlives_the_devices_of_others() -> None:
    assert connection().withdrawn(DeviceRemoved("d")) is None


def test_only_an_admin_learns_where_things_are() -> None:
    for scopes, shown in (((READ,), False), ((ADMIN,), True)):
        hello = json.loads(connection(scopes=scopes).hello("1", OFFER, SNAPSHOT).data)["payload"]
        assert ("configPath" in hello["snapshot"]) is shown
        assert ("stateDir" in hello["snapshot"]) is shown
        assert ("authMode" in hello["snapshot"]) is shown


def test_a_fresh_token_is_shown_once() -> None:
    client = Connection(Caller(conn_id="c"), "token", DeviceToken(Secret("t" * 43), 99))
    first, second = (json.loads(client.hello("1", OFFER, SNAPSHOT).data)["payload"]["auth"] for _ in range(2))
    assert (first["deviceToken"], first["issuedAtMs"]) == ("t" * 43, 99)
    assert "deviceToken" not in second


def test_a_payload_is_encoded_once_for_all() -> None:
    payload = {"a": 1}
    news = BusEvent("chat", payload)
    first = _data(connection().hear(news, 0))
    payload["a"] = 2
    assert _data(connection().hear(news, 0)) == first
    assert first == b'{"type":"event","event":"chat","payload":{"a":1},"seq":1}'


def test_what_a_slow_client_does_without_is_counted() -> None:
    client = connection()
    client.hear(BusEvent("tick", {}), FULL)
    client.hear(BusEvent("exec.approval.requested", {}), FULL)
    assert client.dropped == 1


def _data(action: Any) -> bytes:
    assert isinstance(action, Send)
    return action.data
