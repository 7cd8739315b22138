"""Every section that depends on where a run comes from, reached through the front door."""

import json
import re
from typing import Any

import pytest

from tests.prompt.recorded import NAMES, RecordedRequest

pytestmark = pytest.mark.slow

Recorded = dict[str, RecordedRequest]
CHATS = ("telegram-direct", "telegram-group", "mailbox-group-mentioned", "mailbox-guest", "webchat")
FULL = (*CHATS, "terminal", "heartbeat", "gpt-5")


def inbound(sent: RecordedRequest) -> dict[str, Any]:
    block = re.search(r"```json\n(.*?)\n```", sent.section("## Inbound Context (trusted metadata)"), re.DOTALL)
    return json.loads(block[1]) if block else {}


def those_with(recorded: Recorded, heading: str) -> set[str]:
    return {name for name in NAMES if recorded[name].section(heading)}


def test_inbound_metadata_is_told_of_what_a_person_wrote_on_a_channel(recorded: Recorded) -> None:
    assert those_with(recorded, "## Inbound Context (trusted metadata)") == {*CHATS, "sandboxed"}
    assert inbound(recorded["webchat"]) == {
        "schema": "openclaw.inbound_meta.v1",
        "channel": "webchat",
        "provider": "webchat",
        "surface": "webchat",
        "chat_type": "direct",
    }
    told = inbound(recorded["telegram-group"])
    assert (told["channel"], told["chat_type"], told["chat_id"]) == ("telegram", "group", "-5")


def test_the_owner_is_told_from_a_guest(recorded: Recorded) -> None:
    assert inbound(recorded["telegram-direct"])["sender_is_owner"] is True
    assert inbound(recorded["mailbox-guest"])["sender_is_owner"] is False
    assert inbound(recorded["mailbox-group-mentioned"])["sender_is_owner"] is False


def test_a_group_is_told_that_it_is_one(recorded: Recorded) -> None:
    assert those_with(recorded, "## Group Chat Context") == {"telegram-group", "mailbox-group-mentioned"}
    assert "You hear every message." in recorded["telegram-group"].section("## Group Chat Context")
    assert "You hear what mentions you." in recorded["mailbox-group-mentioned"].section("## Group Chat Context")
    # The name of a group is its members' text: it is no part of the instructions.
    assert "Boats" not in recorded["telegram-group"].system


def test_only_groups_are_told_how_to_be_silent(recorded: Recorded) -> None:
    assert those_with(recorded, "## Silent Replies") == {"telegram-group", "mailbox-group-mentioned"}


def test_reactions_are_offered_where_there_are_some(recorded: Recorded) -> None:
    assert those_with(recorded, "## Reactions") == {"telegram-direct", "telegram-group", "heartbeat", "sandboxed"}
    assert "about once in 5-10" in recorded["telegram-direct"].section("## Reactions")


def test_a_voice_is_offered_where_voice_notes_are(recorded: Recorded) -> None:
    assert those_with(recorded, "## Voice (TTS)") == {"telegram-direct", "telegram-group", "heartbeat"}


def test_approvals_have_buttons_where_a_person_can_press_them(recorded: Recorded) -> None:
    buttons = "- This channel shows approval cards or buttons."
    assert {name for name in FULL if buttons in recorded[name].system} == {
        "telegram-direct",
        "telegram-group",
        "webchat",
        "terminal",
        "heartbeat",  # what it says goes to where the owner was heard last: Telegram
    }
    assert "- This channel has no approval cards or buttons." in recorded["mailbox-guest"].system


def test_the_web_page_is_told_of_what_it_can_show(recorded: Recorded) -> None:
    assert those_with(recorded, "## Control UI Embed") == {"webchat"}


def test_a_channel_is_told_what_it_can_do(recorded: Recorded) -> None:
    runtime = recorded["telegram-direct"].section("## Runtime")
    assert "channel=telegram | capabilities=inlinebuttons,threads,voice,reactions" in runtime
    assert "channel=mailbox | capabilities=none" in recorded["mailbox-guest"].section("## Runtime")
    assert "Inline buttons:" in recorded["telegram-direct"].section("### message tool")
    assert "Inline buttons:" not in recorded["mailbox-guest"].system


def test_a_terminal_is_told_where_it_is(recorded: Recorded) -> None:
    assert those_with(recorded, "## Terminal") == {"terminal"}
    assert "Terminal directory: /home/ada\n" in recorded["terminal"].section("## Terminal")


def test_heartbeats_belong_to_full_prompts_of_the_agent_that_has_them(recorded: Recorded) -> None:
    assert those_with(recorded, "## Heartbeats") == {*FULL, "tiny-model"}
    assert "Look after the boat." in recorded["heartbeat"].system


def test_jobs_and_sub_agents_get_the_minimal_prompt(recorded: Recorded) -> None:
    for name in ("cron", "sub-agent"):
        sent = recorded[name]
        for heading in (
            "## Memory Recall",
            "## OpenClaw Self-Update",
            "## Messaging",
            "## Assistant Output Directives",
        ):
            assert not sent.section(heading)
        assert sent.section("## Tooling") and sent.section("## Skills (mandatory)") and sent.section("## Workspace")
        files = re.findall(r'<<<WORKSPACE_FILE .* name="([^"]+)"', sent.system)
        assert files == ["AGENTS.md", "TOOLS.md"]


def test_jobs_and_heartbeats_are_told_the_users_time(recorded: Recorded) -> None:
    for name in ("cron", "heartbeat"):
        told = re.search(r"^Current time: (.*)$", recorded[name].messages[-1], re.MULTILINE)
        assert told and re.fullmatch(
            r"\w+day \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\+0[12]:00 \(Europe/Berlin\)", told[1]
        ), name


def test_a_sandbox_is_described(recorded: Recorded) -> None:
    assert those_with(recorded, "## Sandbox") == {"sandboxed"}
    assert "Sandbox working directory: /workspace" in recorded["sandboxed"].section("## Sandbox")


def test_model_families_are_spoken_to_in_their_own_way(recorded: Recorded) -> None:
    assert "<persona_latch>" in recorded["gpt-5"].system and "<persona_latch>" not in recorded["terminal"].system
    assert "One step at a time" in recorded["tiny-model"].system


def test_documentation_names_what_is_there(recorded: Recorded) -> None:
    told = recorded["webchat"].section("## Documentation")
    assert "OpenClaw docs: /opt/openclaw/docs\n" in told and "Source: /opt/openclaw\n" in told
