"""Gathers what a prompt says of the conversation a run answers in. Pure."""

from collections.abc import Collection, Mapping

from openclaw.channels.settings import ChannelSettings
from openclaw.config.schema import Config
from openclaw.core.channel import ChannelFacts, OpensThreads, Platform
from openclaw.prompt.facts import THREAD_SPAWN, ChatFacts, GroupFacts, InboundFacts, Reactions, VoiceFacts
from openclaw.runs.request import RunRequest
from openclaw.runs.settings import MessagesSettings

Platforms = Mapping[tuple[str, str], Platform]
WEB = "webchat"
NO_PLATFORM = ChannelFacts(actions=())
_ABILITIES = {"inlinebuttons": "buttons", "threads": "threads", "voice": "voice"}


def gather_chat(request: RunRequest, platforms: Platforms, config: Config, tools: Collection[str]) -> ChatFacts:
    """What is known of the chat of `request`: where it is, who is in it, what can be done there with these `tools`."""
    where, key = request.reply_to, request.key
    channel = request.channel or (where.channel if where else "")
    # A person at a terminal, on the page or at the other end of a socket sees questions about commands there.
    watched = bool(request.place or request.surface)
    if not channel:
        return ChatFacts(native_approvals=watched)
    platform = platforms.get((channel, where.account if where else "default"))
    can = platform.facts if platform is not None else NO_PLATFORM
    chat_type = "group" if key.is_group else "direct"
    settings = config.channels.get(channel)
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
    # The name is that of the original, which prompts and plugins look for.
    spawns = config.acp.enabled and config.acp.agents and "sessions_spawn" in tools
    if spawns and platform is not None and isinstance(platform, OpensThreads):
        abilities.append(THREAD_SPAWN)
    reacts = "react" in can.actions
    level = settings.reaction_level if settings is not None else "minimal"
    speaks = can.voice and "tts" in tools
    return ChatFacts(
        channel=channel,
        chat_type=chat_type,
        capabilities=(*abilities, *(("reactions",) if reacts else ())),
        inbound=inbound if request.trigger == "user" else None,
        group=_group(channel, chat_id, settings) if key.is_group else None,
        message_tool_only="message" in tools and _is_tool_only(request, config.messages, is_web),
        native_approvals=watched or can.buttons,
        voice=VoiceFacts(aloud=request.voice or config.tts.auto == "always", longest=config.tts.max_text_length)
        if speaks
        else None,
        control_ui=request.surface == "control-ui",
        reactions=Reactions(level, channel) if reacts and (level == "minimal" or level == "extensive") else None,
    )


def _is_tool_only(request: RunRequest, messages: MessagesSettings, is_web: bool) -> bool:
    """Whether people see only what the `message` tool sends: the caller says so, or it is so for what people write."""
    if request.reply_mode is not None:
        return request.reply_mode == "message_tool_only"
    return request.trigger == "user" and not is_web and messages.replies_by_tool(request.key.is_group)


def _group(channel: str, group: str, settings: ChannelSettings | None) -> GroupFacts:
    return GroupFacts(channel=channel, every_message=settings is not None and not settings.wants_mention(group))
