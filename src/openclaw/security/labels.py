"""The label policy: labels in the context × what a call does → allow, ask or deny. Pure.

Also the circuit breaker, what a call does by its effects, which words may leave the machine, and the labels of
messages. The configuration may change every cell of the table (`security.externalContent.table`).
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from openclaw.core.messages import Assistant, Message, ToolResult, User
from openclaw.core.secret import is_secret_path
from openclaw.core.text import (
    ACTION_KINDS,
    LABEL_COLUMNS,
    UNTRUSTED,
    ActionKind,
    LabelColumn,
    LabelDecision,
    Origin,
    compile_lazily,
    make_origin,
    merge_origins,
)
from openclaw.core.tool import Effects
from openclaw.security.exec_policy import Allow, AskPerson, Deny, Ruling
from openclaw.security.external import START, sanitize_external_text, unwrap

# The circuit breaker.

Kind = Literal["deletes", "sends"]
MINUTE = 60.0
BREAKER_WORDS: dict[Kind, str] = {"deletes": "deletes", "sends": "messages and requests with words of its own"}


class CircuitBreaker:
    """Limits irreversible actions per minute; a person's approval resets the count."""

    def __init__(self, limits: dict[Kind, int]) -> None:
        self._limits = limits
        self._times: dict[Kind, deque[float]] = {"deletes": deque(), "sends": deque()}

    def tripped(self, kind: Kind, count: int, now: float) -> str | None:
        """Why a person must approve before `count` more; None when within the limit. A limit of 0 means none."""
        limit, times = self._limits[kind], self._times[kind]
        if not limit or not count:
            return None
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) + count <= limit:
            return None
        return f"{len(times) + count} {BREAKER_WORDS[kind]} within a minute are more than {limit}"

    def count(self, kind: Kind, count: int, now: float) -> None:
        self._times[kind].extend([now] * min(count, 10_000))

    def excused(self, kind: Kind) -> None:
        """Resets the count after a person's approval."""
        self._times[kind].clear()


# What a call does.

ACTION_WORDS: dict[ActionKind, str] = {
    "read": "reads files",
    "read-secret": "reads a file that usually holds credentials",
    "write": "writes files in the workspace",
    "write-outside": "writes outside the workspace",
    "write-instructions": "changes what the assistant is told in every conversation",
    "delete": "deletes files",
    "fetch": "fetches an address that was given",
    "fetch-composed": "sends out words or an address that nobody gave, or more than a run may send",
    "run": "runs code",
    "send": "sends a message out",
    "schedule": "schedules work",
    "configure": "changes the configuration",
    "spend": "changes what is spent",
    "delegate": "hands work to another conversation",
}

_BY_EFFECT: tuple[tuple[Effects, ActionKind], ...] = (
    (Effects.RUNS_CODE, "run"),
    (Effects.SENDS_OUT, "send"),
    (Effects.SCHEDULES, "schedule"),
    (Effects.CHANGES_CONFIG, "configure"),
    (Effects.SPENDS, "spend"),
    (Effects.DELEGATES, "delegate"),
    (Effects.DELETES, "delete"),
)
_INSTRUCTIONS = frozenset(
    "agents.md soul.md tools.md identity.md user.md heartbeat.md bootstrap.md boot.md memory.md claude.md".split()
)
_STANDING = frozenset({"skills", "hooks"})
"""Top-level workspace directories whose files are followed or run automatically."""


class CallFacts(Struct, frozen=True, kw_only=True):
    """Facts about a call besides its effects."""

    reads: Sequence[str] = ()
    """Absolute paths that it reads."""
    writes: Sequence[str] = ()
    protected: Collection[str] = ()
    """Those of them that are protected places."""
    workspace: str = ""
    address_known: bool = True
    """Whether every address and word it sends occurs in what was read or said before."""
    named: Sequence[str] = ()
    """What the owner wrote in this conversation."""


def actions_of(effects: Effects, facts: CallFacts) -> tuple[ActionKind, ...]:
    """All actions of a call, the most serious first."""
    found: list[ActionKind] = [action for effect, action in _BY_EFFECT if effect in effects]
    if Effects.FETCHES in effects:
        found.append("fetch" if facts.address_known else "fetch-composed")
    if Effects.RUNS_CODE not in effects:
        if Effects.WRITES_FILES in effects:
            written = [
                "configure" if path in facts.protected else writing(path, facts.workspace) for path in facts.writes
            ]
            found += written or ["write"]
        if Effects.READS_FILES in effects:
            found += [_reading(path, facts.named) if is_secret_path(path) else "read" for path in facts.reads]
            found += [] if facts.reads else ["read"]
    return tuple(dict.fromkeys(found))


