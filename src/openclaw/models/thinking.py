"""Thinking levels: parses them, lists what a model supports, and chooses the level of a turn. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import cast, get_args

from openclaw.core.errors import InvalidRequest
from openclaw.core.provider import Model, ThinkingLevel

LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
"""Lowest first; `adaptive`, which leaves the choice to the model, has no rank."""

_ALIASES: Mapping[str, ThinkingLevel] = {
    "none": "off",
    "on": "low",
    "enable": "low",
    "enabled": "low",
    "thinkhard": "low",
    "min": "minimal",
    "mid": "medium",
    "med": "medium",
    "thinkharder": "medium",
    "harder": "medium",
    "ultrathink": "high",
    "highest": "high",
    "extrahigh": "xhigh",
    "ultra": "max",
    "auto": "adaptive",
}
_CLEARING = frozenset({"default", "inherit", "clear", "reset", "unpin"})
_WORDS: frozenset[str] = frozenset(get_args(ThinkingLevel))


def parse(text: str) -> ThinkingLevel | None:
    """Parses a level; None when `text` clears an override."""
    word = re.sub(r"[\s_-]+", "", text).lower()
    if word in _CLEARING:
        return None
    if word in _ALIASES:
        return _ALIASES[word]
    if word in _WORDS:
        return cast(ThinkingLevel, word)
    raise InvalidRequest(f"{text.strip()[:40]!r} is not a thinking level: use {', '.join(LEVELS)} or adaptive")


def supported_levels(model: Model) -> tuple[ThinkingLevel, ...]:
    """The levels `model` supports: those of its effort map, else all (the adapter takes the nearest it has)."""
    if not model.reasoning:
        return ("off",)
    efforts = model.compat.reasoning_effort_map
    if efforts is None:
        return (*LEVELS, "adaptive")
    return ("off", *(level for level in (*LEVELS[1:], "adaptive") if level in efforts))


def clamp(level: ThinkingLevel, supported: Sequence[ThinkingLevel]) -> ThinkingLevel:
    """`level`, or the next lower one that is supported, or else the lowest."""
    if level in supported:
        return level
    rank = LEVELS.index("medium" if level == "adaptive" else level)
    lower = [other for other in supported if other in LEVELS and LEVELS.index(other) <= rank]
    return max(lower, key=LEVELS.index) if lower else supported[0]


def choose(model: Model, typed: ThinkingLevel | None, *stored: ThinkingLevel | None) -> ThinkingLevel:
    """The level of a turn: the first that is set, in this order.

    A level typed for this turn must be supported; a stored one is clamped to what is.
    """
    if typed is not None:
        supported = supported_levels(model)
        if typed not in supported:
            raise InvalidRequest(f"{model.ref} cannot think at {typed!r}: use {', '.join(supported)}")
        return typed
    if not model.reasoning:
        return "off"
    return clamp(next((level for level in stored if level is not None), "medium"), supported_levels(model))
