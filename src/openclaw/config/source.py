"""Parses JSON5 text and edits it in place: everything an edit does not concern stays, byte for byte.

`rewrite` needs text that was parsed before: it only locates values and does not validate.
"""

import json
import re
from typing import Any

from msgspec import Struct

from openclaw.config.tree import Path, TreeEdit
from openclaw.core.errors import ConfigError
from openclaw.core.text import compile_lazily
from openclaw.storage import json5

MAX_DEPTH = 64

_NEAR = compile_lazily(r"near (\d+)")
_CODE_POINT = compile_lazily(r"U\+([0-9a-fA-F]{4,6})")
_PART = compile_lazily(
    r"""(?:(?P<quoted>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(?P<word>[^\s{}\[\]:,"']+))(?P<key>(?=\s*:))?"""
)
_HARMLESS = compile_lazily(r"true|false|null|[-+]?[\d.]{1,7}|[^\w]+|\w{1,7}")
_WIDTH = 100
_LONGEST = 10_000


def decode(data: bytes, file: str) -> str:
    """The text of a file."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}, line {line}: not UTF-8 text; save the file as UTF-8", file=file) from None


def parse(text: str, file: str) -> dict[str, Any]:
    """Parses the object in `text`; an empty file is an empty object."""
    if not text.strip("\ufeff \t\r\n"):
        return {}
    data = parse_value(text, file)
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: the file must hold one object: {{ … }}", file=file)
    return data


def parse_value(text: str, file: str) -> Any:
    """Parses any JSON5 value."""
    try:
        return json5.decode(text, MAX_DEPTH)
    except json5.library().Json5NestingTooDeep as error:
        what, at = f"nested deeper than {MAX_DEPTH} levels", _offset(error, text)
    except json5.library().Json5DecoderException as error:
        what, at = _explain(error), _offset(error, text)
    # The parser's own exception carries the values read so far, so it must not be kept as the cause.
    line, column = position(text, at)
    raise ConfigError(f"{file}, line {line}, column {column}: {what}\n{excerpt(text, at)}".rstrip(), file=file)


def position(text: str, at: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def excerpt(text: str, at: int) -> str:
    """The line at `at` with a caret below it; values are masked. Empty for a line too long to be hand-written."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)].rstrip("\r")
    if len(line) > _LONGEST:
        return ""
    line = _PART.sub(_mask, line)
    column = at - start
    left = max(0, column - _WIDTH // 2)
    shown = "".join(char if char.isprintable() else " " for char in line[left : left + _WIDTH])
    return f"  {shown}\n  {' ' * (column - left)}^"


def _mask(found: re.Match[str]) -> str:
    part = found[0]
    if found["key"] is not None or (found["word"] and _HARMLESS.fullmatch(part)):
        return part
    if found["quoted"]:
        closed = len(part) > 1 and part[-1] == part[0]
        return part[0] + "*" * (len(part) - 1 - closed) + (part[0] if closed else "")
    return "*" * len(part)


def _offset(error: Exception, text: str) -> int:
    """Where the parser stopped; it counts from 1."""
    found = _NEAR.search(str(error.args[0]))
    at = min(max(int(found[1]) - 1, 0) if found else 0, len(text))
    if isinstance(error, json5.library().Json5ExtraData):
        after = re.compile(r"\S").search(text, at + 1)
        at = after.start() if after else at
    return at


def _explain(error: Exception) -> str:
    told = _NEAR.sub("", str(error.args[0])).replace("b'", "").replace("'", "")
    told = _CODE_POINT.sub(lambda code: repr(chr(int(code[1], 16))), told)
    told = re.sub(r"\s+,", ",", re.sub(r"\s+", " ", told)).strip()
    if told.startswith("Unclosed"):
        told = told.removesuffix(" starting") + " that starts here"
    return told[:1].lower() + told[1:]


_TOKEN = compile_lazily(
    r"""(?P<gap>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)"""
    r"""|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<mark>[{}\[\]:,])"""
    r"""|(?P<word>(?:(?!//|/\*)[^\s\ufeff{}\[\]:,"'])+)""",
    re.DOTALL,
)
_SAME_LINE = compile_lazily(r"(?:[ \t]|/\*[^\n\r]*?\*/)*(?P<comment>//[^\n\r\u2028\u2029]*)?")
_NAME = compile_lazily(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")


# Editing in place.


class CannotEdit(Exception):
    """The text does not have a shape that can be edited; the caller writes it anew."""


class ObjectMember(Struct):
    """One entry of an object or a list, by its offsets in the text."""

    start: int
    value: "Node"
    key: str | None = None
    comma: int | None = None


class Node(Struct):
    """One value, by its offsets in the text."""

    start: int
    end: int = 0
    opens: str = ""
    members: list[ObjectMember] = []


def rewrite(text: str, edits: list[TreeEdit]) -> str:
    """`text` after the `edits`, with every comment kept."""
    for edit in edits:
        text = _put(text, edit.path, edit.value) if edit.kind == "put" else _drop(text, edit.path)
    return text


def render_new(data: Any) -> str:
    """`data` as the text of a new file."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def read(text: str) -> Node:
    """Locates all values in `text`."""
    tokens = [found for found in _TOKEN.finditer(text) if found.lastgroup != "gap"]
    root, after = _value(tokens, 0)
    if after != len(tokens):
        raise CannotEdit
    return root


def repeated_keys(text: str) -> list[Path]:
    """Keys that occur twice in one object, of which only the last counts."""
    found: list[Path] = []

    def walk(node: Node, path: Path) -> None:
        seen: set[str] = set()
        for index, member in enumerate(node.members):
            here = (*path, index if member.key is None else member.key)
            if member.key in seen:
                found.append(here)
            elif member.key is not None:
                seen.add(member.key)
            walk(member.value, here)

    walk(read(text), ())
    return found


def _value(tokens: list[re.Match[str]], at: int) -> tuple[Node, int]:
    if at >= len(tokens):
        raise CannotEdit
    first = tokens[at]
    if first[0] in ("{", "["):
        return _members(tokens, at)
    if first.lastgroup == "mark":
        raise CannotEdit
    at += 1
    while first.lastgroup == "word" and at < len(tokens) and tokens[at].lastgroup == "word":
        at += 1  # a sign apart from its number
    return Node(first.start(), tokens[at - 1].end()), at


def _members(tokens: list[re.Match[str]], at: int) -> tuple[Node, int]:
    node = Node(tokens[at].start(), opens=tokens[at][0])
    close = "}" if node.opens == "{" else "]"
    at += 1
    while at < len(tokens) and tokens[at][0] != close:
        start, key = tokens[at].start(), None
        if node.opens == "{":
            if at + 1 >= len(tokens) or tokens[at + 1][0] != ":":
                raise CannotEdit
            key = _key(tokens[at][0])
            at += 2
        value, at = _value(tokens, at)
        member = ObjectMember(start, value, key)
        if at < len(tokens) and tokens[at][0] == ",":
            member.comma = tokens[at].start()
            at += 1
        node.members.append(member)
    if at >= len(tokens):
        raise CannotEdit
    node.end = tokens[at].end()
    return node, at + 1


def _key(raw: str) -> str:
    if raw[0] not in "\"'":
        return raw if "\\" not in raw else str(next(iter(json5.decode(f"{{{raw}:0}}", 1))))
    return raw[1:-1] if "\\" not in raw else str(json5.decode(raw, 1))


def _find(node: Node, part: str | int) -> ObjectMember | None:
    if isinstance(part, int):
        return node.members[part] if node.opens == "[" and part < len(node.members) else None
    # Of two equal keys the last one counts.
    return next((member for member in reversed(node.members) if member.key == part), None)


def _walk(node: Node, path: Path) -> Node:
    for part in path:
        member = _find(node, part)
        if member is None:
            raise CannotEdit
        node = member.value
    return node


def _put(text: str, path: Path, value: Any) -> str:
    root = read(text)
    if not path:
        return text[: root.start] + _dump(value, text, _indent(text, root.start)) + text[root.end :]
    parent = _walk(root, path[:-1])
    member = _find(parent, path[-1])
    if member is not None:
        node = member.value
        return text[: node.start] + _dump(value, text, _indent(text, node.start)) + text[node.end :]
    key = path[-1] if isinstance(path[-1], str) else None
    if parent.opens != ("{" if key is not None else "["):
        raise CannotEdit
    return _append(text, parent, key, value) if parent.members else _fill(text, parent, key, value)


def _append(text: str, parent: Node, key: str | None, value: Any) -> str:
    last = parent.members[-1]
    after = last.value.end if last.comma is None else last.comma + 1
    line = _SAME_LINE.match(text, after)
    assert line is not None
    at = line.end() if line["comment"] or text[line.end() : line.end() + 1] in ("\n", "\r", "") else after
    plain = key is not None and text[last.start] not in "\"'" and _NAME.match(key)
    entry = "" if key is None else f"{key if plain else json.dumps(key, ensure_ascii=False)}: "
    end = "" if last.comma is None else ","
    if "\n" in text[parent.start : last.start] or line["comment"]:
        indent = _indent(text, last.start)
        if "\n" not in text[parent.start : last.start]:
            indent += "  "
        added = _newline(text) + indent + entry + _dump(value, text, indent) + end
    else:
        added = " " + entry + json.dumps(value, ensure_ascii=False) + end
    if last.comma is None:
        return text[: last.value.end] + "," + text[last.value.end : at] + added + text[at:]
    return text[:at] + added + text[at:]


def _fill(text: str, parent: Node, key: str | None, value: Any) -> str:
    """The first entry of an empty object or list, below whatever comments it holds."""
    inside = text[parent.start + 1 : parent.end - 1]
    entry = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if key is None and not inside.strip() and not isinstance(value, dict | list):
        return text[: parent.start + 1] + json.dumps(value, ensure_ascii=False) + text[parent.end - 1 :]
    outer = _indent(text, parent.start)
    indent = outer + _unit(text)
    kept = inside.rstrip()
    newline = _newline(text)
    added = newline + indent + entry + _dump(value, text, indent) + newline + outer
    return text[: parent.start + 1] + kept + added + text[parent.end - 1 :]


def _drop(text: str, path: Path) -> str:
    while True:
        parent = _walk(read(text), path[:-1])
        member = _find(parent, path[-1])
        if member is None:
            raise CannotEdit
        text = _cut(text, parent, parent.members.index(member))
        if isinstance(path[-1], int) or _find(_walk(read(text), path[:-1]), path[-1]) is None:
            return text


def _cut(text: str, parent: Node, index: int) -> str:
    """`text` without one entry; comments around it stay."""
    member = parent.members[index]
    start, end = member.start, member.value.end
    if member.comma is not None:
        if not text[end : member.comma].strip():
            end = member.comma + 1
        else:
            text = text[: member.comma] + text[member.comma + 1 :]
    line = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t]*(\r?\n)?").match(text, end)
    assert rest is not None
    if not text[line:start].strip() and rest[1]:
        text = text[:line] + text[rest.end() :]
    elif not text[line:start].strip() or member.comma is not None:
        text = text[:start] + text[rest.end() if not rest[1] else end :]
    else:
        gap = len(text[:start]) - len(text[:start].rstrip(" \t"))
        text = text[: start - gap] + text[end:]
    if member.comma is None and index > 0:
        comma = parent.members[index - 1].comma
        if comma is not None:
            text = text[:comma] + text[comma + 1 :]
    return text


def _dump(value: Any, text: str, indent: str) -> str:
    rendered = json.dumps(value, indent=_unit(text), ensure_ascii=False)
    return rendered.replace("\n", _newline(text) + indent)


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """One level of indentation in this file."""
    found = re.search(r"\n([ \t]+)[^\s/*]", text)
    return found[1] if found else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
