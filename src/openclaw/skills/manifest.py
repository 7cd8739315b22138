"""Parses SKILL.md: the manifest, and references that leave the skill's directory. Pure."""

import re
from collections.abc import Iterator
from posixpath import normpath
from typing import Literal, get_args

from msgspec import Struct

from openclaw.core.text import compile_lazily, sanitize_line, utf16_length
from openclaw.extensions.front_matter import (
    BIN,
    ENV,
    MAX_ITEMS,
    Malformed,
    Requirements,
    Value,
    matching_words,
    one_line,
    openclaw_fields,
    parse_flag,
    parse_mapping,
    parse_requirements,
    parse_systems,
    read,
    split_words,
)

MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_LINE = 500

InstallKind = Literal["brew", "node", "go", "uv", "download"]

_ODD = compile_lazily(r"[^\w .:@+-]+")
_FORMULA = compile_lazily(r"[A-Za-z0-9][A-Za-z0-9@+._/-]*\Z")
_PACKAGE = compile_lazily(r"(?:@[A-Za-z0-9][\w.~-]*/)?[A-Za-z0-9][\w.~-]*(?:\[[\w,-]+\])?(?:(?:@|==)[\w.^~+-]+)?\Z")
_MODULE = compile_lazily(r"[A-Za-z0-9][\w.~/-]*(?:@[\w.+-]+)?\Z")
_URL = compile_lazily(r"https?://[^\s\"'<>\\`$;|&]+\Z")
_SHA = compile_lazily(r"[0-9a-fA-F]{64}\Z")
_STEP_VALUES: dict[InstallKind, tuple[str, re.Pattern[str], str]] = {
    "brew": ("formula", _FORMULA, "formula or cask"),
    "node": ("package", _PACKAGE, "package"),
    "uv": ("package", _PACKAGE, "package"),
    "go": ("module", _MODULE, "module"),
    "download": ("url", _URL, "url"),
}
"""What each kind of install step must name."""


class Installer(Struct, frozen=True, kw_only=True):
    """One way to install a program the skill needs; run only on request."""

    id: str
    kind: InstallKind
    label: str = ""
    bins: tuple[str, ...] = ()
    os: tuple[str, ...] = ()
    formula: str = ""
    cask: bool = False
    package: str = ""
    module: str = ""
    url: str = ""
    sha256: str = ""
    target_dir: str = ""


