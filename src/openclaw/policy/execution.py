"""May this command run: a pure decision from the command, the settings and what was granted before."""

import fnmatch
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from openclaw.policy.shell import Segment, Unclear, parse

Security = Literal["deny", "allowlist", "full"]
Ask = Literal["off", "on-miss", "always"]

_STRICTNESS: dict[Security, int] = {"full": 0, "allowlist": 1, "deny": 2}
_ASKING: dict[Ask, int] = {"off": 0, "on-miss": 1, "always": 2}

SAFE_BINS = ("cut", "uniq", "head", "tail", "tr", "wc")
_UNSAFE_FLAGS = {"tail": ("-f", "-F", "--follow", "--retry"), "wc": ("--files0-from",)}
_FLAG = re.compile(r"-[A-Za-z0-9]+\Z|--[a-z-]+(=[\w,.-]*)?\Z")
_ARGV_PIN = "sha256:argv:"


class Grant(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A program someone allowed for good."""

    id: str
    pattern: str
    arg_pattern: str | None = None
    source: str | None = None
    last_used_at: int | None = None
    last_used_command: str | None = None
    last_resolved_path: str | None = None


class Allow(Struct, frozen=True):
    why: str


class AskFirst(Struct, frozen=True):
    why: str


class Deny(Struct, frozen=True):
    why: str


Ruling = Allow | AskFirst | Deny
Resolve = Callable[[str], str | None]
"""The path of the program a word would start, or None."""


def stricter(one: tuple[Security, Ask], other: tuple[Security, Ask]) -> tuple[Security, Ask]:
    return (
        max(one[0], other[0], key=lambda value: _STRICTNESS[value]),
        max(one[1], other[1], key=lambda value: _ASKING[value]),
    )


def rule(
    command: str,
    cwd: str,
    security: Security,
    ask: Ask,
    grants: Sequence[Grant],
    resolve: Resolve,
    safe_bins: Sequence[str] = SAFE_BINS,
) -> Ruling:
    """Whether `command` runs, waits for a person, or does not run."""
    if security == "deny":
        return Deny("running commands is switched off (tools.exec.security is deny)")
    if ask == "always":
        return AskFirst("every command is approved by hand (tools.exec.ask is always)")
    if security == "full":
        return Allow("tools.exec.security is full")
    miss = _miss(command, cwd, grants, resolve, safe_bins)
    if miss is None:
        return Allow("every program in it is on the allowlist")
    if ask == "off":
        return Deny(f"not on the allowlist ({miss}), and tools.exec.ask is off")
    return AskFirst(miss)


def _miss(command: str, cwd: str, grants: Sequence[Grant], resolve: Resolve, safe_bins: Sequence[str]) -> str | None:
    segments = parse(command)
    if isinstance(segments, Unclear):
        whole = whole_command_pin(command, cwd)
        if any(grant.arg_pattern == whole for grant in grants):
            return None
        return f"not a plain command: {segments.why}"
    for place, segment in enumerate(segments):
        path = resolve(segment.argv[0])
        if path is None:
            return f"{segment.argv[0]} was not found"
        fed = place > 0  # reads what the one before it writes
        if not any(matches(grant, segment, path, cwd) for grant in grants) and not (
            fed and is_safe(segment, path, safe_bins)
        ):
            return f"{segment.argv[0]} is not on the allowlist"
    return None


def is_safe(segment: Segment, path: str, safe_bins: Sequence[str]) -> bool:
    """A small filter on its standard input: known flags, no files of its own."""
    name = segment.argv[0]
    if name not in safe_bins or not path.startswith(("/bin/", "/usr/bin/")):
        return False
    banned = _UNSAFE_FLAGS.get(name, ())
    arguments = list(segment.argv[1:])
    if name == "tr":
        arguments = [argument for argument in arguments if argument.startswith("-")]
    return all(_FLAG.match(argument) and not argument.startswith(banned) for argument in arguments)


def matches(grant: Grant, segment: Segment, path: str, cwd: str) -> bool:
    if "/" in grant.pattern or grant.pattern.startswith("~"):
        if not fnmatch.fnmatchcase(path, grant.pattern):
            return False
    elif "/" in segment.argv[0] or not fnmatch.fnmatchcase(segment.argv[0], grant.pattern):
        return False
    if grant.arg_pattern is None:
        return True
    if grant.arg_pattern.startswith(_ARGV_PIN):
        return grant.arg_pattern == argv_pin(segment, cwd)
    try:
        return re.fullmatch(grant.arg_pattern, " ".join(segment.argv[1:])) is not None
    except re.error:
        return False


def argv_pin(segment: Segment, cwd: str) -> str:
    """A name for exactly these arguments in exactly this directory."""
    return _ARGV_PIN + hashlib.sha256("\0".join((cwd, *segment.argv)).encode()).hexdigest()


def whole_command_pin(command: str, cwd: str) -> str:
    return "sha256:command:" + hashlib.sha256(f"{cwd}\0{command}".encode()).hexdigest()


def grants_for(command: str, cwd: str, resolve: Resolve, new_id: Callable[[], str]) -> tuple[Grant, ...]:
    """What "always" means for this command: these programs with these arguments here, and nothing wider."""
    segments = parse(command)
    if isinstance(segments, Unclear):
        pin = whole_command_pin(command, cwd)
        return (Grant(id=new_id(), pattern="*", arg_pattern=pin, source="allow-always", last_used_command=command),)
    return tuple(
        Grant(
            id=new_id(),
            pattern=path,
            arg_pattern=argv_pin(segment, cwd),
            source="allow-always",
            last_used_command=command,
            last_resolved_path=path,
        )
        for segment in segments
        if (path := resolve(segment.argv[0])) is not None
    )
