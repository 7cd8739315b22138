"""The thread that belongs to a session: kept in a file beside Codex's own state, and dropped when it fits no more."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from openclaw.core.messages import Assistant, Message, User
from openclaw.storage.atomic import private_directory, replace_file

API = "codex"
"""The `api` of messages that a Codex turn said."""


class ThreadBinding(Struct, frozen=True, kw_only=True):
    """What a thread was begun with, and how far it has come."""

    thread_id: str
    tools: str
    """The digest of its tools, which cannot be changed."""
    instructions: str
    """The digest of its instructions, which a resumed thread does not read again."""
    access: str = ""
    """The digest of what Codex may do by itself."""
    names: tuple[str, ...] = ()
    """What its tools are called."""
    given: str = ""
    """The digest of the files that stood before what was asked, unless the thread was shortened since."""
    version: str = ""
    count: int = 0
    """How many messages of ours it was given, and what they were."""
    known: str = ""
    begun: bool = False
    """Whether the last turn was accepted."""
    total: Mapping[str, int] = field(default_factory=dict)
    """The tokens it has used."""

    def fits(self, turn: "ThreadBinding", *, visits: bool) -> bool:
        """Whether `turn` can be one of the thread's; one that `visits` may have fewer tools, which our runner holds.

        A program of an earlier version cannot be trusted to read the thread of a later one.
        """
        if self.access != turn.access or (self.version and _numbers(turn.version) < _numbers(self.version)):
            return False
        same = (self.tools, self.instructions) == (turn.tools, turn.instructions)
        return same or (visits and set(turn.names) <= set(self.names))


def digest(document: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(document, order="sorted")).hexdigest()[:32]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def mark(messages: Sequence[Message]) -> tuple[int, str]:
    """How many messages people and models have said, and a digest of which; results of tools may be shortened later."""
    said = [message for message in messages if isinstance(message, User | Assistant)]
    named = [
        (each.timestamp, each.idempotency_key if isinstance(each, User) else each.model)
        if each.timestamp
        else (0, each.text)
        for each in said
    ]
    return len(said), digest(named)


def split_new(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[User, ...]]:
    """The history, and what was asked after it."""
    place = len(messages)
    while place and isinstance(messages[place - 1], User):
        place -= 1
    return tuple(messages[:place]), tuple(each for each in messages[place:] if isinstance(each, User))


def unheard(
    binding: ThreadBinding, messages: Sequence[Message], api: str = API, model: str = ""
) -> tuple[User, ...] | None:
    """What a bound thread has not been told; None when its history is not that of the session any more.

    Its own answers are those of `api`, and of `model` where one is named.
    """
    said = [message for message in messages if isinstance(message, User | Assistant)]
    if not binding.begun or len(said) < binding.count or mark(said[: binding.count])[1] != binding.known:
        return None
    later = said[binding.count :]
    last = max((place for place, each in enumerate(later) if isinstance(each, Assistant)), default=-1)
    for place, each in enumerate(later):
        if isinstance(each, User) or (each.api == api and model in ("", each.model)):
            continue
        # What a turn had said when it broke off has no api; it is the thread's own if nobody spoke since.
        if each.api or _spoke(later[:place]):
            return None
    return tuple(each for each in later[last + 1 :] if isinstance(each, User))


def _spoke(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, User) for message in messages)


class ThreadBindings:
    """The bindings of one agent, one file each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, session_id: str) -> ThreadBinding | None:
        with suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
            return msgspec.json.decode(self._path(session_id).read_bytes(), type=ThreadBinding)
        return None

    def put(self, session_id: str, binding: ThreadBinding) -> None:
        private_directory(self._directory)
        replace_file(self._path(session_id), msgspec.json.encode(binding))

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{session_id}.json"
