"""Parses a command line conservatively into every program it would start, or "unclear".

This is not a shell. Whatever it does not fully understand, or what sh, bash, zsh and ksh read differently (expansion,
redirection, grouping, control words, builtins that change the shell), is `UnclearCommand`, and unclear never matches an
allowlist.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from openclaw.core.text import compile_lazily

# Programs whose arguments run something else.

_VERSION = compile_lazily(r"[0-9.]+\Z")
_INTERPRETERS = frozenset(
    "python pypy ipython bpython node nodejs deno bun qjs jjs gjs ruby irb perl php lua luajit Rscript R julia octave "
    "osascript sh bash dash zsh ksh mksh ash fish csh tcsh pwsh tclsh wish expect guile racket sbcl clisp ghci runghc "
    "groovy scala kotlin jshell elixir erl".split()
)
"""They run a script file. With an argument before the file, or without a file, it is unknown what runs."""
_NEVER = frozenset(
    "awk gawk mawk nawk original-awk sed jq yq make gmake cmake ninja meson scons just rake ant mvn gradle vi vim nvim "
    "view ex ed emacs nano pico joe less more most man info gdb lldb bpftrace dtrace stap at batch crontab screen tmux "
    "byobu socat nc ncat netcat telnet ftp sftp lftp mail mutt eval exec run-parts start-stop-daemon npx pnpx uvx bunx "
    "pipx docker podman nerdctl kubectl ctr lxc vagrant ansible terraform".split()
)
"""Their arguments are a program themselves."""


class _Risk(Struct, frozen=True, kw_only=True):
    """The arguments of a program that start something else."""

    short: str = ""
    """Letters of single-dash flags, alone or in a cluster."""
    long: tuple[str, ...] = ()
    """Long flags; abbreviations count."""
    words: tuple[str, ...] = ()
    """Whole arguments."""
    leads: tuple[str, ...] = ()
    """Prefixes of arguments."""
    parts: tuple[str, ...] = ()
    """Substrings of arguments."""


_RISKS = {
    "find": _Risk(leads=("-exec", "-ok", "-fprint", "-fls", "-delete")),
    "fd": _Risk(short="xX", long=("exec", "exec-batch")),
    "fdfind": _Risk(short="xX", long=("exec", "exec-batch")),
    "rg": _Risk(long=("pre", "pre-glob", "hostname-bin", "search-zip"), short="z"),
    "tar": _Risk(
        short="IF",
        long=tuple(
            "to-command checkpoint-action use-compress-program rsh-command info-script new-volume-script "
            "rmt-command".split()
        ),
    ),
    "git": _Risk(
        short="cpxuO",
        long=tuple(
            "config-env exec-path exec upload-pack receive-pack paginate extcmd open-files-in-pager git-dir work-tree "
            "template config ext-diff textconv output".split()
        ),
        words=tuple(
            "submodule bisect filter-branch difftool mergetool config hook daemon shell lfs send-email credential "
            "instaweb svn p4 archimport gui citool help web--browse".split()
        ),
        parts=("ext::", "--upload-pack", "--receive-pack"),
    ),
    "scp": _Risk(short="SoFJ"),
    "rsync": _Risk(short="e", long=("rsh", "rsync-path", "config")),
    "sort": _Risk(short="oT", long=("compress-program", "output", "temporary-directory", "files0-from")),
    "split": _Risk(long=("filter",)),
    "zip": _Risk(short="T", long=("unzip-command", "test"), words=("-TT",)),
    "tcpdump": _Risk(short="zwW"),
    "wget": _Risk(short="eOiP", long=("use-askpass", "execute", "output-document", "config", "input-file")),
    "curl": _Risk(short="KoO", long=("config", "output", "remote-name", "engine", "output-dir")),
    "openssl": _Risk(leads=("-engine", "-provider"), words=("engine",)),
    "go": _Risk(
        words=("run", "generate", "tool", "test", "install"), leads=("-exec", "-toolexec", "--exec", "--toolexec")
    ),
    "cargo": _Risk(words=("run", "test", "bench", "build", "install", "check"), leads=("--config", "+")),
    "npm": _Risk(words=("run", "exec", "x", "test", "start", "install", "ci", "i", "rebuild", "pack", "explore")),
    "yarn": _Risk(words=("run", "exec", "dlx", "install", "add", "test", "start", "node")),
    "pnpm": _Risk(words=("run", "exec", "dlx", "install", "add", "test", "start", "i")),
    "pip": _Risk(words=("install", "wheel", "download")),
    "pip3": _Risk(words=("install", "wheel", "download")),
    "uv": _Risk(words=("run", "tool", "pip", "sync", "add")),
    "gcc": _Risk(leads=("-wrapper", "-fplugin", "-specs", "--specs", "-B", "@")),
    "cc": _Risk(leads=("-wrapper", "-fplugin", "-specs", "--specs", "-B", "@")),
    "ip": _Risk(words=("netns", "vrf"), leads=("-b",)),
    "systemctl": _Risk(words=("edit", "link", "enable", "start", "run")),
    "journalctl": _Risk(leads=("--file", "--root")),
    "hg": _Risk(long=("config", "debugger", "cwd"), words=("-c",)),
    "svn": _Risk(long=("diff-cmd", "editor-cmd", "config-option", "diff3-cmd")),
    "mount": _Risk(leads=("-t", "-o", "--types")),
    "date": _Risk(short="fs", long=("file", "set")),
    "env": _Risk(leads=("-",)),
    "psql": _Risk(short="cfovL", long=("command", "file", "output", "set", "variable")),
    "mysql": _Risk(short="e", long=("execute", "pager", "tee")),
    "sqlite3": _Risk(leads=("-cmd", "-init"), parts=(".shell", ".system", "load_extension", "edit(")),
    "ffmpeg": _Risk(parts=("concat:", "subfile,", "movie=")),
}


def find_inline_code(argv: Sequence[str], path: str) -> str:
    """Why this call runs more than its program's name says; empty when it does not. `path` is the resolved program."""
    for name in dict.fromkeys(word.rpartition("/")[2] for word in (argv[0], path)):
        if why := _hidden(name, argv[1:]):
            return why
    return ""


