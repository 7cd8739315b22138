"""The words of the Bot API: updates, refusals, and messages as requests."""

import copy
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.delivery import steps_of
from openclaw.channels.telegram.wire import (
    FACTS,
    BotIdentity,
    decode_answer,
    decode_bot,
    decode_json,
    decode_receipt,
    decode_update,
    decode_updates,
    encode_commands,
    encode_message,
    encode_target,
    failure,
)
from openclaw.core.channel import (
    AccountClosed,
    Address,
    Button,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Quote,
    TryLater,
)
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.runs.outbox import OutboxEntry
from tests.channels.telegram.payloads import CLAW, UPDATES

BOT = BotIdentity(42, "claw_bot")
HERE = Address(channel="telegram", to="-100", thread="3")


def heard(name: str) -> Inbound:
    event = decode_update(UPDATES[name], BOT)
    assert event is not None
    return event


def test_a_private_message() -> None:
    said = heard("text")
    assert (said.id, said.sender, said.sender_name, said.text, said.group) == ("1", "7", "Ada L", "hi", None)
    assert (said.sender_username, said.timestamp, said.split) == ("ada", 1_700_000_000_000, False)
    assert said.origin == Address(channel="telegram", to="7")
    assert heard("long").split


def test_a_mention_in_a_topic_is_counted_in_utf16() -> None:
    said = heard("topic")
    assert said.mentioned and said.group_name == "Club"
    assert said.origin == Address(channel="telegram", to="-1001", thread="3")
    other = decode_update(UPDATES["topic"], BotIdentity(43, "other_bot"))
    assert other is not None and not other.mentioned


def test_the_message_that_opened_a_topic_is_not_quoted_by_everything_in_it() -> None:
    assert heard("topic").quote is None
    assert heard("general topic").thread == "1"


def test_an_answer_to_us_quotes_and_mentions_us() -> None:
    said = heard("reply")
    assert said.mentioned
    assert said.quote == Quote(id="2", text="Because.", sender="42", sender_name="Claw", ours=True)
    assert heard("reply elsewhere").quote == Quote(id="99", text="the part", sender_name="Eve")


def test_what_is_forwarded_says_so_and_is_never_a_command() -> None:
    assert heard("forward").text == "[forwarded from Eve (x) b]\n/approve x"
    assert heard("forward from a person").text == "[forwarded from Claw]\nnote"
    assert heard("forward from a channel").text == "[forwarded from News]\nnews"


@pytest.mark.parametrize(
    ("name", "text", "file"),
    [
        ("photo", "look", InboundFile(kind="image", ref="big", mime="image/jpeg", size=10)),
        ("document", "", InboundFile(name="x.pdf", ref="d", mime="application/pdf", size=10)),
        ("voice", "", InboundFile(kind="voice", ref="v", mime="audio/ogg", size=10)),
        ("audio", "", InboundFile(kind="audio", name="song.mp3", ref="a", mime="audio/mpeg", size=10)),
        ("video", "", InboundFile(kind="video", ref="w", mime="video/mp4", size=10)),
        ("video note", "", InboundFile(kind="video", ref="n", mime="video/mp4", size=10)),
        ("animation", "", InboundFile(kind="video", ref="g", mime="video/mp4", size=10)),
        ("sticker", "[sticker 👍]", InboundFile(kind="sticker", ref="s", mime="video/webm", size=10)),
    ],
)
def test_files_have_what_fetches_them(name: str, text: str, file: InboundFile) -> None:
    said = heard(name)
    assert (said.text, said.files) == (text, (file,))
    assert said.album == ("g1" if name == "photo" else None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("location", "[location 52.5, 13.4]"),
        ("venue", "[place Café, Street 1, 52.5, 13.4]"),
        ("contact", "[contact Bob M +100]"),
        ("poll", "[poll Tea?: yes / no]"),
        ("dice", "[🎲 shows 5]"),
        ("command", "/status now"),
    ],
)
def test_what_is_not_text_is_told_in_words(name: str, text: str) -> None:
    assert heard(name).text == text


