"""Decides whether a command may run, from the command, the settings and earlier grants. Pure."""

import fnmatch
import hashlib
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from openclaw.security.effects.forms import beyond_grammar
from openclaw.security.settings import Ask, ExecMode, Security
from openclaw.security.shell import CommandSegment, UnclearCommand, find_inline_code, parse_shell

_STRICTNESS: dict[Security, int] = {"full": 0, "allowlist": 1, "deny": 2}
_ASKING: dict[Ask, int] = {"off": 0, "on-miss": 1, "always": 2}

_ARGV_PIN = "sha256:argv:"
_COMMAND_PIN = "sha256:command:"


class ExecGrant(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A program that someone allowed permanently."""

    pattern: str
    id: str = ""
    arg_pattern: str | None = None
    source: str | None = None
    last_used_at: int | None = None
    last_used_command: str | None = None
    last_resolved_path: str | None = None
    identity: str | None = None
    """The digest of program and script when it was granted; a changed file is not covered."""


class Allow(Struct, frozen=True):
    why: str


class AskPerson(Struct, frozen=True):
    why: str


class Deny(Struct, frozen=True):
    why: str


Ruling = Allow | AskPerson | Deny
Resolve = Callable[[str], str | None]
"""Resolves a word to the path of the program it would start, or None."""
Identify = Callable[[Sequence[str]], str]
"""Digests the programs and scripts that the words of a command name; empty when there are none."""


def unidentified(words: Sequence[str]) -> str:
    """The `Identify` for decisions without file access."""
    return ""


MODES: dict[ExecMode, tuple[Security, Ask]] = {
    "deny": ("deny", "off"),
    "allowlist": ("allowlist", "off"),
    "ask": ("allowlist", "on-miss"),
    "full": ("full", "off"),
}
"""The settings each `mode` stands for."""


def stricter(one: tuple[Security, Ask], other: tuple[Security, Ask]) -> tuple[Security, Ask]:
    return max(one[0], other[0], key=_STRICTNESS.__getitem__), max(one[1], other[1], key=_ASKING.__getitem__)


def decide(
    command: str,
    cwd: str,
    security: Security,
    ask: Ask,
    grants: Sequence[ExecGrant],
    resolve: Resolve,
    safe_bins: Sequence[str],
    identify: Identify = unidentified,
    strict: bool = True,
) -> Ruling:
    """Whether `command` runs, needs a person's approval, or is denied."""
    if security == "deny":
        return Deny("running commands is switched off (tools.exec.security is deny)")
    if ask == "always":
        return AskPerson("every command is approved by hand (tools.exec.ask is always)")
    if security == "full":
        return Allow("tools.exec.security is full")
    miss = _miss(command, cwd, grants, resolve, safe_bins, identify, strict)
    if miss is None:
        return Allow("every program in it is on the allowlist")
    if ask == "off":
        return Deny(f"not on the allowlist ({miss}), and tools.exec.ask is off")
    return AskPerson(miss)


def _miss(
    command: str,
    cwd: str,
    grants: Sequence[ExecGrant],
    resolve: Resolve,
    safe_bins: Sequence[str],
    identify: Identify,
    strict: bool,
) -> str | None:
    pin = command_pin(command, cwd)
    for grant in grants:
        if grant.arg_pattern == pin:
            if _is_the_same(grant, words_of(command), identify):
                return None
            return "a program or script in it is not what it was when it was allowed"
    segments = parse_shell(command)
    if isinstance(segments, UnclearCommand):
        return f"not a plain command: {segments.why}"
    for segment in segments:
        path = resolve(segment.argv[0])
        if path is None:
            return f"{segment.argv[0]} was not found"
        if is_safe(segment, path, safe_bins):
            continue
        why = f"{segment.argv[0]} is not on the allowlist"
        for grant in grants:
            if not matches(grant, segment, path, cwd):
                continue
            # A grant for exactly these arguments covers code in them: its approver saw all of it.
            pinned = grant.arg_pattern is not None and grant.arg_pattern.startswith((_ARGV_PIN, _COMMAND_PIN))
            if not _is_the_same(grant, segment.argv, identify):
                why = f"{segment.argv[0]}, or the script it is given, is not what it was when it was allowed"
            elif strict and not pinned and (more := _more_than(segment.argv, path)):
                why = more
            else:
                break
        else:
            return why
    return None


def _more_than(argv: Sequence[str], path: str) -> str:
    """Why a grant for a whole program does not cover these arguments; empty when it does."""
    return find_inline_code(argv, path) or beyond_grammar(argv, path)


def _is_the_same(grant: ExecGrant, words: Sequence[str], identify: Identify) -> bool:
    return not grant.identity or grant.identity == identify(words)


def words_of(command: str) -> tuple[str, ...]:
    """Every word of a command that may name a file, whatever the shell would make of the rest."""
    return tuple(word.strip("'\"") for word in re.split(r"[\s;|&<>()`$=]+", command) if word.strip("'\""))


def matches(grant: ExecGrant, segment: CommandSegment, path: str, cwd: str) -> bool:
    """Whether `grant` covers the program at `path` with these arguments."""
    if "/" in grant.pattern:
        if not fnmatch.fnmatchcase(path, grant.pattern):
            return False
    elif "/" in segment.argv[0] or not fnmatch.fnmatchcase(segment.argv[0], grant.pattern):
        return False
    if grant.arg_pattern is None:
        return True
    if grant.arg_pattern.startswith((_ARGV_PIN, _COMMAND_PIN)):
        return grant.arg_pattern == argv_pin(segment, cwd)
    try:
        return re.fullmatch(grant.arg_pattern, " ".join(segment.argv[1:])) is not None
    except re.error:
        return False


def argv_pin(segment: CommandSegment, cwd: str) -> str:
    """A digest of exactly these arguments in exactly this directory."""
    return _pin(_ARGV_PIN, cwd, *segment.argv)


def command_pin(command: str, cwd: str) -> str:
    """A digest of exactly this text in exactly this directory."""
    return _pin(_COMMAND_PIN, cwd, command)


def _pin(kind: str, *parts: str) -> str:
    return kind + hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def grants_for(
    command: str,
    cwd: str,
    resolve: Resolve,
    new_id: Callable[[], str],
    identify: Identify = unidentified,
    strict: bool = False,
) -> tuple[ExecGrant, ...]:
    """What "always" grants for this command: these programs with these arguments here, and nothing wider.

    With `strict`, code in an argument is never granted.
    """
    segments = parse_shell(command)
    if isinstance(segments, UnclearCommand):
        words = words_of(command)
        if strict and any(find_inline_code(words[place:], words[place]) for place in range(len(words))):
            return ()
        return (_granted(new_id(), "*", command_pin(command, cwd), command, None, identify(words)),)
    paths = [(segment, resolve(segment.argv[0])) for segment in segments]
    if strict and any(path and find_inline_code(segment.argv, path) for segment, path in paths):
        return ()
    return tuple(
        _granted(new_id(), path, argv_pin(segment, cwd), command, path, identify(segment.argv))
        for segment, path in paths
        if path is not None
    )


def _granted(grant_id: str, pattern: str, pin: str, command: str, path: str | None, identity: str) -> ExecGrant:
    return ExecGrant(
        identity=identity or None,
        id=grant_id,
        pattern=pattern,
        arg_pattern=pin,
        source="allow-always",
        last_used_command=command,
        last_resolved_path=path,
    )


# Safe filters, which run without a grant.


class _Filter(Struct, frozen=True):
    """How a program may be called so that it only reads its standard input."""

    switches: str
    """Flags without a value."""
    valued: str = ""
    """Flags with a value that is never a file."""
    long: tuple[str, ...] = ()
    words: int = 0
    """How many arguments it takes that are not files."""
    number: bool = False
    """Whether `-5` is a flag."""


_LINES = ("lines", "bytes", "quiet", "silent", "verbose", "zero-terminated")
_FILTERS = {
    "cut": _Filter(
        "snz",
        "bcdf",
        ("bytes", "characters", "delimiter", "fields", "output-delimiter", "complement", "only-delimited"),
    ),
    "uniq": _Filter(
        "cdDiuz",
        "fsw",
        ("count", "repeated", "unique", "ignore-case", "skip-fields", "skip-chars", "check-chars", "zero-terminated"),
    ),
    "head": _Filter("qvz", "nc", _LINES, number=True),
    "tail": _Filter("qvz", "nc", _LINES, number=True),
    "tr": _Filter("cCdst", "", ("complement", "delete", "squeeze-repeats", "truncate-set1"), words=2),
    "wc": _Filter("clLmw", "", ("bytes", "chars", "lines", "max-line-length", "words")),
    "sort": _Filter("bdfghiMnrRVzsuc", "kt", ("reverse", "numeric-sort", "unique", "key", "field-separator")),
    "grep": _Filter("chilnoqsvwxEFP", "mABC", ("ignore-case", "invert-match", "count", "max-count"), words=1),
}
"""Other programs configured as safe (sed, awk, jq) can do more than filter, and are never treated as safe."""


def is_safe(segment: CommandSegment, path: str, safe_bins: Sequence[str]) -> bool:
    """Whether the call is a filter on standard input: known flags, no files, from a system directory."""
    name, *arguments = segment.argv
    known = _FILTERS.get(name)
    if known is None or name not in safe_bins or not path.startswith(("/bin/", "/usr/bin/")):
        return False
    words = 0
    while arguments:
        argument = arguments.pop(0)
        if argument == "--":
            words += len(arguments)
            break
        if argument.startswith("--"):
            if argument[2:].partition("=")[0] not in known.long:
                return False
        elif argument.startswith("-") and argument != "-":
            takes_next = _takes_next(argument[1:], known)
            if takes_next is None or (takes_next and not arguments):
                return False
            del arguments[: int(takes_next)]
        else:
            words += 1
    return words <= known.words


def _takes_next(letters: str, known: _Filter) -> bool | None:
    """Whether the value of a cluster of flags is the next argument; None when the cluster is not understood."""
    if known.number and letters.isdecimal():
        return False
    for place, letter in enumerate(letters):
        if letter in known.valued:
            return place == len(letters) - 1
        if letter not in known.switches:
            return None
    return False
