"""Session keys: parses and formats the key of the conversation a message belongs to. Pure."""

import hashlib
import re
from functools import cached_property, lru_cache
from typing import Literal, Protocol, cast

from msgspec import Struct

from openclaw.core.errors import InvalidRequest
from openclaw.core.text import compile_lazily

AGENT_ID = compile_lazily(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
DEFAULT_AGENT = "main"
MAIN = "main"
MAX_KEY_CHARS = 512
_SHAPE = f"a session key is 1 to {MAX_KEY_CHARS} printable characters, for example agent:main:main"

_PLAIN = compile_lazily(r"[a-z0-9_.@+-]{1,128}\Z")

ChatKind = Literal["direct", "group", "channel", "room"]
_KINDS = ("direct", "group", "channel", "room")
# First segments that are not a channel: an id follows them, never a kind of chat.
NO_CHANNEL = frozenset(
    ("cron", "hook", "subagent", "acp", "node", "boot", "heartbeat", "explicit", "dashboard", "agent")
)

_THREAD = compile_lazily(r"(.+):thread:(.+)\Z", re.IGNORECASE | re.ASCII | re.DOTALL)
# A Signal group id is one segment; a Matrix room id contains colons and extends to the end.
_OPAQUE = compile_lazily(
    r"(?:^|:)(?:signal:group:(?P<signal>[^:]*)|matrix:(?:channel|group):(?P<matrix>.*))",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_CRON_RUN = compile_lazily(r"cron:[^:]+:run:[^:]")
# Control characters, lone surrogates, line separators and characters that reorder text in a terminal.
_UNPRINTABLE = compile_lazily("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class ChatRoute(Struct, frozen=True):
    """The chat that a session key names."""

    channel: str
    kind: ChatKind
    peer: str
    account: str | None = None
    thread: str | None = None


class SessionKey(Struct, frozen=True, dict=True):
    """`agent:<agent>:<rest>`; compare, hash and store it by its text."""

    agent: str
    rest: str

    def __str__(self) -> str:
        return self.rest if self.rest in ("global", "unknown") else f"agent:{self.agent}:{self.rest}"

    @property
    def is_main(self) -> bool:
        return self.rest == MAIN

    @cached_property
    def is_cron(self) -> bool:
        return self.rest.startswith("cron:")

    @property
    def is_cron_run(self) -> bool:
        return _CRON_RUN.match(self.rest) is not None

    @cached_property
    def is_subagent(self) -> bool:
        return self.rest.startswith("subagent:")

    @property
    def is_acp(self) -> bool:
        return self.rest.startswith("acp:")

    @cached_property
    def is_hook(self) -> bool:
        return self.rest.startswith("hook:")

    @cached_property
    def is_single(self) -> bool:
        """Whether it is for one run that nobody asked for: of BOOT.md, or a heartbeat that is kept apart."""
        return self.rest.startswith(("boot:", "heartbeat:"))

    @cached_property
    def is_group(self) -> bool:
        route = self.route
        return route is not None and route.kind != "direct"

    @property
    def thread(self) -> str | None:
        """The id behind the last `:thread:`."""
        return _split_thread(self.rest)[1]

    @property
    def parent(self) -> "SessionKey":
        """The same conversation without its thread."""
        return SessionKey(self.agent, _split_thread(self.rest)[0])

    @cached_property
    def route(self) -> ChatRoute | None:
        """The chat this key names, None when it names no chat on a channel."""
        body, thread = _split_thread(self.rest)
        parts = body.split(":")
        at = _kind_at(parts)
        if at is None or at == 0:
            return None
        return ChatRoute(
            channel=parts[0],
            account=parts[1] if at == 2 else None,
            kind=cast(ChatKind, parts[at]),
            peer=":".join(parts[at + 1 :]),
            thread=thread,
        )


def peer_part(name: str) -> str:
    """A platform's id as a segment of a key. Different ids never collide."""
    if _PLAIN.match(name):
        return name
    slug = re.sub(r"[^a-z0-9_.@+-]+", "-", name.lower()).strip("-")[:40] or "id"
    # Plain ids contain no `~`, so nobody can choose an id that collides with this one.
    return f"{slug}~{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


@lru_cache(maxsize=1024)
def normalise_agent(agent: str) -> str:
    """`agent` as a valid id; raises an error that describes one otherwise."""
    cleaned = agent.strip().lower()
    if not AGENT_ID.match(cleaned):
        raise InvalidRequest(
            f"{agent!r} is not an agent id: use letters, digits, - and _ (at most 64, starting with a letter or digit)"
        )
    return cleaned


@lru_cache(maxsize=1024)
def parse_session_key(text: str, default_agent: str = DEFAULT_AGENT, main_key: str = MAIN) -> SessionKey:
    """The key a client meant by `text`; bare forms get the default agent."""
    raw = text.strip()
    if not raw or len(raw) > MAX_KEY_CHARS or _UNPRINTABLE.search(raw):
        raise InvalidRequest(_SHAPE)
    lowered = raw.lower()
    if lowered in ("global", "unknown"):
        return SessionKey(default_agent, lowered)
    agent, rest = default_agent, raw
    if lowered.startswith("agent:"):
        _, agent, rest = (*raw.split(":", 2), "")[:3]
        if not rest:
            raise InvalidRequest(f"{raw!r} names an agent but no session: write agent:{agent or 'main'}:main")
        agent = normalise_agent(agent)
    elif lowered in (MAIN, main_key.strip().lower()):
        rest = main_key.strip()
    key = SessionKey(agent, _fold(rest))
    if len(str(key)) > MAX_KEY_CHARS:
        raise InvalidRequest(_SHAPE)
    return key


def _fold(rest: str) -> str:
    """`rest` in the one form it is stored in: lower case except where a platform's own id stands, no `dm`."""
    body, thread = _split_thread(rest)
    opaque = _OPAQUE.search(body)
    if opaque is None:
        body = body.lower()
    else:
        start, end = opaque.span("signal" if opaque["signal"] is not None else "matrix")
        body = body[:start].lower() + body[start:end] + body[end:].lower()
    parts = body.split(":")
    at = _kind_at(parts)
    if at is not None and parts[at] == "dm":
        parts[at] = "direct"
    body = ":".join(parts)
    return body if thread is None else f"{body}:thread:{thread}"


def _split_thread(rest: str) -> tuple[str, str | None]:
    """`rest` without its thread, and the thread's id."""
    found = _THREAD.match(rest)
    return (found[1], found[2]) if found else (rest, None)


def _kind_at(parts: list[str]) -> int | None:
    """Which segment says what kind of chat it is: `direct:…`, `channel:kind:…` or `channel:account:kind:…`."""
    if parts[0] in NO_CHANNEL:
        return None
    for at, part in enumerate(parts[:-1][:3]):
        if part in ("direct", "dm") or (at > 0 and part in _KINDS):
            return at
        if at > 0 and part == "slash":
            return None
    return None


class KeyResolver(Protocol):
    """Finds the session that a key, an agent, both or neither mean."""

    def key(self, text: str | None = None, agent_id: str | None = None) -> SessionKey: ...
