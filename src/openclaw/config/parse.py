"""JSON5 text to data; what cannot be read is shown by line and column, without giving a credential away."""

import re
from typing import Any

import pyjson5

from openclaw.core.errors import ConfigError

MAX_DEPTH = 64

_NEAR = re.compile(r"near (\d+)")
_CODE_POINT = re.compile(r"U\+([0-9a-fA-F]{4,6})")
_PART = re.compile(
    r"""(?:(?P<quoted>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)|(?P<word>[^\s{}\[\]:,"']+))(?P<key>(?=\s*:))?"""
)
_HARMLESS = re.compile(r"true|false|null|[-+]?[\d.]{1,7}|[^\w]+|\w{1,7}")
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
    """The object `text` holds; an empty file is an empty object."""
    if not text.strip("\ufeff \t\r\n"):
        return {}
    data = parse_value(text, file)
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: the file must hold one object: {{ … }}", file=file)
    return data


def parse_value(text: str, file: str) -> Any:
    """Any JSON5 value."""
    try:
        return pyjson5.decode(text, MAX_DEPTH)
    except pyjson5.Json5NestingTooDeep as error:
        what, at = f"nested deeper than {MAX_DEPTH} levels", _offset(error, text)
    except pyjson5.Json5DecoderException as error:
        what, at = _explain(error), _offset(error, text)
    # The parser's own exception carries the values read so far, so it must not travel on as the cause.
    line, column = position(text, at)
    raise ConfigError(f"{file}, line {line}, column {column}: {what}\n{excerpt(text, at)}".rstrip(), file=file)


def position(text: str, at: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def excerpt(text: str, at: int) -> str:
    """The line at `at` with a caret below it; values are starred out. Nothing for a line no person wrote."""
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
    if isinstance(error, pyjson5.Json5ExtraData):
        after = re.compile(r"\S").search(text, at + 1)
        at = after.start() if after else at
    return at


def _explain(error: Exception) -> str:
    told = _NEAR.sub("", str(error.args[0])).replace("b'", "").replace("'", "")
    told = _CODE_POINT.sub(lambda found: repr(chr(int(found[1], 16))), told)
    told = re.sub(r"\s+,", ",", re.sub(r"\s+", " ", told)).strip()
    if told.startswith("Unclosed"):
        told = told.removesuffix(" starting") + " that starts here"
    return told[:1].lower() + told[1:]