def test_who_speaks_for_a_group_or_a_channel_is_that_group_or_channel() -> None:
    assert (heard("anonymous").sender, heard("anonymous").group) == ("-55", "-55")
    assert (heard("channel post").sender, heard("channel post").sender_name) == ("-1002", "News")


def test_edits_presses_and_reactions_are_about_a_message() -> None:
    edit = heard("edit")
    assert (edit.kind, edit.about, edit.text, edit.id) == ("edit", "1", "hello", "edit:928")
    press = heard("press")
    assert (press.kind, press.about, press.button, press.press) == ("press", "5", "ok:1", "4382bfdwdsb323b2d9")
    assert press.origin == Address(channel="telegram", to="-1001", thread="3")
    reaction = heard("reaction")
    assert (reaction.kind, reaction.about, reaction.emoji) == ("reaction", "5", "🔥")
    assert heard("reaction taken back").emoji == ""
    assert len({heard(name).id for name in ("edit", "press", "reaction", "reaction taken back", "text")}) == 5


@pytest.mark.parametrize("name", ["bot", "joined", "live location", "membership"])
def test_what_bots_say_and_what_nobody_said_is_passed_over_and_acknowledged(name: str) -> None:
    assert decode_updates([UPDATES[name]], BOT, "default") == ([], UPDATES[name]["update_id"] + 1)


def test_presses_and_reactions_of_bots_are_passed_over() -> None:
    for name, kind, who in (("press", "callback_query", "from"), ("reaction", "message_reaction", "user")):
        assert decode_update({"update_id": 1, kind: {**UPDATES[name][kind], who: CLAW}}, BOT) is None


def test_an_update_that_cannot_be_read_does_not_keep_back_the_next() -> None:
    broken = {"update_id": 1, "message": {"message_id": "x", "from": {"id": None}, "text": "hi"}}
    events, following = decode_updates([broken, UPDATES["text"]], BOT, "default")
    assert [each.text for each in events] == ["hi"] and following == 902


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
    call = encode_message(Outbound(to=HERE, text="👍 **bold** [x](javascript:1)", reply_to="5"))
    assert call.method == "sendMessage" and call.params["message_thread_id"] == 3
    assert call.params["entities"] == [{"type": "bold", "offset": 3, "length": 4}]
    photo = encode_message(Outbound(to=HERE, text="look", media=("/tmp/a.png",)))
    assert (photo.method, photo.field, photo.params["caption"]) == ("sendPhoto", "photo", "look")
    long = Outbound(to=HERE, text="x" * 2_000, media=("/tmp/a.pdf",))
    steps = steps_of(OutboxEntry(id="1", message=long, state="pending", position=1, pieces=(long.text,)), FACTS)
    assert [encode_message(each).method for each in steps] == ["sendMessage", "sendDocument"]


@pytest.mark.parametrize(
    ("name", "voice", "method"),
    [
        ("a.JPG", False, "sendPhoto"),
        ("a.ogg", True, "sendVoice"),
        ("a.ogg", False, "sendAudio"),
        ("a.mp4", False, "sendVideo"),
        ("a.gif", False, "sendAnimation"),
        ("a", False, "sendDocument"),
    ],
)
def test_a_file_goes_as_what_it_is(name: str, voice: bool, method: str) -> None:
    assert encode_message(Outbound(to=HERE, text="", media=(name,), voice=voice)).method == method


