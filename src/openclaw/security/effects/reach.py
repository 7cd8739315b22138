"""Whether a command leaves the machine, and whether what it prints comes from elsewhere. Pure.

Programs of the outside world, and programs nobody has listed as local, do both.
"""

import re
from collections.abc import Collection, Sequence

from openclaw.core.text import compile_lazily
from openclaw.security.effects.forms import FORMS
from openclaw.security.effects.shell_words import Word, carries, git_verb, program_of, runs_argument, simple_commands

_LOCAL = frozenset(FORMS) | frozenset(
    "python python2 python3 pypy node deno bun ruby perl php lua bash sh zsh dash ksh fish make cmake ninja "
    "just npm pnpm "
    "yarn uv tox nox pytest cargo rustc go gcc g++ cc clang ld gradle mvn javac java rake bundle rm rmdir ln "
    "chmod chown "
    "chgrp cp mv mkdir touch tee sed awk gawk mawk xargs tar gzip gunzip zcat bzip2 bunzip2 xz unxz zip unzip "
    "7z sqlite3 "
    "git diff patch dd truncate split csplit shuf shred sleep wait kill pkill pgrep ps top htop lsof time timeout nice "
    "nohup env export set unset cd pushd popd source exit return read trap eval exec command builtin type hash ulimit "
    "umask let local declare test if then else elif fi for while until do done case esac in function exiftool convert "
    "magick ffmpeg ffprobe pandoc pdftotext pdfinfo tesseract iconv base64 base32 xxd openssl gpg sha1 md5 man "
    "less more "
    "vi vim nano ed ruff black mypy flake8 isort eslint prettier tsc vite webpack jest mocha vitest rspec "
    "phpunit ctest "
    "valgrind gdb strace ltrace objdump nm readelf strings ldd systemctl journalctl dmesg mount lsblk fdisk crontab at "
    "tmux screen watch yes factor bc dc numfmt getopt mktemp sync stty tput clear reset logger hostname sw_vers open "
    "xdg-open unlink link install rename parallel entr hyperfine nproc arch lsb_release locale tzselect sudo doas "
    "bwrap pre-commit mkdocs sphinx-build jupyter ipython psql mysql redis-cli [ [[ : . true false openclaw".split()
)
_NETWORK = compile_lazily(
    r"://|(?<![\w./-])(?:curl|wget|ssh|scp|sftp|rsync|nc|ncat|netcat|socat|telnet|ftp|lynx|w3m|links|elinks|http|https|xh"
    r"|aria2c|yt-dlp|youtube-dl|gh|glab|hub|svn|hg|mail|mailx|mutt|himalaya|neomutt|fetchmail|dig|nslookup|whois|aws|gcloud|az"
    r"|kubectl|docker|podman|npx|pipx|uvx|bunx|sendmail|msmtp|swaks|ping|host|traceroute|rclone|gsutil|s3cmd|notmuch|wacli"
    r"|imsg|bird|gog|signal-cli|telegram-cli|mosquitto_pub|xdg-open)(?![\w.-])"
    r"|\bgit\s+(?:-\S+\s+|-C\s+\S+\s+)*(?:clone|fetch|pull|ls-remote|submodule|push|archive|send-email|svn|p4)\b"
    r"|\b(?:pip3?|uv|npm|pnpm|yarn|bun|cargo|gem|go|apt|apt-get|brew|dnf|apk|composer)\s+(?:\S+\s+)?(?:install|add|get|update|"
    r"upgrade|download|fetch|view|search|info|show|pip|publish|ci|i)\b|/dev/(?:tcp|udp)/"
)
_GIT_NETWORK = frozenset("clone fetch pull ls-remote submodule push archive send-email svn p4".split())
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/snap/", "/nix/", "/gnu/")
NETWORK_CODE = compile_lazily(
    r"\b(?:urllib|requests|httpx?2?|aiohttp|socket|smtplib|imaplib|poplib|ftplib|telnetlib|paramiko|websockets?|net/http"
    r"|Net::HTTP|IO::Socket|LWP|axios|node-fetch|XMLHttpRequest|URLSession|TcpStream|reqwest|nodemailer|open-uri|HTTP::Tiny)\b"
    r"|\bfetch\s*\(|\bfsockopen\b|\bcurl_\w+|\bfile_get_contents\s*\(\s*['\"]http|://|/dev/(?:tcp|udp)/"
)
"""Code that talks to the network, in the usual languages."""


def may_fetch(command: str) -> bool:
    """Whether a command line may fetch external text, judging by its words. Prefers false positives."""
    if _NETWORK.search(command) or _inline(command):
        return True
    parts = simple_commands(command)
    return any(map(_reaches_out, parts)) or any(_NETWORK.search(_bare(part)) for part in parts)


def _reaches_out(words: Sequence[Word]) -> bool:
    """Whether the program of a simple command is one of the outside, or nobody can tell which it is."""
    if not words:
        return False
    name, listed = program_of(words[0].text), words[0].text.startswith(_SYSTEM) or "/" not in words[0].text
    if not words[0].sure or (name == "git" and git_verb([word.text for word in words[1:]]) in _GIT_NETWORK):
        return True
    # What is named by a path elsewhere is looked at as a file.
    return listed and name not in _LOCAL and re.sub(r"[\d.]+$", "", name) not in _LOCAL


def _bare(words: Sequence[Word]) -> str:
    """The words without quotes and directories, so that a program is found however it is written."""
    return " ".join(program_of(word.text) if word.text.startswith(_SYSTEM) else word.text for word in words)


_SCHEDULERS = frozenset("crontab at batch systemd-run launchctl schtasks".split())
_SHOWS_JOBS = compile_lazily(r"\bcrontab\s+-l\s*(?:$|[;&|>])")
_STARTS_UNIT = compile_lazily(r"\bsystemctl\s+(?:-\S+\s+)*(?:enable|start|restart|link|edit)\b")


def schedules(command: str) -> bool:
    """Whether a command line has the system start something later, or by itself."""
    parts = simple_commands(_SHOWS_JOBS.sub("", command))
    names = [program_of(word.text) for part in parts for word in part[: None if carries(part) else 1]]
    return not _SCHEDULERS.isdisjoint(names) or _STARTS_UNIT.search(command) is not None


_HIDDEN = compile_lazily(
    r"(?<![\w.-])(?:python[\d.]*|pypy\d?|node|deno|bun|ruby|perl|php|lua|bash|sh|zsh|dash|ksh|fish|osascript)\s+"
    r"(?:-\w+\s+)*(?:-\w*[ceErp]\b|--eval|--print|-\s|<<)|\|\s*(?:sudo\s+)?(?:python[\d.]*|node|perl|ruby|php|bash|sh|zsh|dash)\b"
    r"|(?<![\w.-])(?:eval|exec|xargs|awk|gawk|source)(?![\w.-])|\bbase64\s+(?:-d|--decode|-D)|\$\(|`"
)


def hides_code(command: str, modules: Collection[str] = ()) -> bool:
    """Whether a command line runs code that stands in it, or that it makes on the way: nobody knows what that does."""
    return bool(_HIDDEN.search(command)) or any(runs_argument(part, modules) for part in simple_commands(command))


def _inline(command: str) -> bool:
    """Whether code in an argument talks to the network."""
    return bool(re.search(r"\s-(?:[a-zA-Z]*[ceErp]|-eval|-print)\b|<<", command)) and bool(NETWORK_CODE.search(command))
