"""Reads a command line as the shell does, as far as it is written out: its simple commands, without their quotes. Pure.

Unlike `shell.py`, which refuses what it does not fully understand, this looks at every command there is, and says of
each word whether it is sure what it will be.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from openclaw.core.text import compile_lazily


class Word(Struct, frozen=True):
    """A word without its quotes; not `sure` when something is expanded in it."""

    text: str
    sure: bool = True


_TOKEN = compile_lazily(
    r"(?P<blank>[ \t]+|\\\n)"
    r"|(?P<comment>(?:(?<=[\s;&|(])|^)#[^\n]*)"
    r"|<<(?!<)-?[ \t]*(?P<heredoc>'\w+'|\"\w+\"|\\?\w+)"
    r"|(?P<redirect>\d*(?:&>>|&>|>>|>\||>&|<&|<>|<<<|>|<)-?)"
    r"|(?P<end>&&|\|\||;;&?|[;&|\n()])"
    r"|\$?'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\]|\\.)*)"'
    r"|\\(?P<escaped>.)"
    r"|(?P<inner>\$\(|`)"
    r"|(?P<unsure>\$\{[^}]*\}|\$[\w@*#?!$-]|\$|[*?]|\[[^\]\s]*\]|\{[^{}\s]*,[^{}\s]*\})"
    r"|(?P<plain>[^\s'\"\\$`<>&|;()*?\[{]+|.)",
    re.DOTALL,
)
_RESERVED = frozenset("if then else elif fi while until do done ! { } time esac coproc".split())
_DATA = frozenset("for case select function".split())
"""What follows them is no program."""
_ASSIGNED = compile_lazily(r"[A-Za-z_]\w*\+?=")
LONGEST = 16_000
UNREADABLE = (Word("", sure=False),)


def simple_commands(command: str) -> list[tuple[Word, ...]]:
    """Every command of a line, also inside substitutions, each from its program on."""
    if len(command) > LONGEST:
        return [UNREADABLE]
    found: list[list[Word]] = [[]]
    word: Word | None = None
    target = False
    bodies: list[str] = []
    at = 0
    while at < len(command):
        token = _TOKEN.match(command, at)
        if token is None:
            return [UNREADABLE]
        at, kind = token.end(), str(token.lastgroup)
        if kind in ("single", "double", "escaped", "unsure", "plain", "inner"):
            before = word or Word("")
            text = token[kind] if kind != "double" else re.sub(r'\\(["\\$`])', r"\1", token[kind])
            sure = kind not in ("unsure", "inner") and not (kind == "double" and re.search(r"(?<!\\)[$`]", token[kind]))
            sure = sure and not (kind == "single" and token[0].startswith("$"))
            word = Word(before.text + text, before.sure and sure)
            if kind == "double":
                for inner in re.findall(r"\$\(((?:[^()]|\([^()]*\))*)\)|`([^`]*)`", token[kind]):
                    found[-1:-1] = [list(each) for each in simple_commands("".join(inner))]
            if kind != "inner":
                continue
        if word is not None:
            if not target:
                found[-1].append(word)
            word, target = None, False
        if kind in ("end", "inner"):
            found.append([])
            if token[0] == "\n" and bodies:
                at = _after(command, at, bodies)
                bodies = []
        elif kind == "redirect":
            target = not token[0].endswith("&-")
        elif kind == "heredoc":
            bodies.append(token["heredoc"].strip("'\"\\"))
    if word is not None and not target:
        found[-1].append(word)
    return [words for each in found if (words := _from_program(each))]


def _after(command: str, at: int, bodies: Sequence[str]) -> int:
    """Where a line goes on behind the texts that are given to its commands."""
    for end in bodies:
        closed = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(command, at)
        at = min(closed.end() + 1, len(command)) if closed else len(command)
    return at


def _from_program(words: Sequence[Word]) -> tuple[Word, ...]:
    left = list(words)
    while left and (left[0].text in _RESERVED or _ASSIGNED.match(left[0].text)):
        left.pop(0)
    return () if left and left[0].text in _DATA else tuple(left)


def program_of(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


# Programs whose arguments start something.

_CARRIERS = frozenset(
    "env nice nohup timeout command builtin exec time sudo doas setsid stdbuf ionice taskset chrt xargs watch parallel "
    "entr hyperfine strace ltrace valgrind bwrap chroot unshare nsenter flock script unbuffer busybox toybox".split()
)
_INTERPRETERS = compile_lazily(
    r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|bash|sh|zsh|dash|ksh|fish)[\d.]*"
)
_MODULES = frozenset(
    "pytest unittest json.tool venv compileall py_compile doctest coverage build black ruff mypy isort flake8 "
    "pylint tox nox cProfile trace zipfile tarfile tokenize ast dis calendar sysconfig platform pip ensurepip "
    "site".split()
)
_TELLING = frozenset(
    "vi vim nvim ex ed view emacs tmux screen gdb lldb dc rename parallel entr hyperfine . ipython jupyter".split()
)
"""What they are told, in arguments or by their input, is a program itself."""


def carries(words: Sequence[Word]) -> bool:
    """Whether the first word only starts another program, which is among the others."""
    return program_of(words[0].text) in _CARRIERS if words else False


def runs_argument(words: Sequence[Word], modules: Collection[str] = ()) -> bool:
    """Whether a simple command runs something that its arguments say, so that its name does not tell what it does.

    `modules` of Python are looked at as files.
    """
    name, given = program_of(words[0].text), words[1:]
    texts = [word.text for word in given]
    if name in _TELLING and texts != ["--version"]:
        return True
    if carries(words):
        rest = next((given[at:] for at, word in enumerate(given) if not _is_option(word.text)), ())
        return any(not word.sure for word in given) or bool(rest and runs_argument(rest, modules))
    if name == "find":
        inner = _executed(given)
        return any(not part[0].sure or runs_argument(part, modules) for part in inner)
    if _INTERPRETERS.fullmatch(name):
        return _interprets(name, texts, modules)
    test = _RISKY.get(name)
    return test is not None and test(texts)


def _is_option(text: str) -> bool:
    return text.startswith("-") or bool(_ASSIGNED.match(text)) or bool(re.fullmatch(r"[\d.]+[smhd]?", text))


def _executed(words: Sequence[Word]) -> list[tuple[Word, ...]]:
    """The commands that `find` is told to run."""
    found: list[list[Word]] = []
    inside = False
    for word in words:
        if re.fullmatch(r"-(?:exec|execdir|ok|okdir)", word.text):
            found.append([])
            inside = True
        elif inside and word.text in (";", "+"):
            inside = False
        elif inside:
            found[-1].append(word)
    return [tuple(each) for each in found if each]


def _interprets(name: str, words: Sequence[str], modules: Collection[str]) -> bool:
    """Whether an interpreter runs anything else than a file that is named."""
    for at, word in enumerate(words):
        if word in ("-", "--version", "-V"):
            return word == "-"
        if name.startswith(("python", "pypy")) and word == "-m":
            module = module_of(words[at:])
            return module not in _MODULES and module.partition(".")[0] not in modules
        if name == "node" and word == "--test":
            return False
        if not word.startswith("-"):
            return word in ("eval", "repl", "x") and name in ("deno", "bun")
        if re.match(r"-[A-Za-z]*[ceErp]|--(?:eval|print|command|init-file|rcfile)", word):
            return True
    return True  # what comes in by its input


def module_of(words: Sequence[str]) -> str:
    """The module that Python runs with `-m`; empty when there is none."""
    at = next((place for place, word in enumerate(words) if word == "-m"), None)
    return words[at + 1] if at is not None and at + 1 < len(words) else ""


_LOOKS = frozenset("status health logs help completion --help --version -h".split())
_SHOWS = frozenset(
    "list show get status report lint diff blame build explain search pending runs log verify capabilities audit table "
    "--help -h".split()
)


def commands_to_us(command: str) -> str:
    """What a command line has `openclaw` itself do, unless that only shows something; empty when there is none."""
    for words in simple_commands(command):
        texts = [program_of(word.text) for word in words]
        at = next(
            (place for place, text in enumerate(texts) if re.fullmatch(r"openclaw(?:-py)?|openclaw\.mjs", text)), None
        )
        starts = at == 0 or (
            at is not None and (carries(words) or _INTERPRETERS.fullmatch(texts[0]) or texts[0] == "uv")
        )
        if at is None or not starts:
            continue
        given = [text for text in texts[at + 1 :] if not text.startswith("--") or text in _LOOKS]
        shows = bool(given) and (given[0] in _LOOKS or bool(_SHOWS & set(given[1:2])))
        if given and (not shows or "--fix" in texts):
            return " ".join(["openclaw", *given[:3]])
    return ""


_SQL = compile_lazily(
    r"(?:^|\n)\s*\.(?!tables|schema|mode|headers?|dump|ind|databases|width|separator|timer|quit|exit)\w|load_extension|edit\s*\("
)
_SED = compile_lazily(
    r"(?:^|[;{}\n\d$/])\s*e(?:\s|$)|(?:^|[;{}\n\d$/,])\s*s(.)(?:(?!\1).|\\.)*\1(?:(?!\1).|\\.)*\1\w*e", re.DOTALL
)
_GIT_KEYS = compile_lazily(
    r"(?:user|color|advice|init|log|i18n)\.|core\.(?:quotepath|autocrlf|filemode|abbrev)|commit\.gpgsign", re.I
)
_GIT_VERBS = frozenset(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout cherry "
    "cherry-pick clean clone commit config count-objects describe diff diff-tree fetch for-each-ref format-patch "
    "fsck gc grep hash-object help init log ls-files ls-remote ls-tree maintenance merge merge-base mv name-rev "
    "notes pull push range-diff rebase reflog remote repack reset restore rev-list rev-parse revert rm shortlog "
    "show show-branch show-ref sparse-checkout stash status submodule switch symbolic-ref tag update-index "
    "update-ref version whatchanged worktree write-tree".split()
)


def git_verb(words: Sequence[str]) -> str:
    """The subcommand of a git command line, behind git's own options."""
    left = list(words)
    while left and left[0].startswith("-"):
        left = (
            left[2:] if left[0] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--config-env") else left[1:]
        )
    return left[0] if left else ""


