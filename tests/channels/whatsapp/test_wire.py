"""Meta's calls and requests as plain values."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.whatsapp import wire
from openclaw.core.channel import AccountClosed, Address, Button, Inbound, MessageRefused, Outbound, TryLater
from openclaw.core.errors import InvalidRequest
from tests.channels.whatsapp.server import ADA, APP_SECRET, NUMBER, NUMBER_ID, signed, value_of

TO = Address(channel="whatsapp", to=f"+{ADA}")


def decode(**message: Any) -> Inbound:
    full = {"from": ADA, "id": "wamid.1", "timestamp": "1700000000", **message}
    body = json.dumps(value_of({"messages": [full], "contacts": [{"wa_id": ADA, "profile": {"name": "Ada"}}]})).encode()
    (event,) = wire.decode_call(body, NUMBER_ID, "default").events
    return event


def test_what_people_do_is_understood() -> None:
    text = decode(type="text", text={"body": "hi"}, context={"from": NUMBER, "id": "wamid.0"})
    assert (text.text, text.sender, text.sender_name, text.timestamp) == ("hi", f"+{ADA}", "Ada", 1_700_000_000_000)
    assert text.quote is not None and text.quote.ours
    assert decode(type="text", text={"body": "x"}, context={"forwarded": True}).forwarded
    image = decode(type="image", image={"id": "9", "mime_type": "image/jpeg", "caption": "look"})
    assert (image.text, image.files[0].kind, image.files[0].ref) == ("look", "image", "9")
    voice = decode(type="audio", audio={"id": "9", "mime_type": "audio/ogg; codecs=opus", "voice": True})
    assert (voice.files[0].kind, voice.files[0].mime) == ("voice", "audio/ogg")
    reaction = decode(type="reaction", reaction={"message_id": "wamid.0", "emoji": "👍"})
    assert (reaction.kind, reaction.about, reaction.emoji) == ("reaction", "wamid.0", "👍")
    choice = {"type": "button_reply", "button_reply": {"id": "yes", "title": "Yes"}}
    press = decode(type="interactive", interactive=choice, context={"id": "wamid.0", "from": NUMBER})
    assert (press.kind, press.about, press.button) == ("press", "wamid.0", "yes")
    assert "52.500000" in decode(type="location", location={"latitude": 52.5, "longitude": 13.4}).text
    assert "order" in decode(type="order").text


def test_a_message_that_failed_later_is_told_with_the_reason() -> None:
    status = {"id": "wamid.1", "status": "failed", "recipient_id": ADA, "errors": [{"code": 131047, "title": "x"}]}
    news = wire.decode_call(json.dumps(value_of({"statuses": [status]})).encode(), NUMBER_ID, "default")
    assert news.failures == ((f"+{ADA}", wire.WINDOW),) and not news.events


def test_another_number_of_the_app_is_not_ours() -> None:
    body = json.dumps(value_of({"messages": []}, number="999")).encode()
    assert not wire.decode_call(body, NUMBER_ID, "default").ours


def test_only_the_apps_secret_signs() -> None:
    call = signed({"entry": []})
    header = call.headers["x-hub-signature-256"]
    assert wire.is_signed(call.body, header, APP_SECRET)
    assert not wire.is_signed(call.body + b" ", header, APP_SECRET)
    assert not wire.is_signed(call.body, header, "another") and not wire.is_signed(call.body, "", APP_SECRET)
    assert not wire.is_signed(call.body, "é", APP_SECRET)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda v: (
        st.lists(v, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["from", "id", "type", "text", "body", "image", "context", "reaction", "interactive", "timestamp"]
            ),
            v,
        )
    ),
    max_leaves=12,
)


@given(
    st.binary()
    | JSON.map(lambda v: json.dumps(v).encode())
    | JSON.map(lambda v: json.dumps(value_of({"messages": [v]})).encode())
)
def test_a_call_is_understood_or_refused(body: bytes) -> None:
    try:
        news = wire.decode_call(body, NUMBER_ID, "default")
    except InvalidRequest:
        return
    assert all(isinstance(each, Inbound) for each in news.events)


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("**bold** and *it*", "*bold* and _it_"),
        ("~~gone~~ `code`", "~gone~ `code`"),
        ("# Head\n\ntext", "*Head*\n\ntext"),
        ("```py\nx = **1**\n```", "```x = **1**```"),
        ("> said\n> twice", "> said\n> twice"),
        ("[here](https://a.test)", "here (https://a.test)"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("- a\n- **b**", "• a\n• *b*"),
    ],
)
def test_markdown_becomes_whatsapps_marks(markdown: str, written: str) -> None:
    assert wire.encode_text(markdown) == written


@given(st.text(max_size=300))
def test_any_text_is_written(text: str) -> None:
    assert isinstance(wire.encode_text(text), str) and wire.length(text) >= 0


@pytest.mark.parametrize("count", [1, 3, 4, 10, 11])
def test_buttons_are_what_whatsapp_can_show(count: int) -> None:
    row = tuple(Button(f"a label that is long {place}", f"d{place}") for place in range(count))
    body = wire.encode_message(Outbound(to=TO, text="Which?", buttons=(row,)))
    if count > 10:
        assert body["type"] == "text" and "11. a label" in body["text"]["body"]
        return
    action = body["interactive"]["action"]
    if count <= 3:
        assert [each["reply"]["id"] for each in action["buttons"]] == [each.data for each in row]
        assert all(len(each["reply"]["title"]) <= 20 for each in action["buttons"])
    else:
        assert [each["id"] for each in action["sections"][0]["rows"]] == [each.data for each in row]


def test_a_text_too_long_for_buttons_keeps_its_choices_in_words() -> None:
    body = wire.encode_message(Outbound(to=TO, text="x" * 1_500, buttons=((Button("Yes", "y"),),)))
    assert body["type"] == "text" and body["text"]["body"].endswith("1. Yes")


@pytest.mark.parametrize(
    ("mime", "size", "text", "kind"),
    [
        ("image/png", 100, "look", "image"),
        ("image/png", 6_000_000, "look", "document"),
        ("image/webp", 100, "", "document"),
        ("audio/ogg", 100, "", "audio"),
        ("audio/ogg", 100, "words", "document"),
        ("video/mp4", 100, "", "video"),
    ],
)
def test_files_are_shown_as_what_they_are(mime: str, size: int, text: str, kind: str) -> None:
    body = wire.encode_message(Outbound(to=TO, text=text), "m1", mime, "n.x", size)
    assert body["type"] == kind and body[kind]["id"] == "m1"


@pytest.mark.parametrize("to", ["ada", "", "+0123456", "12", "+1555 abc"])
def test_what_is_no_number_is_refused(to: str) -> None:
    with pytest.raises(MessageRefused, match="country"):
        wire.to_number(to)
    assert wire.to_number("+1 (555) 111-0001") == ADA


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, 131047, MessageRefused),
        (400, 131026, MessageRefused),
        (400, 131056, TryLater),
        (429, 130429, TryLater),
        (500, -1, TryLater),
        (401, 190, AccountClosed),
        (400, 190, AccountClosed),
    ],
)
def test_what_meta_means(status: int, code: int, kind: type[Exception]) -> None:
    error = wire.failure(status, {"error": {"code": code, "message": "m"}}, "7")
    assert type(error) is kind
    if code == 131047:
        assert "24 hours" in error.message
