"""A gateway with its web page, and a real browser that looks at it."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openclaw.testing import TemporaryHome
from tests.commandline import openclaw
from tests.e2e.gateway_process import GatewayProcess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE_MS = 180_000
SIZE = {"width": 1100, "height": 800}


class SharedBrowser:
    """A browser, and a tab of it that tests use one after the other.

    A tab that is opened costs three times what a page costs that is loaded into one.
    """

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self._tab: Any = None
        self._lent = False

    def new_context(self, **how: Any) -> Any:
        """A browser that was never here."""
        context = self.browser.new_context(viewport=SIZE, **{"reduced_motion": "reduce", **how})
        context.set_default_timeout(PATIENCE_MS)
        return context

    def borrow(self) -> Any:
        """The tab, as if it were new; nothing while somebody has it."""
        if self._lent:
            return None
        if self._tab is None:
            context = self.new_context()
            # A port may come a second time: who comes with a token brings nothing along from the gateway before.
            context.add_init_script(
                "if (location.hash.startsWith('#token=')) { localStorage.clear(); sessionStorage.clear() }"
            )
            self._tab = context.new_page()
        self._lent = True
        return self._tab

    def give_back(self, *, usable: bool) -> None:
        if not self._lent:
            return
        tab, self._lent = self._tab, False
        if not usable:
            self._tab = None
            tab.context.close()
            return
        for other in tab.context.pages:
            if other is not tab:
                other.close()
        tab.goto("about:blank")
        tab.set_viewport_size(SIZE)
        tab.emulate_media(color_scheme="light", reduced_motion="reduce")
        tab.context.clear_permissions()


class Site:
    """The page of one gateway."""

    def __init__(self, gateway: GatewayProcess, browser: SharedBrowser) -> None:
        self.gateway = gateway
        self._browser = browser
        self._visitors: list[Any] = []
        self._watched: list[Any] = []
        self.requests: list[str] = []
        """Every address any page asked for."""
        self.complaints: list[str] = []
        """What the browser's console has to say against us."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"

    def link(self) -> str:
        done = openclaw("dashboard", "--json", env=self.gateway.home.environ)
        assert done.returncode == 0, done.stderr
        url: str = json.loads(done.stdout)["url"]
        return url

    def visitor(self, **how: Any) -> Any:
        """A browser that was never here; its pages are watched."""
        context = self._browser.new_context(**how)
        self._visitors.append(context)
        self._watch(context)
        return context

    def _watch(self, context: Any) -> None:
        for event, listener in self._listeners():
            context.on(event, listener)
        self._watched.append(context)

    def _listeners(self) -> tuple[tuple[str, Any], ...]:
        return (
            ("request", self._request),
            ("console", self._console),
            ("weberror", self._error),
            ("dialog", self._dialog),
        )

    def _request(self, request: Any) -> None:
        self.requests.append(request.url)

    def _console(self, message: Any) -> None:
        # A gateway that is restarted refuses connections for a moment; that is no complaint.
        if message.type == "error" and "ERR_CONNECTION_REFUSED" not in message.text:
            self.complaints.append(message.text)

    def _error(self, error: Any) -> None:
        self.complaints.append(str(error.error))

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def open(self, context: Any | None = None) -> Any:
        """The chat page, let in with the token: in the shared tab, or in a new one if that is taken."""
        if context is None and (tab := self._browser.borrow()) is not None:
            self._watch(tab.context)
            return self.enter(tab)
        return self.enter((context or self.visitor()).new_page())

    def enter(self, page: Any) -> Any:
        """Takes a page to the chat; also to where the gateway listens since it was started again."""
        page.goto(f"{self.address}/#token={self.gateway.token.reveal()}")
        page.wait_for_selector("oc-chat .talk")
        page.wait_for_selector(".connection", state="detached")
        return page

    def close(self, *, usable: bool) -> None:
        """Closes what was opened: a page without a gateway would look for it to the end of all tests."""
        for context in self._watched:
            for event, listener in self._listeners():
                context.remove_listener(event, listener)
        for context in self._visitors:
            context.close()
        self._browser.give_back(usable=usable)


@contextmanager
def site(home: TemporaryHome, browser: SharedBrowser) -> Iterator[Site]:
    with GatewayProcess(home) as gateway:
        here = Site(gateway, browser)
        usable = False
        try:
            yield here
            usable = True
        finally:
            here.close(usable=usable)


def say(page: Any, text: str) -> None:
    page.fill("oc-composer textarea", text)
    page.press("oc-composer textarea", "Enter")


def wait_idle(page: Any) -> None:
    """Until no run is going on."""
    page.wait_for_selector("article.live", state="detached")


def said(page: Any, kind: str) -> list[str]:
    """The texts of the messages of one kind, as they are shown."""
    where = {"user": "article.user .bubble", "assistant": "article.assistant .md"}[kind]
    found: list[str] = page.locator(where).all_text_contents()
    return [text.strip() for text in found]


def long_conversation(path: Path, messages: int) -> None:
    """Makes a transcript long: what is in it, said again and again."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    said = [line for line in lines if line["type"] == "message"]
    parent = said[-1]["id"]
    with path.open("a") as file:
        for number in range(len(said), messages):
            entry = json.loads(json.dumps(said[number % 2]))
            entry["id"], entry["parentId"] = f"{number:08x}", parent
            parent = entry["id"]
            entry["message"].pop("idempotencyKey", None)
            if entry["message"]["role"] == "user":
                entry["message"]["content"] = f"question {number}"
            file.write(json.dumps(entry) + "\n")
