"""Checks the tool calls of a run against its skills: files unchanged since acceptance, permissions as declared.

One guard per run. It decides before a call; asking a person and logging are the caller's part. Also selects the
environment variables of skills.
"""

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from openclaw.core.deferred import shlex
from openclaw.core.secret import Secret
from openclaw.core.tool import Effects
from openclaw.skills.find import FILE, Skill
from openclaw.skills.gate import ListedSkill, SkillList
from openclaw.skills.settings import SkillEntrySettings, SkillsSettings
from openclaw.storage.digests import Hasher, Unverifiable
from openclaw.storage.links import real_path

PATH_ARGUMENTS = ("path", "file_path", "filePath", "file", "paths", "workdir", "cwd")
# Other programs' tool names, as ours.
_ALIASES = {
    "bash": "exec",
    "shell": "exec",
    "ls": "ls",
    "glob": "find",
    "multiedit": "edit",
    "webfetch": "web_fetch",
    "websearch": "web_search",
    "apply-patch": "apply_patch",
    "notebookedit": "edit",
}
# Tools that a declared tool includes: a skill that may read may also list and search.
_IMPLIED = {"read": {"ls", "find", "grep"}, "write": {"apply_patch"}, "edit": {"apply_patch"}, "exec": {"process"}}


class GuardAllows(Struct, frozen=True):
    """The call may proceed; `notes` are for the log."""

    notes: tuple[str, ...] = ()


class GuardAsks(Struct, frozen=True):
    """A person must approve the call first."""

    why: str


class GuardRefuses(Struct, frozen=True):
    """The call is refused; the text is for the model."""

    why: str


Ruling = GuardAllows | GuardAsks | GuardRefuses


