"""Commands that only read or only build, told by a grammar of arguments per program. Pure.

Whatever the grammar does not know is not harmless: it is asked about, or needs a grant.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from openclaw.core.secret import is_secret_path
from openclaw.core.text import compile_lazily

# The words of a command line.


class ShellWord(Struct, frozen=True):
    """A word as the shell passes it on; wildcards are still to be expanded."""

    text: str
    wild: bool = False
    """It holds a wildcard."""
    leads: bool = False
    """It begins with one: what it expands to may look like a flag."""


class SimpleCommand(Struct):
    """One program with its arguments, and the files its output goes to."""

    words: list[ShellWord] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)


_LEX = compile_lazily(
    r"(?P<blank>[ \t]+)"
    r"|(?P<both>[12&]?>&[12]|&>{1,2}(?=\s*/dev/null)|2>{1,2}(?=\s*/dev/null))"
    r"|(?P<redirect>1?>{1,2}|0?<(?![<(&]))"
    r"|(?P<operator>&&|\|\||[;|\n])"
    r"|(?P<variable>\$(?:PWD|HOME)\b|\$\{(?:PWD|HOME)\})"
    r"|(?P<wild>[*?]|\[[^]\s/]+\])"
    r"|(?P<home>(?:(?<=\s)|^)~(?=[/\s]|$))"
    r"|(?P<plain>(?:[^ \t\n$`<>&(){}#*?\[~'\"\\;|]|(?<=[A-Za-z0-9_])[~#])+|\{\})"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[^\n]|\$(?:PWD|HOME)\b|\$\{(?:PWD|HOME)\})*)"'
    r"|\\(?P<escaped>[^\n])",
    re.DOTALL,
)
_ESCAPE = compile_lazily(r'\\(["\\$`])')
_VARIABLE = compile_lazily(r"\$\{?(PWD|HOME)\}?")
LONGEST = 4_000


def read_line(command: str, cwd: str, home: str) -> list[SimpleCommand] | None:
    """The programs of a command line with their words; None when it does more than is understood here."""
    if len(command) > LONGEST or not command.replace("\n", "").replace("\t", "").isprintable():
        return None
    known = {"PWD": cwd, "HOME": home}
    commands, word, target = [SimpleCommand()], None, ""
    at = 0
    while at <= len(command):
        token = _LEX.match(command, at) if at < len(command) else None
        if token is None and at < len(command):
            return None
        at = token.end() if token is not None else at + 1
        kind = str(token.lastgroup) if token is not None else "operator"
        if kind in ("blank", "operator", "redirect", "both"):
            if word is not None:
                if target:
                    if word.wild:
                        return None
                    (commands[-1].reads if "<" in target else commands[-1].writes).append(word.text)
                else:
                    commands[-1].words.append(word)
                word, target = None, ""
            elif target and kind != "blank":
                return None
            if token is None:
                break
            if kind == "redirect" or (kind == "both" and "&1" not in token[0] and "&2" not in token[0]):
                target = token[0]
            elif kind == "operator" and (commands[-1].words or token[0] != "\n"):
                if not commands[-1].words:
                    return None
                commands.append(SimpleCommand())
            continue
        assert token is not None
        text = token[kind]
        if kind in ("variable", "double"):
            expanded = _VARIABLE.sub(lambda found: known[found[1]], text)
            text = _ESCAPE.sub(r"\1", expanded) if kind == "double" else expanded
        elif kind == "home":
            text = home
        before = word or ShellWord("")
        word = ShellWord(
            before.text + text, before.wild or kind == "wild", before.leads or (not before.text and kind == "wild")
        )
    if not commands[-1].words:
        commands.pop()
    return commands or None


# The grammar.


class _Form(Struct, frozen=True):
    """The arguments with which a program only reads, or only makes files."""

    never: str = ""
    """Letters of short flags that do more."""
    never_long: tuple[str, ...] = ()
    """Long flags that do more; abbreviations count."""
    only: frozenset[str] | None = None
    """The only flags there may be, where few are harmless."""
    most: int | None = None
    """Most arguments that are not flags."""
    fits: Callable[[Sequence[str]], bool] | None = None
    """A further test of all arguments."""
    makes: str = ""
    """Which arguments are files that it makes: "last", or "all"; their directory has to be the owner's."""
    reads: bool = True
    """Whether arguments are files whose text it shows."""
    deep: bool = False
    """Whether it reads whole directories."""


