"""The conversation on the screen: one widget for each item, changed where the item changed."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from openclaw.cli.tui.markdown import Drawn, pieces
from openclaw.cli.tui.view import Item, TextItem, ToolCard
from openclaw.cli.tui.words import last_lines

LIVE_LINES = 5
OPEN_LINES = 60
MARKS = {"running": "…", "done": "✓", "failed": "✗"}


class AnswerRow(Vertical):
    """What the assistant says: Markdown that grows, its thinking folded above."""

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
        wanted = pieces(item.text) if item.text else []
        for place, text in enumerate(wanted):
            if place >= len(self._parts):
                self._parts.append(Static(Drawn(text)))
                await self.mount(self._parts[place])
            elif self._drawn[place] != text:
                self._parts[place].update(Drawn(text))
        for part in self._parts[len(wanted) :]:
            await part.remove()
        self._parts, self._drawn = self._parts[: len(wanted)], wanted
        self._thought.display = bool(item.thinking)
        if item.thinking:
            words = len(item.thinking.split())
            self._thought.update(Content(item.thinking if details else f"thought {words} words (Ctrl+T shows them)"))


class LineRow(Static):
    """A message of a person, the gateway's own words, a problem."""

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
    """A tool at work: one line, and what it prints while it runs or when details are wanted."""

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
    """The scrolling part; stays at the end until somebody scrolls up."""

    def __init__(self) -> None:
        super().__init__(id="rows", can_focus=False)
        self._shown: dict[str, Row] = {}

    async def show(self, items: Sequence[Item], details: bool) -> None:
        """Makes the screen say what `items` say."""
        wanted = {item.key: item for item in items}
        gone = [row for key, row in self._shown.items() if key not in wanted or not _fits(row, wanted[key])]
        for row in gone:
            del self._shown[row.item.key]
        if gone:
            await self.remove_children(gone)
        for place, (key, item) in enumerate(wanted.items()):
            if key not in self._shown:
                self._shown[key] = _row(item, details)
                await self.mount(self._shown[key], before=place if place < len(self.children) else None)
            row = self._shown[key]
            if self.children[place] is not row:
                self.move_child(row, before=place)
            await row.show(item, details)  # type: ignore[arg-type]


def _row(item: Item, details: bool) -> Row:
    if isinstance(item, ToolCard):
        return CardRow(item, details)
    return AnswerRow(item, details) if item.who == "assistant" else LineRow(item, details)


def _fits(row: Row, item: Item) -> bool:
    if isinstance(item, ToolCard):
        return isinstance(row, CardRow)
    return isinstance(row, AnswerRow) if item.who == "assistant" else isinstance(row, LineRow)
