"""Where messages are written: several lines, earlier messages, completion of commands, pictures by their path."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from openclaw.cli.tui.completion import CompletionChoice, completions
from openclaw.cli.tui.images import dropped

MOST_CHOICES = 6


class CompletionList(Static):
    """The commands that fit what is typed, one of them chosen."""

    def __init__(self) -> None:
        super().__init__(id="completions", markup=False)
        self.choices: tuple[CompletionChoice, ...] = ()
        self._at = 0
        self.display = False

    @property
    def chosen(self) -> CompletionChoice | None:
        return self.choices[self._at] if self.choices else None

    def offer(self, choices: tuple[CompletionChoice, ...]) -> None:
        if choices != self.choices:
            self.choices, self._at = choices, 0
        self.display = bool(choices)
        first = max(0, min(self._at - MOST_CHOICES // 2, len(choices) - MOST_CHOICES))
        lines = [
            Content.styled(f" /{each.name}", "reverse" if place == self._at else "bold") + Content(f"  {each.about}")
            for place, each in enumerate(choices)
            if first <= place < first + MOST_CHOICES
        ]
        self.update(Content("\n").join(lines))

    def move(self, steps: int) -> None:
        if self.choices:
            self._at = (self._at + steps) % len(self.choices)
            self.offer(self.choices)


class Composer(TextArea):
    """The box at the bottom."""

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Dropped(Message):
        """Paths of pictures were pasted."""

        def __init__(self, paths: tuple[Path, ...]) -> None:
            super().__init__()
            self.paths = paths

    def __init__(self, list_: CompletionList, cwd: Path) -> None:
        super().__init__(
            id="composer", compact=True, highlight_cursor_line=False, placeholder="Write a message; / for commands"
        )
        self.commands: Sequence[Mapping[str, Any]] = ()
        self.earlier: list[str] = []
        self._list = list_
        self._cwd = cwd
        self._back = 0
        """How far back in the history we are; 0 is what is being written."""
        self._draft = ""

    def on_text_area_changed(self) -> None:
        self._list.offer(completions(self.text, self.commands))

    def put(self, text: str) -> None:
        self.text = text
        self.move_cursor(self.document.end)

    async def _on_key(self, event: events.Key) -> None:
        # Keys can come faster than the news of a change.
        if event.key in ("enter", "tab", "up", "down") and self._list.choices:
            self._list.offer(completions(self.text, self.commands))
        match event.key:
            case "enter":
                self._enter()
            case "ctrl+j" | "shift+enter" | "alt+enter":
                self.insert("\n")
            case "tab" if self._list.choices:
                self._complete()
            case "up" if self._list.choices:
                self._list.move(-1)
            case "down" if self._list.choices:
                self._list.move(1)
            case "up" if self.cursor_at_first_line and self._recall(1):
                pass
            case "down" if self.cursor_at_last_line and self._recall(-1):
                pass
            case _:
                return
        event.stop()
        event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        paths = dropped(event.text, self._cwd)
        if paths:
            event.stop()
            event.prevent_default()
            self.post_message(self.Dropped(paths))

    def _enter(self) -> None:
        chosen = self._list.chosen
        if chosen is not None and self.text.strip() not in {f"/{each.name}" for each in self._list.choices}:
            self._complete()
            if chosen.takes_more:
                return
        text = self.text.strip()
        if text and (not self.earlier or self.earlier[-1] != text):
            self.earlier.append(text)
        self._back = 0
        self.put("")
        self.post_message(self.Submitted(text))

    def _complete(self) -> None:
        if chosen := self._list.chosen:
            self.put(f"/{chosen.name}{' ' if chosen.takes_more else ''}")
            self._list.offer(())

    def _recall(self, steps: int) -> bool:
        """An earlier message to send again or to change; whether there is one."""
        back = self._back + steps
        if not 0 <= back <= len(self.earlier):
            return False
        if self._back == 0:
            self._draft = self.text
        self._back = back
        self.put(self.earlier[-back] if back else self._draft)
        self._list.offer(())
        return True
