"""The process environment: the home directory, the time zone, programs, and filtered variables for commands."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from openclaw.core.errors import ConfigError, InvalidRequest
from openclaw.core.text import compile_lazily

PROFILE = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


class Home(Struct, frozen=True, kw_only=True):
    """The state directory and the configuration file."""

    state: Path
    config: Path
    profile: str | None = None

    @property
    def last_good(self) -> Path:
        return self.config.with_name(self.config.name + ".last-good")


def locate(environ: Mapping[str, str], home: Path, cwd: Path) -> Home:
    """Locates this user's installation; `home` and `cwd` resolve `~` and relative paths."""
    if environ.get("OPENCLAW_HOME"):
        home = _absolute(environ["OPENCLAW_HOME"], home, cwd)
    profile = environ.get("OPENCLAW_PROFILE") or None
    if profile == "default":
        profile = None
    if profile is not None and not PROFILE.match(profile):
        raise ConfigError(
            f"{profile!r} is not a profile name: use letters, digits, - and _ (at most 64, starting with a letter"
            " or digit) in OPENCLAW_PROFILE or --profile"
        )
    state = home / (f".openclaw-{profile}" if profile else ".openclaw")
    if environ.get("OPENCLAW_STATE_DIR"):
        state = _absolute(environ["OPENCLAW_STATE_DIR"], home, cwd)
    config = state / "openclaw.json"
    if environ.get("OPENCLAW_CONFIG_PATH"):
        config = _absolute(environ["OPENCLAW_CONFIG_PATH"], home, cwd)
    return Home(state=state, config=config, profile=profile)


def _absolute(text: str, home: Path, cwd: Path) -> Path:
    if text == "~" or text.startswith(("~/", "~\\")):
        return home / text[2:]
    return cwd / text


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The variables, home and working directory the process was started with."""

    environ: Mapping[str, str]
    home_dir: Path
    cwd: Path

    @classmethod
    def of_process(cls) -> "Environment":
        return cls(environ=dict(os.environ), home_dir=Path.home(), cwd=Path.cwd())

    @property
    def home(self) -> Home:
        return locate(self.environ, self.home_dir, self.cwd)


# The time zone.


def local_timezone(environ: Mapping[str, str]) -> str:
    """The machine's IANA time zone, or an empty string when unknown."""
    named = environ.get("TZ", "").lstrip(":")
    if named and "/" in named and not named.startswith("/"):
        return named
    try:
        target = os.path.realpath("/etc/localtime")
    except OSError:
        return ""
    return target.partition("/zoneinfo/")[2]


# Which variables a command may inherit, and which a model may set.

