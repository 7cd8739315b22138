"""Session keys: which conversation a message belongs to. Parse, format, relate; nothing else."""

import re

from msgspec import Struct

from openclaw.core.errors import InvalidRequest

AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
DEFAULT_AGENT = "main"
MAIN = "main"
MAX_KEY_CHARS = 512

_OPAQUE = re.compile(r"((?:^|:)(?:signal:group:|matrix:channel:|matrix:group:))(.*)\Z", re.IGNORECASE | re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class SessionKey(Struct, frozen=True):
    """`agent:<agent>:<rest>`; compare, hash and store it by its text."""

    agent: str
    rest: str

    def __str__(self) -> str:
        return self.rest if self.rest in ("global", "unknown") else f"agent:{self.agent}:{self.rest}"

    @property
    def is_main(self) -> bool:
        return self.rest == MAIN

    @property
    def is_cron(self) -> bool:
        return self.rest.startswith("cron:")

    @property
    def is_cron_run(self) -> bool:
        return self.is_cron and ":run:" in self.rest

    @property
    def is_subagent(self) -> bool:
        return self.rest.startswith("subagent:")

    @property
    def subagent_depth(self) -> int:
        return self.rest.split(":").count("subagent")

    @property
    def is_acp(self) -> bool:
        return self.rest.startswith("acp:")

    @property
    def is_hook(self) -> bool:
        return self.rest.startswith("hook:")

    @property
    def is_group(self) -> bool:
        parts = self.rest.split(":")
        return len(parts) >= 3 and any(part in ("group", "channel", "room") for part in parts[1:3])

    @property
    def thread(self) -> str | None:
        """The id behind the last `:thread:`."""
        head, mark, tail = self.rest.rpartition(":thread:")
        return tail if mark and head else None

    @property
    def parent(self) -> "SessionKey":
        """The same conversation without its thread."""
        head, mark, _ = self.rest.rpartition(":thread:")
        return SessionKey(self.agent, head) if mark and head else self


def normalise_agent(agent: str) -> str:
    """`agent` as an id, or an error that says what one looks like."""
    cleaned = agent.strip().lower()
    if not AGENT_ID.match(cleaned):
        raise InvalidRequest(
            f"{agent!r} is not an agent id: use letters, digits, - and _ (at most 64, starting with a letter or digit)"
        )
    return cleaned


def _fold(rest: str) -> str:
    """Lower case, except where a platform's own id begins."""
    opaque = _OPAQUE.search(rest)
    if opaque:
        return rest[: opaque.start(2)].lower() + opaque.group(2)
    head, mark, thread = rest.rpartition(":thread:")
    folded = (head if mark else rest).lower() + (mark + thread if mark else "")
    return re.sub(r"(^|:)dm:", r"\1direct:", folded)


def parse(text: str, default_agent: str = DEFAULT_AGENT, main_key: str = MAIN) -> SessionKey:
    """The key a client meant by `text`; bare forms get the default agent."""
    raw = text.strip()
    if not raw or len(raw) > MAX_KEY_CHARS or _CONTROL.search(raw):
        raise InvalidRequest("a session key is 1 to 512 printable characters, for example agent:main:main")
    lowered = raw.lower()
    if lowered in ("global", "unknown"):
        return SessionKey(default_agent, lowered)
    if lowered.startswith("agent:"):
        _, agent, rest = (*raw.split(":", 2), "")[:3]
        if not rest:
            raise InvalidRequest(f"{raw!r} names an agent but no session: write agent:{agent or 'main'}:main")
        return SessionKey(normalise_agent(agent), _fold(rest))
    if lowered in (MAIN, main_key):
        return SessionKey(default_agent, main_key)
    return SessionKey(default_agent, _fold(raw))
