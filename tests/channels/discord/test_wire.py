"""Discord's words: whatever is made of a recorded dispatch, it is heard, passed over, or refused as unreadable."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.channels.access import Admit, Ignore, judge
from openclaw.channels.discord import wire
from openclaw.channels.discord.settings import DiscordSettings
from openclaw.channels.settings import convert_channels
from openclaw.core.channel import Address, Button, Inbound, MessageRefused, Outbound
from openclaw.core.errors import InvalidRequest
from tests.channels.wire_fuzz import mutated

ME = "900"
PLACE = wire.DiscordPlace(group="200", group_name="general", space="100")
MESSAGE: dict[str, Any] = {
    "type": 19,
    "id": "1310000000000000001",
    "channel_id": "200",
    "guild_id": "100",
    "content": "<@900> see <#200> and <@!7>",
    "author": {"id": "7", "username": "ada", "global_name": "Ada", "bot": False},
    "member": {"nick": "Countess", "roles": ["1"]},
    "mentions": [{"id": "900", "username": "claw", "bot": True}],
    "attachments": [
        {
            "id": "1",
            "url": "https://cdn.discordapp.com/a",
            "filename": "a.ogg",
            "size": 9,
            "waveform": "AA",
            "content_type": "audio/ogg",
        }
    ],
    "sticker_items": [{"id": "1", "name": "wave", "format_type": 1}],
    "referenced_message": {"id": "1", "channel_id": "200", "content": "before", "author": {"id": "900"}},
    "edited_timestamp": "2026-11-01T00:00:00Z",
}
REACTION: dict[str, Any] = {
    "user_id": "7",
    "channel_id": "200",
    "message_id": "5",
    "guild_id": "100",
    "member": {"user": {"id": "7", "username": "ada"}},
    "emoji": {"id": None, "name": "👍"},
    "message_author_id": "900",
}
INTERACTION: dict[str, Any] = {
    "id": "1310000000000000002",
    "token": "t",
    "type": 3,
    "channel_id": "200",
    "guild_id": "100",
    "data": {"custom_id": "approve:x", "component_type": 2},
    "member": {"user": {"id": "7", "username": "ada"}, "nick": None},
    "message": {"id": "9", "channel_id": "200"},
}
RECORDED = (MESSAGE, REACTION, INTERACTION)


def _as_is(kind: type, value: Any) -> Any:
    return value


@given(mutated(RECORDED))
def test_nothing_but_a_clear_refusal_comes_of_what_people_send(case: tuple[int, Any]) -> None:
    kind, value = case
    try:
        match kind:
            case 0:
                said = wire.decode(value, wire.DiscordMessage)
                found = wire.decode_message(said, PLACE, ME, "default") or wire.decode_edit(said, PLACE, ME, "default")
            case 1:
                reaction = wire.decode(value, wire.DiscordReaction)
                found = wire.decode_reaction(reaction, PLACE, ME, "default", removed=False)
            case _:
                found = wire.decode_interaction(wire.decode(value, wire.DiscordInteraction), PLACE, "default")
    except InvalidRequest:
        return
    assert found is None or isinstance(found, Inbound)


@given(st.binary() | st.text())
def test_a_frame_is_a_frame_or_refused(data: bytes | str) -> None:
    with contextlib.suppress(InvalidRequest):
        wire.decode_frame(data)


def test_a_message_with_everything() -> None:
    said = wire.decode(MESSAGE, wire.DiscordMessage)
    found = wire.decode_message(said, PLACE, ME, "default")
    assert found is not None and found.text == "see #200 and @7\n[sticker wave]"
    assert (found.sender_name, found.mentioned, found.files[0].kind) == ("Countess", True, "voice")
    edit = wire.decode_edit(said, PLACE, ME, "default")
    assert edit is not None and (edit.kind, edit.about) == ("edit", said.id)


@pytest.mark.parametrize("text", ["@everyone look", "*", "`" * 7, "|a|b|\n|-|-|\n|1|2|", "🙂" * 950])
def test_a_text_fits_and_calls_nobody_who_is_not_named(text: str) -> None:
    message = Outbound(to=Address(channel="discord", to="200"), text=text)
    call = wire.encode_message(message, "200", suppress_embeds=True)
    assert len(call.body["content"].encode("utf-16-le")) // 2 <= wire.MOST_CHARS
    assert call.body["allowed_mentions"]["parse"] == ["users"]


def test_a_button_that_is_too_long_is_refused() -> None:
    with pytest.raises(MessageRefused, match="100 characters"):
        wire.encode_buttons(((Button("x", "d" * 101),),))


@pytest.mark.parametrize(
    ("section", "heard"),
    [
        ({"guilds": {"100": {}}, "groupAllowFrom": ["7"]}, True),
        ({"guilds": {"100": {"users": ["8"]}}}, False),
        ({"guilds": {"100": {"users": ["7"]}}}, True),
        ({"guilds": {"100": {"users": ["7"], "channels": {"201": {}}}}}, False),
        ({"guilds": {"100": {"users": ["7"], "channels": {"200": {"enabled": False}}}}}, False),
        ({"guilds": {"*": {"users": ["7"]}}}, True),
        ({"guilds": {"101": {"users": ["7"]}}}, False),
        ({"groups": {"200": {"allowFrom": ["7"]}}}, True),
    ],
)
def test_servers_and_their_channels_are_heard_by_rule(section: dict[str, Any], heard: bool) -> None:
    settings = convert_channels({"discord": section}, {"discord": DiscordSettings}, _as_is)["discord"]
    assert isinstance(settings, DiscordSettings)
    said = wire.decode_message(wire.decode(MESSAGE, wire.DiscordMessage), PLACE, ME, "default")
    assert said is not None
    assert isinstance(judge(said, settings, ()), Admit if heard else Ignore)
