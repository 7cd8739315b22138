"""The conversation on the screen: one widget per item, updated when the item changes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Static

from openclaw.cli.talk.screen import DECISIONS
from openclaw.cli.tui.text import (
    MarkdownPiece,
    last_lines,
    one_line,
    pretty,
    sanitize,
    split_markdown,
    summary_of,
    text_of,
)
from openclaw.core.text import spell_out_invisible
from openclaw.security.external import strip_enclosure

SHOWN_LINES = 8


# Approval.


class ApprovalPrompt(Vertical):
    """The oldest open approval request. It never takes the focus from somebody who is writing."""

    class Answered(Message):
        def __init__(self, question: str, decision: str) -> None:
            super().__init__()
            self.question = question
            self.decision = decision

    def __init__(self) -> None:
        super().__init__(id="question")
        self.asked = ""
        self.decisions: tuple[str, ...] = ()
        """The answers that mean something for the question that is shown."""
        self._title = Static(markup=False, classes="title")
        self._command = Static(markup=False)
        self._about = Static(markup=False, classes="about")
        self.display = False

    def compose(self) -> ComposeResult:
        buttons = (
            Button("Allow once (y)", id="allow-once", compact=True),
            Button("Always (a)", id="allow-always", compact=True),
            Button("Deny (n)", id="deny", compact=True),
        )
        return [self._title, VerticalScroll(self._command, id="command"), self._about, Horizontal(*buttons)]

    def ask(self, questions: Sequence[Mapping[str, Any]]) -> None:
        """Shows the first of `questions`, or nothing."""
        self.display = bool(questions)
        if not questions:
            self.asked = ""
            return
        first = questions[0]
        identity = str(first.get("id"))
        if identity == self.asked:
            return
        self.asked = identity
        request = first.get("request") or {}
        self.decisions = tuple(request.get("allowedDecisions") or DECISIONS.values())
        for button in self.query(Button):
            button.display = button.id in self.decisions
        command = spell_out_invisible(str(request.get("command", "")))
        lines = command.count("\n") + 1
        more = f" ({lines} lines, {len(command):,} characters: Tab and ↓ read on)" if lines > SHOWN_LINES else ""
        waiting = f" {len(questions) - 1} more after this one." if len(questions) > 1 else ""
        keys = [key for key in ("y", "a", "n") if DECISIONS[key] in self.decisions]
        answer = f" Type {', '.join(keys[:-1])} or {keys[-1]} and press Enter." if len(keys) > 1 else ""
        self._title.update(f"May this command run?{answer}{more}{waiting}")
        self._command.update(command)
        why = spell_out_invisible(str(request.get("warningText") or ""))
        self._about.update(f"in {spell_out_invisible(str(request.get('cwd', '')))}{f' · {why}' if why else ''}")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if self.asked:
            self.post_message(self.Answered(self.asked, str(event.button.id)))


# Items: what is shown, without widgets.

Who = Literal["you", "assistant", "gateway", "problem"]
State = Literal["running", "done", "failed"]


class TextItem(Struct, frozen=True, kw_only=True):
    """A text on the screen."""

    key: str
    who: Who
    text: str
    thinking: str = ""
    hint: str = ""


class ToolCard(Struct, frozen=True, kw_only=True):
    """A tool call on the screen."""

    key: str
    name: str
    summary: str
    arguments: str
    output: str = ""
    state: State = "running"


Item = TextItem | ToolCard


class ToolItem(Struct, frozen=True, kw_only=True):
    """What events said of a call that has no recorded result yet."""

    name: str = ""
    args: Any = None
    output: str = ""
    state: State = "running"


def message_items(key: str, message: Mapping[str, Any]) -> list[Item]:
    """The items of a recorded message; its calls are shown as cards."""
    role = message.get("role")
    if role == "toolResult":
        return []
    told = (message.get("__openclaw") or {}).get("notices") or ()
    notices = [TextItem(key=f"{key}:notice{n}", who="gateway", text=sanitize(str(text))) for n, text in enumerate(told)]
    if role != "assistant":
        who: Who = "you" if role == "user" else "gateway"
        return [TextItem(key=key, who=who, text=sanitize(text_of(message))), *notices]
    items: list[Item] = []
    text, thinking = text_of(message).strip("\n"), text_of(message, "thinking")
    if text.strip() or thinking.strip():
        items.append(TextItem(key=key, who="assistant", text=sanitize(text), thinking=sanitize(thinking)))
    if message.get("stopReason") == "aborted":
        items.append(TextItem(key=f"{key}:stopped", who="gateway", text="stopped"))
    elif error := message.get("errorMessage"):
        items.append(TextItem(key=f"{key}:error", who="problem", text=sanitize(str(error))))
    return [*items, *notices]


def card(
    call: str, name: str, arguments: Any, heard: ToolItem | None, result: Mapping[str, Any] | None, busy: bool
) -> ToolCard:
    """A call's card: from its recorded result if there is one, from events otherwise."""
    state: State = "running" if busy else "failed"
    output = ""
    if result is not None:
        # What surrounds text from elsewhere is meant for the model.
        state, output = ("failed" if result.get("isError") else "done"), strip_enclosure(text_of(result))
    elif heard is not None:
        state, output = heard.state, heard.output
    arguments = arguments if arguments is not None else heard.args if heard else None
    summary, shown = summary_of(arguments), pretty(arguments)
    name = one_line(name, 40)
    return ToolCard(key=f"call:{call}", name=name, summary=summary, arguments=shown, output=output, state=state)


