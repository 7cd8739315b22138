"""A conversation as a run sees it, and those the last turns left: the next turn need not read them again."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from openclaw.sessions.transcript import (
    AnyEntry,
    Context,
    Custom,
    MessageEntry,
    Tally,
    build_context,
    pair,
    path_to_leaf,
    tally,
)
from openclaw.store.tree import Identity, identity_at

MOST_BYTES = 4 << 20
"""Of transcripts whose conversations are kept at hand."""


class Conversation(Struct, frozen=True):
    path: tuple[AnyEntry, ...] = ()
    context: Context = Context(messages=())
    total: Tally = Tally()


def conversation(entries: Sequence[AnyEntry]) -> Conversation:
    """What the entries of a transcript amount to."""
    return Conversation(tuple(path_to_leaf(entries)), build_context(entries), tally(entries))


def extended(known: Conversation, added: Sequence[AnyEntry]) -> Conversation | None:
    """The same with more said at its end; None when only all of it together can tell."""
    if known.context.unanswered or not all(isinstance(entry, MessageEntry | Custom) for entry in added):
        return None
    said = [entry.message for entry in added if isinstance(entry, MessageEntry)]
    paired = pair(said)
    if paired.problems or paired.unanswered:
        return None
    total = known.total
    for message in said:
        total = total.plus(message)
    context = structs.replace(known.context, messages=(*known.context.messages, *paired.messages))
    return Conversation((*known.path, *added), context, total)


class CachedConversation(Struct, frozen=True):
    """What the next turn of a conversation starts from."""

    conversation: Conversation
    ids: set[str]
    """Of every entry in the file, also of those beside the path."""
    identity: Identity


class ConversationCache:
    """The conversations of the last turns, as long as nobody else writes to their files."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._held: OrderedDict[str, CachedConversation] = OrderedDict()
        self._bytes = 0

    def take(self, path: Path) -> CachedConversation | None:
        """What is held of a file that is as it was left. It is given away: a turn that fails leaves nothing behind."""
        held = self._pop(str(path))
        return held if held is not None and held.identity == identity_at(path) else None

    def keep(self, path: Path, left: Conversation | None, ids: set[str]) -> None:
        """Holds what a turn left, and lets go of what nobody has asked for longest."""
        self._pop(str(path))
        identity = identity_at(path)
        if left is None or left.context.problems or identity is None or identity[2] > self._most:
            return
        self._held[str(path)] = CachedConversation(left, ids, identity)
        self._bytes += identity[2]
        while self._bytes > self._most:
            self._pop(next(iter(self._held)))

    def _pop(self, path: str) -> CachedConversation | None:
        held = self._held.pop(path, None)
        self._bytes -= held.identity[2] if held is not None else 0
        return held
