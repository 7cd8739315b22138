"""The words of the Bot API: updates, refusals, and messages as requests."""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.telegram.wire import BotIdentity, decode_update, decode_updates, encode_message, failure
from openclaw.core.channel import AccountClosed, Address, MessageRefused, Outbound, TryLater
from openclaw.core.errors import InvalidRequest

BOT = BotIdentity(42, "claw_bot")
ADA = {"id": 7, "is_bot": False, "first_name": "Ada", "last_name": "L"}
UPDATES: list[dict[str, Any]] = [
    {
        "update_id": 1,
        "message": {"message_id": 5, "date": 9, "from": ADA, "chat": {"id": 7, "type": "private"}, "text": "hi"},
    },
    {
        "update_id": 2,
        "message": {
            "message_id": 6,
            "date": 9,
            "from": ADA,
            "chat": {"id": -100, "type": "supergroup", "title": "Club"},
            "is_topic_message": True,
            "message_thread_id": 3,
            "text": "👍 @claw_bot hi",
            "entities": [{"type": "mention", "offset": 3, "length": 9}],
            "reply_to_message": {"message_id": 1, "from": {"id": 42, "is_bot": True}, "text": "before"},
        },
    },
    {
        "update_id": 3,
        "message": {
            "message_id": 7,
            "date": 9,
            "from": ADA,
            "chat": {"id": 7, "type": "private"},
            "caption": "look",
            "media_group_id": "g",
            "photo": [{"file_id": "a", "width": 1, "height": 1}, {"file_id": "b", "width": 9, "height": 9}],
            "document": {"file_id": "c", "file_name": "x.pdf"},
        },
    },
]


def test_a_private_message() -> None:
    heard = decode_update(UPDATES[0], BOT)
    assert heard is not None
    assert (heard.id, heard.sender, heard.sender_name, heard.text, heard.group) == ("5", "7", "Ada L", "hi", None)
    assert heard.origin == Address(channel="telegram", to="7")


def test_a_mention_in_a_topic_is_counted_in_utf16() -> None:
    heard = decode_update(UPDATES[1], BOT)
    assert heard is not None and heard.mentioned
    assert heard.origin == Address(channel="telegram", to="-100", thread="3")
    other = decode_update(UPDATES[1], BotIdentity(43, "other_bot"))
    assert other is not None and not other.mentioned


def test_what_bots_say_and_what_we_do_not_listen_to_is_passed_over_and_acknowledged() -> None:
    bot = {"update_id": 8, "message": {**UPDATES[0]["message"], "from": {**ADA, "is_bot": True}}}
    assert decode_updates([bot, {"update_id": 9, "poll": {}}], BOT, "default") == ([], 10)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"error_code": 401, "description": "Unauthorized"}, AccountClosed),
        ({"error_code": 429, "parameters": {"retry_after": 35}}, TryLater),
        ({"error_code": 409}, TryLater),
        ({"error_code": 502}, TryLater),
        ({"error_code": 403, "description": "bot was blocked by the user"}, MessageRefused),
        ({}, MessageRefused),
    ],
)
def test_what_a_refusal_means(answer: dict[str, Any], kind: type[Exception]) -> None:
    error = failure(answer)
    assert isinstance(error, kind)
    if isinstance(error, TryLater) and "parameters" in answer:
        assert error.after == 35


def test_a_message_with_styles_a_reply_and_a_picture() -> None:
    to = Address(channel="telegram", to="-100", thread="3")
    (call,) = encode_message(Outbound(to=to, text="👍 **bold** [x](javascript:1)", reply_to="5"))
    assert call.method == "sendMessage" and call.params["message_thread_id"] == 3
    assert call.params["entities"] == [{"type": "bold", "offset": 3, "length": 4}]
    (photo,) = encode_message(Outbound(to=to, text="look", media=("/tmp/a.png",)))
    assert (photo.method, photo.field, photo.params["caption"]) == ("sendPhoto", "photo", "look")
    long = encode_message(Outbound(to=to, text="x" * 2_000, media=("/tmp/a.pdf",)))
    assert [each.method for each in long] == ["sendMessage", "sendDocument"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(UPDATES), st.data())
def test_no_update_raises_anything_but_a_bad_request(update: dict[str, Any], data: st.DataObject) -> None:
    broken = copy.deepcopy(update)
    for _ in range(data.draw(st.integers(1, 3))):
        here: Any = broken
        while isinstance(here, dict) and here:
            name = data.draw(st.sampled_from(sorted(here)))
            if not isinstance(here[name], dict) or data.draw(st.booleans()):
                here[name] = data.draw(JSON)
                break
            here = here[name]
    with suppress(InvalidRequest):
        decode_updates([broken], BOT, "default")
