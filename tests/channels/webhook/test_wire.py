"""Signed calls as plain values: what is signed and fresh is taken, everything else is refused."""

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from openclaw.channels.webhook import wire
from openclaw.core.channel import Address, Button, Inbound, Outbound
from openclaw.core.errors import InvalidRequest
from tests.channels.webhook.server import SECRET

KEY = wire.signing_key(SECRET)
TO = Address(channel="webhook", to="ada", thread="t1")


def headers(body: bytes, *, at: int, name: str = "call-1", key: bytes = KEY) -> dict[str, str]:
    return {
        "webhook-id": name,
        "webhook-timestamp": str(at),
        "webhook-signature": wire.sign(key, name, at, body),
    }


def test_the_standards_own_library_agrees_on_signatures_both_ways() -> None:
    body, now = '{"sender": "ada"}', datetime.now(UTC)
    signed = {
        "webhook-id": "call-1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("call-1", now, body),
    }
    assert wire.check_signature(KEY, signed, body.encode(), now.timestamp()) == "call-1"
    ours = headers(body.encode(), at=int(now.timestamp()))
    assert Webhook(SECRET).verify(body, ours) == {"sender": "ada"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body.replace("ada", "eve"), ours)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"webhook-id": "call-2"}, "signature"),
        ({"webhook-id": ""}, "webhook-id"),
        ({"webhook-timestamp": "1000001"}, "signature"),
        ({"webhook-timestamp": "999600"}, "300 seconds"),
        ({"webhook-timestamp": "1000400"}, "300 seconds"),
        ({"webhook-timestamp": "soon"}, "no time"),
        ({"webhook-timestamp": "٣"}, "no time"),
        ({"webhook-signature": ""}, "signature"),
        ({"webhook-signature": "v1,"}, "signature"),
        ({"webhook-signature": "é"}, "signature"),
    ],
)
def test_what_is_not_signed_or_not_fresh_is_refused(change: dict[str, str], why: str) -> None:
    given_headers = headers(b"{}", at=1_000_000)
    assert wire.check_signature(KEY, given_headers, b"{}", 1_000_000.0) == "call-1"
    with pytest.raises(InvalidRequest, match=why):
        wire.check_signature(KEY, {**given_headers, **change}, b"{}", 1_000_000.0)


def test_a_changed_body_and_another_secret_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        wire.check_signature(KEY, headers(b"{}", at=5), b"{ }", 5.0)
    with pytest.raises(InvalidRequest):
        wire.check_signature(KEY, headers(b"{}", at=5, key=b"another"), b"{}", 5.0)


def test_a_message_with_everything() -> None:
    said: dict[str, Any] = {
        "sender": "ada",
        "id": "m1",
        "text": "look",
        "senderName": "Ada",
        "group": "club",
        "thread": "t1",
        "mentioned": True,
        "replyTo": {"id": "m0", "text": "before", "ours": True},
        "files": [{"url": "https://a.test/x.png", "mime": "image/png", "name": "x.png"}],
    }
    found = wire.decode_call(json.dumps(said).encode(), "call-1", "default")
    assert (found.id, found.group, found.thread, found.mentioned) == ("m1", "club", "t1", True)
    assert found.quote is not None and found.quote.ours and found.files[0].kind == "image"


@pytest.mark.parametrize("said", [{}, {"sender": " "}, {"sender": "a", "type": "edit"}, {"sender": 5}, [], "x", None])
def test_what_is_no_message_is_refused(said: Any) -> None:
    with pytest.raises(InvalidRequest):
        wire.decode_call(json.dumps(said).encode(), "call-1", "default")


@given(
    st.binary()
    | st.recursive(st.none() | st.booleans() | st.text(), lambda v: st.dictionaries(st.text(), v)).map(
        lambda v: json.dumps(v).encode()
    )
)
def test_a_body_is_a_message_or_refused(body: bytes) -> None:
    try:
        found = wire.decode_call(body, "call-1", "default")
    except InvalidRequest:
        return
    assert isinstance(found, Inbound)


def test_what_we_say_has_one_name_however_often_it_is_sent() -> None:
    message = Outbound(to=TO, text="**hi**", reply_to="m1", buttons=((Button("Yes", "y"),),), key="k")
    name, body = wire.encode_message(message, [("a.txt", "text/plain", b"x")], time.time())
    said = json.loads(body)
    assert name == said["id"] == "msg_k" and (said["type"], said["to"], said["thread"]) == ("message", "ada", "t1")
    assert said["buttons"] == [[{"text": "Yes", "data": "y"}]] and base64.b64decode(said["files"][0]["data"]) == b"x"
    reaction = json.loads(wire.encode_message(Outbound(to=TO, text="👍", action="react", about="m1"), [], 0.0)[1])
    assert (reaction["type"], reaction["emoji"], reaction["about"]) == ("reaction", "👍", "m1")


@given(st.binary(max_size=200))
def test_any_answer_gives_a_receipt(body: bytes) -> None:
    assert isinstance(wire.decode_receipt(body), str)
