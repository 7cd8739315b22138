"""Settings of `messages`: how messages of people are taken in, also while the assistant is busy, and answered."""

from collections.abc import Mapping
from typing import Literal

from msgspec import field

from openclaw.agent.settings import GroupChatSettings
from openclaw.core.settings import Count, Millis, Settings

QueueMode = Literal["steer", "followup", "collect", "interrupt"]
QueueDrop = Literal["summarize", "old", "new"]


class QueueSettings(Settings, frozen=True):
    """`messages.queue`: messages that come while a run of their conversation is active."""

    mode: QueueMode = "steer"
    """steer: into the run; followup: one after another; collect: together, after it; interrupt: stop it and begin
    again"""
    by_channel: Mapping[str, QueueMode] = field(default_factory=dict)
    """another mode for a channel, or for webchat"""
    debounce_ms: Millis = 500
    """how long it must be quiet before messages are collected"""
    debounce_ms_by_channel: Mapping[str, Millis] = field(default_factory=dict)
    """another time for a channel"""
    cap: Count = 20
    """how many messages wait in a conversation at most"""
    drop: QueueDrop = "summarize"
    """what goes when more come: the oldest with a note to the model (summarize), the oldest (old), or the new"""


AckScope = Literal["group-mentions", "group-all", "direct", "all", "off", "none"]


class InboundSettings(Settings, frozen=True):
    """`messages.inbound`."""

    debounce_ms: Millis = 0
    """how long to wait for more texts of a sender, to take them as one"""
    by_channel: Mapping[str, Millis] = field(default_factory=dict)
    """the same, by channel"""


VisibleReplies = Literal["automatic", "message_tool"] | bool


class MessagesGroupSettings(GroupChatSettings, frozen=True):
    """`messages.groupChat`: every agent's groups."""

    visible_replies: VisibleReplies | None = None
    """as messages.visibleReplies, in groups"""


class MessagesSettings(Settings, frozen=True):
    """`messages`: how messages are taken in and answered."""

    response_prefix: str | None = None
    """what answers on channels begin with; auto is the agent's name. {model}, {modelFull}, {provider},
    {thinkingLevel} and {identityName} are filled in"""

    queue: QueueSettings = QueueSettings()
    """messages that come while the assistant is busy"""
    inbound: InboundSettings = InboundSettings()
    """texts that belong together"""
    group_chat: MessagesGroupSettings = MessagesGroupSettings()
    """groups"""
    visible_replies: VisibleReplies = "automatic"
    """automatic (or true): people on channels get the assistant's text; message_tool (or false): only what it
    sends with its message tool, if it has it"""
    ack_reaction: str = ""
    """an emoji that is put on a message when work on it begins; empty for none"""
    ack_reaction_scope: AckScope = "group-mentions"
    """which messages get it: in groups those that mention the assistant or all, direct ones, all"""
    remove_ack_after_reply: bool = False
    """take it back when the answer is there"""

    def replies_by_tool(self, group: bool) -> bool:
        """Whether only what the `message` tool sends is delivered, in groups or in direct chats."""
        own = self.group_chat.visible_replies if group else None
        return (self.visible_replies if own is None else own) in ("message_tool", False)
