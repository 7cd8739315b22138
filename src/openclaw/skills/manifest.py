"""Parses SKILL.md: front matter, manifest, and references that leave the skill's directory. Pure."""

import re
from collections.abc import Iterator
from posixpath import normpath
from typing import Any, Literal, get_args

from msgspec import Struct

from openclaw.core.text import compile_lazily, head, sanitize_line, utf16_length
from openclaw.storage import json5

# Front matter.

MAX_CHARS = 65_536
MAX_DEPTH = 16
MAX_NODES = 4_000

Value = str | list["Value"] | dict[str, "Value"]

_FENCE = compile_lazily(r"---[ \t]*\Z")
_END = compile_lazily(r"(?:---|\.\.\.)[ \t]*\Z")
_KEY = compile_lazily(r"""(?P<quote>["']?)(?P<key>[A-Za-z_][\w.-]*)(?P=quote)[ \t]*:(?:[ \t]+|\Z)""")
_PLAIN_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map"))
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


class FrontMatter(Struct, frozen=True):
    """The keys, the body below them, and notes on what had to be repaired."""

    fields: dict[str, Value]
    body: str
    body_line: int
    """The first line of the body in the file."""
    notes: tuple[str, ...] = ()


class Malformed(ValueError):
    """There is no usable front matter; the text says why."""


def read(text: str) -> FrontMatter:
    """Parses the front matter of a file; raises `Malformed`."""
    head, body, body_line, notes = _split(text)
    if len(head) > MAX_CHARS:
        raise Malformed(f"the front matter has {len(head):,} characters; {MAX_CHARS:,} is the most")
    try:
        found = _Builder(notes).build(head)
        if not isinstance(found, dict):
            raise Malformed("keys and values are expected")
        fields = found
    except Malformed as error:
        fields = dict(_by_key(head))
        notes.append(f"not valid YAML ({_reason(error)}); read key by key")
    if not fields:
        raise Malformed("the front matter has no keys: write at least a description")
    return FrontMatter(fields, body, body_line, tuple(notes))


def _split(text: str) -> tuple[str, str, int, list[str]]:
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    notes: list[str] = []
    trimmed = text.lstrip(" \t\n")
    if trimmed != text and trimmed.startswith("---"):
        notes.append("there is empty space before the first ---")
    lines = trimmed.split("\n")
    if not _FENCE.match(lines[0]):
        raise Malformed("it has no front matter: begin the file with a line ---, then name and description, then ---")
    for number, line in enumerate(lines[1:], 1):
        if _END.match(line):
            above = text[: len(text) - len(trimmed)].count("\n") + number + 2
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), above, notes
    raise Malformed("its front matter does not end: close it with a line ---")


