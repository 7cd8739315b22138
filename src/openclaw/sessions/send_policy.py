"""Whether the answers of a conversation leave it for its channel."""

from openclaw.core.keys import SessionKey
from openclaw.core.settings import Live
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.settings import SendMatch, SendPolicySettings, SessionSettings


def may_send(settings: SendPolicySettings, key: SessionKey, channel: str, chosen: str | None = None) -> bool:
    """What was `chosen` for the session decides; then any rule that denies, then one that allows, then the default."""
    if chosen in ("allow", "deny"):
        return chosen == "allow"
    actions = {rule.action for rule in settings.rules if _fits(rule.match, key, channel)}
    if "deny" in actions:
        return False
    return "allow" in actions or settings.default == "allow"


def _fits(match: SendMatch, key: SessionKey, channel: str) -> bool:
    """Whether all that a rule names is so."""
    kind = "direct" if key.route is None else "channel" if key.route.kind == "room" else key.route.kind
    return (
        (not match.channel or match.channel == channel)
        and (not match.chat_type or match.chat_type == kind)
        and key.rest.startswith(match.key_prefix)
        and str(key).startswith(match.raw_key_prefix)
    )


class SendPolicy:
    """`session.sendPolicy`, and what `/send` says for a session."""

    def __init__(self, lifecycle: SessionLifecycle, settings: Live[SessionSettings]) -> None:
        self._lifecycle = lifecycle
        self._settings = settings

    async def allows(self, key: SessionKey, channel: str) -> bool:
        chosen = (await self._lifecycle.preferences(key)).send_policy
        return may_send(self._settings.current.send_policy, key, channel, chosen)
