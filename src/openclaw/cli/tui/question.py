"""A command that needs a person's word: exactly as it would run, with three answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Button, Static

from openclaw.core.visible import spelled

WORDS = {
    "y": "allow-once",
    "yes": "allow-once",
    "a": "allow-always",
    "always": "allow-always",
    "n": "deny",
    "no": "deny",
    "d": "deny",
    "deny": "deny",
}
"""What can be typed instead of pressing a button."""
SHOWN_LINES = 8


class ApprovalPrompt(Vertical):
    """The oldest open question. It never takes the keyboard from somebody who is writing."""

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
        self.decisions = tuple(request.get("allowedDecisions") or WORDS.values())
        for button in self.query(Button):
            button.display = button.id in self.decisions
        command = spelled(str(request.get("command", "")))
        lines = command.count("\n") + 1
        more = f" ({lines} lines, {len(command):,} characters: Tab and ↓ read on)" if lines > SHOWN_LINES else ""
        waiting = f" {len(questions) - 1} more after this one." if len(questions) > 1 else ""
        self._title.update(f"May this command run?{more}{waiting}")
        self._command.update(command)
        why = spelled(str(request.get("warningText") or ""))
        self._about.update(f"in {spelled(str(request.get('cwd', '')))}{f' · {why}' if why else ''}")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if self.asked:
            self.post_message(self.Answered(self.asked, str(event.button.id)))
