"""What a SKILL.md says of its skill: parsed once, frozen, forgiving of spelling and strict about meaning. Pure."""

import re
from typing import Literal, get_args

from msgspec import Struct

from openclaw.core.text import head, literal, units
from openclaw.skills.frontmatter import Malformed, Value, read, unpacked

MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_LINE = 500
MAX_ITEMS = 64

InstallKind = Literal["brew", "node", "go", "uv", "download"]
OSES = ("darwin", "linux", "win32")

_ODD = re.compile(r"[^\w .:@+-]+")
_SPACE = re.compile(r"\s+")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_BIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}\Z")
_FORMULA = re.compile(r"[A-Za-z0-9][A-Za-z0-9@+._/-]*\Z")
_PACKAGE = re.compile(r"(?:@[A-Za-z0-9][\w.~-]*/)?[A-Za-z0-9][\w.~-]*(?:\[[\w,-]+\])?(?:(?:@|==)[\w.^~+-]+)?\Z")
_MODULE = re.compile(r"[A-Za-z0-9][\w.~/-]*(?:@[\w.+-]+)?\Z")
_URL = re.compile(r"https?://[^\s\"'<>\\`$;|&]+\Z")
_SHA = re.compile(r"[0-9a-fA-F]{64}\Z")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class SkillRequirements(Struct, frozen=True, kw_only=True):
    """What must be there before the skill makes sense."""

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


class Installer(Struct, frozen=True, kw_only=True):
    """One way to get a program the skill needs; shown always, run only when asked for."""

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
    """What the skill says it needs; None means it does not say."""

    tools: tuple[str, ...] | None = None
    network: bool | None = None
    paths: tuple[str, ...] | None = None

    @property
    def declared(self) -> bool:
        return self != SkillPermissions()


class SkillManifest(Struct, frozen=True, kw_only=True):
    """A skill in its own words."""

    name: str
    description: str
    homepage: str = ""
    license: str = ""
    compatibility: str = ""
    emoji: str = ""
    skill_key: str = ""
    primary_env: str = ""
    requires: SkillRequirements = SkillRequirements()
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
    """The manifest in `text`; `directory` names a skill that does not name itself. Raises `Malformed`."""
    matter = read(text)
    fields, notes = matter.fields, list(matter.notes)
    ours = _ours(fields, notes)
    description = _line(fields.get("description"))
    if not description:
        raise Malformed("it has no description: say in one or two sentences what the skill does and when to use it")
    if units(description) > MAX_DESCRIPTION:
        notes.append(f"the description has {units(description):,} characters; the list shows {MAX_DESCRIPTION:,}")
    invocation = {**unpacked(fields.get("invocation")), **unpacked(ours.get("invocation"))}
    return SkillManifest(
        name=_name(fields.get("name"), directory, notes),
        description=description,
        homepage=_line(fields.get("homepage") or ours.get("homepage"), MAX_LINE),
        license=_line(fields.get("license"), MAX_LINE),
        compatibility=_line(fields.get("compatibility"), MAX_LINE),
        emoji=_line(ours.get("emoji"), 8),
        skill_key=_line(ours.get("skillKey"), MAX_NAME),
        primary_env=_first(_matching(ours.get("primaryEnv"), _ENV, "primaryEnv", notes)),
        requires=_requires(ours, notes),
        os=_oses(ours.get("os"), notes),
        always=_flag(ours.get("always"), False),
        user_invocable=_flag(fields.get("user-invocable", fields.get("userInvocable")), True),
        disable_model_invocation=_flag(
            invocation.get("disableModelInvocation", fields.get("disable-model-invocation")), False
        ),
        allow_remote=_flag(invocation.get("allowRemote"), True),
        install=_installers(ours.get("install"), notes),
        permissions=_permissions(fields, ours),
        notes=tuple(notes),
        body=matter.body,
        body_line=matter.body_line,
    )


def _ours(fields: dict[str, Value], notes: list[str]) -> dict[str, Value]:
    given = fields.get("metadata")
    metadata = unpacked(given)
    if given and not metadata:
        notes.append("metadata is neither a mapping nor JSON; it was left out")
    for name in ("openclaw", "clawdbot"):
        found = unpacked(metadata.get(name))
        if found:
            return found
    return {}


def _name(value: Value | None, directory: str, notes: list[str]) -> str:
    given = _line(value)
    name = _SPACE.sub(" ", _ODD.sub("-", given)).strip(" -")
    if given and name != given:
        notes.append(f"the name {given[:MAX_NAME]!r} has characters a name cannot have; it is known as {name!r}")
    if len(name) > MAX_NAME:
        name = name[:MAX_NAME].rstrip(" -")
        notes.append(f"the name is longer than {MAX_NAME} characters; it is known as {name!r}")
    return name or _ODD.sub("-", literal(directory)).strip(" -")[:MAX_NAME] or "skill"


def _requires(ours: dict[str, Value], notes: list[str]) -> SkillRequirements:
    given = unpacked(ours.get("requires"))
    return SkillRequirements(
        bins=_matching(given.get("bins"), _BIN, "requires.bins", notes),
        any_bins=_matching(given.get("anyBins"), _BIN, "requires.anyBins", notes),
        env=_matching(given.get("env"), _ENV, "requires.env", notes),
        config=words(given.get("config")),
    )


