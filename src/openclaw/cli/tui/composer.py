"""The input: several lines, history, completion of commands, pictures by their path."""

import base64
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from openclaw.cli.tui.text import one_line
from openclaw.core.errors import InvalidRequest
from openclaw.tools.files import image_type


class CompletionChoice(Struct, frozen=True):
    """A command offered for completion."""

    name: str
    about: str
    takes_more: bool = False


OWN = (
    CompletionChoice("sessions", "choose another conversation (Ctrl+O)"),
    CompletionChoice("begin", "another conversation beside this one (Ctrl+N)"),
    CompletionChoice("image", "attach a picture: /image PATH", takes_more=True),
    CompletionChoice("details", "show or hide thinking and tool output (Ctrl+T)"),
    CompletionChoice("copy", "copy the last answer (Ctrl+Y)"),
    CompletionChoice("keys", "what the keys do (F1)"),
    CompletionChoice("exit", "leave (Ctrl+D)"),
)
_BEGUN = re.compile(r"/[\w:-]*")


def completions(text: str, commands: Sequence[Mapping[str, Any]]) -> tuple[CompletionChoice, ...]:
    """The commands that start with what is typed."""
    if _BEGUN.fullmatch(text) is None:
        return ()
    known = {choice.name: choice for choice in OWN}
    for each in commands:
        name = one_line(str(each.get("name", "")), 60)
        about = one_line(str(each.get("description", "")), 80)
        known[name] = CompletionChoice(name, about, bool(each.get("acceptsArgs")))
    fitting = [known[name] for name in sorted(known) if f"/{name}".startswith(text.lower())]
    return () if [each.name for each in fitting] == [text[1:]] else tuple(fitting)


# Pictures.

MOST_BYTES = 5 * 1024 * 1024
MOST_IMAGES = 8
_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def pasted_images(text: str, cwd: Path) -> tuple[Path, ...]:
    """The pictures in a pasted text that consists only of their paths; empty otherwise."""
    text = text.strip()
    if not text or len(text) > 8_000 or not any(suffix in text.lower() for suffix in _SUFFIXES):
        return ()
    whole = _as_path(text, cwd)
    if whole is not None:
        return (whole,)
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    paths = [_as_path(word, cwd) for word in words]
    return tuple(path for path in paths if path is not None) if all(paths) else ()


def _as_path(text: str, cwd: Path) -> Path | None:
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    if not text.lower().endswith(_SUFFIXES) or "\n" in text or "\0" in text:
        return None
    path = cwd / Path(text).expanduser()
    try:
        return path if path.is_file() else None
    except OSError:
        return None


def attachment(path: Path) -> Mapping[str, str]:
    """A picture as an attachment for the gateway; raises with what is wrong with it."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            limit = f"at most {MOST_BYTES:,} are accepted: make it smaller"
            raise InvalidRequest(f"{path.name} has {size:,} bytes; {limit}")
        data = path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    kind = image_type(data)
    if kind in (None, "image/bmp"):
        raise InvalidRequest(f"{path.name} is not a PNG, JPEG, GIF or WebP image")
    return {"mimeType": str(kind), "fileName": path.name, "content": base64.b64encode(data).decode()}


# Widgets.

MOST_CHOICES = 6


class CompletionList(Static):
    """The matching commands, one of them selected."""

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
    """The input at the bottom."""

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
        # Keys can arrive before the change event of the previous one.
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
        paths = pasted_images(event.text, self._cwd)
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
        """Recalls an earlier message for editing; whether there is one."""
        back = self._back + steps
        if not 0 <= back <= len(self.earlier):
            return False
        if self._back == 0:
            self._draft = self.text
        self._back = back
        self.put(self.earlier[-back] if back else self._draft)
        self._list.offer(())
        return True
