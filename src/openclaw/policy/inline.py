"""Calls of an allowed program that are really something else: code in an argument, another program behind a flag. Pure.

Whoever allows `git` or `find` means the program, not every program it can be told to start.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

_VERSION = re.compile(r"[0-9.]+\Z")
_INTERPRETERS = frozenset(
    "python pypy ipython bpython node nodejs deno bun qjs jjs gjs ruby irb perl php lua luajit Rscript R julia octave "
    "osascript sh bash dash zsh ksh mksh ash fish csh tcsh pwsh tclsh wish expect guile racket sbcl clisp ghci runghc "
    "groovy scala kotlin jshell elixir erl".split()
)
"""They run what a file says. An argument before the file, or no file at all, and nobody can see what runs."""
_NEVER = frozenset(
    "awk gawk mawk nawk original-awk sed jq yq make gmake cmake ninja meson scons just rake ant mvn gradle vi vim nvim "
    "view ex ed emacs nano pico joe less more most man info gdb lldb bpftrace dtrace stap at batch crontab screen tmux "
    "byobu socat nc ncat netcat telnet ftp sftp lftp mail mutt eval exec run-parts start-stop-daemon npx pnpx uvx bunx "
    "pipx docker podman nerdctl kubectl ctr lxc vagrant ansible terraform".split()
)
"""What they are told is a program in itself."""


class _Risk(Struct, frozen=True, kw_only=True):
    """What of a program's arguments starts something else."""

    short: str = ""
    """Letters of single-dash flags, alone or in a cluster."""
    long: tuple[str, ...] = ()
    """Words behind two dashes; shortened forms count."""
    words: tuple[str, ...] = ()
    """Whole arguments."""
    leads: tuple[str, ...] = ()
    """How an argument begins."""
    parts: tuple[str, ...] = ()
    """What an argument contains."""


_RISKS = {
    "find": _Risk(leads=("-exec", "-ok", "-fprint", "-fls", "-delete")),
    "fd": _Risk(short="xX", long=("exec", "exec-batch")),
    "fdfind": _Risk(short="xX", long=("exec", "exec-batch")),
    "rg": _Risk(long=("pre", "pre-glob", "hostname-bin", "search-zip"), short="z"),
    "tar": _Risk(
        short="IF",
        long=(
            "to-command",
            "checkpoint-action",
            "use-compress-program",
            "rsh-command",
            "info-script",
            "new-volume-script",
            "rmt-command",
        ),
    ),
    "git": _Risk(
        short="cpxuO",
        long=(
            "config-env",
            "exec-path",
            "exec",
            "upload-pack",
            "receive-pack",
            "paginate",
            "extcmd",
            "open-files-in-pager",
            "git-dir",
            "work-tree",
            "template",
            "config",
            "ext-diff",
            "textconv",
            "output",
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
    """Why this call is more than its program's name says; empty when it is not. `path` is what it resolves to."""
    for name in dict.fromkeys((_name(argv[0]), _name(path))):
        if why := _hidden(name, argv[1:]):
            return why
    return ""


def _name(word: str) -> str:
    return word.rpartition("/")[2]


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
    if word in risk.words or word.startswith(risk.leads):
        return True
    if any(part in word for part in risk.parts):
        return True
    if word.startswith("--"):
        given = word[2:].partition("=")[0]
        return bool(given) and any(name.startswith(given) for name in risk.long)
    return word.startswith("-") and bool(set(word[1:]) & set(risk.short))