def _hidden(name: str, arguments: Sequence[str]) -> str:
    if name in _INTERPRETERS or _VERSION.sub("", name) in _INTERPRETERS:
        if not arguments or arguments[0].startswith("-") or arguments[0] in ("eval", "repl", "x", "run", "exec"):
            return f"{name} would run code that is not in a file"
        return ""
    if name in _NEVER:
        return f"what {name} is told is a program in itself"
    if name.startswith("ld-linux") or name.startswith("ld.so"):
        return f"{name} starts another program"
    risk = _RISKS.get(name)
    found = next((word for word in arguments if _risky(word, risk)), None) if risk is not None else None
    return f"{name} can start something else through {found}" if found is not None else ""


def _risky(word: str, risk: _Risk) -> bool:
    if word in risk.words or word.startswith(risk.leads) or any(part in word for part in risk.parts):
        return True
    if word.startswith("--"):
        given = word[2:].partition("=")[0]
        return bool(given) and any(name.startswith(given) for name in risk.long)
    return word.startswith("-") and bool(set(word[1:]) & set(risk.short))


# The parser.

LONGEST = 16_000
"""Longer commands are not parsed: nobody approves by rule what nobody can read."""


class CommandSegment(Struct, frozen=True):
    """One program and its arguments."""

    argv: tuple[str, ...]


class UnclearCommand(Struct, frozen=True):
    why: str


_TOKEN = compile_lazily(
    r"(?P<blank>[ \t]+)"
    r"|(?P<operator>&&|\|\||[;|\n])"
    r"|(?P<plain>(?:[^ \t\n$`<>&(){}#*?\[~'\"\\;|]|(?<=[A-Za-z0-9_])~)+)"  # a home only where a word begins: HEAD~1
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[^\n])*)"'
    r"|\\(?P<escaped>[^\n])",
    re.DOTALL,
)
_ESCAPE = compile_lazily(r'\\(["\\$`])')
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

# Control words, and builtins that change the shell or run their arguments. The other builtins (echo, true, pwd, kill …)
# act like the programs of the same name.
_SHELLS_OWN = frozenset(
    "if then else elif fi for foreach while until do done case esac end function select repeat in time coproc ! [[ ]] "
    "[ - . source eval exec builtin trap set unset export declare typeset local readonly alias unalias cd pushd popd "
    "chdir dirs shift return exit logout break continue read readarray mapfile getopts hash rehash unhash enable "
    "disable shopt setopt unsetopt emulate let umask ulimit limit unlimit wait bg fg jobs disown suspend history fc r "
    "bind bindkey complete compgen compopt caller times noglob nocorrect autoload zmodload zle zcompile vared sched "
    "integer float functions unfunction print whence global inlib nameref".split()
)
_CARRIED = {"env": 0, "nohup": 0, "nice": 0, "setsid": 0, "command": 0, "timeout": 1}
"""Programs that only start another one, and how many words of their own come first."""
_CARRIERS = frozenset(
    "sudo doas su runuser pkexec gosu su-exec setpriv capsh runcon sg newgrp setuidgid s6-setuidgid chpst softlimit "
    "stdbuf ionice chrt taskset prlimit cpulimit numactl choom setarch linux32 linux64 i386 x86_64 eatmydata nocache "
    "xargs parallel watch entr hyperfine flock busybox toybox unshare nsenter chroot bwrap firejail proot fakeroot "
    "fakechroot faketime strace ltrace valgrind perf catchsegv script unbuffer rlwrap xvfb-run dbus-run-session "
    "dbus-launch systemd-run dumb-init tini with-contenv ssh autossh mosh sshpass ssh-agent gpg-agent torsocks tsocks "
    "proxychains proxychains4 time".split()
)


def parse_shell(command: str) -> tuple[CommandSegment, ...] | UnclearCommand:
    """The programs that `command` starts, in order."""
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
            word = (word or "") + (_ESCAPE.sub(r"\1", token[kind]) if kind == "double" else token[kind])
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
    """The program that is started when the first word only starts another one."""
    while argv[0] in _CARRIED:
        own = _CARRIED[argv[0]]
        if len(argv) <= own + 1 or any(word.startswith("-") for word in argv[1 : own + 2]):
            return UnclearCommand(f"it starts another program through {argv[0]!r}")
        argv = argv[own + 1 :]
    return argv
