"""The full-screen chat: lays out the widgets and maps keys to actions."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from rich.theme import Theme
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from openclaw.cli.talk.message import shell_key_hint
from openclaw.cli.talk.screen import DECISIONS
from openclaw.cli.tui.composer import MOST_IMAGES, CompletionList, Composer, attachment
from openclaw.cli.tui.rows import ApprovalPrompt, Rows, TextItem
from openclaw.cli.tui.session import ChatSession
from openclaw.cli.tui.status import Picker, PickerRow, StatusLine, conversation_rows, line, model_rows
from openclaw.cli.tui.text import THEME, one_line, sanitize
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.version import __version__

STYLE = """
Screen { layout: vertical; }
#rows { height: 1fr; scrollbar-size-vertical: 1; padding: 0 1; }
#rows > * { height: auto; margin: 0 0 1 0; }
.you { border-left: thick ansi_cyan; padding: 0 0 0 1; }
.gateway { color: ansi_bright_black; padding: 0 0 0 2; }
.problem { color: ansi_red; padding: 0 0 0 2; }
.answer { padding: 0 0 0 2; }
.answer Static { height: auto; }
.thought { color: ansi_bright_black; text-style: italic; height: auto; }
.card { border-left: outer ansi_bright_black; padding: 0 0 0 1; }
.card.running { border-left: outer ansi_yellow; }
.card.failed { border-left: outer ansi_red; }
#question { height: auto; border: round ansi_yellow; padding: 0 1; }
#question .title { text-style: bold; color: ansi_yellow; }
#question #command { height: auto; max-height: 8; padding: 0 2; }
#question .about { color: ansi_bright_black; }
#question Horizontal { height: 1; }
#question Button { margin: 0 2 0 0; }
#question Button:focus { text-style: reverse; }
#completions { height: auto; padding: 0 1; }
#composer { height: auto; max-height: 6; border-top: solid ansi_bright_black; padding: 0 1; }
#composer:focus { border-top: solid ansi_blue; }
#status { height: 1; padding: 0 1; color: ansi_bright_black; }
#switcher { width: 90%; max-width: 100; height: auto; max-height: 80%; border: round ansi_blue; padding: 0 1; }
#switcher OptionList { height: auto; max-height: 60vh; border: none; }
Picker { align: center middle; }
"""
KEYS = """\
Enter sends, Ctrl+J begins a new line, Up and Down bring back earlier messages, Tab completes a command.
Esc or Ctrl+C stops an answer. Ctrl+C twice, Ctrl+D or /exit leaves; the gateway goes on.
Page Up and Page Down scroll; Ctrl+End goes to the end.
Ctrl+O chooses another conversation, Ctrl+N begins one. F2 chooses the model, F3 searches all conversations.
Ctrl+T shows thinking and what tools did, Ctrl+Y copies the last answer.
A question about a command: type y (once), a (always) or n (no) and Enter, or go to the buttons with Tab.
Drop or paste the path of a picture to send it along, or write /image PATH.
What you write while an answer is on its way joins its next step."""


def welcome(address: str, *, offline: bool) -> str:
    """The text of an empty conversation."""
    lines = [
        f"OpenClaw {__version__}. Write a message and press Enter. F1 shows the keys.",
        f"In a browser: openclaw dashboard ({address.replace('ws', 'http', 1)}).",
    ]
    if offline:
        lines.append("No model is set up yet: `openclaw models auth` in another terminal asks for a key and tries it.")
        if hint := shell_key_hint():
            lines.append(hint)
    return "\n".join(lines)


OWN_COMMANDS = {
    "/exit": "leave_if_empty",
    "/quit": "leave_if_empty",
    "/details": "details",
    "/copy": "copy",
    "/keys": "keys",
    "/sessions": "switch",
    "/begin": "begin",
}
"""What is answered here, by the action that does it."""
PAINT_SECONDS = 0.06
LEAVE_SECONDS = 3.0


class ChatApp(App[int]):
    """The chat of one gateway connection."""

    CSS = STYLE
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", priority=True),
        Binding("ctrl+c", "stop_or_leave", priority=True),
        Binding("ctrl+d", "leave_if_empty", priority=True),
        Binding("ctrl+o", "switch", priority=True),
        Binding("ctrl+n", "begin", priority=True),
        Binding("ctrl+t", "details", priority=True),
        Binding("ctrl+y", "copy", priority=True),
        Binding("pageup", "older", priority=True),
        Binding("pagedown", "newer", priority=True),
        Binding("ctrl+end", "latest", priority=True),
        Binding("f1", "keys", priority=True),
        Binding("f2", "pick_model", priority=True),
        Binding("f3", "search", priority=True),
    ]

    def __init__(self, session: ChatSession, clock: Clock, cwd: Path) -> None:
        super().__init__(ansi_color=True)
        self.session = session
        self._clock = clock
        self._cwd = cwd
        self._details = False
        self._images: list[Mapping[str, Any]] = []
        self._rows = Rows()
        self._question = ApprovalPrompt()
        self._completions = CompletionList()
        self._composer = Composer(self._completions, cwd)
        self._status = Static(id="status", markup=False)
        self._run_since = ("", 0.0)
        self._seen_key = ""
        self._wants_out = 0.0
        self._notes = 0

    def compose(self) -> ComposeResult:
        return [self._rows, self._question, self._completions, self._composer, self._status]

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self.console.push_theme(Theme(THEME))
        self._rows.anchor()
        self._composer.focus()
        self.run_worker(self.session.keep(), name="gateway")
        self.run_worker(self._paint(), name="screen")
        self.set_interval(1.0, self._update_status)
        if sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, 0)

    # Drawing.

    async def _paint(self) -> None:
        """Redraws what changed, a few times a second at most."""
        while True:
            await self.session.changed.wait()
            self.session.changed.clear()
            began = self._clock.now()
            await self._draw()
            # A long answer takes longer to draw; most of the time is left to the keys.
            await self._clock.sleep(max(PAINT_SECONDS, 2 * (self._clock.now() - began)))

    async def _draw(self) -> None:
        session, talk = self.session, self.session.talk
        if talk.running != self._run_since[0]:
            self._run_since = (talk.running, self._clock.now())
        if talk.key != self._seen_key:
            self._seen_key = talk.key
            self._composer.earlier = talk.asked
            self._rows.anchor()
        if self._rows.is_vertical_scroll_end:
            talk.trim()
        items = talk.items()
        if not items and session.connection == "connected":
            offline = session.defaults.get("modelProvider") == "offline"
            items = [TextItem(key="welcome", who="gateway", text=welcome(session.address, offline=offline))]
        await self._rows.show(items, self._details)
        self._question.ask([each for each in session.questions if _session_of(each) == talk.key])
        self._composer.commands = session.commands
        self._update_status()

    def _update_status(self) -> None:
        session, talk = self.session, self.session.talk
        run, since = self._run_since
        situation = StatusLine(
            connection=session.connection,
            trouble=session.trouble,
            info=session.info,
            defaults=session.defaults,
            session_key=talk.key,
            running=bool(run),
            seconds=int(self._clock.now() - since),
            note=talk.note,
            waiting=sum(not each.problem for each in talk.pending) if run or session.connection != "connected" else 0,
            images=len(self._images),
            questions_elsewhere=sum(_session_of(each) != talk.key for each in session.questions),
        )
        self._status.update(line(situation, max(20, self.size.width - 2)))

    def on_resize(self) -> None:
        self._update_status()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disables the chat's keys while a dialog is open."""
        return len(self.screen_stack) == 1 or not hasattr(ChatApp, f"action_{action}") or action == "quit"

    async def action_stop(self) -> None:
        if self._completions.choices:
            self._completions.offer(())
        elif self.focused is not self._composer:
            self._composer.focus()
        elif self.session.talk.running:
            await self._try(self.session.stop())

    async def action_stop_or_leave(self) -> None:
        now = self._clock.now()
        if self.session.talk.running:
            await self._try(self.session.stop())
        elif self._composer.text:
            self._composer.put("")
        elif now - self._wants_out < LEAVE_SECONDS:
            self.exit(0)
        else:
            self._wants_out = now
            self.notify("Ctrl+C again leaves (so does Ctrl+D).", timeout=LEAVE_SECONDS)

    def action_leave_if_empty(self) -> None:
        if self._composer.text:
            self._composer.action_delete_right()
        else:
            self.exit(0)

    async def action_switch(self) -> None:
        try:
            sessions = await self.session.listed()
        except OpenClawError as error:
            self._complain(error.message)
            return
        rows = conversation_rows(sessions, self.session.talk.key, self._clock.now())
        self.push_screen(Picker("Find a conversation", rows), self._switched)

    async def _switched(self, key: str | None) -> None:
        self._composer.focus()
        if key and key != self.session.talk.key:
            await self._try(self.session.switch(key))

    async def action_pick_model(self) -> None:
        try:
            models = await self.session.models()
        except OpenClawError as error:
            self._complain(error.message)
            return
        now = self.session.info if self.session.info.get("model") else self.session.defaults
        rows = model_rows(models, f"{now.get('modelProvider')}/{now.get('model')}")
        self.push_screen(Picker("Which model shall answer here?", rows), self._picked_model)

    async def _picked_model(self, ref: str | None) -> None:
        self._composer.focus()
        if ref:
            self.run_worker(self.session.send(f"/model {ref}"), name="message")

    def action_search(self) -> None:
        self.push_screen(Picker("Search what was said", search=self._search), self._switched)

    async def _search(self, text: str) -> list[PickerRow]:
        try:
            found = await self.session.search(text)
            names = {str(row.get("key")): str(row.get("displayName") or "") for row in await self.session.listed()}
        except OpenClawError as error:
            return [PickerRow("", one_line(error.message))]
        rows: dict[str, PickerRow] = {}  # the best of each conversation
        for each in found:
            key = str(each.get("sessionKey"))
            about = one_line(names.get(key) or key, 40)
            rows.setdefault(key, PickerRow(key, one_line(str(each.get("snippet", "")), 70), about))
        return list(rows.values()) or [PickerRow("", "Nothing was said about that.")]

    async def action_begin(self) -> None:
        await self._try(self.session.begin())

    def action_details(self) -> None:
        self._details = not self._details
        self.session.changed.set()

    def action_copy(self) -> None:
        answer = self.session.talk.last_answer
        if answer:
            self.copy_to_clipboard(sanitize(answer))
        self.notify("Copied, if your terminal allows it." if answer else "There is no answer to copy yet.")

    async def action_older(self) -> None:
        if self._rows.scroll_offset.y <= 0:
            await self._try(self.session.older())
        else:
            self._rows.scroll_page_up(animate=False)

    def action_newer(self) -> None:
        self._rows.scroll_page_down(animate=False)

    def action_latest(self) -> None:
        self._rows.anchor()

    def action_keys(self) -> None:
        self._notes += 1
        self.session.talk.note_locally(f"note:{self._notes}", KEYS)
        self._rows.anchor()
        self.session.changed.set()

    # Input.

    async def on_composer_submitted(self, event: Composer.Submitted) -> None:
        text = event.text
        if self._question.asked and DECISIONS.get(text.lower()) in self._question.decisions:
            await self._try(self.session.decide(self._question.asked, DECISIONS[text.lower()]))
            return
        word, _, rest = text.partition(" ")
        if word in OWN_COMMANDS:
            await self.run_action(OWN_COMMANDS[word])
        elif word == "/image":
            self._take_pictures((self._cwd / Path(rest.strip()).expanduser(),))
        elif text or self._images:
            images, self._images = tuple(self._images), []
            self._rows.anchor()
            # Waiting for the answer here would block the handling of keys.
            self.run_worker(self.session.send(text, images), name="message")

    def on_composer_dropped(self, event: Composer.Dropped) -> None:
        self._take_pictures(event.paths)

    def _take_pictures(self, paths: tuple[Path, ...]) -> None:
        for path in paths:
            try:
                if len(self._images) >= MOST_IMAGES:
                    raise InvalidRequest(f"at most {MOST_IMAGES} images go with one message")
                self._images.append(attachment(path))
            except InvalidRequest as error:
                self._complain(error.message)
        self._update_status()

    async def on_question_answered(self, event: ApprovalPrompt.Answered) -> None:
        self._composer.focus()
        await self._try(self.session.decide(event.question, event.decision))

    async def _try(self, work: Awaitable[object]) -> None:
        """Runs `work`; shows the error when it fails."""
        try:
            await work
        except OpenClawError as error:
            self._complain(error.message)

    def _complain(self, message: str) -> None:
        self.notify(one_line(message, 400), severity="error", markup=False)


def _session_of(question: Mapping[str, Any]) -> str:
    request = question.get("request")
    return str(request.get("sessionKey")) if isinstance(request, Mapping) else ""