def _git(words: Sequence[str]) -> bool:
    verb = git_verb(words)
    options = list(words[: list(words).index(verb)]) if verb else list(words)
    given = [options[at + 1] for at, word in enumerate(options[:-1]) if word == "-c"]
    if any(not _GIT_KEYS.match(each) for each in given) or any(
        word.startswith(("--exec-path=", "--config-env")) for word in options
    ):
        return True
    if verb and verb not in _GIT_VERBS:
        return True  # a name that the settings of somebody give a meaning
    runs = {"bisect": ("run",), "submodule": ("foreach",), "rebase": ("-x", "--exec"), "grep": ("-O",)}
    return any(word.startswith(each) for each in runs.get(verb, ()) for word in words)


def _has(*leads: str) -> Callable[[Sequence[str]], bool]:
    return lambda words: any(word.startswith(leads) for word in words)


_DATABASE = compile_lazily(r"-h|--host|host=|\\!|\\copy|\bprogram\b|^-f|--file|\bsystem\b", re.IGNORECASE)


def _asks_database(words: Sequence[str]) -> bool:
    return any(_DATABASE.search(word) for word in words)


def _tar(words: Sequence[str]) -> bool:
    long = ("--to-c", "--checkpoint-a", "--use-c", "-I", "-F", "--info-s", "--new-v", "--rsh", "--rmt")
    return _has(*long)(words) or bool(words and re.fullmatch(r"-?[a-zA-Z]*[IF][a-zA-Z]*", words[0]))


