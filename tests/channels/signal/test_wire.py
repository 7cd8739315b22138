"""The words of signal-cli: what is heard, what is written, and that nothing anybody sends does harm."""

import contextlib
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.signal import wire
from openclaw.core.channel import AccountClosed, Address, Inbound, MessageRefused, Outbound, TryLater
from openclaw.core.errors import InvalidRequest
from tests.channels.wire_fuzz import JUNK, mutated

ME = wire.SignalSelf("+15550000", "00000000-0000-4000-8000-000000000000")
MESSAGE: dict[str, Any] = {
    "envelope": {
        "source": "+15550007",
        "sourceNumber": "+15550007",
        "sourceUuid": "00000000-0000-4000-8000-000000000007",
        "sourceName": "Ada",
        "sourceDevice": 1,
        "timestamp": 1700000000001,
        "serverReceivedTimestamp": 1700000000002,
        "dataMessage": {
            "timestamp": 1700000000001,
            "message": "\ufffc 🙂 look, \ufffc",
            "expiresInSeconds": 0,
            "groupInfo": {"groupId": "Y2x1YjEyMzQ1Njc4OTBhYmNkZWY=", "groupName": "Club", "type": "DELIVER"},
            "mentions": [
                {
                    "name": "Claw",
                    "number": None,
                    "uuid": "00000000-0000-4000-8000-000000000000",
                    "start": 0,
                    "length": 1,
                },
                {"name": "Eve", "number": "+15550008", "uuid": None, "start": 11, "length": 1},
            ],
            "attachments": [
                {"contentType": "audio/aac", "filename": None, "id": "abc.aac", "size": 9, "caption": None},
                {"contentType": "image/png", "filename": "a.png", "id": "def.png", "size": 3, "caption": "a cat"},
            ],
            "quote": {"id": 1699, "author": "+15550000", "authorNumber": "+15550000", "text": "before"},
            "sticker": {"packId": "x", "stickerId": 1},
        },
    },
    "account": "+15550000",
}
EDIT: dict[str, Any] = {
    "envelope": {
        "sourceNumber": "+15550007",
        "timestamp": 1700000000009,
        "editMessage": {
            "targetSentTimestamp": 1700000000001,
            "dataMessage": {"timestamp": 1700000000009, "message": "better"},
        },
    }
}
REACTION: dict[str, Any] = {
    "envelope": {
        "source": "00000000-0000-4000-8000-000000000007",
        "sourceNumber": None,
        "sourceUuid": "00000000-0000-4000-8000-000000000007",
        "timestamp": 1700000000005,
        "dataMessage": {
            "timestamp": 1700000000005,
            "reaction": {
                "emoji": "👍",
                "targetAuthor": "+15550000",
                "targetAuthorNumber": "+15550000",
                "targetSentTimestamp": 1700000000003,
                "isRemove": False,
            },
        },
    }
}
RECORDED = (MESSAGE, EDIT, REACTION)


@given(mutated(RECORDED).map(itemgetter(1)) | JUNK)
def test_nothing_but_a_clear_refusal_comes_of_what_people_send(value: Any) -> None:
    with contextlib.suppress(InvalidRequest):
        found = wire.decode_event(value, ME, "default")
        assert found is None or isinstance(found, Inbound)
        if found is not None:
            wire.split_id(found.id)  # an answer can quote it


@given(st.binary() | st.text())
def test_an_event_is_json_or_refused(data: bytes | str) -> None:
    with contextlib.suppress(InvalidRequest):
        wire.decode_json(data)


def test_a_message_with_everything() -> None:
    found = wire.decode_event(MESSAGE, ME, "default")
    assert found is not None
    assert found.text == "🙂 look, @Eve\na cat\n[sticker]"
    assert (found.id, found.sender, found.group_name) == ("1700000000001:+15550007", "+15550007", "Club")
    assert found.mentioned and [each.kind for each in found.files] == ["voice", "image"]
    assert found.quote is not None and found.quote.ours and found.quote.id == "1699"
    edit = wire.decode_event(EDIT, ME, "default")
    assert edit is not None and (edit.kind, edit.about, edit.text) == ("edit", "1700000000001:+15550007", "better")
    reaction = wire.decode_event(REACTION, ME, "default")
    assert reaction is not None and (reaction.emoji, reaction.about) == ("👍", "1700000000003")
    assert reaction.sender == "uuid:00000000-0000-4000-8000-000000000007"