# Widgets.

LIVE_LINES = 5
OPEN_LINES = 60
MARKS = {"running": "…", "done": "✓", "failed": "✗"}


class AnswerRow(Vertical):
    """An answer: Markdown that grows, its thinking folded above."""

    def __init__(self, item: TextItem, details: bool) -> None:
        super().__init__(classes="answer")
        self.item = item
        self._thought = Static(markup=False, classes="thought")
        self._drawn: list[str] = []
        self._parts: list[Static] = []
        self._details = details

    def compose(self) -> ComposeResult:
        return [self._thought]

    async def on_mount(self) -> None:
        await self.show(self.item, self._details)

    async def show(self, item: TextItem, details: bool) -> None:
        self.item = item
        wanted = split_markdown(item.text) if item.text else []
        for place, text in enumerate(wanted):
            if place >= len(self._parts):
                self._parts.append(Static(MarkdownPiece(text)))
                await self.mount(self._parts[place])
            elif self._drawn[place] != text:
                self._parts[place].update(MarkdownPiece(text))
        for part in self._parts[len(wanted) :]:
            await part.remove()
        self._parts, self._drawn = self._parts[: len(wanted)], wanted
        self._thought.display = bool(item.thinking)
        if item.thinking:
            words = len(item.thinking.split())
            self._thought.update(Content(item.thinking if details else f"thought {words} words (Ctrl+T shows them)"))


class LineRow(Static):
    """A person's message, a note of the gateway, or a problem."""

    def __init__(self, item: TextItem, details: bool) -> None:
        super().__init__(markup=False, classes=item.who)
        self.item = item
        self._say(item)

    async def show(self, item: TextItem, details: bool) -> None:
        if item != self.item:
            self.item = item
            self._say(item)

    def _say(self, item: TextItem) -> None:
        content = Content(item.text)
        self.update(content + Content.styled(f"\n{item.hint}", "dim italic") if item.hint else content)


class CardRow(Static):
    """A tool call: one line, with its output while it runs or when details are on."""

    def __init__(self, item: ToolCard, details: bool) -> None:
        super().__init__(markup=False, classes=f"card {item.state}")
        self.item = item
        self._details = details
        self._say()

    async def show(self, item: ToolCard, details: bool) -> None:
        if (item, details) != (self.item, self._details):
            self.item, self._details = item, details
            self.set_classes(f"card {item.state}")
            self._say()

    def on_click(self) -> None:
        self._details = not self._details
        self._say()

    def _say(self) -> None:
        item = self.item
        head = Content.styled(f"{MARKS[item.state]} {item.name}", "bold")
        parts = [head if self._details else head + Content(f"  {item.summary}")]
        if self._details and item.arguments:
            parts.append(Content.styled(item.arguments, "dim"))
        if item.output.strip() and (self._details or item.state != "done"):
            parts.append(Content(last_lines(item.output, OPEN_LINES if self._details else LIVE_LINES)))
        elif item.output.strip():
            count = item.output.strip().count("\n") + 1
            parts[0] += Content.styled(f"  {count} line{'s' if count > 1 else ''}", "dim")
        self.update(Content("\n").join(parts))


Row = AnswerRow | LineRow | CardRow


class Rows(VerticalScroll):
    """The scrolling list; stays at the end until somebody scrolls up."""

    def __init__(self) -> None:
        super().__init__(id="rows", can_focus=False)
        self._shown: dict[str, Row] = {}

    async def show(self, items: Sequence[Item], details: bool) -> None:
        """Updates the widgets to show `items`."""
        wanted = {item.key: item for item in items}
        gone = [row for key, row in self._shown.items() if key not in wanted or type(row) is not _kind(wanted[key])]
        for row in gone:
            del self._shown[row.item.key]
        if gone:
            await self.remove_children(gone)
        for place, (key, item) in enumerate(wanted.items()):
            if key not in self._shown:
                self._shown[key] = _kind(item)(item, details)  # type: ignore[arg-type]
                await self.mount(self._shown[key], before=place if place < len(self.children) else None)
            row = self._shown[key]
            if self.children[place] is not row:
                self.move_child(row, before=place)
            await row.show(item, details)  # type: ignore[arg-type]


def _kind(item: Item) -> type[Row]:
    if isinstance(item, ToolCard):
        return CardRow
    return AnswerRow if item.who == "assistant" else LineRow