def _git(words: Sequence[str]) -> bool:
    if words[:1] == ["-C"] or words[:1] == ("-C",):
        return False  # another repository, whose settings were not looked at
    if not words:
        return True
    verb, rest = words[0], words[1:]
    flags = [each.partition("=")[0] for each in rest if each.startswith("-")]
    plain = [each for each in rest if not each.startswith("-")]
    if any(each in _GIT_NEVER or any(long.startswith(each) for long in _GIT_NEVER if len(each) > 4) for each in flags):
        return False
    if verb in _GIT_READS:
        return True
    match verb:
        case "branch" | "tag":
            return not plain and set(flags) <= {
                "-a",
                "-r",
                "-v",
                "-vv",
                "--list",
                "--show-current",
                "-l",
                "-n",
                "--sort",
            }
        case "remote":
            return not plain and set(flags) <= {"-v", "--verbose"}
        case "stash" | "worktree":
            return plain == ["list"] and not flags
        case "add":
            return set(flags) <= {"-A", "--all", "-u", "--update", "-v", "-n", "--"}
        case "commit":
            return bool({"-m", "-am", "-qm", "-qam", "--message"} & set(flags)) and set(flags) <= {
                *("-m", "-am", "-qm", "-qam", "-a", "-q", "--all", "--quiet", "--message", "--allow-empty"),
            }
        case "init":
            return set(flags) <= {"-q", "--quiet"}
    return False


_GIT_READS = frozenset(
    "status diff log show rev-parse describe blame annotate shortlog ls-files ls-tree reflog cat-file rev-list "
    "name-rev "
    "merge-base whatchanged count-objects show-ref for-each-ref show-branch cherry".split()
)
_GIT_NEVER = frozenset(
    "--ext-diff --textconv --output --open-files-in-pager --exec --upload-pack --receive-pack --paginate -p1 --edit "
    "--no-index --contents --filters".split()
)


def _tar(words: Sequence[str]) -> bool:
    """Lists an archive."""
    mode = words[0].lstrip("-") if words else ""
    return bool(re.fullmatch(r"t[vzjJ]*f|[vzjJ]*tf", mode)) and not any(word.startswith("-") for word in words[1:])


def _unzip(words: Sequence[str]) -> bool:
    """Lists an archive, or unpacks it into a directory of its own."""
    flags = {word for word in words if word.startswith("-")}
    if flags & {"-l", "-Z", "-v", "-t"}:
        return flags <= {"-l", "-Z", "-v", "-t", "-q"}
    return flags <= {"-q", "-o", "-n", "-d"} and len(words) >= 3 and words[-2] == "-d"


def _sed(words: Sequence[str]) -> bool:
    """Shows lines by their numbers."""
    lines = len(words) >= 2 and words[0] == "-n" and bool(re.fullmatch(r"\d+(?:,(?:\d+|\$))?p|\$p", words[1]))
    return lines and not any(word.startswith("-") for word in words[2:])  # another script may follow


def _ps(words: Sequence[str]) -> bool:
    return all(
        word in ("aux", "ax", "u", "x", "a", "-ef", "-e", "-f", "-A") or word.startswith("--sort=") for word in words
    )


def _find(words: Sequence[str]) -> bool:
    return not any(word.startswith(("-exec", "-ok", "-fprint", "-fls", "-delete", "-files0-from")) for word in words)


def _date(words: Sequence[str]) -> bool:
    return all(word.startswith("+") or word in ("-u", "--utc", "-I", "-R", "--iso-8601") for word in words)


def _version(words: Sequence[str]) -> bool:
    return len(words) == 1 and words[0] in ("--version", "-V")


