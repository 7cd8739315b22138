"""Gathers what a prompt says of the conversation a run answers in. Pure."""

from collections.abc import Mapping

from openclaw.channels.settings import ChannelSettings
from openclaw.core.channel import ChannelFacts, Platform
from openclaw.prompt.facts import ChatFacts, GroupFacts, InboundFacts, Reactions
from openclaw.runs.request import RunRequest

Platforms = Mapping[tuple[str, str], Platform]
WEB = "webchat"
NO_PLATFORM = ChannelFacts(actions=())
_ABILITIES = {"inlinebuttons": "buttons", "threads": "threads", "voice": "voice"}


def gather_chat(request: RunRequest, platforms: Platforms, channels: Mapping[str, ChannelSettings]) -> ChatFacts:
    """What is known of the chat of `request`: where it is, who is in it, what can be done there."""
    where, key = request.reply_to, request.key
    channel = request.channel or (where.channel if where else "")
    # A person at a terminal, on the page or at the other end of a socket sees questions about commands there.
    watched = bool(request.place or request.surface)
    if not channel:
        return ChatFacts(native_approvals=watched)
    platform = platforms.get((channel, where.account if where else "default"))
    can = platform.facts if platform is not None else NO_PLATFORM
    chat_type = "group" if key.is_group else "direct"
    settings = channels.get(channel)
    settings = settings and settings.of(where.account if where else "default")
    is_web = channel == WEB
    chat_id = where.to if where and where.channel == channel else ""
    account = where.account if where and where.account != "default" else ""
    inbound = InboundFacts(
        channel=channel,
        provider=channel,
        surface=channel,
        chat_type=chat_type,
        account_id=account,
        chat_id=chat_id,
        # Text of others is labelled where it comes in; the page and the command line are the owner's.
        sender_is_owner=None if is_web else not request.origins,
    )
    abilities = [name for name, field in _ABILITIES.items() if getattr(can, field)]
    reacts = "react" in can.actions
    level = settings.reaction_level if settings is not None else "minimal"
    return ChatFacts(
        channel=channel,
        chat_type=chat_type,
        capabilities=(*abilities, *(("reactions",) if reacts else ())),
        inbound=inbound if request.trigger == "user" else None,
        group=_group(channel, chat_id, settings) if key.is_group else None,
        native_approvals=watched or can.buttons,
        control_ui=request.surface == "control-ui",
        reactions=Reactions(level, channel) if reacts and (level == "minimal" or level == "extensive") else None,
    )


def _group(channel: str, group: str, settings: ChannelSettings | None) -> GroupFacts:
    return GroupFacts(channel=channel, every_message=settings is not None and not settings.wants_mention(group))