class SkillPermissions(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The permissions a skill declares; None means undeclared."""

    tools: tuple[str, ...] | None = None
    network: bool | None = None
    paths: tuple[str, ...] | None = None

    @property
    def declared(self) -> bool:
        return self != SkillPermissions()


class SkillManifest(Struct, frozen=True, kw_only=True):
    """The parsed SKILL.md."""

    name: str
    description: str
    homepage: str = ""
    license: str = ""
    compatibility: str = ""
    emoji: str = ""
    skill_key: str = ""
    primary_env: str = ""
    requires: Requirements = Requirements()
    os: tuple[str, ...] = ()
    always: bool = False
    user_invocable: bool = True
    disable_model_invocation: bool = False
    allow_remote: bool = True
    install: tuple[Installer, ...] = ()
    permissions: SkillPermissions = SkillPermissions()
    notes: tuple[str, ...] = ()
    body: str = ""
    body_line: int = 1

    @property
    def key(self) -> str:
        """Its name under `skills.entries`."""
        return self.skill_key or self.name


def parse(text: str, directory: str) -> SkillManifest:
    """Parses a SKILL.md; `directory` is the name of a skill without one. Raises `Malformed`."""
    matter = read(text)
    fields, notes = matter.fields, list(matter.notes)
    ours = openclaw_fields(fields, notes)
    description = one_line(fields.get("description"))
    if not description:
        raise Malformed("it has no description: say in one or two sentences what the skill does and when to use it")
    if utf16_length(description) > MAX_DESCRIPTION:
        notes.append(
            f"the description has {utf16_length(description):,} characters; the list shows {MAX_DESCRIPTION:,}"
        )
    invocation = {**parse_mapping(fields.get("invocation")), **parse_mapping(ours.get("invocation"))}
    return SkillManifest(
        name=_name(fields.get("name"), directory, notes),
        description=description,
        homepage=one_line(fields.get("homepage") or ours.get("homepage"), MAX_LINE),
        license=one_line(fields.get("license"), MAX_LINE),
        compatibility=one_line(fields.get("compatibility"), MAX_LINE),
        emoji=one_line(ours.get("emoji"), 8),
        skill_key=one_line(ours.get("skillKey"), MAX_NAME),
        primary_env=next(iter(matching_words(ours.get("primaryEnv"), ENV, "primaryEnv", notes)), ""),
        requires=parse_requirements(ours, notes),
        os=parse_systems(ours.get("os"), notes),
        always=parse_flag(ours.get("always"), False),
        user_invocable=parse_flag(fields.get("user-invocable", fields.get("userInvocable")), True),
        disable_model_invocation=parse_flag(
            invocation.get("disableModelInvocation", fields.get("disable-model-invocation")), False
        ),
        allow_remote=parse_flag(invocation.get("allowRemote"), True),
        install=_installers(ours.get("install"), notes),
        permissions=_permissions(fields, ours),
        notes=tuple(notes),
        body=matter.body,
        body_line=matter.body_line,
    )


def _name(value: Value | None, directory: str, notes: list[str]) -> str:
    given = one_line(value)
    name = " ".join(_ODD.sub("-", given).split()).strip(" -")
    if given and name != given:
        notes.append(f"the name {given[:MAX_NAME]!r} has characters a name cannot have; it is known as {name!r}")
    if len(name) > MAX_NAME:
        name = name[:MAX_NAME].rstrip(" -")
        notes.append(f"the name is longer than {MAX_NAME} characters; it is known as {name!r}")
    return name or _ODD.sub("-", sanitize_line(directory)).strip(" -")[:MAX_NAME] or "skill"


def _installers(value: Value | None, notes: list[str]) -> tuple[Installer, ...]:
    found: list[Installer] = []
    for number, item in enumerate(value if isinstance(value, list) else [], 1):
        made = _installer(parse_mapping(item), f"install-{number}")
        if isinstance(made, str):
            notes.append(f"install step {number} was left out: {made}")
        else:
            found.append(made)
    return tuple(found[:MAX_ITEMS])


def _installer(given: dict[str, Value], fallback: str) -> Installer | str:
    kind = one_line(given.get("kind")).lower()
    if kind not in get_args(InstallKind):
        return f"its kind is {kind[:20]!r}, not one of {', '.join(get_args(InstallKind))}"
    cask = one_line(given.get("cask"))
    made = Installer(
        id=one_line(given.get("id"), MAX_NAME) or fallback,
        kind=kind,  # type: ignore[arg-type]  # one of the literals, by the line above
        label=one_line(given.get("label"), MAX_LINE),
        bins=tuple(item for item in split_words(given.get("bins")) if BIN.match(item)),
        os=parse_systems(given.get("os"), []),
        formula=cask or one_line(given.get("formula")),
        cask=bool(cask),
        package=one_line(given.get("package")),
        module=one_line(given.get("module")),
        url=one_line(given.get("url")),
        sha256=one_line(given.get("sha256")).lower().removeprefix("sha256:"),
        target_dir=one_line(given.get("targetDir")),
    )
    return _objection(made) or made


def _objection(step: Installer) -> str:
    """Why a step cannot be offered; empty when it can."""
    field, shape, name = _STEP_VALUES[step.kind]
    value: str = getattr(step, field)
    if not shape.match(value) or (".." in value and step.kind != "download"):
        return f"{value[:60]!r} is not a {name}"
    if step.sha256 and not _SHA.match(step.sha256):
        return "its sha256 is not 64 hexadecimal digits"
    if step.target_dir and (
        step.target_dir.startswith(("/", "~", "\\")) or ".." in re.split(r"[/\\]", step.target_dir)
    ):
        return "its targetDir leads elsewhere"
    return ""


def _permissions(fields: dict[str, Value], ours: dict[str, Value]) -> SkillPermissions:
    given = parse_mapping(ours.get("permissions") or fields.get("permissions"))
    tools = given.get("tools", fields.get("allowed-tools", fields.get("allowedTools")))
    network = given.get("network")
    return SkillPermissions(
        tools=None if tools is None else split_words(tools),
        network=None if network is None else parse_flag(network, True),
        paths=None if "paths" not in given else split_words(given["paths"]),
    )


# References.

MAX_REFERENCES = 50

# A path in a link, in backquotes, or by itself; URLs and options are not paths.
_PATH = compile_lazily(
    r"(?<![\w/:.~$}-])(?P<path>(?:\{baseDir\}/|\$\{?HOME\}?/|~[\w-]*/|\.{1,2}/|[A-Za-z]:[\\/]|/(?!/))[^\s`\"'()\[\]<>|;,*?]{1,300})"
)
_SYSTEM = compile_lazily(
    r"/(?:usr|bin|sbin|opt|tmp|dev|var/tmp|private/tmp|Applications|etc/(?:os-release|hosts\b))(?:/|\Z)"
)


class Reference(Struct, frozen=True):
    """A path that leaves the skill's directory."""

    line: int
    path: str
    why: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.path} {self.why}"


def find_outside_references(text: str, first_line: int = 1) -> tuple[Reference, ...]:
    """Finds the references in `text` that leave the skill's directory."""
    return tuple(_found(text, first_line))[:MAX_REFERENCES]


def _found(text: str, first_line: int) -> Iterator[Reference]:
    seen: set[str] = set()
    for number, line in enumerate(text.split("\n"), first_line):
        for found in _PATH.finditer(line):
            path = found["path"].rstrip(".:")
            why = _leaves(path)
            if why and path not in seen:
                seen.add(path)
                yield Reference(number, path, why)


def _leaves(path: str) -> str:
    inside = path.removeprefix("{baseDir}/")
    if inside != path or path.startswith("."):
        clean = normpath(inside)
        return "climbs out of the skill's directory" if clean == ".." or clean.startswith(("../", "/")) else ""
    if path.startswith("/"):
        # System programs and temporary directories are harmless to name.
        return "" if _SYSTEM.match(path) or path.count("/") < 2 else "is an absolute path"
    return "is in a home directory" if path.startswith(("~", "$")) else "is an absolute path"
