"""`$include`: one configuration spread over several files, none of them outside the places we trust."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.config import keypath
from openclaw.config.files import read_regular
from openclaw.config.parse import decode, parse
from openclaw.core.errors import ConfigError

KEY = "$include"
MAX_DEPTH = 10
MAX_BYTES = 2 << 20
MAX_PATH = 4096
MAX_FILES = 200


class Resolved(Struct, frozen=True):
    """The data with every include in place, and the files it came from."""

    data: dict[str, Any]
    files: tuple[Path, ...] = ()


def roots(config: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Where included files may be: beside the configuration, and where `OPENCLAW_INCLUDE_ROOTS` says."""
    more = environ.get("OPENCLAW_INCLUDE_ROOTS", "").split(os.pathsep)
    return (config.parent.resolve(), *(Path(root).resolve() for root in more if root))


def resolve(data: dict[str, Any], config: Path, allowed: tuple[Path, ...]) -> Resolved:
    """`data` with its includes read and merged; `config` is the file it stands in."""
    if not _used(data):
        return Resolved(data)
    reader = _Reader(allowed)
    merged = reader.merge(data, config.resolve(), (config.resolve(),), ())
    if not isinstance(merged, dict):
        raise ConfigError(f"{config}: {KEY} at the root must give an object", path=KEY, file=str(config))
    return Resolved(merged, tuple(dict.fromkeys(reader.files)))


def _used(data: Any) -> bool:
    if isinstance(data, dict):
        return KEY in data or any(_used(value) for value in data.values())
    return isinstance(data, list) and any(_used(item) for item in data)


class _Reader:
    """The state of one resolution: what was read, so that a hostile set of files stays small."""

    def __init__(self, allowed: tuple[Path, ...]) -> None:
        self.allowed = allowed
        self.files: list[Path] = []

    def merge(self, data: Any, file: Path, chain: tuple[Path, ...], path: keypath.Path) -> Any:
        if isinstance(data, list):
            return [self.merge(item, file, chain, (*path, index)) for index, item in enumerate(data)]
        if not isinstance(data, dict):
            return data
        own = {key: self.merge(value, file, chain, (*path, key)) for key, value in data.items() if key != KEY}
        if KEY not in data:
            return own
        named = data[KEY]
        names = named if isinstance(named, list) else [named]
        if not names or not all(isinstance(name, str) for name in names):
            raise _error(path, file, "expected a file name or a list of file names")
        merged: dict[str, Any] = {}
        for name in names:
            merged = overlay(merged, self.read(name, file, chain, path))
        return overlay(merged, own)

    def read(self, name: str, file: Path, chain: tuple[Path, ...], path: keypath.Path) -> dict[str, Any]:
        target = self.locate(name, file, path)
        if target in chain:
            raise _error(path, file, f"{name} includes itself: {' -> '.join(link.name for link in (*chain, target))}")
        if len(chain) > MAX_DEPTH:
            raise _error(path, file, f"{name} is included more than {MAX_DEPTH} levels deep")
        if len(self.files) >= MAX_FILES:
            raise _error(path, file, f"more than {MAX_FILES} files are included")
        self.files.append(target)
        found = read_regular(target, MAX_BYTES)
        if found is None:
            raise _error(path, file, f"there is no file {name}")
        inner = parse(decode(found, str(target)), str(target))
        merged = self.merge(inner, target, (*chain, target), path)
        assert isinstance(merged, dict)
        return merged

    def locate(self, name: str, file: Path, path: keypath.Path) -> Path:
        if not name or "\0" in name or len(name) >= MAX_PATH:
            raise _error(path, file, "the name of an included file must be 1 to 4095 characters without NUL")
        try:
            target = (file.parent / name).resolve()
        except (OSError, RuntimeError):
            raise _error(path, file, f"{name} cannot be followed: it is a circle of symbolic links") from None
        if not any(target.is_relative_to(root) for root in self.allowed):
            raise _error(
                path,
                file,
                f"{name} is outside the configuration directory: move it there, or add its directory to"
                " OPENCLAW_INCLUDE_ROOTS",
            )
        return target


def overlay(below: Any, above: Any) -> Any:
    """Objects merge, everything else is replaced by what comes later."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    merged = dict(below)
    for key, value in above.items():
        merged[key] = overlay(merged[key], value) if key in merged else value
    return merged


def _error(path: keypath.Path, file: Path, message: str) -> ConfigError:
    where = keypath.show((*path, KEY))
    return ConfigError(f"{where} in {file}: {message}", path=where, file=str(file))