@pytest.mark.parametrize(
    "content",
    [
        {"receiptMessage": {"when": 1}},
        {"typingMessage": {"action": "STARTED"}},
        {"syncMessage": {"sentMessage": {"message": "from my phone"}}},
        {"dataMessage": {"timestamp": 1, "message": None}},
        {},
    ],
)
def test_what_says_nothing_to_us_is_passed_over(content: dict[str, Any]) -> None:
    assert wire.decode_event({"envelope": {"sourceNumber": "+15550007", **content}}, ME, "default") is None
    ours = {**MESSAGE["envelope"], "sourceNumber": ME.number}
    assert wire.decode_event({"envelope": ours}, ME, "default") is None
    assert wire.decode_event({**MESSAGE, "account": "+15559999"}, ME, "default") is None


@pytest.mark.parametrize(
    ("markdown", "text", "ranges"),
    [
        ("**bold** and *soft*", "bold and soft", ["0:4:BOLD", "9:4:ITALIC"]),
        ("🙂 ~~gone~~ `code`", "🙂 gone code", ["3:4:STRIKETHROUGH", "8:4:MONOSPACE"]),
        ("[here](https://x.org) **b**", "here (https://x.org) b", ["21:1:BOLD"]),
        ("> one\n> two\n\n**three**", "> one\n> two\n\nthree", ["13:5:BOLD"]),
        ("> **q**", "> q", ["2:1:BOLD"]),
        ("**[x](https://y.z)** w", "x (https://y.z) w", ["0:1:BOLD"]),
        ("```\na\n```", "a", ["0:1:MONOSPACE"]),
    ],
)
def test_markdown_is_text_with_ranges(markdown: str, text: str, ranges: list[str]) -> None:
    assert wire.encode_text(markdown) == (text, ranges)


@given(st.text(alphabet="ab 🙂*_~`<>[]()#>\n-1.h:/", max_size=80))
def test_ranges_lie_within_the_text(markdown: str) -> None:
    text, ranges = wire.encode_text(markdown)
    size = len(text.encode("utf-16-le")) // 2
    for each in ranges:
        start, length, _ = each.split(":")
        assert int(start) >= 0 and int(length) > 0 and int(start) + int(length) <= size


@pytest.mark.parametrize(
    ("to", "target"),
    [
        ("+15550007", {"recipient": ["+15550007"]}),
        ("signal:+15550007", {"recipient": ["+15550007"]}),
        ("uuid:00000000-0000-4000-8000-000000000007", {"recipient": ["00000000-0000-4000-8000-000000000007"]}),
        ("u:ada.01", {"recipient": ["u:ada.01"]}),
        ("group:Y2x1YjEyMzQ1Njc4OTBhYmNkZWY=", {"groupId": "Y2x1YjEyMzQ1Njc4OTBhYmNkZWY="}),
        ("Y2x1YjEyMzQ1Njc4OTBhYmNkZWY=", {"groupId": "Y2x1YjEyMzQ1Njc4OTBhYmNkZWY="}),
    ],
)
def test_addresses_name_people_and_groups(to: str, target: dict[str, Any]) -> None:
    assert wire.encode_target(Address(channel="signal", to=to)) == target


@pytest.mark.parametrize("to", ["ada", "", "+1 555", "group:x", "-a", "--help"])
def test_nobody_is_refused(to: str) -> None:
    with pytest.raises(MessageRefused, match="nobody on Signal"):
        wire.encode_target(Address(channel="signal", to=to))


def test_only_our_own_messages_are_changed() -> None:
    for action in ("edit", "delete"):
        with pytest.raises(MessageRefused, match="our own"):
            to = Address(channel="signal", to="+15550007")
            wire.encode_message(Outbound(to=to, text="x", action=action, about="1:+15550007"), ME)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": -3, "message": "Failed to send message"}, TryLater),
        ({"code": -5, "message": "Rate limited"}, TryLater),
        ({"code": -4, "message": "Untrusted Identity"}, MessageRefused),
        ({"code": -32602, "message": "Specified account does not exist"}, AccountClosed),
        ({"code": -1, "message": "no"}, MessageRefused),
    ],
)
def test_failures_are_told_apart(error: dict[str, Any], kind: type) -> None:
    assert isinstance(wire.failure("send", 200, {"error": error}, ME.number), kind)


def test_a_message_that_nobody_got_is_not_sent() -> None:
    for kind, raised in (("UNREGISTERED_FAILURE", MessageRefused), ("NETWORK_FAILURE", TryLater)):
        with pytest.raises(raised):
            wire.decode_receipt({"timestamp": 1, "results": [{"type": kind}]})
    with pytest.raises(TryLater) as wait:
        wire.decode_receipt({"timestamp": 1, "results": [{"type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": 90}]})
    assert wait.value.after == 90.0
    some = [{"type": "SUCCESS"}, {"type": "UNREGISTERED_FAILURE"}]
    assert wire.decode_receipt({"timestamp": 7, "results": some}).id == "7"
