"""Redacts credentials in the configuration for display; references to them stay readable."""

import re
from typing import Any

from msgspec import inspect

from openclaw.config import schema
from openclaw.config.check import ref_problem
from openclaw.config.tree import Path, format_path
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import REDACTED
from openclaw.core.text import compile_lazily
from openclaw.security.redaction import redact_shapes

_REFERENCE = compile_lazily(r"\$\{[A-Z_][A-Z0-9_]*\}\Z|\$[A-Z][A-Z0-9_]{0,127}\Z")
_NAME = compile_lazily(
    r"token\Z|tokens\Z|passw(or)?d|passphrase|passcode|secret|api_?keys?\Z|credential|cookie"
    r"|(private|access|signing|encryption|auth|master|service|account|client|webhook)_?key\Z|(^|_)keys?\Z|(^|_)pin\Z",
    re.IGNORECASE,
)
_HEADER = compile_lazily(r"auth|key|token|secret|cookie|signature|password|credential", re.IGNORECASE)
_NUMERIC = compile_lazily(r"passw(or)?d|passcode|passphrase|secret|(^|_)pin\Z", re.IGNORECASE)
_FLAG = compile_lazily(r"--?[\w-]*(token|password|passwd|secret|api-?key|credential)[\w-]*", re.IGNORECASE)


def redact(data: Any, path: Path = ()) -> Any:
    """Redacts `data`, which is at `path`."""
    kind: inspect.Type | None = schema.root()
    for part in path:
        kind = schema.child_type(kind, part)
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    header = len(path) > 1 and _is_header_map(path[-2])
    return _value(data, kind, name, header, _is_sensitive(name) and kind is None)


def _value(value: Any, kind: inspect.Type | None, name: str, header: bool, sensitive: bool) -> Any:
    """Redacts one value; `name` is its key, `sensitive` whether the keys above it name credentials."""
    known = kind is not None and not any(isinstance(option, inspect.AnyType) for option in schema.options(kind))
    secret = schema.is_secret(kind) if kind is not None and known else sensitive
    if isinstance(value, str):
        secret = secret or (header and bool(_HEADER.search(name)))
        return REDACTED if secret and value and not _REFERENCE.match(value) else redact_shapes(value)
    if isinstance(value, dict):
        if secret and not ref_problem(value):
            return value
        return {
            key: _value(item, schema.child_type(kind, key), key, _is_header_map(name), secret or _is_sensitive(key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        inner = schema.child_type(kind, 0) if kind is not None else None
        return _flags([_value(item, inner, name, header, secret) for item in value])
    if secret and not isinstance(value, bool) and value is not None and _NUMERIC.search(_snake(name)):
        return REDACTED
    return value


def _flags(items: list[Any]) -> list[Any]:
    """Redacts arguments of a program: what follows `--token`, or is joined to it."""
    out: list[Any] = []
    for item in items:
        before = out[-1] if out else None
        if isinstance(item, str):
            name, mark, _ = item.partition("=")
            if isinstance(before, str) and _FLAG.fullmatch(before):
                item = item if _REFERENCE.match(item) else REDACTED
            elif mark and _FLAG.fullmatch(name):
                item = f"{name}={REDACTED}"
        out.append(item)
    return out


def _is_sensitive(name: str) -> bool:
    return bool(_NAME.search(_snake(name)))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_")


def _is_header_map(name: str | int) -> bool:
    return isinstance(name, str) and name.lower().endswith("headers")


def restore(new: Any, current: Any) -> Any:
    """`new` with each placeholder replaced by its value in `current`."""
    return _restore(new, current, redact(current), ())


def _restore(new: Any, current: Any, shown: Any, path: Path) -> Any:
    if isinstance(new, str):
        if REDACTED not in new:
            return new
        if isinstance(shown, str) and shown == new:
            return current
        raise InvalidRequest(
            f"{format_path(path)} holds a placeholder for a credential that is not there: "
            "write the credential or a reference"
        )
    if isinstance(new, dict):
        old = current if isinstance(current, dict) else {}
        seen = shown if isinstance(shown, dict) else {}
        return {key: _restore(item, old.get(key), seen.get(key), (*path, key)) for key, item in new.items()}
    if isinstance(new, list):
        places = [_counterpart(item, index, current) for index, item in enumerate(new)]
        return [
            _restore(item, current[at], shown[at], (*path, index))
            if at is not None
            else _restore(item, None, None, (*path, index))
            for index, (item, at) in enumerate(zip(new, places, strict=True))
        ]
    return new


def _counterpart(item: Any, index: int, current: Any) -> int | None:
    """The index in the old list that corresponds to `item`: the entry with its id, else the one at the same index."""
    if not isinstance(current, list):
        return None
    name = item.get("id") if isinstance(item, dict) else None
    if name is not None:
        return next((i for i, old in enumerate(current) if isinstance(old, dict) and old.get("id") == name), None)
    return index if index < len(current) else None