def _sqlite(words: Sequence[str]) -> bool:
    plain = [word for word in words if not word.startswith("-")]
    return len(plain) < 2 or _has("-cmd", "-init")(words) or any(_SQL.search(word) for word in plain)


def _sed(words: Sequence[str]) -> bool:
    return _has("-f", "--file")(words) or any(_SED.search(word) for word in words if not word.startswith("--"))


_MEDIA = compile_lazily(
    r"(?:tcp|udp|rtmp\w*|rtp|rtsp|srt|s?ftp|gopher|https?|tls|smb|concat|subfile|msl|mvg|ephemeral|url)[:,]", re.I
)


def _reads_media(words: Sequence[str]) -> bool:
    return any(_MEDIA.match(word) for word in words)


_RISKY: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "git": _git,
    "tar": _tar,
    "sqlite3": _sqlite,
    "sed": _sed,
    **dict.fromkeys(("psql", "mysql", "redis-cli"), _asks_database),
    **dict.fromkeys(("ffmpeg", "ffprobe", "convert", "magick"), _reads_media),
    "openssl": _has("s_client", "s_server", "s_time", "ocsp", "engine", "-engine", "-provider"),
    "gpg": _has("--send", "--recv", "--refresh", "--locate", "--search", "--keyserver", "--fetch", "--auto-key"),
    "logger": _has("-n", "--server"),
    "make": _has("--eval", "-E", "SHELL=", "-f-", "MAKEFLAGS="),
    "cmake": _has("-E", "-P"),
    "pandoc": _has("--filter", "-F", "--lua", "-L", "--pdf-engine"),
    "exiftool": _has("-if", "-config", "-p", "-execute", "-@"),
    "split": _has("--filter"),
    "zip": _has("-T", "--unzip-c", "--test"),
    "sort": _has("--compress"),
    "rg": _has("--pre", "--hostname-bin"),
    "man": _has("-P", "-H", "--pager", "--html"),
    "less": _has("+"),
    "mount": _has("-t", "-o"),
    **dict.fromkeys(("gcc", "cc", "g++", "clang"), _has("-wrapper", "-fplugin", "-specs", "--specs", "-B", "@")),
}
