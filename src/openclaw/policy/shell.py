"""Reading a command line the way an approver must: every program it would start, or "not clear".

This is not a shell. Whatever it does not fully understand, or what sh, bash, zsh and ksh read differently (expansion,
redirection, grouping, control words, builtins that change the shell), is `Unclear`, and unclear never matches an
allowlist.
"""

import re

from msgspec import Struct

LONGEST = 16_000
"""Characters of a command that is read at all; nobody approves by rule what nobody can read."""


class CommandSegment(Struct, frozen=True):
    """One program and its arguments."""

    argv: tuple[str, ...]


class UnclearCommand(Struct, frozen=True):
    why: str


_TOKEN = re.compile(
    r"(?P<blank>[ \t]+)"
    r"|(?P<operator>&&|\|\||[;|\n])"
    r"|(?P<plain>(?:[^ \t\n$`<>&(){}#*?\[~'\"\\;|]|(?<=[A-Za-z0-9_])~)+)"  # a home only where a word begins: HEAD~1
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[^\n])*)"'
    r"|\\(?P<escaped>[^\n])",
    re.DOTALL,
)
_ESCAPE = re.compile(r'\\(["\\$`])')
_WHY = {
    "$": "it expands a variable or a command",
    "`": "it runs a command inside another",
    ">": "it redirects output",
    "<": "it redirects input",
    "&": "it puts a command in the background",
    "(": "it uses a subshell",
    ")": "it uses a subshell",
    "{": "it uses brace expansion",
    "}": "it uses brace expansion",
    "#": "it contains a comment",
    "*": "it contains a wildcard",
    "?": "it contains a wildcard",
    "[": "it contains a wildcard",
    "~": "it expands a home directory",
    "'": "a quote is not closed",
    '"': "a quote is not closed, or something is expanded inside it",
    "\\": "it continues over several lines",
}

# Control words, and builtins that change the shell or run what they are given. What remains of the builtins (echo,
# true, pwd, kill …) does what the program of the same name does.
_SHELLS_OWN = frozenset(
    "if then else elif fi for foreach while until do done case esac end function select repeat in time coproc ! [[ ]] "
    "[ - . source eval exec builtin trap set unset export declare typeset local readonly alias unalias cd pushd popd "
    "chdir dirs shift return exit logout break continue read readarray mapfile getopts hash rehash unhash enable "
    "disable shopt setopt unsetopt emulate let umask ulimit limit unlimit wait bg fg jobs disown suspend history fc r "
    "bind bindkey complete compgen compopt caller times noglob nocorrect autoload zmodload zle zcompile vared sched "
    "integer float functions unfunction print whence global inlib nameref".split()
)
_CARRIED = {"env": 0, "nohup": 0, "nice": 0, "setsid": 0, "command": 0, "timeout": 1}
"""Programs that only start the next one, and how many words of their own come first."""
_CARRIERS = frozenset(
    "sudo doas su runuser pkexec gosu su-exec setpriv capsh runcon sg newgrp setuidgid s6-setuidgid chpst softlimit "
    "stdbuf ionice chrt taskset prlimit cpulimit numactl choom setarch linux32 linux64 i386 x86_64 eatmydata nocache "
    "xargs parallel watch entr hyperfine flock busybox toybox unshare nsenter chroot bwrap firejail proot fakeroot "
    "fakechroot faketime strace ltrace valgrind perf catchsegv script unbuffer rlwrap xvfb-run dbus-run-session "
    "dbus-launch systemd-run dumb-init tini with-contenv ssh autossh mosh sshpass ssh-agent gpg-agent torsocks tsocks "
    "proxychains proxychains4 time".split()
)


def parse(command: str) -> tuple[CommandSegment, ...] | UnclearCommand:
    """The programs `command` starts, in order."""
    if len(command) > LONGEST:
        return UnclearCommand("it is too long to read")
    if not command.replace("\n", "").replace("\t", "").isprintable():
        return UnclearCommand("it contains an invisible character")
    segments: list[list[str]] = [[]]
    word: str | None = None
    operator = "\n"
    at = 0
    while at < len(command):
        token = _TOKEN.match(command, at)
        if token is None:
            return UnclearCommand(_WHY[command[at]])
        at = token.end()
        kind = str(token.lastgroup)
        if kind not in ("blank", "operator"):
            if kind == "plain" and word is None and token["plain"].startswith("="):
                return UnclearCommand("it expands the name of a program")
            word = (word or "") + _literal(kind, token[kind])
            continue
        if word is not None:
            segments[-1].append(word)
            word = None
        if kind == "operator" and (segments[-1] or token["operator"] != "\n"):
            if not segments[-1]:
                return UnclearCommand("a command is missing between two operators")
            operator = token["operator"]
            segments.append([])
    if word is not None:
        segments[-1].append(word)
    if not segments[-1]:
        segments.pop()
        if operator not in (";", "\n"):
            return UnclearCommand("it ends in the middle")
    return _checked(segments)


def _literal(kind: str, text: str) -> str:
    return _ESCAPE.sub(r"\1", text) if kind == "double" else text


def _checked(segments: list[list[str]]) -> tuple[CommandSegment, ...] | UnclearCommand:
    if not segments:
        return UnclearCommand("it is empty")
    out: list[CommandSegment] = []
    for argv in segments:
        started = _carried(argv)
        if isinstance(started, UnclearCommand):
            return started
        name = started[0]
        program = name.rpartition("/")[2]
        if name in _SHELLS_OWN or (name == "printf" and started[1:2] == ["-v"]) or (name == "test" and "-v" in started):
            return UnclearCommand(f"it uses the shell's own {name!r}")
        if program in _CARRIERS or (program != name and program in _CARRIED):
            return UnclearCommand(f"it starts another program through {name!r}")
        if "=" in name:
            return UnclearCommand("it sets a variable for a command")
        out.append(CommandSegment(tuple(started)))
    return tuple(out)


def _carried(argv: list[str]) -> list[str] | UnclearCommand:
    """What is really started when the first word only starts the next."""
    while argv[0] in _CARRIED:
        own = _CARRIED[argv[0]]
        if len(argv) <= own + 1 or any(word.startswith("-") for word in argv[1 : own + 2]):
            return UnclearCommand(f"it starts another program through {argv[0]!r}")
        argv = argv[own + 1 :]
    return argv
