"""Updates of every kind, as the Bot API sends them (people and ids made up)."""

from typing import Any

ADA: dict[str, Any] = {
    "id": 7,
    "is_bot": False,
    "first_name": "Ada",
    "last_name": "L",
    "username": "ada",
    "language_code": "en",
}
CLAW: dict[str, Any] = {"id": 42, "is_bot": True, "first_name": "Claw", "username": "claw_bot"}
PRIVATE: dict[str, Any] = {"id": 7, "first_name": "Ada", "last_name": "L", "username": "ada", "type": "private"}
CLUB: dict[str, Any] = {"id": -1001, "title": "Club", "is_forum": True, "type": "supergroup"}
ROOM: dict[str, Any] = {"id": -55, "title": "Room", "type": "group", "all_members_are_administrators": True}
NEWS: dict[str, Any] = {"id": -1002, "title": "News", "username": "news", "type": "channel"}


def _file(name: str, **more: Any) -> dict[str, Any]:
    return {"file_id": name, "file_unique_id": f"u{name}", "file_size": 10, **more}


def _said(number: int, **more: Any) -> dict[str, Any]:
    body = {"message_id": number, "from": ADA, "chat": PRIVATE, "date": 1_700_000_000, **more}
    return {"update_id": 900 + number, "message": body}


UPDATES: dict[str, dict[str, Any]] = {
    "text": _said(1, text="hi"),
    "topic": _said(
        2,
        chat=CLUB,
        is_topic_message=True,
        message_thread_id=3,
        text="👍 @claw_bot hi",
        entities=[{"type": "mention", "offset": 3, "length": 9}],
        reply_to_message={
            "message_id": 3,
            "from": CLAW,
            "chat": CLUB,
            "date": 1,
            "forum_topic_created": {"name": "Plans", "icon_color": 7322096},
        },
    ),
    "general topic": _said(3, chat=CLUB, text="hello all"),
    "reply": _said(
        4,
        chat=ROOM,
        text="why?",
        reply_to_message={"message_id": 2, "from": CLAW, "chat": ROOM, "date": 1, "text": "Because. And so on."},
        quote={"text": "Because.", "position": 0, "is_manual": True},
    ),
    "reply elsewhere": _said(
        5,
        text="see",
        external_reply={"origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Eve"}, "message_id": 99},
        quote={"text": "the part", "position": 0},
    ),
    "forward": _said(
        6, text="/approve x", forward_origin={"type": "hidden_user", "date": 1, "sender_user_name": "Eve [x]\nb"}
    ),
    "forward from a person": _said(7, text="note", forward_origin={"type": "user", "date": 1, "sender_user": CLAW}),
    "forward from a channel": _said(
        8, text="news", forward_origin={"type": "channel", "date": 1, "chat": NEWS, "message_id": 4}
    ),
    "photo": _said(
        9,
        caption="look",
        media_group_id="g1",
        photo=[_file("big", width=90, height=90), _file("small", width=9, height=9)],
    ),
    "document": _said(10, document=_file("d", file_name="x.pdf", mime_type="application/pdf")),
    "voice": _said(11, voice=_file("v", duration=3, mime_type="audio/ogg")),
    "audio": _said(12, audio=_file("a", duration=3, file_name="song.mp3", mime_type="audio/mpeg")),
    "video": _said(13, video=_file("w", duration=3, width=1, height=1, mime_type="video/mp4")),
    "video note": _said(14, video_note=_file("n", duration=3, length=240)),
    "animation": _said(
        15,
        animation=_file("g", duration=3, width=1, height=1, mime_type="video/mp4"),
        document=_file("g", mime_type="video/mp4"),
    ),
    "sticker": _said(
        16,
        sticker=_file("s", width=1, height=1, emoji="👍", is_animated=False, is_video=True, type="regular"),
    ),
    "location": _said(17, location={"latitude": 52.5, "longitude": 13.4}),
    "venue": _said(
        18,
        venue={"location": {"latitude": 52.5, "longitude": 13.4}, "title": "Café", "address": "Street 1"},
        location={"latitude": 52.5, "longitude": 13.4},
    ),
    "contact": _said(19, contact={"phone_number": "+100", "first_name": "Bob", "last_name": "M"}),
    "poll": _said(
        20,
        poll={
            "id": "1",
            "question": "Tea?",
            "options": [
                {"text": "yes", "voter_count": 0, "persistent_id": "a"},
                {"text": "no", "voter_count": 0, "persistent_id": "b"},
            ],
            "total_voter_count": 0,
            "is_closed": False,
            "is_anonymous": True,
            "type": "regular",
            "allows_multiple_answers": False,
            "allows_revoting": False,
            "members_only": False,
        },
    ),
    "dice": _said(21, dice={"emoji": "🎲", "value": 5}),
    "command": _said(
        22,
        chat=ROOM,
        text="/status@Claw_Bot now",
        entities=[{"type": "bot_command", "offset": 0, "length": 16}],
    ),
    "anonymous": _said(
        23,
        chat=ROOM,
        text="from the group",
        sender_chat=ROOM,
        **{"from": {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}},
    ),
    "long": _said(24, text="x" * 4_096),
    "joined": _said(25, chat=ROOM, new_chat_members=[ADA]),
    "bot": _said(26, text="I am a bot", **{"from": CLAW}),
    "channel post": {
        "update_id": 927,
        "channel_post": {"message_id": 27, "sender_chat": NEWS, "chat": NEWS, "date": 1_700_000_000, "text": "news"},
    },
    "edit": {
        "update_id": 928,
        "edited_message": {
            "message_id": 1,
            "from": ADA,
            "chat": PRIVATE,
            "date": 1_700_000_000,
            "edit_date": 1_700_000_009,
            "text": "hello",
        },
    },
    "live location": {
        "update_id": 929,
        "edited_message": {
            "message_id": 17,
            "from": ADA,
            "chat": PRIVATE,
            "date": 1_700_000_000,
            "edit_date": 1_700_000_009,
            "location": {"latitude": 52.5, "longitude": 13.4, "live_period": 60},
        },
    },
    "press": {
        "update_id": 930,
        "callback_query": {
            "id": "4382bfdwdsb323b2d9",
            "from": ADA,
            "message": {
                "message_id": 5,
                "from": CLAW,
                "chat": CLUB,
                "date": 1_700_000_000,
                "text": "May I?",
                "is_topic_message": True,
                "message_thread_id": 3,
            },
            "chat_instance": "1",
            "data": "ok:1",
        },
    },
    "reaction": {
        "update_id": 931,
        "message_reaction": {
            "chat": PRIVATE,
            "message_id": 5,
            "user": ADA,
            "date": 1_700_000_000,
            "old_reaction": [{"type": "emoji", "emoji": "👍"}],
            "new_reaction": [{"type": "emoji", "emoji": "👍"}, {"type": "emoji", "emoji": "🔥"}],
        },
    },
    "reaction taken back": {
        "update_id": 932,
        "message_reaction": {
            "chat": PRIVATE,
            "message_id": 5,
            "user": ADA,
            "date": 1_700_000_000,
            "old_reaction": [{"type": "emoji", "emoji": "👍"}],
            "new_reaction": [],
        },
    },
    "membership": {
        "update_id": 933,
        "my_chat_member": {
            "chat": ROOM,
            "from": ADA,
            "date": 1_700_000_000,
            "old_chat_member": {"status": "left", "user": CLAW},
            "new_chat_member": {"status": "member", "user": CLAW},
        },
    },
}