def writing(path: str, workspace: str) -> ActionKind:
    """What writing a file means, by its place."""
    root = workspace.rstrip("/") + "/"
    if not workspace or not path.startswith(root):
        return "write-outside"
    parts = [part.lower() for part in path[len(root) :].split("/") if part]
    if parts[:1] and (parts[0] in _STANDING or any(part.startswith(".") for part in parts)):
        return "write-instructions"
    return "write-instructions" if len(parts) == 1 and parts[0] in _INSTRUCTIONS else "write"


def is_instruction(path: str, workspace: str) -> bool:
    """Whether the assistant follows a file of the workspace: by its name, or as the text of a skill or hook."""
    folder, _, name = path[len(workspace) :].lower().lstrip("/").rpartition("/")
    if not path.startswith(workspace.rstrip("/") + "/"):
        return False
    return name in _INSTRUCTIONS if not folder else folder.partition("/")[0] in _STANDING and name.endswith(".md")


def _reading(path: str, named: Sequence[str]) -> ActionKind:
    """A secret file may be read when the owner named it."""
    return "read" if is_named(path, named) else "read-secret"


def is_named(path: str, named: Sequence[str]) -> bool:
    """Whether the owner wrote the name of a file."""
    name = path.rpartition("/")[2]
    return any(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", said) for said in named)


_DELETING = compile_lazily(
    r"(?<![\w./-])(?:rm|rmdir|unlink|shred|srm|trash|trash-put|wipefs|mkfs(?:\.\w+)?)(?![\w.-])|\bfind\b[^;|&]*\s-delete\b"
    r"|\bgit\s+(?:-\S+\s+)*(?:clean|reset\s+--hard|checkout\s+--|branch\s+-D|push\s+[^;|&]*(?:--force|--delete))"
    r"|\bdrop\s+(?:table|database|schema)\b|\btruncate\b|\bdd\b[^;|&]*\bof="
    r"|\b(?:shutil\.rmtree|os\.(?:remove|unlink|rmdir)|fs\.(?:rm|unlink)\w*)\s*\(",
    re.IGNORECASE,
)


def deletes(command: str) -> int:
    """How many deleting programs a command line names."""
    return len(_DELETING.findall(command))


# The table.

Mode = Literal["off", "approve", "deny"]
Table = Mapping[ActionKind, Mapping[LabelColumn, LabelDecision]]
_STRICTNESS: dict[LabelDecision, int] = {"allow": 0, "ask": 1, "deny": 2}
SHOWN = 3


def _row(
    none: LabelDecision, skill: LabelDecision, tool: LabelDecision, external: LabelDecision, stranger: LabelDecision
) -> dict[LabelColumn, LabelDecision]:
    return {"none": none, "skill": skill, "tool": tool, "external": external, "stranger": stranger}


DEFAULT_TABLE: Table = {
    #                        no label  skill    tool     external stranger
    "read": _row("allow", "allow", "allow", "allow", "ask"),
    "read-secret": _row("ask", "ask", "ask", "ask", "deny"),
    "write": _row("allow", "allow", "allow", "allow", "ask"),
    "write-outside": _row("allow", "ask", "ask", "ask", "deny"),
    "write-instructions": _row("allow", "ask", "ask", "ask", "deny"),
    "delete": _row("allow", "ask", "ask", "ask", "deny"),
    "fetch": _row("allow", "allow", "allow", "allow", "allow"),
    "fetch-composed": _row("allow", "ask", "ask", "ask", "ask"),
    "run": _row("allow", "ask", "ask", "ask", "deny"),
    "send": _row("allow", "ask", "ask", "ask", "deny"),
    "schedule": _row("allow", "ask", "ask", "ask", "deny"),
    "configure": _row("ask", "ask", "ask", "ask", "deny"),
    "spend": _row("allow", "ask", "ask", "ask", "deny"),
    "delegate": _row("allow", "allow", "allow", "allow", "ask"),
}


LOCAL: frozenset[ActionKind] = frozenset({"run", "write-outside", "delete", "read-secret"})
"""What stays on the machine: where commands run without a question, text from elsewhere does not bring one back.

Scheduling and instructions are not among it: they are settings of what the assistant does later, by itself."""


def build_table(
    changes: Mapping[LabelColumn, Mapping[ActionKind, LabelDecision]], mode: Mode = "approve", *, local: bool = False
) -> Table:
    """The table with the owner's changes; `mode` off ignores labels, `deny` denies where a label would ask.

    With `local` what stays on the machine is not asked about, except for strangers.
    """
    made: dict[ActionKind, dict[LabelColumn, LabelDecision]] = {}
    for action in ACTION_KINDS:
        made[action] = {}
        for column in LABEL_COLUMNS:
            word = DEFAULT_TABLE[action][column]
            plain = DEFAULT_TABLE[action]["none"]
            if local and action in LOCAL and column != "stranger":
                word = plain = "allow"
            if column != "none" and mode == "off":
                word = plain
            elif column != "none" and mode == "deny" and word == "ask" and plain == "allow":
                word = "deny"
            made[action][column] = changes.get(column, {}).get(action, word)
    return made


def decide(actions: Sequence[ActionKind], origins: Sequence[Origin], rules: Table) -> Ruling:
    """The ruling on a call that does `actions`, in a conversation that contains text from `origins`."""
    here = merge_origins(origins)
    columns = [column for column in LABEL_COLUMNS if any(each.label == column for each in here)]
    ranked = [(rules[action][column], action) for action in actions for column in (*columns, "none")]
    word, action = max(ranked, key=lambda each: _STRICTNESS[each[0]], default=("allow", "read"))
    if word == "allow":
        return Allow("nothing speaks against it")
    plainly = rules[action]["none"] == word
    why = f"it {ACTION_WORDS[action]}" if plainly and not here else explain(action, here)
    return Deny(why) if word == "deny" else AskPerson(why)


def explain(action: ActionKind, origins: Sequence[Origin]) -> str:
    """Why a person is asked, with the texts that may have caused it."""
    return f"it {ACTION_WORDS[action]}{read_before(origins)}"


def read_before(origins: Sequence[Origin]) -> str:
    """The end of a sentence that names what was read."""
    named = [each.source for label in UNTRUSTED for each in origins if each.label == label]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return f", and untrusted content was read before it: {'; '.join(named[:SHOWN])}{more}"


def render_table(rules: Table) -> str:
    """The table as Markdown, for the documentation and the terminal."""
    lines = ["| what the call does | no label | skill | tool | external | stranger |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{action}`: {ACTION_WORDS[action]} | {' | '.join(rules[action][column] for column in LABEL_COLUMNS)} |"
        for action in ACTION_KINDS
    ]
    return "\n".join(lines)


# Which words may leave the machine.

_URL = compile_lazily(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PLAIN_WORD = compile_lazily(r"^[^\W\d_]{1,24}(?:[-'’][^\W\d_]{1,24})*$")
_SITE = compile_lazily(r"^-?(?:site:)?[a-z]{2,24}(?:\.[a-z]{2,24}){1,3}$")
_ODD = compile_lazily(r"^[\w.+#-]{1,8}$")
MOST_ODD = 2
_TRIM = "\"'“”‘’()[]{}<>.,;:!?+|*&"
MOST_WORDS = 40
GOES_ON = compile_lazily(r"[\w\-.~%&=+$@!*',:]")


def is_safe_to_send(args: Mapping[str, Any], said: Sequence[str], public: Sequence[str], owner: Sequence[str]) -> bool:
    """Whether every word in `args` is harmless to send out.

    `said` is what people wrote and no model did, `public` the part of it that is no secret to outsiders, `owner` what
    the owner wrote.
    """
    return all(_address(text, said, owner) if _URL.match(text) else _words(text, public) for text in strings(args))


def strings(value: Any) -> Iterable[str]:
    """Every string value in the arguments of a call."""
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings(item)


def _address(url: str, said: Sequence[str], owner: Sequence[str]) -> bool:
    wanted = _bare(url)
    if any(_stands(wanted, text) for text in said):
        return True
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if parts.path.strip("/") or parts.query or parts.username or port:
        return False
    host = (parts.hostname or "").removeprefix("www.")
    return bool(host) and any(_stands(host, text.lower()) for text in owner)


_GENERIC = frozenset(
    "html htm php asp aspx index docs doc en de fr es api wiki search q query page pages latest stable main "
    "master v1 v2 v3 "
    "library reference guide guides tutorial tutorials blog news article articles help about faq home org com "
    "net io www "
    "tree blob issues pull releases tag tags category package packages project projects pypi npm title id lang "
    "s p".split()
)


def composed_bytes(url: str, owner: Sequence[str], public: Sequence[str]) -> int | None:
    """How many bytes an address on a site that the owner named adds, all of them words that were given; else None."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host = (parts.netloc or "").lower().removeprefix("www.")
    if not host or parts.username or not any(_stands(host, text.lower()) for text in owner):
        return None
    added = f"{parts.path}?{parts.query}" if parts.query else parts.path
    known = "\n".join((*owner, *public)).lower()
    words = [word.lower() for word in re.findall(r"[^\W_]+", added)]
    given = set(re.findall(r"[^\W_]+", known))
    return len(added.encode()) if all(word in _GENERIC or word in given for word in words) else None


def typed_bytes(args: Mapping[str, Any], owner: Sequence[str]) -> int:
    """How many bytes a call types into a page that the owner did not say: the page hears every key."""
    act = args.get("request") or args
    if args.get("action") != "act" or not isinstance(act, Mapping):
        return 0
    acts = [each for each in (act, *(act.get("actions") or ())) if isinstance(each, Mapping)]
    fields = [each for act in acts for each in (act, *(act.get("fields") or ())) if isinstance(each, Mapping)]
    typed = {text for each in fields for name in ("text", "value") if isinstance(text := each.get(name), str)}
    return sum(len(text.encode()) for text in typed if not any(text in said for said in owner))


def _bare(url: str) -> str:
    return re.sub(r"^https?://(?:www\.)?", "", url.partition("#")[0], flags=re.IGNORECASE).rstrip("/")


def _stands(wanted: str, text: str) -> bool:
    """Whether `wanted` occurs in `text` as a whole, or as the directory of an address there."""
    at = text.find(wanted)
    while wanted and at >= 0:
        end = at + len(wanted)
        before, after = text[at - 1 : at], text[end : end + 1]
        fresh = not before or not (before.isalnum() or before in "-_")
        if fresh and (not after or not GOES_ON.match(after) or _sentence_ends(text, end)):
            return True
        at = text.find(wanted, at + 1)
    return False


def _sentence_ends(text: str, end: int) -> bool:
    """Whether punctuation after an address belongs to the sentence."""
    return text[end] in ".,:!'*" and (end + 1 >= len(text) or text[end + 1].isspace() or text[end + 1] in "\"'*)\\")


def _words(text: str, public: Sequence[str]) -> bool:
    """Whether words may go to a search engine: plain ones may; keys, numbers and encoded text only if given."""
    words = [word for piece in text.split() for word in (piece.strip(_TRIM),) if word]
    if len(words) > MOST_WORDS:
        return False
    known = [each.lower() for each in public]
    strange = [
        word
        for word in words
        if not (_PLAIN_WORD.match(word) or _SITE.match(word.lower()) or any(word.lower() in each for each in known))
    ]
    # "python 3.12" and "GPT-4" are ordinary; two short pieces cannot hold a key.
    return len(strange) <= MOST_ODD and all(_ODD.match(word) for word in strange)


# Labels of messages.


def message_origins(message: Message) -> tuple[Origin, ...]:
    """The untrusted origins of one message."""
    if message.origins:  # also one that says that the owner trusts it
        return message.origins if all(each.untrusted for each in message.origins) else merge_origins(message.origins)
    if not isinstance(message, Assistant) and START in message.text:
        what = message.tool_name if isinstance(message, ToolResult) else "a message"
        return (make_origin("external", f"{what} earlier in this conversation"),)
    return ()


GIVING = ("web_fetch", "web_search")
"""Tools whose results are published text, verbatim."""
READING = ("read",)
"""The others show names of files too, which a run may have made."""


def is_verbatim(message: Message, origins: Sequence[Origin]) -> bool:
    """Whether a message contains only what the owner or a stranger wrote, and nothing a model composed.

    Task texts and results of sub-agents and jobs do not count: a model under a stranger's influence may have put
    private data into them.
    """
    if isinstance(message, ToolResult):
        return not message.is_error and is_verbatim_result(message.tool_name, origins)
    if not isinstance(message, User):
        return False
    called_in = all(each.source.startswith("webhook ") for each in origins)
    return not origins or (called_in and not message.text.startswith("["))


def is_verbatim_result(tool: str, origins: Sequence[Origin]) -> bool:
    """The same for a tool result; files that a run wrote after reading untrusted text count as composed by that run."""
    if tool in GIVING:
        return bool(origins)  # without one it is an error or nothing, and repeats the words of the call
    return tool in READING and all(each.source.startswith("file ") for each in origins)


def copied_origin(source: Origin, path: str) -> Origin:
    """The origin of a file written after reading `source`."""
    return make_origin(source.label, f"{path}, written after {source.source}")


def most_alike(call: str, texts: Sequence[tuple[Origin, str]]) -> str:
    """The text that most resembles a call: its source and the matching words; empty when none does."""
    wanted = set(re.findall(r"[\w./:@-]{4,}", call.lower()))
    best, shared = None, 0
    for where, whole in texts:
        text = unwrap(whole)
        count = sum(word in text.lower() for word in wanted)
        if count > shared:
            best, shared = (where, text), count
    if best is None or shared * 3 < len(wanted):
        return ""
    return f"{best[0].source}: “{_around(best[1], wanted)}”"


def _around(text: str, wanted: set[str]) -> str:
    """The passage in `text` with the words of a call, in one short line."""
    low = text.lower()
    longest = max((word for word in wanted if word in low), key=len, default="")
    at = low.find(longest)
    piece = sanitize_external_text(text[max(0, at - 60) : at + 120])
    return " ".join(piece.split())[:180]