_ANY, _WORDS, _VERSION = _Form(), _Form(reads=False), _Form(fits=_version, reads=False)
FORMS: Mapping[str, _Form] = {
    **dict.fromkeys(
        "cat head tac nl rev wc stat od hexdump strings md5sum sha1sum sha256sum sha512sum b2sum cksum cut cmp "
        "comm paste "
        "join fold fmt expand column jq diff egrep fgrep tail".split(),
        _ANY,
    ),
    **dict.fromkeys(
        "ls du df pwd uname whoami id groups nproc free uptime lscpu which basename dirname realpath readlink seq expr "
        "echo printf true false test tr cal".split(),
        _WORDS,
    ),
    **dict.fromkeys(
        "python python3 node npm pip pip3 cargo rustc go gcc g++ clang make ruby perl java uv ruff mypy".split(),
        _VERSION,
    ),
    "grep": _Form(deep=True),
    "rg": _Form(never="z", never_long=("pre", "pre-glob", "hostname-bin", "search-zip"), deep=True),
    "uniq": _Form(most=1),
    "sort": _Form(never="oT", never_long=("output", "temporary-directory", "compress-program", "files0-from")),
    "file": _Form(never="Cm", never_long=("compile", "magic-file")),
    "tree": _Form(never="o", reads=False),
    "date": _Form(fits=_date, reads=False),
    "ps": _Form(fits=_ps, reads=False),
    "find": _Form(fits=_find, reads=False),
    "sed": _Form(fits=_sed),
    "git": _Form(fits=_git),
    "tar": _Form(fits=_tar),
    "unzip": _Form(fits=_unzip, makes="unpacked"),
    "mkdir": _Form(only=frozenset({"-p", "-v", "--parents"}), makes="all", reads=False),
    "touch": _Form(only=frozenset(), makes="all", reads=False),
    "cp": _Form(only=frozenset("-r -R -a -p -v -n -i --recursive".split()), makes="last"),
    "mv": _Form(only=frozenset("-v -n -i".split()), makes="all", reads=False),
}
_NO_FLAG_HARMS = frozenset(name for name, form in FORMS.items() if form in (_ANY, _WORDS))