class _Builder:
    """Builds plain values from parser events, within limits."""

    def __init__(self, notes: list[str]) -> None:
        import yaml  # slow to import, and an idle gateway parses no skill

        self._yaml = yaml
        self._notes = notes
        self._nodes = 0

    def build(self, text: str) -> Value:
        yaml = self._yaml
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            # `---` inside would start a second document; only the first is read.
            events = iter(yaml.parse(text, Loader=loader))
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    return self._node(next(events), events, 0)
        except yaml.YAMLError as error:
            raise Malformed(_reason(error)) from error
        return ""

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Value:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise Malformed(f"it is nested deeper than {MAX_DEPTH} or has more than {MAX_NODES:,} values")
        if isinstance(event, self._yaml.AliasEvent) or getattr(event, "anchor", None):
            raise Malformed("anchors and aliases (& and *) are not read")
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in ("!", *_PLAIN_TAGS):
            raise Malformed(f"the tag {tag[:60]} is not read")
        if isinstance(event, self._yaml.ScalarEvent):
            plain = event.style is None
            return "" if plain and event.value in _NOTHING else str(event.value)
        if isinstance(event, self._yaml.SequenceStartEvent):
            return self._sequence(events, depth)
        return self._object(events, depth)

    def _sequence(self, events: Iterator[Any], depth: int) -> list[Value]:
        found: list[Value] = []
        for event in events:
            if isinstance(event, self._yaml.SequenceEndEvent):
                break
            found.append(self._node(event, events, depth + 1))
        return found

    def _object(self, events: Iterator[Any], depth: int) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for event in events:
            if isinstance(event, self._yaml.MappingEndEvent):
                break
            key = self._node(event, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            if not isinstance(key, str):
                raise Malformed("a key must be plain text")
            if key in found:
                self._notes.append(f"the key {key[:60]} stands twice; the last one counts")
            found[key] = value
        return found


def _by_key(head: str) -> Iterator[tuple[str, Value]]:
    """Parses each top-level key on its own, for front matter that is not valid YAML as a whole."""
    for key, first, rest in _chunks(head):
        whole = "\n".join([f"{key}: {first}", *rest]).replace("\t", "  ")
        try:
            found = _Builder([]).build(whole)
        except Malformed:
            found = ""
        if isinstance(found, dict) and key in found and (found[key] or not first):
            yield key, found[key]
        else:
            yield key, _bare(" ".join([first, *(line.strip() for line in rest)]))


def _chunks(head: str) -> Iterator[tuple[str, str, list[str]]]:
    key, first, rest = "", "", list[str]()
    for line in head.split("\n"):
        started = _KEY.match(line)
        if started is None:
            rest.append(line)
            continue
        if key:
            yield key, first, rest
        key, first, rest = started["key"], line[started.end() :].strip(), []
    if key:
        yield key, first, rest


def _bare(value: str) -> str:
    value = value.strip()
    if value[:2] in ("|-", ">-", "|+", ">+"):
        value = value[2:].strip()
    elif value[:1] in ("|", ">"):
        value = value[1:].strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    # An opening quote that is never closed is dropped.
    return value[1:] if value[:1] in ("'", '"') and value.count(value[0]) == 1 else value


def parse_mapping(value: Value | None) -> dict[str, Value]:
    """A mapping, also one written as JSON or JSON5 text; empty when it is neither."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not value.lstrip().startswith("{") or len(value) > MAX_CHARS:
        return {}
    try:
        found = _plain(json5.decode(value, MAX_DEPTH))
    except json5.library().Json5Exception:
        return {}
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> Value:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case True | False:
            return str(value).lower()
        case None:
            return ""
        case _:
            return str(value)


def _reason(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 2}" if mark is not None else ""
    return f"{getattr(error, 'problem', None) or error}{where}"[:200]


# The manifest.

MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_LINE = 500
MAX_ITEMS = 64

InstallKind = Literal["brew", "node", "go", "uv", "download"]
OSES = ("darwin", "linux", "win32")

_ODD = compile_lazily(r"[^\w .:@+-]+")
_SPACE = compile_lazily(r"\s+")
_ENV = compile_lazily(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_BIN = compile_lazily(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}\Z")
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
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class SkillRequirements(Struct, frozen=True, kw_only=True):
    """Programs, variables and configuration the skill requires."""

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


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
    """Parses a SKILL.md; `directory` is the name of a skill without one. Raises `Malformed`."""
    matter = read(text)
    fields, notes = matter.fields, list(matter.notes)
    ours = _ours(fields, notes)
    description = _line(fields.get("description"))
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
        homepage=_line(fields.get("homepage") or ours.get("homepage"), MAX_LINE),
        license=_line(fields.get("license"), MAX_LINE),
        compatibility=_line(fields.get("compatibility"), MAX_LINE),
        emoji=_line(ours.get("emoji"), 8),
        skill_key=_line(ours.get("skillKey"), MAX_NAME),
        primary_env=next(iter(_matching(ours.get("primaryEnv"), _ENV, "primaryEnv", notes)), ""),
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
    metadata = parse_mapping(given)
    if given and not metadata:
        notes.append("metadata is neither a mapping nor JSON; it was left out")
    for name in ("openclaw", "clawdbot"):
        found = parse_mapping(metadata.get(name))
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
    return name or _ODD.sub("-", sanitize_line(directory)).strip(" -")[:MAX_NAME] or "skill"


def _requires(ours: dict[str, Value], notes: list[str]) -> SkillRequirements:
    given = parse_mapping(ours.get("requires"))
    return SkillRequirements(
        bins=_matching(given.get("bins"), _BIN, "requires.bins", notes),
        any_bins=_matching(given.get("anyBins"), _BIN, "requires.anyBins", notes),
        env=_matching(given.get("env"), _ENV, "requires.env", notes),
        config=split_words(given.get("config")),
    )


def _oses(value: Value | None, notes: list[str]) -> tuple[str, ...]:
    known = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}
    given = [known.get(item.lower(), item.lower()) for item in split_words(value)]
    notes.extend(f"os {item!r} is none of {', '.join(OSES)}" for item in given if item not in OSES)
    # Unknown systems are kept: dropping them would offer the skill everywhere.
    return tuple(dict.fromkeys(given))


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
    kind = _line(given.get("kind")).lower()
    if kind not in get_args(InstallKind):
        return f"its kind is {kind[:20]!r}, not one of {', '.join(get_args(InstallKind))}"
    cask = _line(given.get("cask"))
    made = Installer(
        id=_line(given.get("id"), MAX_NAME) or fallback,
        kind=kind,  # type: ignore[arg-type]  # one of the literals, by the line above
        label=_line(given.get("label"), MAX_LINE),
        bins=tuple(item for item in split_words(given.get("bins")) if _BIN.match(item)),
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
        network=None if network is None else _flag(network, True),
        paths=None if "paths" not in given else split_words(given["paths"]),
    )


def split_words(value: Value | None) -> tuple[str, ...]:
    """A list, or text split at commas, else at spaces, but not inside parentheses."""
    if isinstance(value, list):
        items = [_line(item) for item in value]
    elif isinstance(value, str):
        text = sanitize_line(value).strip().removeprefix("[").removesuffix("]")
        splitter = r",(?![^(]*\))" if "," in text else r"\s+(?![^(]*\))"
        items = [item.strip().strip("\"'") for item in re.split(splitter, text[:4_000])]
    else:
        items = []
    return tuple(dict.fromkeys(item for item in items if item))[:MAX_ITEMS]


def _matching(value: Value | None, shape: re.Pattern[str], what: str, notes: list[str]) -> tuple[str, ...]:
    found = split_words(value)
    notes.extend(f"{what}: {item[:60]!r} is not a name and was left out" for item in found if not shape.match(item))
    return tuple(item for item in found if shape.match(item))


def _line(value: Value | None, limit: int = 16_000) -> str:
    """`value` as one line without control characters."""
    match value:
        case str():
            return head(_SPACE.sub(" ", sanitize_line(_SPACE.sub(" ", value))).strip(), limit)
        case list():
            return _line(", ".join(_line(item) for item in value), limit)
        case dict():
            # YAML parses an unquoted "description: Use when: …" as a mapping; join it back into text.
            return _line(", ".join(f"{key}: {_line(item)}" for key, item in value.items()), limit)
        case None:
            return ""


def _flag(value: Value | None, default: bool) -> bool:
    text = value.strip().lower() if isinstance(value, str) else ""
    return True if text in _TRUE else False if text in _FALSE else default


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
