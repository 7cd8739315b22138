"""A home in which everything that hints speak of is there, and a person who types what they say at a terminal."""

import asyncio
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

import ptyprocess

from openclaw.devices.pairing import DevicePairing
from openclaw.gateway.running import stop
from openclaw.protocol.auth import DeviceClaim
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.sqlite import Sqlite
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer, Reply
from tests.channels.telegram.server import TOKEN, Fault, TelegramServer
from tests.commandline import PATIENCE, ROOT, Done, forked, openclaw
from tests.e2e.gateway_process import GatewayProcess
from tests.models.authorisation_server import AuthorisationServer
from tests.web.test_onboard import Terminal, free_port

MOST_QUESTIONS = 15
KEY = "sk-hints-0123456789abcdef"
SKILL = "---\nname: {}\ndescription: Ties knots.\n---\nTie a knot.\n"
STEP = '{ "id": "brew", "kind": "brew", "formula": "ffmpeg", "bins": ["ffmpeg"], "label": "Install ffmpeg" }'
FFMPEG = f"""---
name: ffmpeg
description: Cuts films.
metadata: {{ "openclaw": {{ "requires": {{ "bins": ["ffmpeg"] }}, "install": [{STEP}] }} }}
---
Cut it.
"""
HOOK = "---\nname: farewell\ndescription: Says goodbye.\nmetadata:\n  openclaw:\n    events: [command:new]\n---\n"
SHOP = {"command": sys.executable, "args": [str(ROOT / "tests" / "tools" / "mcp" / "shop.py"), "."]}
CLAUDE: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ready"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
"""How Anthropic's models say ready."""