class HarmlessCommand(Struct, frozen=True, kw_only=True):
    """What a harmless command line touches: programs by name, files as written, and where `cd` took it."""

    programs: tuple[str, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    cwd: str = ""
    git: bool = False
    """It runs git, whose repository may have settings that run something."""
    commits: bool = False


def harmless(command: str, cwd: str, home: str) -> HarmlessCommand | None:
    """What a command touches, when all of it only reads or only makes files; None for everything else."""
    line = read_line(command, cwd, home)
    if line is None:
        return None
    programs: list[str] = []
    reads: list[str] = []
    writes: list[str] = []
    while len(line) > 1 and line[0].words[0].text == "cd":
        words = line[0].words
        if len(words) != 2 or words[1].wild or words[1].text.startswith("-"):
            return None
        cwd = words[1].text if words[1].text.startswith("/") else f"{cwd}/{words[1].text}"
        line = line[1:]
    for simple in line:
        name, *words = simple.words
        form = FORMS.get(name.text)
        if form is None or name.wild:
            return None
        touched = _touched(name.text, form, words)
        if touched is None or any(_names_secret(word.text) for word in words):
            return None
        programs.append(name.text)
        reads += [*touched[0], *simple.reads]
        writes += [*touched[1], *(each for each in simple.writes if each != "/dev/null")]
    if any(is_secret_path(f"/{path}") for path in reads):
        return None
    return HarmlessCommand(
        programs=tuple(programs),
        reads=tuple(f"{cwd}/{path}" if not path.startswith("/") else path for path in reads),
        writes=tuple(f"{cwd}/{path}" if not path.startswith("/") else path for path in writes),
        cwd=cwd,
        git="git" in programs,
        commits=bool(re.search(r"\bgit\s+(?:commit|add)\b", command)),
    )


def _names_secret(flag: str) -> bool:
    """Whether a flag names a file that usually holds credentials: `--files0-from=.env`, `-f.env`."""
    values = (flag.partition("=")[2], flag[2:]) if flag.startswith("-") else ()
    return any(value and is_secret_path(f"/{value}") for value in values)


def only_shows(command: str, cwd: str, home: str) -> bool:
    """Whether a command line makes no file and changes none, whatever it reads."""
    line = read_line(command, cwd, home) or []
    for simple in line:
        form = FORMS.get(simple.words[0].text)
        touched = _touched(simple.words[0].text, form, simple.words[1:]) if form is not None else None
        if touched is None or touched[1] or simple.writes or simple.words[0].text == "git":
            return False
    return bool(line)


def _touched(name: str, form: _Form, words: Sequence[ShellWord]) -> tuple[list[str], list[str]] | None:
    """The files that one program reads and makes; None when its arguments do not fit the grammar."""
    texts = [word.text for word in words]
    if form.fits is not None and not form.fits(texts):
        # Every program may say its version.
        return None if not _version(texts) else ([], [])
    if any(word.leads for word in words) and name not in _NO_FLAG_HARMS:
        return None
    flags = [text for text in texts if text.startswith("-") and text != "-"]
    plain = [text for text in texts if not text.startswith("-")]
    if form.fits is None and not all(_allowed(flag, form) for flag in flags):
        return None
    if form.most is not None and len(plain) > form.most:
        return None
    recursive = form.deep and (
        name == "rg" or any(re.match(r"-[A-Za-z]*[rR]|--(?:dereference-)?recursive", flag) for flag in flags)
    )
    if recursive and any(text.startswith(("/", "..")) or "/.." in text for text in plain[1:]):
        return None
    if form.makes and any(word.wild for word in words[-1:]):
        return None
    match form.makes:
        case "all":
            return [], plain
        case "last":
            return (plain[:-1], plain[-1:]) if len(plain) >= 2 else None
        case "unpacked":
            return plain[:1], texts[-1:] if "-d" in texts else []
    return (plain if form.reads else []), []


def _allowed(flag: str, form: _Form) -> bool:
    if form.only is not None:
        return flag in form.only or flag == "--"
    if flag.startswith("--"):
        given = flag[2:].partition("=")[0]
        return not (given and any(name.startswith(given) for name in form.never_long))
    return not set(flag[1:]) & set(form.never)


GIT_SETTINGS = compile_lazily(
    r"^\s*(?:fsmonitor|hookspath|pager|editor|sshcommand|askpass|external|textconv|command|clean|smudge|process|helper"
    r"|program|trustexitcode|cmd|sequence\w*|gitproxy|worktree|driver)\s*=|^\s*\[\s*(?:include|alias|filter|difftool"
    r"|mergetool|trailer)",
    re.IGNORECASE | re.MULTILINE,
)
"""Settings of a repository that make git run something, or read settings elsewhere."""


# What a grant for a whole program covers.


def _flags_of(words: Sequence[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}


def _verb(*verbs: str, flags: str = "") -> Callable[[Sequence[str]], bool]:
    """A test for programs that are told what to do by their first word."""
    allowed = {*flags.split(), "--json", "--help", "-h"}
    return lambda words: bool(words) and words[0] in verbs and _flags_of(words[1:]) <= allowed


def _sqlite(words: Sequence[str]) -> bool:
    """Reads a database with one statement."""
    plain = [word for word in words if not word.startswith("-")]
    statement = plain[1] if len(plain) == 2 else ""
    reads = re.match(r"\s*(?:select|explain|with)\b", statement, re.IGNORECASE) is not None
    calls = re.search(r"writefile|readfile|load_extension|edit\s*\(|fts3_tokenizer|^\s*\.", statement, re.I | re.M)
    return reads and calls is None and _flags_of(words) <= {"-readonly", "-header", "-csv", "-json", "-column", "-line"}


def _packs(words: Sequence[str]) -> bool:
    """Lists an archive, makes one or unpacks it."""
    mode = words[0].lstrip("-") if words else ""
    made = bool(re.fullmatch(r"[vzjJ]*[cx][vzjJ]*f", mode)) and len(words) >= 2
    return _tar(words) or (made and _flags_of(words[1:]) <= {"-C", "--exclude"})


def _downloads(words: Sequence[str]) -> bool:
    """Shows an address on the terminal."""
    shown = set("-s -S -sS -L -sL -sSL -f -fsSL -fsS -fsL -i -I -sI -v -k -G -m -A -H --max-time --compressed".split())
    shown |= {"--silent", "--show-error", "--location", "--fail", "--head", "--include", "--header", "--user-agent"}
    return _flags_of(words) <= shown


def _mirrors(words: Sequence[str]) -> bool:
    return _flags_of(words) <= {"-q", "-qO-", "-O-", "--quiet", "--timeout", "-T"} and bool(
        {"-qO-", "-O-"} & _flags_of(words)
    )


_GRANTED: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "git": _git,
    "tar": _packs,
    "sqlite3": _sqlite,
    "npm": _verb(*"ls list outdated view info show root prefix -v --version".split(), flags="--depth --all -g --long"),
    "pip": _verb(*"list show freeze check --version -V".split(), flags="--outdated --format --user --local --files -f"),
    "apt": _verb(*"list show search policy --version".split(), flags="--installed --upgradable"),
    "apt-get": _verb("--version"),
    "dpkg": _verb(*"-l -L -s -S --list --listfiles --status --search --version".split()),
    "cargo": _verb(
        *"tree metadata version --version -V locate-project pkgid".split(), flags="--depth --format-version -p"
    ),
    "curl": _downloads,
    "wget": _mirrors,
}


def beyond_grammar(argv: Sequence[str], path: str) -> str:
    """Why a grant for the whole program does not cover these arguments; empty when it does, or no grammar is known."""
    for name in dict.fromkeys(word.rpartition("/")[2] for word in (argv[0], path)):
        fits = _GRANTED.get("pip" if name.startswith("pip") else name)
        if fits is not None and not fits(argv[1:]) and not _version(argv[1:]):
            return f"{name} may do more than read or build with these arguments"
    return ""
