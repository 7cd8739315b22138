"""What a HOOK.md says of its hook: forgiving of spelling, strict about meaning. Pure.

The caller reads the front matter (it is the one of skills) and hands the plain values in.
"""

import re
from collections.abc import Mapping
from typing import Any

from openclaw.core.text import literal
from openclaw.hooks.internal.events import FAMILIES, NAMES, SILENT_HERE
from openclaw.hooks.internal.record import HookManifest, HookRequirements

MAX_NAME = 64
MAX_LINE = 500
MAX_ITEMS = 64

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_EXPORT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_BIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}\Z")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_SYSTEMS = {"macos": "darwin", "mac": "darwin", "windows": "win32", "win": "win32"}
_TRUE = frozenset({"true", "yes", "on", "1"})


class UnusableHook(ValueError):
    """The file describes no hook; the text says why."""


def parse(
    fields: Mapping[str, Any], ours: Mapping[str, Any], directory: str, notes: tuple[str, ...] = ()
) -> HookManifest:
    """The manifest in `fields`, of which `ours` is `metadata.openclaw`. Raises `Unusable`."""
    said = list(notes)
    name = _line(fields.get("name")) or directory
    if not _NAME.match(name):
        raise UnusableHook(f"the name {name[:MAX_NAME]!r} cannot be used: take letters, digits, '-', '_' and '.'")
    events = _words(ours.get("events"))
    if not events:
        raise UnusableHook("it names no events: add metadata.openclaw.events, for example [command:new]")
    said += [line for event in events if (line := _doubt(event))]
    requires = ours.get("requires")
    requires = requires if isinstance(requires, Mapping) else {}
    export = _line(ours.get("export")) or "handler"
    if export != "default" and not _EXPORT.match(export):
        raise UnusableHook(f"export {export[:MAX_NAME]!r} is not the name of a function")
    return HookManifest(
        name=name,
        description=_line(fields.get("description")),
        homepage=_line(fields.get("homepage") or ours.get("homepage")),
        emoji=_line(ours.get("emoji"))[:8],
        hook_key=_line(ours.get("hookKey"))[:MAX_NAME],
        events=events,
        export="handler" if export == "default" else export,
        os=tuple(_SYSTEMS.get(each.lower(), each.lower()) for each in _words(ours.get("os"))),
        always=_line(ours.get("always")).lower() in _TRUE,
        requires=HookRequirements(
            bins=_matching(requires.get("bins"), _BIN, "requires.bins", said),
            any_bins=_matching(requires.get("anyBins"), _BIN, "requires.anyBins", said),
            env=_matching(requires.get("env"), _ENV, "requires.env", said),
            config=_words(requires.get("config")),
        ),
        notes=tuple(said),
    )


def _doubt(event: str) -> str:
    """What a person should know about a name of an event."""
    if event in SILENT_HERE:
        return f"the event {event} never comes here: {SILENT_HERE[event]}"
    if event not in NAMES and event not in FAMILIES and not event.startswith("command:"):
        return f"there is no event {event[:60]!r}: it will never be told of it"
    return ""


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        items = [part.strip().strip("\"'") for part in value.strip().strip("[]").split(",")]
    elif isinstance(value, list):
        items = [_line(item) for item in value]
    else:
        items = []
    return tuple(dict.fromkeys(item for item in items if item))[:MAX_ITEMS]


def _matching(value: Any, shape: re.Pattern[str], what: str, notes: list[str]) -> tuple[str, ...]:
    found = _words(value)
    notes.extend(f"{what}: {item[:60]!r} is not a name and was left out" for item in found if not shape.match(item))
    return tuple(item for item in found if shape.match(item))


def _line(value: Any) -> str:
    """`value` as one line of harmless text; nothing for what is not text."""
    return " ".join(literal(" ".join(value.split())).split())[:MAX_LINE] if isinstance(value, str) else ""