def test_what_is_done_to_a_message() -> None:
    edit = encode_message(Outbound(to=HERE, text="*x*", action="edit", about="5"), link_preview=False)
    assert edit.method == "editMessageText"
    assert edit.params == {
        "chat_id": -100,
        "message_id": 5,
        "text": "x",
        "entities": [{"type": "italic", "offset": 0, "length": 1}],
        "link_preview_options": {"is_disabled": True},
    }
    react = encode_message(Outbound(to=HERE, text="❤\ufe0f", action="react", about="5"))
    assert react.params["reaction"] == [{"type": "emoji", "emoji": "❤"}]
    assert encode_message(Outbound(to=HERE, text="", action="react", about="5")).params["reaction"] == []
    assert encode_message(Outbound(to=HERE, text="", action="delete", about="5")).method == "deleteMessage"


def test_buttons_come_in_rows() -> None:
    rows = ((Button("Yes", "ok:1"), Button("No", "no:1")), ())
    call = encode_message(Outbound(to=HERE, text="May I?", buttons=rows))
    assert call.params["reply_markup"] == {
        "inline_keyboard": [[{"text": "Yes", "callback_data": "ok:1"}, {"text": "No", "callback_data": "no:1"}]]
    }


@pytest.mark.parametrize(
    "message",
    [
        Outbound(to=HERE, text="x", buttons=((Button("Yes", "é" * 33),),)),
        Outbound(to=HERE, text="x", buttons=((Button(" ", "x"),),)),
        Outbound(to=HERE, text="x", action="edit", about="five"),
        Outbound(to=HERE, text="x", action="delete"),
        Outbound(to=HERE, text="x", action="edit", about="5", media=("/tmp/a.png",)),
        Outbound(to=Address(channel="telegram", to="Ada"), text="x"),
        Outbound(to=Address(channel="telegram", to="7", thread="x"), text="x"),
    ],
)
def test_what_telegram_cannot_do_is_refused_before_it_is_asked(message: Outbound) -> None:
    with pytest.raises(MessageRefused):
        encode_message(message)


def test_the_general_topic_is_named_for_typing_only() -> None:
    general = Address(channel="telegram", to="-100", thread="1")
    assert encode_target(general) == {"chat_id": -100}
    assert encode_target(general, sending=False) == {"chat_id": -100, "message_thread_id": 1}
    assert encode_target(Address(channel="telegram", to="telegram:@news")) == {"chat_id": "@news"}


def test_the_menu_has_names_that_telegram_takes_each_once() -> None:
    entries = [("help", "what\ncan be typed"), ("Bad-Name", "x"), ("help", "again"), ("x", "")]
    assert encode_commands(entries) == [
        {"command": "help", "description": "what can be typed"},
        {"command": "x", "description": "x"},
    ]
    assert len(encode_commands([(f"c{number}", "x") for number in range(200)])) == 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(list(UPDATES.values())), st.data())
def test_no_update_raises_anything_but_a_bad_request(update: dict[str, Any], data: st.DataObject) -> None:
    broken = copy.deepcopy(update)
    for _ in range(data.draw(st.integers(1, 3))):
        here: Any = broken
        while here and isinstance(here, dict | list):
            name = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
            if not isinstance(here[name], dict | list) or data.draw(st.booleans()):
                if isinstance(here, dict) and data.draw(st.booleans()):
                    del here[name]
                else:
                    here[name] = data.draw(JSON)
                break
            here = here[name]
    with suppress(InvalidRequest):
        decode_update(broken, BOT)
    with suppress(InvalidRequest):
        decode_updates([broken], BOT, "default")


@given(JSON)
def test_no_answer_raises_anything_but_a_bad_request(answer: Any) -> None:
    for read in (decode_bot, decode_receipt, lambda each: decode_update(each, BOT)):
        with suppress(InvalidRequest):
            read(answer)
    with suppress(InvalidRequest):
        decode_updates(answer, BOT, "default")


@given(st.binary(max_size=20) | JSON.map(repr).map(str.encode))
def test_no_bytes_raise_anything_but_what_a_refusal_means(body: bytes) -> None:
    with suppress(InvalidRequest):
        decode_json(body)
    with suppress(OpenClawError):
        decode_answer(body)
