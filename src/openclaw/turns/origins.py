"""Where the untrusted text of a conversation came from, read off its messages. Pure."""

from collections.abc import Iterable, Sequence

from openclaw.core.messages import Assistant, Message, ToolResult, User, once
from openclaw.core.origin import Origin, merge_origins, origin
from openclaw.sessions.transcript import AnyEntry, ResetEntry, message_of
from openclaw.trust.wrap import is_wrapped


def context_origins(messages: Iterable[Message]) -> tuple[Origin, ...]:
    """Where the untrusted text of a conversation came from; enclosed text without a label is labelled too."""
    return merge_origins(*(message_origins(message) for message in messages))


@once
def message_origins(message: Message) -> tuple[Origin, ...]:
    """The same for one message."""
    if message.origins:
        return message.origins
    if not isinstance(message, Assistant) and is_wrapped(message.text):
        what = message.tool_name if isinstance(message, ToolResult) else "a message"
        return (origin("external", f"{what} earlier in this conversation"),)
    return ()


def path_origins(path: Sequence[AnyEntry]) -> tuple[Origin, ...]:
    """The same for all of a conversation since its last reset: a summary keeps the labels of what it stands for."""
    kept: list[AnyEntry] = []
    for entry in path:
        if isinstance(entry, ResetEntry):
            first = entry.first_kept_entry_id
            at = next((place for place, each in enumerate(kept) if first and each.id == first), len(kept))
            kept = kept[at:]
        kept.append(entry)
    return context_origins(message for entry in kept if (message := message_of(entry)) is not None)


GIVING = ("web_fetch", "web_search")
"""Tools whose results are what somebody else published, word for word."""
READING = ("read", "grep", "ls", "find")


def is_given(message: Message, origins: Sequence[Origin]) -> bool:
    """Whether a message holds only what the owner or a stranger wrote, and nothing a model put together.

    Task texts, answers of sub-agents and jobs do not count: a model under a stranger's influence wrote them, and may
    have put something private into them.
    """
    if isinstance(message, ToolResult):
        return is_given_by(message.tool_name, origins)
    if not isinstance(message, User):
        return False
    called_in = all(each.source.startswith("webhook ") for each in origins)
    return not origins or (called_in and not message.text.startswith("["))


def is_given_by(tool: str, origins: Sequence[Origin]) -> bool:
    """The same for a result; files that a run wrote after reading text from elsewhere are that run's words."""
    if tool in GIVING:
        return True
    return tool in READING and all(each.source.startswith("file ") for each in origins)


def copied(source: Origin, path: str) -> Origin:
    """The origin of a file that was written after reading `source`."""
    return origin(source.label, f"{path}, written after {source.source}")
