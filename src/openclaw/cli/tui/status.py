"""The status line (model, session, cost, connection; pure), and the dialog that switches sessions."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from openclaw.cli.render import ago, dollars, tokens
from openclaw.cli.tui.text import one_line


class StatusLine(Struct, frozen=True, kw_only=True):
    """What the line shows."""

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


# The switcher.

LIST_KEYS = {"up": "cursor_up", "down": "cursor_down", "pageup": "page_up", "pagedown": "page_down"}
"""Keys that move in the list while the search field has the focus."""


class Switcher(ModalScreen[str]):
    """A dialog that returns the key of the chosen session, or an empty string."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c,ctrl+o", "leave", "Back", priority=True)]

    def __init__(self, sessions: Sequence[Mapping[str, Any]], current: str, now: float) -> None:
        super().__init__()
        self._sessions = sessions
        self._current = current
        self._now = now
        self._find = Input(placeholder="Find a conversation", compact=True)
        self._list = OptionList(markup=False, compact=True)

    def compose(self) -> ComposeResult:
        return [Vertical(self._find, self._list, id="switcher")]

    def on_mount(self) -> None:
        self._offer("")
        self._find.focus()

    def _offer(self, wanted: str) -> None:
        self._list.clear_options()
        for row in self._sessions:
            name, key = one_line(str(row.get("displayName", "")), 48), str(row.get("key"))
            if wanted.lower() in f"{name} {key}".lower():
                self._list.add_option(Option(self._line(row, name, key), id=key))
        if self._list.option_count:
            self._list.highlighted = 0

    def _line(self, row: Mapping[str, Any], name: str, key: str) -> Content:
        mark = "●" if row.get("hasActiveRun") else "›" if key == self._current else " "
        about = [
            f"{ago(int(row.get('updatedAt') or 0), self._now)} ago",
            f"{tokens(int(row.get('totalTokens') or 0))} tokens",
            dollars(row.get("estimatedCostUsd")),
        ]
        shown = "" if name == key else f"  {one_line(key, 40)}"
        return Content(f"{mark} {name}") + Content.styled(f"  {', '.join(filter(None, about))}{shown}", "dim")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._offer(event.value)

    def on_key(self, event: events.Key) -> None:
        if action := LIST_KEYS.get(event.key):
            getattr(self._list, f"action_{action}")()
            event.stop()
            event.prevent_default()

    def on_input_submitted(self) -> None:
        option = self._list.highlighted_option
        if option is not None:
            self.dismiss(option.id or "")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id or "")

    def action_leave(self) -> None:
        self.dismiss("")
