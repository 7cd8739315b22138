"""The line at the bottom: who answers, in which conversation, at what cost, over which connection. Pure."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from openclaw.cli.output import dollars, tokens
from openclaw.cli.tui.words import one_line


class StatusLine(Struct, frozen=True, kw_only=True):
    """What the line tells about."""

    connection: str
    trouble: str = ""
    info: Mapping[str, Any]
    defaults: Mapping[str, Any]
    session_key: str
    running: bool = False
    seconds: int = 0
    note: str = ""
    waiting: int = 0
    images: int = 0
    questions_elsewhere: int = 0


def line(situation: StatusLine, width: int) -> str:
    """As much as fits, the most important first."""
    parts = [part for part in (_activity(situation), *_facts(situation)) if part]
    shown = ""
    for part in parts:
        longer = f"{shown} · {part}" if shown else part
        if len(longer) > width:
            break
        shown = longer
    return shown or (parts[0][: max(0, width - 1)] + "…" if parts else "")


def _activity(now: StatusLine) -> str:
    if now.connection == "refused":
        return f"not connected: {one_line(now.trouble)}"
    if now.connection == "pairing":
        return "waits to be approved there: openclaw devices approve"
    if now.connection != "connected":
        return "connecting" if now.connection == "connecting" else "the gateway is away, trying again"
    if now.running:
        return f"answering {now.seconds} s" + (f" ({now.note})" if now.note else "")
    return "ready"


def _facts(now: StatusLine) -> list[str]:
    chosen = now.info if now.info.get("model") else now.defaults
    model = f"{chosen.get('modelProvider')}/{chosen.get('model')}" if chosen.get("model") else ""
    name = one_line(str(now.info.get("label") or ""), 30)
    window = int(now.info.get("contextTokens") or now.defaults.get("contextTokens") or 0)
    used = int(now.info.get("totalTokens") or 0)
    return [
        f"{now.waiting} waiting" if now.waiting else "",
        f"{now.images} image{'s' if now.images > 1 else ''} attached" if now.images else "",
        f"{now.questions_elsewhere} question(s) in other conversations" if now.questions_elsewhere else "",
        one_line(model, 40),
        one_line(now.session_key.removeprefix("agent:"), 30),
        f"{tokens(used)}/{tokens(window)} tokens" if window else "",
        dollars(now.info.get("estimatedCostUsd")),
        name,
    ]
