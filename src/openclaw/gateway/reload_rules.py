"""What a change of the configuration means for a running gateway: a decision over names of settings."""

from collections.abc import Iterable
from typing import Literal

from openclaw.config.keypath import parse

Kind = Literal["none", "hot", "restart"]

_ORDER: tuple[Kind, ...] = ("none", "hot", "restart")
_HOT = (
    "agents models auth bindings broadcast session messages tools skills logging ui tts talk hooks cron plugins"
    " channels acp browser memory commands security approvals env secrets mcp diagnostics budget record"
)
RULES: dict[tuple[str, ...], Kind] = {
    **{(section,): "hot" for section in _HOT.split()},
    ("$schema",): "none",
    ("meta",): "none",
    ("wizard",): "none",
    ("gateway",): "restart",
    ("gateway", "mode"): "none",
    ("plugins", "slots"): "restart",
    ("gateway", "reload"): "none",
    ("gateway", "remote"): "none",
    ("gateway", "auth", "token"): "hot",
    ("gateway", "auth", "password"): "hot",
    ("gateway", "auth", "trustedProxy"): "hot",
    ("gateway", "auth", "rateLimit"): "hot",
    ("gateway", "trustedProxies"): "hot",
    ("gateway", "controlUi"): "hot",
    ("gateway", "nodes"): "hot",
}
"""By the longest beginning of a path; a section that is not listed is none of ours, and needs nothing."""


def kind_of(path: str) -> Kind:
    """What a change at `path` needs."""
    parts = tuple(str(part) for part in parse(path)) if path not in ("", ".") else ()
    if parts[:1] == ("agents",) and "memorySearch" in parts:  # of all agents or of one; its index is open and watched
        return "restart"
    for length in range(len(parts), 0, -1):
        found = RULES.get(parts[:length])
        if found is not None:
            return found
    return "none" if parts else "restart"


def classify(changed: Iterable[str]) -> Kind:
    """What all the changes together need."""
    return max((kind_of(path) for path in changed), key=_ORDER.index, default="none")
