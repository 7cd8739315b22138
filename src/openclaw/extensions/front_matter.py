"""Parses the front matter of a SKILL.md or HOOK.md, and the values both have. Lenient about spelling. Pure."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from openclaw.core.text import compile_lazily, head, sanitize_line
from openclaw.storage import json5

MAX_CHARS = 65_536
MAX_DEPTH = 16
MAX_NODES = 4_000
SIMPLE_CHARS = 4_000
"""So short that it cannot have more than `MAX_NODES` values."""

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
        found = _read_simple(head) or _Builder(notes).build(head)
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


_LINE = compile_lazily(r"(?P<indent> *)(?P<key>[A-Za-z_][A-Za-z0-9_-]{0,99}):(?: +(?P<value>\S(?:.*\S)?))?")
_WORDS = compile_lazily(r"\[(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:, *[A-Za-z0-9_][A-Za-z0-9_.+-]*)*)?\]")


def _read_simple(head: str) -> dict[str, Value] | None:
    """Reads keys with text, quoted text, lists of words or keys below them, which is what nearly every skill has.

    None for anything else: the YAML library, which takes longer to load than a turn takes, reads that. What is read
    here it reads the same (`tests/extensions/test_front_matter.py` compares them).
    """
    if len(head) > SIMPLE_CHARS:
        return None
    top: dict[str, Value] = {}
    open_maps: list[tuple[int, dict[str, Value]]] = [(0, top)]
    """The mappings around the next line, with their indents."""
    expected = ""
    """The key above, when it has no value and may have keys below it."""
    for line in head.split("\n"):
        found = _LINE.fullmatch(line)
        if found is None or not line.isprintable():
            return None
        indent, key = len(found["indent"]), found["key"]
        if indent > open_maps[-1][0]:
            if not expected or len(open_maps) == MAX_DEPTH:
                return None
            inner: dict[str, Value] = {}
            open_maps[-1][1][expected] = inner
            open_maps.append((indent, inner))
        while indent < open_maps[-1][0]:
            open_maps.pop()
        at, into = open_maps[-1]
        value = "" if found["value"] is None else _read_simple_value(found["value"])
        if indent != at or key in into or key in _NOTHING or value is None:
            return None
        into[key] = value
        expected = key if found["value"] is None else ""
    return top


def _read_simple_value(text: str) -> Value | None:
    if text[0].isalnum():
        plain = ": " not in text and " #" not in text and not text.endswith(":")
        return ("" if text in _NOTHING else text) if plain else None
    if text[0] in "'\"" and len(text) > 1 and text[-1] == text[0]:
        inside = text[1:-1]
        return inside if text[0] not in inside and "\\" not in inside else None
    if _WORDS.fullmatch(text):
        return ["" if word in _NOTHING else word for word in re.split(", *", text[1:-1])] if text != "[]" else []
    return None


class _Builder:
    """Builds plain values from parser events, within limits."""

    def __init__(self, notes: list[str]) -> None:
        import yaml  # slow to import, and few skills need it

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
            plain = not event.style  # None from the library in Python, empty from the one in C
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


# Values.

MAX_ITEMS = 64
OSES = ("darwin", "linux", "win32")
BIN = compile_lazily(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}\Z")
ENV = compile_lazily(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")

_SPACE = compile_lazily(r"\s+")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


class Requirements(Struct, frozen=True, kw_only=True):
    """Programs, variables and configuration a skill or hook requires."""

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


def openclaw_fields(fields: dict[str, Value], notes: list[str]) -> dict[str, Value]:
    """Our own part of the metadata."""
    given = fields.get("metadata")
    metadata = parse_mapping(given)
    if given and not metadata:
        notes.append("metadata is neither a mapping nor JSON; it was left out")
    for name in ("openclaw", "clawdbot"):
        found = parse_mapping(metadata.get(name))
        if found:
            return found
    return {}


def parse_requirements(ours: dict[str, Value], notes: list[str]) -> Requirements:
    given = parse_mapping(ours.get("requires"))
    return Requirements(
        bins=matching_words(given.get("bins"), BIN, "requires.bins", notes),
        any_bins=matching_words(given.get("anyBins"), BIN, "requires.anyBins", notes),
        env=matching_words(given.get("env"), ENV, "requires.env", notes),
        config=split_words(given.get("config")),
    )


def parse_systems(value: Value | None, notes: list[str]) -> tuple[str, ...]:
    known = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32", "win": "win32"}
    given = [known.get(item.lower(), item.lower()) for item in split_words(value)]
    notes.extend(f"os {item!r} is none of {', '.join(OSES)}" for item in given if item not in OSES)
    # Unknown systems are kept: dropping them would offer the skill everywhere.
    return tuple(dict.fromkeys(given))


def split_words(value: Value | None) -> tuple[str, ...]:
    """A list, or text split at commas, else at spaces, but not inside parentheses."""
    if isinstance(value, list):
        items = [one_line(item) for item in value]
    elif isinstance(value, str):
        text = sanitize_line(value).strip().removeprefix("[").removesuffix("]")
        splitter = r",(?![^(]*\))" if "," in text else r"\s+(?![^(]*\))"
        items = [item.strip().strip("\"'") for item in re.split(splitter, text[:4_000])]
    else:
        items = []
    return tuple(dict.fromkeys(item for item in items if item))[:MAX_ITEMS]


def matching_words(value: Value | None, shape: re.Pattern[str], what: str, notes: list[str]) -> tuple[str, ...]:
    found = split_words(value)
    notes.extend(f"{what}: {item[:60]!r} is not a name and was left out" for item in found if not shape.match(item))
    return tuple(item for item in found if shape.match(item))


def one_line(value: Value | None, limit: int = 16_000) -> str:
    """`value` as one line without control characters."""
    match value:
        case str():
            return head(_SPACE.sub(" ", sanitize_line(_SPACE.sub(" ", value))).strip(), limit)
        case list():
            return one_line(", ".join(one_line(item) for item in value), limit)
        case dict():
            # YAML parses an unquoted "description: Use when: …" as a mapping; join it back into text.
            return one_line(", ".join(f"{key}: {one_line(item)}" for key, item in value.items()), limit)
        case None:
            return ""


def parse_flag(value: Value | None, default: bool) -> bool:
    text = value.strip().lower() if isinstance(value, str) else ""
    return True if text in _TRUE else False if text in _FALSE else default
