"""What an ordinary task is made of: the owner's words, and the calls a sensible model makes for them."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

Call = tuple[str, dict[str, Any]]


class Errand(Struct, frozen=True):
    """One task: turns of the owner's words and the replies of the model, each a list of calls. `@` is the web site."""

    turns: tuple[tuple[str, tuple[tuple[Call, ...], ...]], ...]
    needs: str = ""
    """A program without which it cannot be done."""

    @property
    def name(self) -> str:
        return self.turns[0][0]


def errand(words: str, *replies: Call | Sequence[Call], needs: str = "", then: Sequence[Errand] = ()) -> Errand:
    """A task; a reply is one call or several at once. `then` are further turns."""
    made = tuple((reply,) if isinstance(reply[0], str) else tuple(reply) for reply in replies)
    more = tuple(turn for each in then for turn in each.turns)
    return Errand(((words, made), *more), needs)  # type: ignore[arg-type]


def read(path: str) -> Call:
    return "read", {"path": path}


def ls(path: str) -> Call:
    return "ls", {"path": path}


def grep(pattern: str, path: str = ".") -> Call:
    return "grep", {"pattern": pattern, "path": path}


def find(pattern: str, path: str = ".") -> Call:
    return "find", {"pattern": pattern, "path": path}


def write(path: str, content: str) -> Call:
    return "write", {"path": path, "content": content}


def edit(path: str, old: str, new: str) -> Call:
    return "edit", {"path": path, "oldText": old, "newText": new}


def run(command: str) -> Call:
    return "exec", {"command": command}


def fetch(address: str) -> Call:
    return "web_fetch", {"url": address}


def search(query: str) -> Call:
    return "web_search", {"query": query}


def recall(query: str) -> Call:
    return "memory_search", {"query": query}


def remind(text: str) -> Call:
    job = {"schedule": {"kind": "every", "everyMs": 86_400_000}, "payload": {"kind": "agentTurn", "message": text}}
    return "cron", {"action": "add", "job": job}


def call(tool: str, **arguments: Any) -> Call:
    return tool, arguments


def office(tool: str, **arguments: Any) -> Call:
    return f"office__{tool}", arguments
