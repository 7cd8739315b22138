"""What a person agreed to: exact commands with their scripts, the calls of a plan, several calls in one answer."""

import asyncio
import hashlib
import os
import stat
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct, field, structs

from openclaw.core.text import ActionKind
from openclaw.security.effects.command_facts import git_runs, loaded_by

# The identity of the programs and scripts in a command.

SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/nix/store/", "/gnu/store/")
"""System programs change only with updates and by root, so their content is not pinned."""
SCRIPTS = (".sh", ".bash", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".r", ".ps1")
LARGEST = 256 * 1024 * 1024


def digest_programs(words: Sequence[str], cwd: str, resolve: Callable[[str], str | None]) -> str:
    """A digest of the programs and scripts that `words` start; empty when only system programs are named."""
    parts = []
    for place, word in enumerate(words):
        path = (resolve(word) if place == 0 or "/" in word else None) or os.path.join(cwd, word)  # noqa: PTH118
        if "\0" in path or path.startswith(SYSTEM):
            continue
        if digest := _digest(Path(path)):
            parts.append(f"{path}\0{digest}")
            # What a script loads from its own tree is part of it.
            parts += [f"{near}\0{_digest(near, any_file=True)}" for near in loaded_by(Path(path))]
    if words and words[0].rpartition("/")[2] == "git" and (runs := git_runs(cwd, commits=True)):
        parts.append(f"git\0{runs}")
    if not parts:
        return ""
    return "sha256:" + hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _digest(path: Path, *, any_file: bool = False) -> str:
    """The digest of an executable or script, or of `any_file`; empty for anything else."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            return ""
        runs = about.st_mode & 0o111 or path.suffix.lower() in SCRIPTS
        if not (runs or any_file):
            return ""
        if about.st_size > LARGEST:  # too large to hash; size and time are almost as good
            return f"{about.st_size}:{about.st_mtime_ns}:{about.st_ino}"
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return ""


class ExactCommand(Struct, frozen=True, kw_only=True):
    """One command as it was shown: its text, directory, and the digest of its programs and scripts."""

    command: str
    cwd: str
    identity: str = ""
    boxed: bool = False


# Answers that hold for a conversation.


class SessionAllowlist:
    """Commands a person always allows in a conversation, until it is reset or the process ends."""

    def __init__(self) -> None:
        self._known: defaultdict[str, set[ExactCommand]] = defaultdict(set)

    def add(self, session_key: str, what: ExactCommand) -> None:
        self._known[session_key].add(what)

    def knows(self, session_key: str, what: ExactCommand) -> bool:
        return session_key in self._known and what in self._known[session_key]

    def forget(self, session_key: str) -> None:
        self._known.pop(session_key, None)


# A plan.

PLAN_SECONDS = 3600.0
PLANNED: frozenset[ActionKind] = frozenset({"send", "fetch-composed", "write-outside", "delete"})
"""What a plan can cover; instructions, settings, credentials and scheduled work are asked about each time."""
PLAIN = frozenset({"command", "timeout", "background", "yieldMs", "pty", "title"})
"""The arguments of a command that a plan may cover: nothing that changes where or as what it runs."""
FREE: frozenset[ActionKind] = frozenset({"read", "write", "fetch"})


class ApprovedPlan(Struct, frozen=True, kw_only=True):
    """Calls that a person approved before they are made: exact commands, and tools with where they may go."""

    commands: frozenset[ExactCommand] = frozenset()
    places: Mapping[str, frozenset[str]] = {}
    """By tool, the addressees, hosts and files it was approved for."""
    until: float = 0.0

    def joined(self, other: "ApprovedPlan") -> "ApprovedPlan":
        """With what was approved before, as long as that holds."""
        names = {*self.places, *other.places}
        places = {name: self.places.get(name, frozenset()) | other.places.get(name, frozenset()) for name in names}
        return structs.replace(self, commands=self.commands | other.commands, places=places)

    def covers(self, tool: str, actions: Collection[ActionKind], where: Collection[str]) -> bool:
        """Whether a call that is no command goes only where the plan says."""
        known = self.places.get(tool, frozenset())
        return bool(where) and set(actions) <= PLANNED | FREE and set(where) <= known


NO_PLAN = ApprovedPlan()


# One question for several calls.


def quoted(text: str) -> str:
    """On one line, so that what it says cannot pass for another entry of a list."""
    return msgspec.json.encode(text).decode()


def numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


MOST_TOGETHER = 10
T = TypeVar("T")


class _Question(Generic[T]):
    def __init__(self, first: T) -> None:
        self.calls = [first]
        self.put = False
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()


class SharedQuestions(Struct, Generic[T], eq=False):
    """Puts calls of one reply that need the same kind of approval to a person in one question."""

    open: dict[str, _Question[T]] = field(default_factory=dict)
    """By the kind of approval."""

    async def ask(
        self, kind: str, call: T, put: Callable[[Sequence[T]], Awaitable[str | None]], settled: Callable[[], bool]
    ) -> str | None:
        """The refusal, or None. Whoever comes first asks for all; who comes after it was `put` waits, and asks again
        unless the answer has `settled` it."""
        while (question := self.open.get(kind)) is not None:
            if not question.put and len(question.calls) < MOST_TOGETHER:
                question.calls.append(call)
                return await asyncio.shield(question.answer)
            await asyncio.wait((question.answer,))
            if settled():
                return None
        question = self.open[kind] = _Question[T](call)
        try:
            await asyncio.sleep(0)  # the other calls of the reply arrive in the same moment
            question.put = True
            refusal = await put(question.calls)
        except Exception as error:
            question.answer.set_exception(error)
            question.answer.exception()  # nobody else may be waiting
            raise
        except BaseException:  # the run is stopped, and with it all that wait here
            question.answer.cancel()
            raise
        else:
            question.answer.set_result(refusal)
            return refusal
        finally:
            del self.open[kind]