_NAME = compile_lazily(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# A name holds a credential when one of these is one of its words, or ends one.
_SECRET_WORDS = frozenset(
    "KEY KEYS APIKEY TOKEN TOKENS SECRET SECRETS PASSWORD PASSWORDS PASSWD PASS PASSPHRASE CREDENTIAL CREDENTIALS "
    "CREDS AUTH AUTHORIZATION COOKIE COOKIES PAT JWT BEARER DSN PRIVATE".split()
)
_SECRET_ENDING = compile_lazily(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS)\Z")
_SECRET_NAMES = frozenset({"MYSQL_PWD", "PGPASSFILE", "NETRC"})
_NOT_SECRET = frozenset({"SSH_AUTH_SOCK", "XAUTHORITY", "GPG_TTY", "SSH_AGENT_PID"})
# Values that are credentials whatever their name: known key prefixes, private keys, a login in a URL.
_SECRET_VALUE = compile_lazily(
    r"\A(?:sk-|sk_live_|rk_live_|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|xapp-|AKIA|ASIA|AIza|hf_|npm_|pypi-|eyJ)"
    r"[A-Za-z0-9_\-.]{12,}|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]*:[^/\s@]+@"
)

# Variables that make an ordinary command run something else: loaders, interpreters, shells, git helpers, editors.
_HIJACKS = frozenset(
    "PATH HOME SHELL IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND ZDOTDIR CDPATH GLOBIGNORE FPATH "
    "NODE_OPTIONS NODE_PATH PERL5LIB PERL5OPT PERL5DB PERLLIB RUBYOPT RUBYLIB PHPRC PHP_INI_SCAN_DIR LUA_INIT "
    "LUA_PATH LUA_CPATH JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH GCONV_PATH GLIBC_TUNABLES "
    "HOSTALIASES LOCALDOMAIN RES_OPTIONS NLSPATH TERMINFO OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES SSLKEYLOGFILE "
    "EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR XDG_CONFIG_HOME "
    "CC CXX LD AR AS MAKE MAKEFLAGS MAKEFILES RUSTC RUSTC_WRAPPER RUSTFLAGS GOFLAGS CGO_CFLAGS CGO_LDFLAGS "
    "OPENCLAW_SHELL".split()
)
_HIJACK_PREFIXES = ("LD_", "DYLD_", "GIT_", "PYTHON", "BASH_FUNC_", "NPM_CONFIG_", "PIP_", "UV_", "CARGO_", "LUA_INIT_")
_TLS = frozenset(
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED "
    "AWS_CA_BUNDLE".split()
)
_HARMLESS = frozenset(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE "
    "GIT_TERMINAL_PROMPT GIT_MERGE_AUTOEDIT GIT_OPTIONAL_LOCKS PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONUTF8 "
    "PYTHONIOENCODING PYTHONHASHSEED CARGO_TERM_COLOR PIP_NO_INPUT PIP_DISABLE_PIP_VERSION_CHECK".split()
)


def find_executable(name: str, path: str | None = None) -> str | None:
    """What a shell with this PATH would start for `name`; without one, the PATH of this process.

    Like `shutil.which`, with which the libraries of three ways to compress would be loaded.
    """
    if path is None:
        path = os.environ.get("PATH", os.defpath)
    places = [""] if os.path.dirname(name) else path.split(os.pathsep) if path else []  # noqa: PTH120
    for place in places:
        found = os.path.join(place, name)  # noqa: PTH118 (an empty place is the directory one is in)
        if os.path.isfile(found) and os.access(found, os.X_OK):  # noqa: PTH113
            return found
    return None


def safe_env(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without variables that look like credentials, so that a command cannot print the owner's keys."""
    return {name: value for name, value in environ.items() if not _is_secret(name, value)}


def _is_secret(name: str, value: str) -> bool:
    upper = name.upper()
    if upper in _NOT_SECRET:
        return False
    words = upper.split("_")
    return (
        upper in _SECRET_NAMES
        or any(word in _SECRET_WORDS or _SECRET_ENDING.search(word) for word in words)
        or _SECRET_VALUE.search(value) is not None
    )


def variable_problem(name: str, value: str) -> str:
    """Why a plugin may not set a variable of a command; empty when it may."""
    upper = name.upper()
    if not _NAME.match(name) or "\0" in value:
        return "it is no variable"
    if hijacks(upper) or upper.endswith("_PROXY") or upper in _TLS:
        return "it changes which program runs, or where it connects"
    return "it looks like a credential" if _is_secret(name, value) else ""


def hijacks(upper: str) -> bool:
    """Whether a variable of this name changes which program runs."""
    return upper not in _HARMLESS and (upper in _HIJACKS or upper.startswith(_HIJACK_PREFIXES))


def check_overrides(env: Mapping[str, str]) -> None:
    """Refuses variables that change what a command does without being visible in it."""
    for name, value in env.items():
        if not _NAME.match(name):
            raise InvalidRequest(f"{name!r} is not a variable name: use letters, digits and _.")
        if "\0" in value:
            raise InvalidRequest(f"The value of {name} contains a NUL character: remove it.")
        if hijacks(name.upper()):
            raise InvalidRequest(
                f"Security violation: env may not set {name}, because it can change which program runs. "
                "If it is needed, write it in the command itself, where it can be seen."
            )
