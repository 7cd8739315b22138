"""Which answers leave a conversation."""

import msgspec
import pytest

from openclaw.core.keys import parse_session_key
from openclaw.sessions.send_policy import may_send
from openclaw.sessions.settings import SendPolicySettings

RULES = {
    "default": "allow",
    "rules": [
        {"action": "deny", "match": {"channel": "telegram", "chatType": "group"}},
        {"action": "deny", "match": {"keyPrefix": "cron:"}},
        {"action": "allow", "match": {"rawKeyPrefix": "agent:main:telegram:group:club"}},
    ],
}


@pytest.mark.parametrize(
    ("key", "channel", "chosen", "sent"),
    [
        ("main", "telegram", None, True),
        ("telegram:group:pub", "telegram", None, False),
        ("telegram:group:club", "telegram", None, False),  # a rule that denies wins
        ("telegram:group:pub", "telegram", "allow", True),
        ("cron:1", "matrix", None, False),
        ("main", "telegram", "deny", False),
    ],
)
def test_what_was_chosen_then_what_denies_then_the_default(
    key: str, channel: str, chosen: str | None, sent: bool
) -> None:
    settings = msgspec.convert(RULES, SendPolicySettings)
    assert may_send(settings, parse_session_key(key), channel, chosen) is sent


def test_nothing_leaves_when_the_default_denies() -> None:
    settings = msgspec.convert({**RULES, "default": "deny"}, SendPolicySettings)
    assert not may_send(settings, parse_session_key("main"), "matrix")
