"""The status line (model, session, cost, connection; pure), and the dialog to choose sessions and models."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
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


class PickerRow(Struct, frozen=True):
    """Something to choose: its key, what it is called, and what is said about it quietly."""

    key: str
    name: str
    about: str = ""


def conversation_rows(sessions: Sequence[Mapping[str, Any]], current: str, now: float) -> list[PickerRow]:
    """Conversations to choose from."""
    rows = []
    for row in sessions:
        name, key = one_line(str(row.get("displayName", "")), 48), str(row.get("key"))
        mark = "●" if row.get("hasActiveRun") else "›" if key == current else " "
        about = [
            f"{ago(int(row.get('updatedAt') or 0), now)} ago",
            f"{tokens(int(row.get('totalTokens') or 0))} tokens",
            dollars(row.get("estimatedCostUsd")),
        ]
        rows.append(PickerRow(key, f"{mark} {name}", ", ".join(filter(None, about))))
    return rows


def model_rows(models: Sequence[Mapping[str, Any]], current: str) -> list[PickerRow]:
    """Models to choose from."""
    rows = []
    for model in models:
        ref = f"{model.get('provider')}/{model.get('id')}"
        about = f"{tokens(int(model.get('contextWindow') or 0))} tokens, reads {'+'.join(model.get('input') or ())}"
        rows.append(PickerRow(ref, f"{'›' if ref == current else ' '} {one_line(ref, 60)}", about))
    return rows


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
    key = one_line(now.session_key.removeprefix("agent:").removesuffix(":main"), 30)
    given = now.info.get("label") or ("" if now.info.get("isMain") else now.info.get("displayName"))
    name = one_line(str(given or ""), 30)
    window = int(now.info.get("contextTokens") or now.defaults.get("contextTokens") or 0)
    used = int(now.info.get("totalTokens") or 0)
    return [
        f"{now.waiting} waiting" if now.waiting else "",
        f"{now.images} image{'s' if now.images > 1 else ''} attached" if now.images else "",
        f"{now.questions_elsewhere} question(s) in other conversations" if now.questions_elsewhere else "",
        one_line(model, 40),
        name or key,
        f"{tokens(used)}/{tokens(window)} tokens" if window else "",
        dollars(now.info.get("estimatedCostUsd")),
    ]


# The dialog that lets a person choose.

LIST_KEYS = {"up": "cursor_up", "down": "cursor_down", "pageup": "page_up", "pagedown": "page_down"}
"""Keys that move in the list while the search field has the focus."""


Search = Callable[[str], Awaitable[Sequence[PickerRow]]]


class Picker(ModalScreen[str]):
    """A dialog that returns the key of the chosen row, or an empty string; typing narrows the rows, or searches."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c,ctrl+o,f2,f3", "leave", "Back", priority=True),
    ]

    def __init__(self, title: str, rows: Sequence[PickerRow] = (), search: Search | None = None) -> None:
        super().__init__()
        self._rows = rows
        self._search = search
        self._find = Input(placeholder=title, compact=True)
        self._list = OptionList(markup=False, compact=True)

    def compose(self) -> ComposeResult:
        return [Vertical(self._find, self._list, id="switcher")]

    def on_mount(self) -> None:
        self._offer(self._rows)
        self._find.focus()

    def _offer(self, rows: Sequence[PickerRow]) -> None:
        self._list.clear_options()
        for row in rows:
            shown = Content(row.name) + Content.styled(f"  {row.about}", "dim")
            self._list.add_option(Option(shown, id=row.key))
        if self._list.option_count:
            self._list.highlighted = 0

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._search is not None:
            self.run_worker(self._look_for(self._search, event.value), name="search", exclusive=True)
            return
        wanted = event.value.lower()
        self._offer([row for row in self._rows if wanted in f"{row.name} {row.about} {row.key}".lower()])

    async def _look_for(self, search: Search, text: str) -> None:
        self._offer(await search(text) if text.strip() else ())

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
