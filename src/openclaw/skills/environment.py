"""The variables a run's commands get from its skills: a mapping for this run, never the process's own. Pure."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from openclaw.core.secret import Secret
from openclaw.skills.settings import SkillEntrySettings
from openclaw.skills.shelf import ListedSkill

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
    """Variables for the run, and what was left out; values are in neither the notes nor the repr."""

    env: Mapping[str, Secret]
    notes: tuple[str, ...] = ()

    def revealed(self) -> dict[str, str]:
        """The variables as a child process needs them."""
        return {name: value.reveal() for name, value in self.env.items()}


def inject(
    items: Sequence[ListedSkill], entries: Mapping[str, SkillEntrySettings], environ: Mapping[str, str]
) -> SkillVariables:
    """The variables of every usable skill in `items` that `environ` does not have already."""
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
            why = objection(name, value, declared)
            if why:
                notes.append(f"{item.skill.name}: {name} was not set: {why}")
            else:
                found[name] = value
    if items and "PYTHONDONTWRITEBYTECODE" not in environ:
        # A script that leaves compiled files in its skill would make the skill look tampered with.
        found["PYTHONDONTWRITEBYTECODE"] = Secret("1")
    return SkillVariables(found, tuple(notes))


def objection(name: str, value: Secret, declared: set[str]) -> str:
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