class SkillGuard(Struct):
    """Judges the tool calls of one run."""

    skills: SkillList
    settings: SkillsSettings
    hasher: Hasher
    home: Path
    read: dict[str, Skill] = field(default_factory=dict)
    """The skills whose SKILL.md was read in this run, by directory."""
    by_directory: dict[str, ListedSkill] = field(default_factory=dict)
    """All of them, made at the first call: most turns have none."""

    def rule(self, tool: str, effects: Effects, args: Mapping[str, Any], workspace: Path) -> Ruling:
        """Decides on a call before it happens."""
        paths = self._paths(args, workspace)
        if not self.by_directory:
            self.by_directory = {item.skill.base_dir: item for item in self.skills.items}
        touched: list[tuple[str, ListedSkill]] = []
        for path in paths:
            above, below = path, ""
            while above != below and above not in self.by_directory:
                above, below = os.path.dirname(above), above  # noqa: PTH120 (asked for every directory above)
            touched += [(path, self.by_directory[above])] if above in self.by_directory else []
        for path, item in touched:
            ruling = self._touch(path, item, effects)
            if ruling is not None:
                return ruling
        notes: list[str] = []
        for concern, strict in self._concerns(tool, effects, paths) if self.read else ():
            if strict:
                return GuardAsks(concern)
            notes.append(concern)
        for path, item in touched:
            if Path(path).name == FILE and item.verdict.eligible and Effects.READS_FILES in effects:
                self.read[item.skill.base_dir] = item.skill
        return GuardAllows(tuple(notes))

    def _touch(self, path: str, item: ListedSkill, effects: Effects) -> GuardAsks | GuardRefuses | None:
        """Checks that a skill's file, when read or run, is the accepted one."""
        skill, runs = item.skill, Effects.RUNS_CODE in effects
        if not (runs or Effects.READS_FILES in effects) or Path(path).is_dir() or Effects.WRITES_FILES in effects:
            return None
        if item.trust.held:
            why = f"the skill {skill.name} is {item.trust.state}: {item.trust.why}"
            if runs:
                return GuardAsks(why)
            return GuardRefuses(f"Not read: {why}.") if item.trust.state in ("changed", "blocked") else None
        if not self.settings.verify or skill.tree is None or self.settings.trust == "off":
            return None
        relative = os.path.relpath(path, skill.base_dir).replace(os.sep, "/")
        known = {file.path: file.sha256 for file in skill.tree.files}.get(relative)
        if known is None:
            new = f"{relative} was not part of the skill {skill.name} when it was accepted"
            return GuardAsks(new) if runs else None
        try:
            now = self.hasher.file(path, os.lstat(path))
        except (OSError, Unverifiable):
            return None  # gone or unreadable: the tool itself reports it
        if now == known:
            return None
        return GuardRefuses(
            f"Not {'run' if runs else 'read'}: {relative} of the skill {skill.name} is not the file that was accepted. "
            f"Tell the user: openclaw skills diff {skill.name} shows what changed."
        )

    def _concerns(self, tool: str, effects: Effects, paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
        """Yields what the active skills did not declare, and whether that stops the call."""
        enforce = self.settings.permissions == "enforce"
        for skill in self.read.values():
            if self.settings.permissions != "off":
                for why in _undeclared(skill, tool, effects, paths, self.home):
                    yield f"the skill {skill.name} {why}", enforce
            for path in paths:
                if any(path == self._resolved(item.path, skill) for item in skill.outside):
                    strict = self.settings.containment == "enforce"
                    yield f"the skill {skill.name} leads outside its directory, to {path}", strict

    def _resolved(self, reference: str, skill: Skill) -> str:
        text = reference.replace("{baseDir}", skill.base_dir)
        home = re.match(r"(?:\$\{?HOME\}?|~)(?=/)", text)
        return real_path(Path(skill.base_dir, f"{self.home}{text[home.end() :]}" if home else text))

    def _paths(self, args: Mapping[str, Any], workspace: Path) -> list[str]:
        """Every path a call names, links resolved."""
        given: list[str] = []
        for name in PATH_ARGUMENTS:
            value = args.get(name)
            values = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
            given += [each for each in values if isinstance(each, str)]
        if isinstance(args.get("command"), str):
            workdir = args.get("workdir")
            base = workspace / self._expanded(workdir) if isinstance(workdir, str) else workspace
            given += [str(base / self._expanded(word)) for word in _words(args["command"])]
        expanded = [self.home / text[2:] if text.startswith("~/") else text for text in given if "\0" not in text]
        return list(dict.fromkeys(real_path(workspace / path) for path in expanded))

    def _expanded(self, text: str) -> Path:
        return self.home / text[2:] if text.startswith("~/") else Path(text)


def _words(command: str) -> list[str]:
    """Words of a command line that could be files; also inside `sh -c '…'`."""
    try:
        words = shlex.split(command.replace("\n", " ; "), comments=False)
    except ValueError:
        words = command.split()
    inner = [part for word in words if " " in word for part in word.split()]
    found = [part for word in (*words, *inner) for part in re.split(r"[=;&|<>()]", word) if part]
    return [word for word in found if "/" in word or "." in word][:200]


def _undeclared(skill: Skill, tool: str, effects: Effects, paths: Sequence[str], home: Path) -> Iterator[str]:
    declared = skill.manifest.permissions
    if declared.tools is not None and not covers_tool(declared.tools, tool):
        yield f"did not declare the tool {tool} (it declared {', '.join(declared.tools) or 'none'})"
    if declared.network is False and effects & (Effects.FETCHES | Effects.SENDS_OUT):
        yield f"declared that it needs no network, and {tool} uses it"
    if declared.paths is not None and effects & (Effects.READS_FILES | Effects.WRITES_FILES):
        allowed = [skill.base_dir, *(_absolute(item, skill.base_dir, home) for item in declared.paths)]
        for path in paths:
            if not any(fnmatch.fnmatchcase(path, place) or path.startswith(f"{place}{os.sep}") for place in allowed):
                yield f"did not declare the path {path}"


def _absolute(text: str, base: str, home: Path) -> str:
    text = text.replace("{baseDir}", base).removesuffix("/**").removesuffix("/")
    return str(home / text[2:]) if text.startswith("~/") else str(Path(base, text))


def covers_tool(tools: Sequence[str], tool: str) -> bool:
    """Whether a declared list covers `tool`; `Bash(git:*)` covers exec, whose commands have approvals of their own."""
    named = {item.partition("(")[0].strip().lower() for item in tools}
    ours = {_ALIASES.get(name, name) for name in named}
    return tool in ours or "*" in ours or any(tool in _IMPLIED.get(name, ()) for name in ours)


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


def collect_variables(
    items: Sequence[ListedSkill], entries: Mapping[str, SkillEntrySettings], environ: Mapping[str, str]
) -> dict[str, Secret]:
    """The configured variables of every usable skill that `environ` does not set already."""
    found: dict[str, Secret] = {}
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
            if not (environ.get(name) or name in found or variable_objection(name, value, declared)):
                found[name] = value
    if items and "PYTHONDONTWRITEBYTECODE" not in environ:
        # Bytecode files written into the skill's directory would look like tampering.
        found["PYTHONDONTWRITEBYTECODE"] = Secret("1")
    return found


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
