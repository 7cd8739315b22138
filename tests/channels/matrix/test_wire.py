"""The words of the client-server API: events of rooms, refusals, and messages as contents of events."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.matrix.wire import (
    EVENT_BYTES,
    RoomState,
    decode_event,
    decode_json,
    decode_media_ref,
    decode_sync,
    encode_file,
    encode_message,
    failure,
    heard_from,
    related_id,
    strip_reply,
)
from openclaw.core.channel import AccountClosed, Address, Inbound, MessageRefused, Outbound, TryLater
from openclaw.core.errors import InvalidRequest

ME, ADA, BOB = "@claw:x", "@ada:x", "@bob:x"
CLUB = RoomState(id="!club:x", name="Club", members={ME: "Claw", ADA: "Ada", BOB: "Bob"})
PAIR = RoomState(id="!pair:x", members={ME: "Claw", ADA: "Ada"})
TO = Address(channel="matrix", to="!club:x")


def event(content: dict[str, Any], kind: str = "m.room.message", sender: str = ADA, **more: Any) -> dict[str, Any]:
    return {"event_id": "$1", "type": kind, "sender": sender, "origin_server_ts": 9, "content": content, **more}


def text(body: str, **more: Any) -> dict[str, Any]:
    return event({"msgtype": "m.text", "body": body, **more})


def heard(found: Inbound | None) -> Inbound:
    assert found is not None
    return found


def test_two_people_are_a_conversation_and_three_a_group() -> None:
    direct = heard(decode_event(text("hi"), PAIR, ME))
    assert (direct.id, direct.sender, direct.sender_name, direct.text, direct.group) == ("$1", ADA, "Ada", "hi", None)
    assert direct.origin == Address(channel="matrix", to="!pair:x")
    group = heard(decode_event(text("hi"), CLUB, ME))
    assert (group.group, group.group_name, group.origin.to) == ("!club:x", "Club", "!club:x")


@pytest.mark.parametrize(
    ("content", "mentioned"),
    [
        ({"body": "hi"}, False),
        ({"body": "hi", "m.mentions": {"user_ids": [ME]}}, True),
        ({"body": "hi", "m.mentions": {"user_ids": [BOB]}}, False),
        ({"body": "Claw: hi"}, True),
        ({"body": "clawed"}, False),
        ({"body": "hi @claw:x"}, True),
        ({"body": "hi @claw"}, True),
        ({"body": "you", "formatted_body": '<a href="https://matrix.to/#/%40claw%3Ax">you</a>'}, True),
        ({"body": "you", "formatted_body": '<a href="https://matrix.to/#/@bob:x">you</a>'}, False),
    ],
)
def test_a_mention(content: dict[str, Any], mentioned: bool) -> None:
    assert heard(decode_event(event({"msgtype": "m.text", **content}), CLUB, ME)).mentioned is mentioned


def test_what_we_and_other_programs_say_is_passed_over() -> None:
    assert decode_event(event({"msgtype": "m.text", "body": "x"}, sender=ME), CLUB, ME) is None
    assert decode_event(event({"msgtype": "m.notice", "body": "x"}), CLUB, ME) is None
    assert decode_event(event({}, kind="m.room.topic"), CLUB, ME) is None
    assert decode_event(event({"msgtype": "m.text", "body": 5}), CLUB, ME) is None


def test_other_kinds_of_messages() -> None:
    assert heard(decode_event(event({"msgtype": "m.emote", "body": "waves"}), PAIR, ME)).text == "* Ada waves"
    place = {"msgtype": "m.location", "body": "here", "geo_uri": "geo:1,2"}
    assert heard(decode_event(event(place), PAIR, ME)).text == "[location geo:1,2]"
    info = {"url": "mxc://x/abc", "info": {"size": 3, "mimetype": "audio/ogg"}}
    voice = event({"msgtype": "m.audio", "body": "a.ogg", "org.matrix.msc3245.voice": {}, **info})
    [file] = heard(decode_event(voice, PAIR, ME)).files
    assert (file.kind, file.name, file.ref, file.mime, file.size) == ("voice", "a.ogg", "mxc://x/abc", "audio/ogg", 3)
    captioned = event({"msgtype": "m.image", "body": "look", "filename": "a.png", **info})
    found = heard(decode_event(captioned, PAIR, ME))
    assert (found.text, found.files[0].name, found.files[0].kind) == ("look", "a.png", "image")
    sticker = heard(decode_event(event({"body": "cat", **info}, kind="m.sticker"), PAIR, ME))
    assert (sticker.text, sticker.files[0].kind) == ("[sticker cat]", "sticker")
    bad = event({"msgtype": "m.file", "body": "a", "url": "mxc://x/../../etc"})
    assert heard(decode_event(bad, PAIR, ME)).files == ()


def test_threads_and_where_their_answers_go() -> None:
    said = text("hi", **{"m.relates_to": {"rel_type": "m.thread", "event_id": "$root", "is_falling_back": True}})
    assert heard(decode_event(said, CLUB, ME)).origin.thread == "$root"
    assert heard(decode_event(said, CLUB, ME, threads="off")).thread is None
    assert heard(decode_event(text("hi"), CLUB, ME, threads="always")).thread == "$1"
    assert heard(decode_event(text("hi"), PAIR, ME, threads="always")).thread is None


def test_a_reply_has_a_quote_and_to_us_it_is_a_mention() -> None:
    said = text("> <@claw:x> before\n> more\n\nafter", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}})
    assert related_id(said) == "$0"
    related = event({"msgtype": "m.text", "body": "before"}, sender=ME)
    found = heard(decode_event(said, CLUB, ME, related=related))
    assert found.text == "after" and found.mentioned and found.quote is not None
    assert (found.quote.id, found.quote.text, found.quote.ours) == ("$0", "before", True)
    assert strip_reply("> a quote of mine\nand words") == "> a quote of mine\nand words"


def test_an_edit_is_by_its_author() -> None:
    content = {"msgtype": "m.text", "body": "* b", "m.new_content": {"msgtype": "m.text", "body": "b"}}
    edit = event({**content, "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}})
    found = heard(decode_event(edit, CLUB, ME, related=event({}, sender=ADA)))
    assert (found.kind, found.about, found.text) == ("edit", "$0", "b")
    assert decode_event(edit, CLUB, ME, related=event({}, sender=BOB)) is None
    assert decode_event(edit, CLUB, ME) is None


def test_a_reaction_and_its_end() -> None:
    relation = {"rel_type": "m.annotation", "event_id": "$0", "key": "👍"}
    reaction = event({"m.relates_to": relation}, kind="m.reaction")
    found = heard(decode_event(reaction, CLUB, ME))
    assert (found.kind, found.about, found.emoji) == ("reaction", "$0", "👍")
    gone = event({}, kind="m.room.redaction", redacts="$1")
    found = heard(decode_event(gone, CLUB, ME, related=reaction))
    assert (found.kind, found.about, found.emoji) == ("reaction", "$0", "")
    assert decode_event(gone, CLUB, ME, related=text("a message")) is None


def test_a_new_room_is_heard_from_the_invitation_on() -> None:
    def member(user: str, membership: str) -> dict[str, Any]:
        return event({"membership": membership}, kind="m.room.member", state_key=user)

    timeline = [member(ADA, "join"), text("before"), member(ME, "invite"), text("after"), member(ME, "join"), text("x")]
    assert heard_from(timeline, ME) == 3
    assert heard_from(timeline[3:], ME) == 2
    assert heard_from(timeline[5:], ME) is None


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (401, {"errcode": "M_UNKNOWN_TOKEN"}, AccountClosed),
        (429, {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 35_000}, TryLater),
        (429, {}, TryLater),
        (502, {}, TryLater),
        (404, {}, TryLater),
        (404, {"errcode": "M_NOT_FOUND"}, MessageRefused),
        (403, {"errcode": "M_FORBIDDEN", "error": "not in the room"}, MessageRefused),
    ],
)
def test_what_a_refusal_means(status: int, answer: dict[str, Any], kind: type[Exception]) -> None:
    error = failure(status, answer)
    assert isinstance(error, kind)
    if isinstance(error, TryLater) and "retry_after_ms" in answer:
        assert error.after == 35


def test_a_message_with_styles_a_thread_and_a_file() -> None:
    content = encode_message(Outbound(to=TO, text='**b** <i> "q" & ![p](https://e.org/p.png)', reply_to="$5"))
    assert content["body"] == 'b <i> "q" & p'
    assert content["formatted_body"] == (
        '<p><strong>b</strong> &lt;i&gt; &quot;q&quot; &amp; <a href="https://e.org/p.png">p</a></p>'
    )
    assert content["m.relates_to"] == {"m.in_reply_to": {"event_id": "$5"}}
    plain = encode_message(Outbound(to=TO, text='it\'s "plain" <text>\nin two lines'))
    assert "formatted_body" not in plain
    threaded = Address(channel="matrix", to="!club:x", thread="$root")
    assert encode_message(Outbound(to=threaded, text="x", reply_to="$5"))["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$5"},
    }
    edit = encode_message(Outbound(to=TO, text="*x*", action="edit", about="$7"))
    assert edit["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$7"}
    assert edit["m.new_content"]["formatted_body"] == "<p><em>x</em></p>"
    file = encode_file(Outbound(to=TO, text="", media=("/tmp/a.png",)), "a.png", "mxc://x/a", 3)
    assert (file["msgtype"], file["body"], file["info"]) == ("m.image", "a.png", {"mimetype": "image/png", "size": 3})
    told = encode_message(Outbound(to=TO, text=f"ask {BOB}, please"))
    assert told["m.mentions"] == {"user_ids": [BOB]}


@pytest.mark.parametrize(
    "body", ['"' * 4_000, "- " * 2_000, "> " * 2_000, "*a*" * 1_333, "👩‍👩‍👧" * 500, "\x01" * 4_000]
)
def test_an_event_always_fits(body: str) -> None:
    for action in ("send", "edit"):
        content = encode_message(Outbound(to=TO, text=body, action=action, about="$1"))
        assert len(json.dumps(content, ensure_ascii=False).encode()) <= EVENT_BYTES + 4_096


def test_an_address_of_a_file_leads_nowhere_else() -> None:
    assert decode_media_ref("mxc://ex.org:80/abc-_1") == "ex.org%3A80/abc-_1"
    for ref in ("mxc://x/../y", "https://x/y", "mxc://x/y?z", "mxc:///y", "mxc://x/y\n"):
        with pytest.raises(MessageRefused):
            decode_media_ref(ref)


def test_halves_of_characters_and_numbers_that_are_none_keep_nobody_from_being_heard() -> None:
    assert decode_json(b'{"a": "\\ud800x", "b": 1e999, "c": NaN, "d": "\\ud83d\\udc4d"}') == {
        "a": "?x",
        "b": None,
        "c": None,
        "d": "👍",
    }


ROOM = {
    "timeline": {
        "limited": True,
        "prev_batch": "p",
        "events": [
            text(
                "hi", format="org.matrix.custom.html", formatted_body="<b>hi</b>", **{"m.mentions": {"user_ids": [ME]}}
            ),
            event({"msgtype": "m.image", "body": "a", "filename": "b", "url": "mxc://x/a", "info": {"size": 1}}),
            event({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$0", "key": "x"}}, kind="m.reaction"),
            text(
                "x", **{"m.relates_to": {"rel_type": "m.thread", "event_id": "$0", "m.in_reply_to": {"event_id": "$0"}}}
            ),
            text("x", **{"m.new_content": {"body": "y"}, "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}}),
            event({}, kind="m.room.redaction", redacts="$0"),
            event({"membership": "join", "displayname": "A"}, kind="m.room.member", state_key=ADA, unsigned={}),
        ],
    },
    "state": {"events": [event({"name": "Club"}, kind="m.room.name", state_key="")]},
}
INVITE = {"invite_state": {"events": [event({"membership": "invite"}, kind="m.room.member", state_key=ME)]}}
SYNC = {"next_batch": "s1", "rooms": {"join": {"!a:x": ROOM}, "invite": {"!b:x": INVITE}, "leave": {"!c:x": {}}}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_a_sync() -> None:
    answer = decode_sync(SYNC)
    [room], [invite] = answer.rooms, answer.invites
    assert (answer.next_batch, answer.left) == ("s1", ("!c:x",))
    assert (room.room, room.limited, room.prev_batch, len(room.timeline)) == ("!a:x", True, "p", 7)
    assert (invite.room, invite.sender, invite.direct) == ("!b:x", ADA, False)


@given(st.data())
def test_no_sync_raises_anything_but_a_bad_request(data: st.DataObject) -> None:
    broken: Any = copy.deepcopy(SYNC)
    for _ in range(data.draw(st.integers(1, 3))):
        here: Any = broken
        while here:
            name = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
            if not isinstance(here[name], dict | list) or data.draw(st.integers(0, 4)) == 0:
                here[name] = data.draw(JSON)
                break
            here = here[name]
    with suppress(InvalidRequest):
        for room in decode_sync(broken).rooms:
            state = RoomState(id=room.room, members={ME: "Claw"})
            for each in (*room.state, *room.timeline):
                state.apply(each)
                heard_from(room.timeline, ME)
                for related in (None, *room.timeline):
                    related_id(each)
                    decode_event(each, state, ME, related=related)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_bad_request(body: bytes) -> None:
    with suppress(InvalidRequest):
        decode_sync(decode_json(body))
