"""Settings of `messages`: how messages of people are taken in, also while the assistant is busy, and answered."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import field

from openclaw.agent.settings import GroupChatSettings
from openclaw.core.settings import Count, Millis, Settings, doc

QueueMode = Literal["steer", "followup", "collect", "interrupt"]
QueueDrop = Literal["summarize", "old", "new"]


class QueueSettings(Settings, frozen=True):
    """`messages.queue`: messages that come while a run of their conversation is active."""

    mode: Annotated[
        QueueMode,
        doc(
            "steer: into the run; followup: one after another; collect: together, after it; interrupt: stop it and"
            " begin again"
        ),
    ] = "steer"
    by_channel: Annotated[Mapping[str, QueueMode], doc("another mode for a channel, or for webchat")] = field(
        default_factory=dict
    )
    debounce_ms: Annotated[Millis, doc("how long it must be quiet before messages are collected")] = 500
    debounce_ms_by_channel: Annotated[Mapping[str, Millis], doc("another time for a channel")] = field(
        default_factory=dict
    )
    cap: Annotated[Count, doc("how many messages wait in a conversation at most")] = 20
    drop: Annotated[
        QueueDrop,
        doc("what goes when more come: the oldest with a note to the model (summarize), the oldest (old), or the new"),
    ] = "summarize"


AckScope = Literal["group-mentions", "group-all", "direct", "all", "off", "none"]


class InboundSettings(Settings, frozen=True):
    """`messages.inbound`."""

    debounce_ms: Annotated[Millis, doc("how long to wait for more texts of a sender, to take them as one")] = 0
    by_channel: Annotated[Mapping[str, Millis], doc("the same, by channel")] = field(default_factory=dict)


VisibleReplies = Literal["automatic", "message_tool"] | bool


class MessagesGroupSettings(GroupChatSettings, frozen=True):
    """`messages.groupChat`: every agent's groups."""

    visible_replies: Annotated[VisibleReplies | None, doc("as messages.visibleReplies, in groups")] = None


class MessagesSettings(Settings, frozen=True):
    """`messages`: how messages are taken in and answered."""

    response_prefix: Annotated[
        str | None,
        doc(
            "what answers on channels begin with; auto is the agent's name. {model}, {modelFull}, {provider},"
            " {thinkingLevel} and {identityName} are filled in"
        ),
    ] = None

    queue: Annotated[QueueSettings, doc("messages that come while the assistant is busy")] = QueueSettings()
    inbound: Annotated[InboundSettings, doc("texts that belong together")] = InboundSettings()
    group_chat: Annotated[MessagesGroupSettings, doc("groups")] = MessagesGroupSettings()
    visible_replies: Annotated[
        VisibleReplies,
        doc(
            "automatic (or true): people on channels get the assistant's text; message_tool (or false): only what it"
            " sends with its message tool, if it has it"
        ),
    ] = "automatic"
    ack_reaction: Annotated[str, doc("an emoji that is put on a message when work on it begins; empty for none")] = ""
    ack_reaction_scope: Annotated[
        AckScope, doc("which messages get it: in groups those that mention the assistant or all, direct ones, all")
    ] = "group-mentions"
    remove_ack_after_reply: Annotated[bool, doc("take it back when the answer is there")] = False

    def replies_by_tool(self, group: bool) -> bool:
        """Whether only what the `message` tool sends is delivered, in groups or in direct chats."""
        own = self.group_chat.visible_replies if group else None
        return (self.visible_replies if own is None else own) in ("message_tool", False)
