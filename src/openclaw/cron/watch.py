"""Watches: what has to change before a model is asked. A look costs no token. Pure.

Each look gives a short fingerprint; a job or heartbeat goes on when one differs from what was seen last.
"""

import hashlib
from typing import Annotated

from msgspec import Meta, Struct


class _Kind(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="kind"):
    pass


class FileWatch(_Kind, frozen=True, kw_only=True, tag="file"):
    """A file or folder changed, came or went. Relative paths are in the workspace."""

    path: Annotated[str, Meta(min_length=1)]


class CommandWatch(_Kind, frozen=True, kw_only=True, tag="command"):
    """A program's exit code or output changed."""

    argv: Annotated[tuple[str, ...], Meta(min_length=1)]
    timeout_seconds: Annotated[float, Meta(gt=0, le=300)] = 30.0


class HttpWatch(_Kind, frozen=True, kw_only=True, tag="http"):
    """The status or the content of an address changed."""

    url: Annotated[str, Meta(pattern="^https?://")]


class SilenceWatch(_Kind, frozen=True, kw_only=True, tag="silence"):
    """Nobody has written in the main conversation for this long."""

    longer_than_ms: Annotated[int, Meta(ge=60_000)]


Watch = FileWatch | CommandWatch | HttpWatch | SilenceWatch


class Look(Struct, frozen=True, kw_only=True):
    """What a watch saw."""

    name: str
    mark: str
    """The fingerprint; empty when there is nothing to see."""
    says: str
    """The same for a reader."""


def name_of(watch: Watch) -> str:
    match watch:
        case FileWatch():
            return f"file {watch.path}"
        case CommandWatch():
            return f"command {' '.join(watch.argv)}"
        case HttpWatch():
            return f"address {watch.url}"
        case SilenceWatch():
            return f"silence for {watch.longer_than_ms // 60_000} min"


def mark(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


def changes(looks: list[Look], seen: dict[str, str]) -> list[Look]:
    """The looks that differ from what was seen. The first look at a thing is for comparison only."""
    return [look for look in looks if look.name in seen and look.mark and look.mark != seen[look.name]]
