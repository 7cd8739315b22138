"""A newcomer's first minutes, step by step and with a clock: nothing is configured, by terminal and by web.

`scripts/newcomer` prints the seconds of every step. The providers are mock servers: where OpenAI is to be reached is
the one thing that is written into the home beforehand.
"""

import json
import re
import shlex
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from openclaw.gateway.running import stop
from openclaw.models.discover import SERVERS
from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import Answers, MockModelServer, Reply
from tests.commandline import PATIENCE, ROOT, openclaw
from tests.web.test_onboard import Terminal, free_port

KEY = "sk-newcomers-own-key-0123456789"
REFUSED = Answers(401, '{"error": {"message": "Incorrect API key provided"}}')


class Stopwatch:
    """Says how long each step took."""

    def __init__(self, say: Callable[[str], None] = print) -> None:
        self._say = say
        self.total = 0.0

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        self.total += took
        self._say(f"{took:6.1f} s  {what}")


class Newcomer:
    """A person with a home in which nothing is set up, and a shell."""

    def __init__(self, root: Path, provider: MockModelServer | None = None, *, looks: bool = False) -> None:
        """`looks` when model servers of this machine may be found."""
        self.home = TemporaryHome(root)
        settings: dict[str, Any] = {"gateway": {"port": free_port()}}
        if provider is not None:
            settings["models"] = {"providers": {"openai": {"baseUrl": provider.url, "api": "openai-completions"}}}
        self.home.configure(settings)
        self.environ = dict(self.home.environ)
        if looks:
            del self.environ["OPENCLAW_NO_LOCAL_MODELS"]

    def types(self, line: str, *, stdin: str = "") -> str:
        """Types a command line; gives all that it prints."""
        words = shlex.split(line)
        assert words[0] == "openclaw", line
        done = openclaw(*words[1:], env=self.environ, cwd=self.home.root, input=stdin)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def leave(self) -> None:
        stop(self.home.state, 10.0)


def by_terminal(root: Path, watch: Stopwatch) -> None:
    """From nothing to a model's answer with a key: exported in vain, handed over, and typed in the wizard."""
    replies: list[Reply] = [says("ready"), says("A model says hello."), REFUSED, says("ready"), says("Hello again.")]
    with MockModelServer(replies) as model:
        ada = Newcomer(root / "ada", model)
        ada.types("openclaw --version")  # what tests fork from loads everything once; no step is about that
        try:
            with watch.step("openclaw is a command after `scripts/run install`"):
                installed(root / "ada")
            with watch.step("first reply, offline, in a chat that starts the gateway"):
                chat = Terminal(ada.home)
                chat.until("you>")
                chat.types("hello there\n")
                chat.until("No model is set up yet")
                chat.until("openclaw models auth")
                chat.until("you>")
            with watch.step("an exported key: the next message says what to do"):
                ada.environ["OPENAI_API_KEY"] = KEY
                hint = re.search(r"`(openclaw models auth [^`]*)`", ada.types("openclaw agent --message hello"))
                assert hint is not None
            with watch.step(f"`{hint[1]}`, as it was printed: tried, kept"):
                assert "openai/gpt-6-sol answers: ready" in ada.types(hint[1])
            with watch.step("the chat that was open answers with the model, without a restart"):
                chat.types("hello again\n")
                chat.until("A model says hello.")
                chat.until("you>")
                chat.types("\x04")
                assert chat.ends() == 0
        finally:
            ada.leave()
        ben = Newcomer(root / "ben", model)
        try:
            with watch.step("openclaw models auth: a wrong key is told, the right one answers"):
                wizard = Terminal(ben.home, "models", "auth")
                wizard.until("number, name, provider/model or address")
                wizard.types("openai\n")
                wizard.until("key for openai")
                wizard.types("sk-mistyped-0123456789\n")
                wizard.until("Incorrect API key provided")
                wizard.until("number, name, provider/model or address")
                wizard.types("openai\n")
                wizard.until("key for openai")
                wizard.types(f"{KEY}\n")
                wizard.until("openai/gpt-6-sol answers: ready")
                assert wizard.ends() == 0 and KEY not in wizard.seen
            with watch.step("a model's answer"):
                assert "Hello again." in ben.types("openclaw agent --message hello")
        finally:
            ben.leave()


