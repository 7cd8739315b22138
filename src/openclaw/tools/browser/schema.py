"""The parameters of the `browser` tool, and the messages to its worker: how to start, and one action."""

from typing import Annotated, Any, Literal

from msgspec import Struct

from openclaw.core.tool import param, properties_of
from openclaw.tools.settings import BrowserSettings

ACTIONS = (
    "doctor status start stop profiles importprofile tabs open focus close snapshot screenshot navigate console "
    "requests errors text emulate pdf download waitfordownload upload dialog act"
).split()
STEP_MS = 10_000.0
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


class BrowserAction(Struct, frozen=True, rename="camel"):
    """One action, as the model requests it."""

    kind: Annotated[str, param("act: what to do", enum=KINDS)]
    target_id: Annotated[str | None, param("The tab; the current one when absent")] = None
    ref: Annotated[str | None, param("An element, as the last snapshot called it (e12)")] = None
    actions: Annotated[tuple[dict[str, Any], ...], param("batch: several acts", items=_OPEN)] = ()
    stop_on_error: Annotated[bool, param("batch: stop at the first failure (default true)")] = True
    double_click: Annotated[bool, param("click: twice")] = False
    button: Annotated[str, param("click: left, right or middle")] = "left"
    modifiers: Annotated[tuple[str, ...], param("click: keys held down")] = ()
    x: Annotated[float | None, param("clickCoords")] = None
    y: Annotated[float | None, param("clickCoords")] = None
    text: Annotated[str | None, param("type: what; wait: until it is seen")] = None
    submit: Annotated[bool, param("type: press Enter afterwards")] = False
    slowly: Annotated[bool, param("type: key by key")] = False
    key: Annotated[str | None, param("press: Enter, Escape, Control+a")] = None
    delay_ms: Annotated[int | None, param("Between keys or while pressed", minimum=0)] = None
    start_ref: Annotated[str | None, param("drag: from")] = None
    end_ref: Annotated[str | None, param("drag: to")] = None
    values: Annotated[tuple[str, ...], param("select: options")] = ()
    fields: Annotated[tuple[dict[str, Any], ...], param("fill: [{ref, value}]", items=_OPEN)] = ()
    width: Annotated[int | None, param("resize", minimum=1, maximum=8192)] = None
    height: Annotated[int | None, param("resize", minimum=1, maximum=8192)] = None
    time_ms: Annotated[int | None, param("wait: so long", minimum=0)] = None
    selector: Annotated[str | None, param("A CSS selector instead of ref")] = None
    url: Annotated[str | None, param("open, navigate: address; wait: until the tab is there")] = None
    load_state: Annotated[
        Literal["load", "domcontentloaded", "networkidle"] | None,
        param("wait: load, domcontentloaded or networkidle", enum=None),
    ] = None
    text_gone: Annotated[str | None, param("wait: until it is not seen any more")] = None
    timeout_ms: Annotated[float | None, param("Longest wait", type="integer", minimum=1)] = None
    fn: Annotated[str | None, param("evaluate: a JavaScript function, run in the page")] = None

    @property
    def timeout(self) -> float:
        return self.timeout_ms or STEP_MS


ACT = properties_of(BrowserAction)

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
    settings: BrowserSettings
