"""The terminal chat: lays the parts out, and turns keys into what a person means."""

import signal
import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from rich.theme import Theme
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from openclaw.cli.tui.composer import CompletionList, Composer
from openclaw.cli.tui.images import MOST_IMAGES, attachment
from openclaw.cli.tui.look import KEYS, STYLE, welcome
from openclaw.cli.tui.markdown import THEME
from openclaw.cli.tui.question import WORDS, ApprovalPrompt
from openclaw.cli.tui.rows import Rows
from openclaw.cli.tui.session import ChatSession
from openclaw.cli.tui.status import StatusLine, line
from openclaw.cli.tui.switcher import Switcher
from openclaw.cli.tui.view import TextItem
from openclaw.cli.tui.words import harmless, one_line
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, OpenClawError

PAINT_SECONDS = 0.06
LEAVE_SECONDS = 3.0


class ChatApp(App[int]):
    """One window on a gateway."""

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
        self.set_interval(1.0, self._tell)
        if sys.platform != "win32":
            import asyncio

            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, 0)

    # The screen.

    async def _paint(self) -> None:
        """Shows what changed, a few times a second at most."""
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
        self._tell()

    def _tell(self) -> None:
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
        self._tell()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the chat are silent while something lies over it."""
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
        self.push_screen(Switcher(sessions, self.session.talk.key, self._clock.now()), self._switched)

    async def _switched(self, key: str | None) -> None:
        self._composer.focus()
        if key and key != self.session.talk.key:
            await self._try(self.session.switch(key))

    async def action_begin(self) -> None:
        await self._try(self.session.begin())

    def action_details(self) -> None:
        self._details = not self._details
        self.session.changed.set()

    def action_copy(self) -> None:
        answer = self.session.talk.last_answer
        if answer:
            self.copy_to_clipboard(harmless(answer))
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
        self._note(KEYS)

    # What is written.

    async def on_composer_submitted(self, event: Composer.Submitted) -> None:
        text = event.text
        if self._question.asked and WORDS.get(text.lower()) in self._question.decisions:
            await self._try(self.session.decide(self._question.asked, WORDS[text.lower()]))
            return
        word, _, rest = text.partition(" ")
        own = {
            "/exit": self.action_leave_if_empty,
            "/quit": self.action_leave_if_empty,
            "/details": self.action_details,
            "/copy": self.action_copy,
            "/keys": self.action_keys,
        }
        if word in own:
            own[word]()
        elif word == "/sessions":
            await self.action_switch()
        elif word == "/begin":
            await self.action_begin()
        elif word == "/image":
            self._take_pictures((self._cwd / Path(rest.strip()).expanduser(),))
        elif text or self._images:
            images, self._images = tuple(self._images), []
            self._rows.anchor()
            # Waiting for the answer here would keep the keys from being read.
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
        self._tell()

    async def on_question_answered(self, event: ApprovalPrompt.Answered) -> None:
        self._composer.focus()
        await self._try(self.session.decide(event.question, event.decision))

    async def _try(self, work: Awaitable[object]) -> None:
        """Does it, or says why not."""
        try:
            await work
        except OpenClawError as error:
            self._complain(error.message)

    def _complain(self, message: str) -> None:
        self.notify(one_line(message, 400), severity="error", markup=False)

    def _note(self, text: str) -> None:
        self._notes += 1
        self.session.talk.note_locally(f"note:{self._notes}", text)
        self._rows.anchor()
        self.session.changed.set()


def _session_of(question: Mapping[str, Any]) -> str:
    request = question.get("request")
    return str(request.get("sessionKey")) if isinstance(request, Mapping) else ""
