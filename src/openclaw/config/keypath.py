"""The way to name one setting: `a.b[0].c`, `a["x.y"]`. Parse and format; nothing else."""

import json
import re

import pyjson5

from openclaw.core.errors import InvalidRequest

Path = tuple[str | int, ...]

BLOCKED = frozenset({"__proto__", "prototype", "constructor"})
MAX_SEGMENTS = 64

_BARE = re.compile(r"""[^.\[\]"'\s]+""")
_BRACKET = re.compile(r"""\[\s*(?:(\d{1,9})|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))\s*\]""", re.DOTALL)


def parse(text: str) -> Path:
    """The segments of `text`; a number in brackets is an index, everything else is a key."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "[":
            found = _BRACKET.match(text, at)
            if not found:
                raise _bad(text, at)
            parts.append(int(found[1]) if found[1] else _unquote(found[2], text, at))
        else:
            if parts:
                if text[at] != ".":
                    raise _bad(text, at)
                at += 1
            found = _BARE.match(text, at)
            if not found:
                raise _bad(text, at)
            parts.append(found[0])
        at = found.end()
    if not parts:
        raise InvalidRequest("an empty path names no setting: write for example agents.defaults.model")
    if len(parts) > MAX_SEGMENTS:
        raise InvalidRequest(f"a path has at most {MAX_SEGMENTS} segments")
    for part in parts:
        if part in BLOCKED:
            raise InvalidRequest(f"{part} is not allowed in a path")
    return tuple(parts)


def show(path: Path) -> str:
    """`path` as text that `parse` reads back."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        elif _BARE.fullmatch(part):
            out += f".{part}" if out else part
        else:
            out += f"[{json.dumps(part, ensure_ascii=False)}]"
    return out


def _unquote(quoted: str, text: str, at: int) -> str:
    try:
        key = pyjson5.decode(quoted)
    except pyjson5.Json5DecoderException:
        raise _bad(text, at) from None
    return str(key)


def _bad(text: str, at: int) -> InvalidRequest:
    return InvalidRequest(
        f"cannot read the path {text!r} at character {at + 1}: write keys with dots and indexes in brackets,"
        ' for example agents.list[0].model; quote a key that contains a dot: models["a.b"]'
    )