def _oses(value: Value | None, notes: list[str]) -> tuple[str, ...]:
    known = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}
    given = [known.get(item.lower(), item.lower()) for item in words(value)]
    notes.extend(f"os {item!r} is none of {', '.join(OSES)}" for item in given if item not in OSES)
    # A skill for a system nobody knows stays a skill for that system alone, so the names are kept.
    return tuple(dict.fromkeys(given))


def _installers(value: Value | None, notes: list[str]) -> tuple[Installer, ...]:
    found: list[Installer] = []
    for number, item in enumerate(value if isinstance(value, list) else [], 1):
        made = _installer(unpacked(item), f"install-{number}")
        if isinstance(made, str):
            notes.append(f"install step {number} was left out: {made}")
        else:
            found.append(made)
    return tuple(found[:MAX_ITEMS])


def _installer(given: dict[str, Value], fallback: str) -> Installer | str:
    kind = _line(given.get("kind")).lower()
    if kind not in get_args(InstallKind):
        return f"its kind is {kind[:20]!r}, not one of {', '.join(get_args(InstallKind))}"
    cask = _line(given.get("cask"))
    made = Installer(
        id=_line(given.get("id"), MAX_NAME) or fallback,
        kind=kind,  # type: ignore[arg-type]  # one of the literals, by the line above
        label=_line(given.get("label"), MAX_LINE),
        bins=tuple(item for item in words(given.get("bins")) if _BIN.match(item)),
        os=_oses(given.get("os"), []),
        formula=cask or _line(given.get("formula")),
        cask=bool(cask),
        package=_line(given.get("package")),
        module=_line(given.get("module")),
        url=_line(given.get("url")),
        sha256=_line(given.get("sha256")).lower().removeprefix("sha256:"),
        target_dir=_line(given.get("targetDir")),
    )
    return _objection(made) or made


def _objection(step: Installer) -> str:
    """Why a step cannot be offered, if it cannot."""
    values = {"brew": step.formula, "node": step.package, "uv": step.package, "go": step.module, "download": step.url}
    shapes = {"brew": _FORMULA, "node": _PACKAGE, "uv": _PACKAGE, "go": _MODULE, "download": _URL}
    names = {"brew": "formula or cask", "node": "package", "uv": "package", "go": "module", "download": "url"}
    value = values[step.kind]
    if not shapes[step.kind].match(value) or (".." in value and step.kind != "download"):
        return f"{value[:60]!r} is not a {names[step.kind]}"
    if step.sha256 and not _SHA.match(step.sha256):
        return "its sha256 is not 64 hexadecimal digits"
    if step.target_dir and (
        step.target_dir.startswith(("/", "~", "\\")) or ".." in re.split(r"[/\\]", step.target_dir)
    ):
        return "its targetDir leads elsewhere"
    return ""


def _permissions(fields: dict[str, Value], ours: dict[str, Value]) -> SkillPermissions:
    given = unpacked(ours.get("permissions") or fields.get("permissions"))
    tools = given.get("tools", fields.get("allowed-tools", fields.get("allowedTools")))
    network = given.get("network")
    return SkillPermissions(
        tools=None if tools is None else words(tools),
        network=None if network is None else _flag(network, True),
        paths=None if "paths" not in given else words(given["paths"]),
    )


def words(value: Value | None) -> tuple[str, ...]:
    """A list, or text that stands for one: separated by commas, else by spaces; parentheses hold together."""
    if isinstance(value, list):
        items = [_line(item) for item in value]
    elif isinstance(value, str):
        text = literal(value).strip().removeprefix("[").removesuffix("]")
        splitter = r",(?![^(]*\))" if "," in text else r"\s+(?![^(]*\))"
        items = [item.strip().strip("\"'") for item in re.split(splitter, text[:4_000])]
    else:
        items = []
    return tuple(dict.fromkeys(item for item in items if item))[:MAX_ITEMS]


def _matching(value: Value | None, shape: re.Pattern[str], what: str, notes: list[str]) -> tuple[str, ...]:
    found = words(value)
    notes.extend(f"{what}: {item[:60]!r} is not a name and was left out" for item in found if not shape.match(item))
    return tuple(item for item in found if shape.match(item))


def _first(items: tuple[str, ...]) -> str:
    return items[0] if items else ""


def _line(value: Value | None, limit: int = 16_000) -> str:
    """`value` as one line of harmless text."""
    match value:
        case str():
            return head(_SPACE.sub(" ", literal(_SPACE.sub(" ", value))).strip(), limit)
        case list():
            return _line(", ".join(_line(item) for item in value), limit)
        case dict():
            # "description: Use when: …" without quotes reads as a mapping; its words are what was meant.
            return _line(", ".join(f"{key}: {_line(item)}" for key, item in value.items()), limit)
        case None:
            return ""


def _flag(value: Value | None, default: bool) -> bool:
    text = value.strip().lower() if isinstance(value, str) else ""
    return True if text in _TRUE else False if text in _FALSE else default
