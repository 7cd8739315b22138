"""Choosing another conversation: type to find, arrows and Enter to go."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from openclaw.cli.output import ago, dollars, tokens
from openclaw.cli.tui.words import one_line


class Switcher(ModalScreen[str]):
    """Ends with the key of the chosen conversation, or an empty string."""

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
        match event.key:
            case "up":
                self._list.action_cursor_up()
            case "down":
                self._list.action_cursor_down()
            case "pageup":
                self._list.action_page_up()  # type: ignore[no-untyped-call]
            case "pagedown":
                self._list.action_page_down()  # type: ignore[no-untyped-call]
            case _:
                return
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