def by_local_server(root: Path, watch: Stopwatch) -> bool:
    """A model server that is started after the gateway is used by itself; false when no usual port is free."""
    with MockModelServer([says("A local model says hello.")]) as model:
        cleo = Newcomer(root / "cleo", looks=True)
        try:
            cleo.types("openclaw gateway start")
            before = json.loads(cleo.types("openclaw models status --json"))
            if before["gateway"]["model"] != "offline/offline":
                return False
            step = watch.step("a model server started after the gateway answers, with nothing typed")
            with step, local_server(model) as there:
                if not there:
                    return False
                heard = ""
                while "A local model says hello." not in heard:  # it is looked for once a second
                    heard = cleo.types("openclaw agent --message hello")
            return True
        finally:
            cleo.leave()


def by_address(root: Path, watch: Stopwatch) -> None:
    """A server of one's own, by its address; then another model by the configuration."""
    with MockModelServer([says("ready"), says("My own server."), says("The other model.")]) as model:
        dora = Newcomer(root / "dora")
        try:
            dora.types("openclaw gateway start")
            with watch.step("openclaw models add ADDRESS: tried, kept, answers"):
                assert "server/mock answers: ready" in dora.types(f"openclaw models add {model.url} --model mock")
                assert "My own server." in dora.types("openclaw agent --message hello")
            with watch.step("a changed configuration counts for the next message"):
                dora.types("openclaw config set agents.defaults.model server/other")
                deadline = time.monotonic() + PATIENCE
                while model.requests[-1]["model"] != "other" and time.monotonic() < deadline:
                    heard = dora.types("openclaw agent --message hello")
                assert "The other model." in heard
        finally:
            dora.leave()


def by_web(root: Path, watch: Stopwatch, browser: Any) -> None:
    """The same in a browser: the empty chat leads to the page where a model is connected."""
    with MockModelServer([REFUSED, says("ready"), says("Hello from the page.")]) as model:
        emil = Newcomer(root / "emil", model)
        try:
            with watch.step("openclaw dashboard, and the page is there"):
                url = json.loads(emil.types("openclaw dashboard --json"))["url"]
                page = browser.new_context().new_page()
                page.goto(url)
                page.get_by_role("link", name="Connect a model").wait_for()
            with watch.step("Connect a model: a wrong key is told, the right one answers"):
                page.get_by_role("link", name="Connect a model").click()
                page.get_by_role("button", name="OpenAI").click()
                page.fill("input[name=apiKey]", "sk-mistyped-0123456789")
                page.get_by_role("button", name="Try and connect").click()
                page.get_by_text("Incorrect API key provided").wait_for()
                page.fill("input[name=apiKey]", KEY)
                page.get_by_role("button", name="Try and connect").click()
                page.get_by_text("openai/gpt-6-sol answers: “ready”").wait_for()
                assert KEY not in page.content()
            with watch.step("a model's answer in the chat"):
                page.get_by_role("link", name="Talk to it").click()
                page.fill("oc-composer textarea", "hello")
                page.press("oc-composer textarea", "Enter")
                page.get_by_text("Hello from the page.").wait_for()
            page.context.close()
        finally:
            emil.leave()


def installed(home: Path) -> None:
    """Runs what `scripts/run install` does once the packages are there, and then the command by its name."""
    program = home / "venv" / "openclaw"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho it runs\n")
    program.chmod(0o755)
    script = f'. scripts/common; link "{program}" "$HOME/.local/bin"'
    environ = {"HOME": str(home), "PATH": f"{home}/.local/bin:/usr/bin:/bin"}
    subprocess.run(["sh", "-eu", "-c", script], cwd=ROOT, env=environ, check=True, capture_output=True)
    found = subprocess.run(["openclaw"], env=environ, check=True, capture_output=True, text=True)
    assert found.stdout == "it runs\n"


@contextmanager
def local_server(model: MockModelServer) -> Iterator[bool]:
    """A model server on one of the ports where such servers usually are; gives whether one was free."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            self._send(b'{"object": "list", "data": [{"id": "mock", "object": "model"}]}')

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            asked = urllib.request.Request(f"{model.url}/chat/completions", body)
            with urllib.request.urlopen(asked) as answer:
                self._send(answer.read(), "text/event-stream")

        def _send(self, body: bytes, kind: str = "application/json") -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        allow_reuse_address = True
        daemon_threads = True

    for usual in SERVERS:
        if usual.provider == "ollama":  # speaks another language
            continue
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", usual.port)) == 0:
                continue
        with suppress(OSError):
            server = Server(("127.0.0.1", usual.port), Handler)
            break
    else:
        yield False
        return
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield True
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
