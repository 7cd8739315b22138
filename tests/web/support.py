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


class Site:
    """The page of one gateway."""

    def __init__(self, gateway: GatewayProcess, browser: Any) -> None:
        self.gateway = gateway
        self._browser = browser
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
        context = self._browser.new_context(viewport={"width": 1100, "height": 800}, **how)
        context.set_default_timeout(PATIENCE_MS)
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("dialog", self._dialog)
        return context

    def _console(self, message: Any) -> None:
        # A gateway that is restarted refuses connections for a moment; that is no complaint.
        if message.type == "error" and "ERR_CONNECTION_REFUSED" not in message.text:
            self.complaints.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog opened: {dialog.message}")
        dialog.dismiss()

    def open(self, context: Any | None = None) -> Any:
        """The chat page, let in with the token."""
        page = (context or self.visitor()).new_page()
        page.goto(f"{self.address}/#token={self.gateway.token.reveal()}")
        page.wait_for_selector("oc-chat .talk")
        page.wait_for_selector(".connection", state="detached")
        return page


@contextmanager
def site(home: TemporaryHome, browser: Any) -> Iterator[Site]:
    with GatewayProcess(home) as gateway:
        yield Site(gateway, browser)


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
