"""What a person allowed for good although text from elsewhere was in the conversation."""

from collections import defaultdict

from msgspec import Struct


class Exactly(Struct, frozen=True, kw_only=True):
    """One command, as it was shown: its text, where it runs, and what its programs and scripts contain."""

    command: str
    cwd: str
    identity: str = ""
    boxed: bool = False


class AllowedExactly:
    """Kept for a conversation until it starts over, and not beyond the process: a new one asks again."""

    def __init__(self) -> None:
        self._known: defaultdict[str, set[Exactly]] = defaultdict(set)

    def add(self, session_key: str, what: Exactly) -> None:
        self._known[session_key].add(what)

    def knows(self, session_key: str, what: Exactly) -> bool:
        return session_key in self._known and what in self._known[session_key]

    def forget(self, session_key: str) -> None:
        self._known.pop(session_key, None)