class Model(MockModelServer):
    """Does what the last message asks for: runs a program, writes a file; else it says something."""

    def __init__(self) -> None:
        super().__init__([says("Here you are.")])

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        class Handler(super()._handler()):  # type: ignore[misc]
            def do_POST(self) -> None:
                if not self.path.endswith("/messages"):
                    super().do_POST()
                    return
                self.rfile.read(int(self.headers["content-length"]))
                self._send("".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in CLAUDE))

            def do_GET(self) -> None:
                self._send('{"object": "list", "data": [{"id": "mock", "object": "model"}]}')

            def _send(self, text: str) -> None:
                body = text.encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler

    def _next(self, request: dict[str, Any]) -> tuple[Reply, ...]:
        super()._next(request)
        last = request["messages"][-1]
        text = str(last["content"]) if last["role"] == "user" else ""
        if "make backup" in text:
            return (calls("exec", command="make backup"),)
        if "sum up the inbox" in str(request["messages"]):
            steps = (calls("read", path="inbox/mail.txt"), calls("write", path="summary.md", content="Buy boats.\n"))
            done = [each["role"] for each in request["messages"]][::-1].index("user")
            return (steps[done // 2],) if done // 2 < len(steps) else (says("Done."),)
        if "write the summary" in text:
            return (calls("write", path="summary.md", content="All is well.\n"),)
        return (says("Here you are."),)


class Typist(Terminal):
    """A person who types a line at a shell's prompt, and answers what is asked."""

    def __init__(self, line: str, env: Mapping[str, str], cwd: Path) -> None:
        shell = ["/bin/sh", "-c", line]
        dimensions = (40, 200)
        self._child = ptyprocess.PtyProcessUnicode.spawn(shell, cwd=str(cwd), env=dict(env), dimensions=dimensions)
        self.seen = ""
        self._read_to = 0

    def answers(self, answers: Sequence[tuple[str, str]]) -> int:
        """Types the answer to each question that comes; gives the exit code."""
        deadline = time.monotonic() + PATIENCE
        asked = 0
        while True:
            try:
                self._more(deadline)
            except EOFError:
                break
            for question, answer in answers:
                if re.search(question, self.seen[self._read_to :]):
                    self._read_to = len(self.seen)
                    asked += 1
                    self.types(answer if asked < MOST_QUESTIONS else "\x03")
                    break
        self._child.wait()
        code = self._child.exitstatus
        return int(code) if code is not None else -int(self._child.signalstatus or 0)


class Place:
    """A home, the directory its owner is in, and the programs on the owner's PATH."""

    def __init__(self, root: Path, programs: Path, settings: Mapping[str, Any]) -> None:
        self.home = TemporaryHome(root)
        self.settings = settings
        self.here = root / "here"
        self.here.mkdir()
        self.environ = {
            **self.home.environ,
            "PATH": f"{programs}:{self.home.environ['PATH']}",
            "TERM": "dumb",
            "SHELL": "/bin/bash",
            "DISPLAY": ":0",
        }
        self.reset()

    def reset(self) -> None:
        self.home.configure(self.settings)

    def run(self, *words: str, stdin: str = "") -> Done:
        done = openclaw(*words, env=self.environ, cwd=self.here, input=stdin)
        return Done(done.returncode, done.stdout, done.stderr)

    def ask(self, *words: str) -> Any:
        """What a command says with --json."""
        done = self.run(*words, "--json")
        assert done.code == 0, f"{words}: {done.out}{done.err}"
        return json.loads(done.out)


class World:
    """Two homes: in `live` a gateway runs, with Telegram and a model; `aside` is for what changes the settings."""

    def __init__(self, live: Place, aside: Place, gateway: GatewayProcess, telegram: TelegramServer, model: Model):
        self.live, self.aside, self.gateway = live, aside, gateway
        self.telegram, self.model = telegram, model
        self._before: list[tuple[str, Callable[[], dict[str, str] | None]]] = [
            (r"approvals resolve", self._question),
            (r"approvals allowlist remove", self._allowed),
            (r"approvals set", self._approvals),
            (r"channels (release|drop)", self._held),
            (r"pairing approve", self._stranger),
            (r"pairing remove", self._guest),
            (r"devices (approve|reject)|device\.pair\.approve", self._device),
            (r"devices remove", self._paired),
            (r"message (edit|react|delete)", self._sent),
            (r"memory (get|forget|eval)", self._note),
            (r"cron (show|edit|rm|enable|disable|run|runs|next)", self._job),
            (r"agents? (?!add).*\b(work|X)\b|tui .*work", self._agent),
            (r"agents add", self._no_agent),
            (r"skills (?!install|new)|config (un)?set skills", self._skill),
            (r"skills (install|new)", self._no_skill),
            (r"plugins (?!install|new)", self._plugin),
            (r"plugins install", self._no_plugin),
            (r"hooks (?!install|update)", self._hook),
            (r"hooks install", self._no_hook),
            (r"hooks update", self._installed_hook),
            (r"labels clear", self._labelled),
            (r"undo", self._written),
        ]
        self.values = {"model": model.url, "port": str(gateway.port), "shop": json.dumps(SHOP)}
        self._senders = itertools.count(1000)

    def prepare(self) -> Self:
        """Makes what most hints need once."""
        for place in (self.live, self.aside):
            (place.home.workspace / "skills").mkdir(exist_ok=True)
            self._files(place)
        done = self.live.run("agent", "--message", "hello")
        assert done.code == 0, done.err
        run = self.live.ask("runs", "list")
        self.values["run"] = str(run["runs"][0]["runId"])
        session = self.live.ask("sessions", "list")
        self.values["session"] = str(session["sessions"][0]["sessionId"])
        return self

    def _files(self, place: Place) -> None:
        here = place.here
        (here / "README.md").write_text("# Boats\n\nAll about boats.\n")
        (here / "question.md").write_text("Why?\n")
        (here / "key.txt").write_text(f"{KEY}\n")
        (here / "QUESTIONS.jsonl").write_text('{"question": "boats", "path": "memory/2026-01-31.md"}\n')
        (here / "new.json5").write_text(json.dumps(place.settings))
        for name in ("my-skill", "skills/knots", "thing"):
            (here / name).mkdir(parents=True)
            (here / name / "SKILL.md").write_text(SKILL.format(Path(name).name))
        packed = place.run("skills", "pack", "thing", "-o", "thing.tgz")
        assert packed.code == 0, packed.err
        made = place.run("plugins", "new", "dice")
        assert made.code == 0, made.err
        with tarfile.open(here / "dice.tgz", "w:gz") as archive:
            archive.add(here / "dice", "dice")
        self._put_hook(here / "farewell")
        with tarfile.open(here / "farewell.tgz", "w:gz") as archive:
            archive.add(here / "farewell", "farewell")
        subprocess.run(["git", "init", "--quiet"], cwd=here, check=True)
        subprocess.run(["git", "add", "--intent-to-add", "README.md"], cwd=here, check=True)

    # What a hint needs beforehand, and the names that stand for its examples.

    def before(self, line: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for pattern, make in self._before:
            if re.search(rf"openclaw (?:gateway call )?{pattern}", line):
                found |= make() or {}
        return found

    def _question(self) -> dict[str, str]:
        done = self.live.run("agent", "--session-key", "asks", "--message", "run `make backup`")
        assert done.code == 0, done.err
        return {"question": str(self.live.ask("approvals", "pending")[-1]["id"])}

    def _allowed(self) -> dict[str, str]:
        self.live.run("approvals", "allowlist", "add", "git")
        return {"rule": "git"}

    def _approvals(self) -> dict[str, str]:
        document = self.live.ask("approvals", "get")
        (self.live.here / "new.json").write_text(json.dumps(document["file"]))
        return {"hash": str(document["hash"])}

    def _held(self) -> dict[str, str]:
        self.telegram.faults = [Fault("sendMessage", cut="before")]
        self.live.run("message", "send", "--target", "telegram:7", "--message", "held")
        while not (held := self.live.ask("channels", "held")["messages"]):
            pass
        return {"number": str(held[-1]["number"])}

    def _stranger(self) -> dict[str, str]:
        sender = next(self._senders)
        self.telegram.says("may I come in?", sender=sender)
        while True:
            known = self.live.ask("pairing", "list").get("telegram", {})
            for each in known.get("requests", ()):
                if each["id"] == str(sender):
                    return {"code": str(each["code"]), "guest": str(sender)}

    def _guest(self) -> dict[str, str]:
        asking = self._stranger()
        self.live.run("pairing", "approve", "telegram", asking["code"], "--guest")
        return asking

    def _sent(self) -> dict[str, str]:
        sent = self.live.ask("message", "send", "--target", "telegram:7", "--message", "Lunch at one?")
        return {"message": str(sent["messageId"])}

    def _note(self) -> None:
        notes = self.live.home.workspace / "memory"
        notes.mkdir(exist_ok=True)
        (notes / "2026-01-31.md").write_text("# 2026-01-31\n\n- dentist on Monday\n- boats\n- trains\n")

    def _job(self) -> dict[str, str]:
        for job in self.live.ask("cron", "list", "--all")["jobs"]:
            self.live.run("cron", "rm", job["id"])
        self.live.run("cron", "add", "--every", "2h", "-m", "Look for mail", "--name", "mail", "--yes")
        return {"job": "mail"}

    def _agent(self, there: bool = True) -> None:
        """The running gateway takes a changed configuration up by itself, a moment later."""
        self.live.run("agents", "add", "work") if there else self.live.run("agents", "delete", "work", "--yes")
        while there != ("work" in {each["id"] for each in self.live.ask("gateway", "call", "agents.list")["agents"]}):
            pass

    def _no_agent(self) -> None:
        self._agent(there=False)

    def _skill(self) -> None:
        for place in (self.live, self.aside):
            place.run("skills", "install", "./thing.tgz", "--yes")
            folder = place.home.workspace / "skills" / "ffmpeg"
            folder.mkdir(exist_ok=True)
            (folder / "SKILL.md").write_text(FFMPEG)
            place.run("skills", "trust", "ffmpeg", "--yes")

    def _no_skill(self) -> None:
        self.live.run("skills", "remove", "thing", "--yes")

    def _no_plugin(self) -> None:
        self.live.run("plugins", "remove", "dice", "--yes")

    def _plugin(self) -> None:
        self.live.run("plugins", "install", "./dice", "--yes")

    def _hook(self) -> None:
        self._put_hook(self.live.home.state / "hooks" / "farewell")

    def _no_hook(self) -> None:
        shutil.rmtree(self.live.home.state / "hooks" / "farewell", ignore_errors=True)

    def _installed_hook(self) -> None:
        self._no_hook()
        done = self.live.run("hooks", "install", "./farewell.tgz", "--yes")
        assert done.code == 0, done.err

    def _put_hook(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "HOOK.md").write_text(HOOK)
        (folder / "handler.py").write_text("def handler(event):\n    event.messages.append('Goodbye.')\n")

    def _device(self) -> dict[str, str]:
        """Somebody knocks who is on another machine."""
        claim = DeviceClaim(
            device_id=f"{next(self._senders):064}", public_key="key", role="operator", scopes=("operator.read",)
        )

        async def knock() -> str:
            db = await Sqlite.open(self.live.home.state / "state" / "openclaw-py.sqlite", STATE_MIGRATIONS)
            try:
                for old in await DevicePairing(db).pending(0):
                    await DevicePairing(db).reject(old.request_id, 0)
                return await DevicePairing(db).request(claim, "not-paired", now=int(time.time() * 1000))
            finally:
                await db.close()

        return {"request": asyncio.run(knock()), "device": claim.device_id}

    def _paired(self) -> dict[str, str]:
        asking = self._device()
        self.live.run("devices", "approve", asking["request"])
        return asking

    def _labelled(self) -> None:
        mail = self.live.home.workspace / "inbox" / "mail.txt"
        mail.parent.mkdir(exist_ok=True)
        mail.write_text("Buy boats.\n")
        self.live.run("agent", "--session-key", "mail", "--message", "sum up the inbox")

    def _written(self) -> None:
        self.live.run("agent", "--session-key", "writes", "--message", "write the summary")


@contextmanager
def world(root: Path) -> Iterator[World]:
    programs = root / "bin"
    programs.mkdir()
    for name, script in {
        "openclaw": f'exec {shlex.join(forked("openclaw"))} "$@"',
        # A browser in which the person agrees at once.
        "xdg-open": """curl -sL "$(printf %s "$1" | sed 's|/auth?|/agreed?|')" >/dev/null""",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    with ExitStack() as stack:
        model = stack.enter_context(Model())
        telegram = stack.enter_context(TelegramServer())
        openrouter = stack.enter_context(AuthorisationServer())
        settings = model.settings()
        here = {"baseUrl": model.url, "api": "openai-completions"}
        settings["models"]["providers"] |= {"openai": here, "anthropic": here, "huggingface": here}
        settings["models"]["providers"] |= openrouter.settings["models"]["providers"]
        account = {"botToken": TOKEN, "apiRoot": telegram.url}
        settings |= {"channels": {"telegram": account}, "commands": {"ownerAllowFrom": ["telegram:7"]}}
        settings |= {"delivery": {"unsure": "hold"}, "mcp": {"servers": {"files": SHOP}}}
        live = Place(root / "live", programs, settings)
        aside = Place(root / "aside", programs, {**settings, "gateway": {"port": free_port()}})
        aside.environ |= {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "HF_TOKEN": KEY}
        stack.callback(stop, aside.home.state, 10.0)
        gateway = stack.enter_context(GatewayProcess(live.home))
        yield World(live, aside, gateway, telegram, model).prepare()
