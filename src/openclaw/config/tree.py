"""Operations on plain configuration data: find, put, drop, merge, diff. Every function returns new data."""

import json
import re
from collections.abc import Collection
from typing import Any, Literal

from msgspec import Struct

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.text import compile_lazily
from openclaw.storage import json5

Path = tuple[str | int, ...]

BLOCKED = frozenset({"__proto__", "prototype", "constructor"})
MAX_SEGMENTS = 64

_BARE = compile_lazily(r"""[^.\[\]"'\s]+""")
_BRACKET = compile_lazily(r"""\[\s*(?:(\d{1,9})|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))\s*\]""", re.DOTALL)


def parse_path(text: str) -> Path:
    """Parses a path; a number in brackets is an index, everything else is a key."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "[":
            found = _BRACKET.match(text, at)
            if not found:
                raise _bad(text, at)
            try:
                parts.append(int(found[1]) if found[1] else str(json5.decode(found[2], 1)))
            except json5.library().Json5DecoderException:
                raise _bad(text, at) from None
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


def format_path(path: Path) -> str:
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


def _bad(text: str, at: int) -> InvalidRequest:
    return InvalidRequest(
        f"cannot read the path {text!r} at character {at + 1}: write keys with dots and indexes in brackets,"
        ' for example agents.list[0].model; quote a key that contains a dot: models["a.b"]'
    )


class TreeEdit(Struct, frozen=True):
    """One edit: write `value` at `path`, or remove `path`."""

    kind: Literal["put", "drop"]
    path: Path
    value: Any = None


def find(data: Any, path: Path) -> Any:
    """The value at `path`."""
    for part in path:
        at = _slot(data, part)
        if at is None:
            raise NotFound(f"{format_path(path)} is not set")
        data = data[at]
    return data


def has(data: Any, path: Path) -> bool:
    try:
        find(data, path)
    except NotFound:
        return False
    return True


def put(data: Any, path: Path, value: Any) -> Any:
    """`data` with `value` at `path`; creates missing objects on the way."""
    return _put(data, path, 0, value)


def _put(data: Any, path: Path, depth: int, value: Any) -> Any:
    if depth == len(path):
        return value
    part = path[depth]
    if isinstance(data, dict):
        if isinstance(part, int):
            raise InvalidRequest(
                f"{format_path(path[:depth]) or 'the root'} is an object: name a key of it, not an index"
            )
        inner = data.get(part)
        inner = _container(path, depth + 1) if inner is None else inner
        return {**data, part: _put(inner, path, depth + 1, value)}
    if isinstance(data, list):
        index = _index(part)
        if index is None or index > len(data):
            raise InvalidRequest(
                f"{format_path(path[:depth])} is a list of {len(data)}: use an index from 0 to {len(data)}"
            )
        inner = data[index] if index < len(data) else _container(path, depth + 1)
        return [*data[:index], _put(inner, path, depth + 1, value), *data[index + 1 :]]
    raise InvalidRequest(
        f"{format_path(path[:depth])} is {kind_of(data)}, so {format_path(path)} cannot be set: unset it first"
    )


def _container(path: Path, depth: int) -> Any:
    """The empty container needed for the segment at `depth`."""
    return [] if depth < len(path) and isinstance(path[depth], int) else {}


def drop(data: Any, path: Path) -> Any:
    """`data` without the value at `path`."""
    find(data, path)
    return _drop(data, path)


def _drop(data: Any, path: Path) -> Any:
    at = _slot(data, path[0])
    if isinstance(data, list):
        assert isinstance(at, int)
        middle = [_drop(data[at], path[1:])] if len(path) > 1 else []
        return [*data[:at], *middle, *data[at + 1 :]]
    if len(path) > 1:
        return {**data, at: _drop(data[at], path[1:])}
    return {key: value for key, value in data.items() if key != at}


def merge(data: Any, patch: Any, replace: Collection[Path] = (), path: Path = ()) -> Any:
    """`data` with a JSON merge patch applied.

    Lists of objects with an `id` merge by it. Any other list is replaced, but entries are only removed where
    `replace` names the list.
    """
    if path in replace:
        return patch
    if isinstance(patch, dict):
        merged = dict(data) if isinstance(data, dict) else {}
        for key, value in patch.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = merge(merged.get(key), value, replace, (*path, key))
        return merged
    if isinstance(patch, list) and isinstance(data, list):
        return _merge_list(data, patch, replace, path)
    return patch


def _merge_list(data: list[Any], patch: list[Any], replace: Collection[Path], path: Path) -> list[Any]:
    if data and patch and all(_id(item) is not None for item in (*data, *patch)):
        merged = list(data)
        places = {_id(item): index for index, item in enumerate(data)}
        for item in patch:
            index = places.get(_id(item))
            if index is None:
                merged.append(item)
            else:
                merged[index] = merge(merged[index], item, replace, (*path, index))
        return merged
    lost = [item for item in data if not any(same(item, other) for other in patch)]
    if lost:
        raise InvalidRequest(
            f"this would remove {len(lost)} of {len(data)} entries of {format_path(path)}: "
            f"name {format_path(path)} as a path to replace if that is meant"
        )
    return patch


def diff(old: Any, new: Any, path: Path = ()) -> list[TreeEdit]:
    """The smallest edits we can find from `old` to `new`, in an order in which they can be applied."""
    if same(old, new):
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        edits = [TreeEdit("drop", (*path, key)) for key in old if key not in new]
        for key, value in new.items():
            edits += diff(old[key], value, (*path, key)) if key in old else [TreeEdit("put", (*path, key), value)]
        return edits
    if isinstance(old, list) and isinstance(new, list) and old and new:
        return _diff_list(old, new, path)
    return [TreeEdit("put", path, new)]


def _diff_list(old: list[Any], new: list[Any], path: Path) -> list[TreeEdit]:
    if len(old) == len(new):
        return [edit for i, item in enumerate(old) for edit in diff(item, new[i], (*path, i))]
    shorter, longer = sorted((old, new), key=len)
    head = next((i for i, item in enumerate(shorter) if not same(item, longer[i])), len(shorter))
    gap = len(longer) - len(shorter)
    if not all(same(item, longer[i + gap]) for i, item in enumerate(shorter) if i >= head):
        return [TreeEdit("put", path, new)]
    if longer is old:
        return [TreeEdit("drop", (*path, head + gap - 1 - i)) for i in range(gap)]
    if head == len(old):
        return [TreeEdit("put", (*path, head + i), new[head + i]) for i in range(gap)]
    return [TreeEdit("put", path, new)]


def changed_paths(old: Any, new: Any) -> tuple[str, ...]:
    """The paths of settings that differ, as text."""
    return tuple(format_path(path) or "." for edit in diff(old, new) for path in _leaves(edit.path, edit.value))


def _leaves(path: Path, value: Any) -> list[Path]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in _leaves((*path, key), item)]
    return [path]


def same(one: Any, other: Any) -> bool:
    """Equality that tells 1, 1.0 and true apart."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if type(one) is not type(other):
        return False
    return bool(one == other) or (one != one and other != other)


_KINDS = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
}


def kind_of(value: Any) -> str:
    """The JSON name of `value`'s type, with its article."""
    return _KINDS.get(type(value), "an object")


def _id(item: Any) -> str | None:
    found = item.get("id") if isinstance(item, dict) else None
    return found if isinstance(found, str) else None


def _index(part: str | int) -> int | None:
    if isinstance(part, int):
        return part
    return int(part) if part.isascii() and part.isdigit() else None


def _slot(data: Any, part: str | int) -> str | int | None:
    """The key or index of `part` in `data`, None when there is none."""
    if isinstance(data, dict):
        return part if isinstance(part, str) and part in data else None
    if isinstance(data, list):
        index = _index(part)
        return index if index is not None and index < len(data) else None
    return None
