"""The parameters of the `browser` tool, and the start message of its worker."""

from typing import Any

from msgspec import Struct

ACTIONS = (
    "doctor status start stop profiles importprofile tabs open focus close snapshot screenshot navigate console "
    "requests errors text emulate pdf download waitfordownload upload dialog act"
).split()
KINDS = "batch click clickCoords type press hover scrollIntoView drag select fill resize wait evaluate close".split()


def _text(about: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": about, **more}


def _whole(about: str, **limits: int) -> dict[str, Any]:
    return {"type": "integer", "description": about, **limits}


def _yes(about: str) -> dict[str, Any]:
    return {"type": "boolean", "description": about}


def _list(about: str, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "description": about, "items": items}


_OPEN: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}

ACT: dict[str, Any] = {
    "kind": _text("act: what to do", enum=KINDS),
    "targetId": _text("The tab; the current one when absent"),
    "ref": _text("An element, as the last snapshot called it (e12)"),
    "actions": _list("batch: several acts", _OPEN),
    "stopOnError": _yes("batch: stop at the first failure (default true)"),
    "doubleClick": _yes("click: twice"),
    "button": _text("click: left, right or middle"),
    "modifiers": _list("click: keys held down", {"type": "string"}),
    "x": {"type": "number", "description": "clickCoords"},
    "y": {"type": "number", "description": "clickCoords"},
    "text": _text("type: what; wait: until it is seen"),
    "submit": _yes("type: press Enter afterwards"),
    "slowly": _yes("type: key by key"),
    "key": _text("press: Enter, Escape, Control+a"),
    "delayMs": _whole("Between keys or while pressed", minimum=0),
    "startRef": _text("drag: from"),
    "endRef": _text("drag: to"),
    "values": _list("select: options", {"type": "string"}),
    "fields": _list("fill: [{ref, value}]", _OPEN),
    "width": _whole("resize", minimum=1, maximum=8192),
    "height": _whole("resize", minimum=1, maximum=8192),
    "timeMs": _whole("wait: so long", minimum=0),
    "selector": _text("A CSS selector instead of ref"),
    "url": _text("open, navigate: address; wait: until the tab is there"),
    "loadState": _text("wait: load, domcontentloaded or networkidle"),
    "textGone": _text("wait: until it is not seen any more"),
    "timeoutMs": _whole("Longest wait", minimum=1),
    "fn": _text("evaluate: a JavaScript function, run in the page"),
}

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["action"],
    "properties": {
        "action": _text("What to do", enum=ACTIONS),
        "target": _text("Where the browser runs; only host is there", enum=["sandbox", "host", "node"]),
        "dashboard": _text("Not available", pattern="^[a-z0-9][a-z0-9._-]{0,63}$"),
        "node": _text("Not available"),
        "profile": _text("A browser of its own, with its own cookies (default openclaw)"),
        "browser": _text("importprofile"),
        "systemProfile": _text("importprofile"),
        "into": _text("importprofile"),
        "domains": _list("importprofile", {"type": "string"}),
        "targetUrl": _text("open, navigate: the address"),
        "label": _text("open: a name for the tab"),
        "limit": _whole("console, requests, errors: most lines", minimum=1),
        "maxChars": _whole("snapshot, text: most characters", minimum=0),
        "mode": _text("snapshot: only what can be used, short", enum=["efficient"]),
        "snapshotFormat": _text("snapshot: ai has refs, aria has not", enum=["aria", "ai"]),
        "refs": _text("snapshot: how elements are named; aria only", enum=["role", "aria"]),
        "interactive": _yes("snapshot: only what can be used"),
        "compact": _yes("snapshot: the same as interactive"),
        "depth": _whole("snapshot: how deep", minimum=0),
        "frame": _text("snapshot: a selector of a frame"),
        "labels": _yes("Not available"),
        "urls": _yes("snapshot: addresses are always shown"),
        "fullPage": _yes("screenshot: the whole page"),
        "path": _text("screenshot, pdf: a file name; it goes to the downloads"),
        "element": _text("screenshot, upload: a selector"),
        "type": _text("screenshot", enum=["png", "jpeg"]),
        "level": _text("console: log, warning, error"),
        "filter": _text("requests: part of the address"),
        "clear": _yes("console, requests, errors: forget them"),
        "query": _text("text: only paragraphs with these words"),
        "device": _text("emulate: not available"),
        "colorScheme": _text("emulate", enum=["dark", "light", "no-preference", "none"]),
        "timezoneId": _text("emulate: not available"),
        "locale": _text("emulate: not available"),
        "paths": _list("upload: files of the workspace", {"type": "string"}),
        "inputRef": _text("upload: the field"),
        "dialogId": _text("Not needed: the next question is meant"),
        "accept": _yes("dialog: the answer to the page's next question"),
        "promptText": _text("dialog: what to type into it"),
        **ACT,
        "request": {
            "type": "object",
            "description": "act: the same parameters in an object",
            "required": ["kind"],
            "properties": ACT,
        },
    },
}


class BrowserStart(Struct, frozen=True, kw_only=True):
    executable: str
    profile: str
    """The directory of the browser profile (cookies and so on)."""
    downloads: str
    """The only directory it writes files to."""
    headless: bool = True
    no_sandbox: bool = False
    evaluate: bool = True
    args: tuple[str, ...] = ()
    allow_private: bool = False
    allowed_hosts: tuple[str, ...] = ()
    blocked_hosts: tuple[str, ...] = ()
