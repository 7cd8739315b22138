"""Parses skill commands (`/skill:name`, `/skill name`, `/name`), and selects skills' environment variables. Pure."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from openclaw.core.secret import Secret
from openclaw.skills.gate import ListedSkill
from openclaw.skills.settings import SkillEntrySettings

# Environment variables.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SENSITIVE = re.compile(
    r"(?:\A|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE|PRIVATE)(?:_|\Z)|KEY\Z"
)

# These change which program runs or what it loads, whoever sets them.
_HIJACKS = frozenset(
    "PATH HOME SHELL IFS ENV BASH_ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND ZDOTDIR NODE_OPTIONS NODE_PATH PYTHONPATH "
    "PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PERL5LIB PERL5OPT RUBYOPT RUBYLIB LUA_PATH LUA_CPATH JAVA_TOOL_OPTIONS "
    "_JAVA_OPTIONS CLASSPATH OPENSSL_CONF OPENSSL_MODULES SSLKEYLOGFILE SSL_CERT_FILE SSL_CERT_DIR "
    "NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE HTTP_PROXY HTTPS_PROXY ALL_PROXY EDITOR VISUAL PAGER "
    "BROWSER SSH_ASKPASS SUDO_ASKPASS CC CXX CPP LD AR AS CFLAGS CXXFLAGS LDFLAGS MAKEFLAGS RUSTC RUSTC_WRAPPER "
    "RUSTFLAGS GOFLAGS GCONV_PATH GLIBC_TUNABLES HOSTALIASES TERMINFO".split()
)
_HIJACK_PREFIXES = ("LD_", "DYLD_", "GIT_", "BASH_FUNC_", "NPM_CONFIG_", "PIP_", "UV_", "CARGO_", "OPENCLAW_")


class SkillVariables(Struct, frozen=True):
    """Variables for the run, and notes on those left out; no values in the notes or the repr."""

    env: Mapping[str, Secret]
    notes: tuple[str, ...] = ()

    def revealed(self) -> dict[str, str]:
        """The variables in plain text, for a child process."""
        return {name: value.reveal() for name, value in self.env.items()}


def collect_variables(
    items: Sequence[ListedSkill], entries: Mapping[str, SkillEntrySettings], environ: Mapping[str, str]
) -> SkillVariables:
    """The configured variables of every usable skill that `environ` does not set already."""
    found: dict[str, Secret] = {}
    notes: list[str] = []
    for item in items:
        manifest = item.skill.manifest
        entry = entries.get(manifest.key)
        if entry is None or not entry.enabled or not item.verdict.eligible:
            continue
        declared = {manifest.primary_env, *manifest.requires.env}
        wanted = dict(entry.env)
        if entry.api_key and manifest.primary_env:
            wanted.setdefault(manifest.primary_env, entry.api_key)
        for name, value in wanted.items():
            if environ.get(name) or name in found:
                continue
            why = variable_objection(name, value, declared)
            if why:
                notes.append(f"{item.skill.name}: {name} was not set: {why}")
            else:
                found[name] = value
    if items and "PYTHONDONTWRITEBYTECODE" not in environ:
        # Bytecode files written into the skill's directory would look like tampering.
        found["PYTHONDONTWRITEBYTECODE"] = Secret("1")
    return SkillVariables(found, tuple(notes))


def variable_objection(name: str, value: Secret, declared: set[str]) -> str:
    """Why a skill's entry may not set `name`; empty when it may."""
    upper = name.upper()
    if not _NAME.match(name):
        return "that is not a variable name"
    if upper in _HIJACKS or upper.startswith(_HIJACK_PREFIXES):
        return "it can change which program runs"
    if "\0" in value.reveal():
        return "its value contains a NUL character"
    if _SENSITIVE.search(upper) and name not in declared:
        return "it looks like a credential, and the skill does not declare it (requires.env or primaryEnv)"
    return ""


# Commands.

MAX_COMMAND = 32
_NAMED = re.compile(r"/skill(?::(?P<colon>[^\s/]+)|[ \t]+(?P<word>\S+))(?:\s+(?P<input>.*))?\Z", re.DOTALL | re.I)
_COMMAND = re.compile(r"/(?P<word>[a-z0-9_]{1,40})(?:@\S+)?(?:\s+(?P<input>.*))?\Z", re.DOTALL | re.I)
_ODD = re.compile(r"[^a-z0-9_]+")


class SkillCall(Struct, frozen=True):
    """A call of a skill by a person."""

    item: ListedSkill
    input: str = ""


class Unknown(Struct, frozen=True):
    """A call of a skill that does not exist or cannot be called."""

    name: str
    why: str


def commands(items: Sequence[ListedSkill], taken: Sequence[str] = ()) -> dict[str, ListedSkill]:
    """The command of each skill people may call; names in `taken` are reserved."""
    found: dict[str, ListedSkill] = {}
    used = {name.lower() for name in taken}
    for item in items:
        if not item.user_invocable:
            continue
        base = _ODD.sub("_", item.skill.name.lower()).strip("_")[:MAX_COMMAND] or "skill"
        name, number = base, 2
        while name in used:
            ending = f"_{number}"
            name, number = base[: MAX_COMMAND - len(ending)] + ending, number + 1
        used.add(name)
        found[name] = item
    return found


def parse(text: str, items: Sequence[ListedSkill], taken: Sequence[str] = ()) -> SkillCall | Unknown | None:
    """Parses a skill call; None when `text` is not one."""
    text = text.strip()
    named = _NAMED.match(text)
    if named is not None:
        return _by_name(named["colon"] or named["word"], (named["input"] or "").strip(), items)
    command = _COMMAND.match(text)
    if command is None:
        return None
    item = commands(items, taken).get(command["word"].lower())
    return SkillCall(item, (command["input"] or "").strip()) if item else None


def _by_name(name: str, given: str, items: Sequence[ListedSkill]) -> SkillCall | Unknown:
    wanted = name.lower()
    as_command = commands(items)
    for item in items:
        if wanted == item.skill.name.lower() or as_command.get(wanted) is item:
            if item.user_invocable:
                return SkillCall(item, given)
            why = "; ".join(item.verdict.reasons) or "it is not meant to be called by people"
            return Unknown(name, f"the skill {item.skill.name} cannot be called: {why}")
    return Unknown(name, f"there is no skill {name!r}: openclaw skills list shows what there is")


def instruction(call: SkillCall, location: str) -> str:
    """The message the model gets in place of the command."""
    asked = f'Use the skill "{call.item.skill.name}" now: read {location} with `read` and follow it.'
    return f"{asked}\n\n{call.input}" if call.input else asked
