"""The words of Slack: what is heard, what is written, and that nothing anybody sends does harm."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.access import Admit, Ignore, judge
from openclaw.channels.settings import convert_channels
from openclaw.channels.slack import wire
from openclaw.channels.slack.emoji import from_name, to_name
from openclaw.channels.slack.mrkdwn import encode_text
from openclaw.channels.slack.settings import SlackSettings
from openclaw.core.channel import Address, Button, Inbound, MessageRefused, Outbound, TryLater
from openclaw.core.errors import ConfigError, InvalidRequest
from openclaw.core.secret import Secret
from tests.channels.wire_fuzz import mutated

ME = wire.SlackIdentity("U900", "claw", "T01", "B900")
NAMES = {"U007": "Ada", "U008": "Eve"}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "channel": "C200",
    "channel_type": "channel",
    "user": "U007",
    "text": "<@U900> see <#C200|general>, <@U008> and <https://x.org/?a=1&amp;b|this> &lt;b&gt; <!here>",
    "ts": "1700000000.000200",
    "thread_ts": "1700000000.000100",
    "parent_user_id": "U008",
    "blocks": [{"type": "rich_text"}],
    "edited": None,
    "files": [
        {
            "id": "F1",
            "name": "a.m4a",
            "mimetype": "audio/mp4",
            "size": 9,
            "subtype": "slack_audio",
            "url_private_download": "https://files.slack.com/a",
        }
    ],
}
CHANGED: dict[str, Any] = {
    "type": "message",
    "subtype": "message_changed",
    "channel": "C200",
    "ts": "1700000000.000400",
    "message": {"user": "U007", "text": "better", "ts": "1700000000.000200", "edited": {"ts": "1700000000.000000"}},
    "previous_message": {"user": "U007", "text": "before", "ts": "1700000000.000200"},
}
REACTION: dict[str, Any] = {
    "type": "reaction_added",
    "user": "U007",
    "reaction": "+1::skin-tone-3",
    "item_user": "U900",
    "item": {"type": "message", "channel": "D007", "ts": "1700000000.000300"},
    "event_ts": "1700000000.000500",
}
PRESS: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "U007", "username": "ada", "name": "ada"},
    "team": {"id": "T01"},
    "channel": {"id": "C200", "name": "general"},
    "container": {"message_ts": "1700000000.000300", "thread_ts": "1700000000.000100", "channel_id": "C200"},
    "actions": [{"type": "button", "value": "approve:x", "action_ts": "1700000000.000600"}],
}
SLASH: dict[str, Any] = {
    "command": "/openclaw",
    "text": "status all",
    "user_id": "U007",
    "user_name": "ada",
    "channel_id": "D007",
    "team_id": "T01",
    "trigger_id": "1.2",
}
RECORDED = (MESSAGE, CHANGED, REACTION, PRESS, SLASH)


def _as_is(kind: type, value: Any) -> Any:
    return value


def decode(kind: int, value: Any) -> Inbound | None:
    match kind:
        case 0 | 1:
            said = wire.decode(value, wire.SlackMessage)
            wire.people_in(said)
            return wire.decode_message(said, ME, "default", NAMES, threads=True)
        case 2:
            return wire.decode_reaction(wire.decode(value, wire.SlackReaction), ME, "default", removed=False)
        case 3:
            return wire.decode_press(wire.decode(value, wire.SlackInteraction), "default")
        case _:
            return wire.decode_slash(wire.decode(value, wire.SlackSlash), "default", "openclaw", ("status",))


@given(mutated(RECORDED))
def test_nothing_but_a_clear_refusal_comes_of_what_people_send(case: tuple[int, Any]) -> None:
    with contextlib.suppress(InvalidRequest):
        found = decode(*case)
        assert found is None or isinstance(found, Inbound)


@given(st.binary() | st.text(), st.sampled_from(("application/json", "application/x-www-form-urlencoded")))
def test_a_frame_and_a_call_are_read_or_refused(data: bytes | str, kind: str) -> None:
    with contextlib.suppress(InvalidRequest):
        wire.decode_envelope(data)
    with contextlib.suppress(InvalidRequest):
        wire.team_of(wire.decode_call(kind, data if isinstance(data, bytes) else data.encode(errors="replace")))


def test_a_message_with_everything() -> None:
    found = decode(0, MESSAGE)
    assert found is not None
    assert found.text == "see #general, @Eve and this (https://x.org/?a=1&b) <b> @here"
    assert (found.group, found.thread, found.mentioned, found.files[0].kind) == (
        "C200",
        "1700000000.000100",
        True,
        "voice",
    )
    edit = decode(1, CHANGED)
    assert edit is not None and (edit.kind, edit.about, edit.text) == ("edit", "1700000000.000200", "better")
    reaction = decode(2, REACTION)
    assert reaction is not None and (reaction.emoji, reaction.group, reaction.mentioned) == ("👍", None, True)
    press = decode(3, PRESS)
    assert press is not None and (press.button, press.thread) == ("approve:x", "1700000000.000100")


@pytest.mark.parametrize(
    ("command", "text", "means"),
    [
        ("/openclaw", "status all", "/status all"),
        ("/openclaw", "what is new?", "what is new?"),
        ("/openclaw", "", "/help"),
        ("/agentstatus", "", "/status"),
        ("/new", "opus", "/new opus"),
    ],
)
def test_commands_of_the_menu_are_the_words_they_stand_for(command: str, text: str, means: str) -> None:
    found = decode(4, {**SLASH, "command": command, "text": text})
    assert found is not None and found.text == means


def test_our_own_words_and_those_of_programs_are_passed_over() -> None:
    for more in ({"user": "U900"}, {"bot_id": "B1"}, {"subtype": "channel_join"}, {"subtype": "message_deleted"}):
        assert decode(0, {**MESSAGE, **more}) is None
    # A preview of a link changes a message, too.
    assert decode(1, {**CHANGED, "message": {**CHANGED["message"], "edited": None}}) is None


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("**bold** and *soft*, ~~gone~~ `a*b`", "*bold* and _soft_, ~gone~ `a*b`"),
        ("**all _of_ it**", "*all _of_ it*"),
        ("un**believ**able", "un\u200b*believ*\u200bable"),
        ("# Head\n\ntext", "*Head*\n\ntext"),
        ("> one\n> two\n\nthree", "> one\n> two\n\nthree"),
        ("[here](https://x.org/a|b) https://y.org", "<https://x.org/a%7Cb|here> https://y.org"),
        ("[up](#top) [in](docs/a.md)", "up in (docs/a.md)"),
        ("- a\n- **b**", "• a\n• *b*"),
        ("1 < 2 & <!channel> <@U007>", "1 &lt; 2 &amp; &lt;!channel&gt; <@U007>"),
        ("```py\na < b\n```", "```\na &lt; b\n```"),
        ("**one\ntwo**", "*one*\n*two*"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "```\na  b\n-  -\n1  2\n```"),
    ],
)
def test_markdown_is_written_as_slack_reads_it(markdown: str, written: str) -> None:
    assert encode_text(markdown) == written


@given(st.text(alphabet="ab *_~`<>&|[]()#>\n-1.!@U0", max_size=80))
def test_no_text_calls_anybody_who_is_not_named(text: str) -> None:
    assert "<!" not in encode_text(text)


@pytest.mark.parametrize("emoji", ["👍", "👀", "✅", "❤️", "🔥", "🎉"])
def test_emoji_have_names(emoji: str) -> None:
    assert from_name(to_name(emoji)) == emoji.replace("\ufe0f", "")


def test_emoji_without_a_name_are_refused_and_other_names_stay() -> None:
    assert (to_name(":partyparrot:"), from_name("partyparrot")) == ("partyparrot", ":partyparrot:")
    with pytest.raises(MessageRefused, match="no name"):
        wire.encode_emoji("👩‍👩‍👧")


def test_buttons_have_their_own_blocks() -> None:
    message = Outbound(to=Address(channel="slack", to="C200"), text="May I?", buttons=((Button("Yes", "ok:1"),),))
    blocks = wire.encode_message(message, "C200", unfurl=False).params["blocks"]
    assert blocks[0]["text"]["text"] == "May I?" and blocks[1]["elements"][0]["value"] == "ok:1"
    with pytest.raises(MessageRefused, match="2000 characters"):
        wire.encode_blocks("x", ((Button("x", "d" * 2_001),),))


def test_only_slack_signs_its_calls_and_only_lately() -> None:
    # The example of Slack's own documentation.
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"
        b"channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
        b"response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&"
        b"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    secret = "8f742231b10e8888abcd99yyyzzz85a5"
    assert wire.is_signed(secret, headers, body, 1531420700)
    assert not wire.is_signed(secret, headers, body + b"x", 1531420700)
    assert not wire.is_signed(secret, headers, body, 1531421000), "it is old"
    assert not wire.is_signed(secret, {**headers, "x-slack-request-timestamp": "now"}, body, 1531420700)


def test_a_flood_wait_is_as_long_as_slack_says() -> None:
    found = wire.failure("chat.postMessage", 429, {"ok": False, "error": "ratelimited"}, "35")
    assert isinstance(found, TryLater) and found.after == 35.0


@pytest.mark.parametrize(
    ("section", "heard"),
    [
        ({"channels": {"C200": {}}, "groupAllowFrom": ["U007"]}, True),
        ({"channels": {"C200": {"users": ["U008"]}}}, False),
        ({"channels": {"*": {"users": ["U007"]}}}, True),
        ({"channels": {"C201": {"users": ["U007"]}}}, False),
        ({"channels": {"C200": {"enabled": False, "users": ["U007"]}}}, False),
        ({"groups": {"C200": {"allowFrom": ["U007"]}}}, True),
        ({}, False),
    ],
)
def test_channels_are_heard_by_rule(section: dict[str, Any], heard: bool) -> None:
    settings = convert_channels({"slack": section}, {"slack": SlackSettings}, _as_is)["slack"]
    said = decode(0, MESSAGE)
    assert said is not None
    assert isinstance(judge(said, settings, ()), Admit if heard else Ignore)


def test_what_is_missing_is_named() -> None:
    token = Secret("xoxb-1")
    with pytest.raises(ConfigError, match="appToken"):
        SlackSettings(bot_token=token).credential("default", {})
    with pytest.raises(ConfigError, match="appToken"):
        SlackSettings(bot_token=token, mode="socket", signing_secret=token).credential("default", {})
    by_variable = SlackSettings().with_variables({"SLACK_BOT_TOKEN": "xoxb-2", "SLACK_SIGNING_SECRET": "s"})
    assert by_variable.is_called and by_variable.credential("default", {}) == Secret("xoxb-2")
