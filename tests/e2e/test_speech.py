"""Whatever the assistant says by itself reaches its person exactly once, on every surface, also after kill -9."""

import asyncio
import json
import sqlite3
import threading
import urllib.request
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, closing, nullcontext
from typing import Any

import pytest

from openclaw.cli.tui.lines import ChatArguments
from openclaw.cli.tui.rows import TextItem
from openclaw.cli.tui.session import ChatSession
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.protocol.client import GatewayClient
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer, Pauses, Reply
from tests.channels.telegram.server import TOKEN, TelegramServer
from tests.channels.test_gateway import MAILBOX
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio

HOOKS = "hook-token-0123456789abcdef"

BUILD = "until [ -e go ]; do sleep 0.05; done; echo it-is-built"
"""A command that ends when the test says so."""
SCRIPT: dict[str, list[Any]] = {
    "good morning": [says("Good morning.")],
    "tea-time": [says("Tea!")],
    "HEARTBEAT": [says("The plants are dry.")],
    "count-the-sheep": [says("All sheep are here.")],
    "the-bell-rang": [says("Somebody is at the door.")],
    "mail-has-come": [says("A letter.")],
    "A letter.": [says("A letter.")],
    "already sent to the person": [says("NO_REPLY")],
    "ask-a-child": [calls("sessions_spawn", task="find-the-answer"), says("I have asked.")],
    "find-the-answer": [(Pauses(), says("forty-two"))],
    "forty-two": [says("It is 42.")],
    "start-the-build": [calls("exec", command=BUILD, background=True), says("It is being built.")],
    "it-is-built": [says("The build is done.")],
    "wait-for-a-child": [calls("sessions_spawn", task="take-your-time"), calls("sessions_yield")],
    "take-your-time": [(Pauses(), says("eighty-four"))],
    "eighty-four": [says("It is 84.")],
    "say-it-there": [says("It is said.")],
}
"""What the model answers, step by step, to a prompt with these words in it; the last words count."""


class Oracle(MockModelServer):
    """Answers by what it is asked, so that it does not matter in which order it is."""

    def __init__(self) -> None:
        super().__init__([says("NO_REPLY")])
        self.hangs = ""
        """The next prompt with these words is never answered."""
        self.hung = threading.Event()
        self.log: list[tuple[str, int]] = []
        """The words it was asked about, and which step of the answer it gave."""

    def _next(self, request: dict[str, Any]) -> tuple[Reply, ...]:
        silence = super()._next(request)
        roles = [each["role"] for each in request["messages"]]
        last = len(roles) - 1 - roles[::-1].index("user")
        asked, step = json.dumps(request["messages"][last]["content"]), roles[last:].count("assistant")
        words = max(SCRIPT, key=asked.rfind)
        if words not in asked:
            return silence
        if words == self.hangs:
            self.hangs = ""
            self.hung.set()
            return (Hangs(),)
        self.log.append((words, step))
        reply = SCRIPT[words][min(step, len(SCRIPT[words]) - 1)]
        return reply if isinstance(reply, tuple) else (reply,)


# Surfaces: where a person is. Each says what the person has written and what they have been told.


class Surface:
    where: str | None = None
    """The chat on a channel, if it is one."""

    def __init__(self, home: TemporaryHome, model: Oracle) -> None:
        self.home, self.model = home, model
        self.gateway = GatewayProcess(home)

    def settings(self) -> dict[str, Any]:
        return {}

    def server(self) -> AbstractContextManager[object]:
        return nullcontext()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        yield

    async def says(self, text: str) -> None:
        raise NotImplementedError

    async def heard(self) -> list[str]:
        """Everything the assistant has told the person, as they see it now."""
        raise NotImplementedError

    async def until_heard(self, text: str) -> None:
        try:
            async with asyncio.timeout(DEADLINE):
                while text not in await self.heard():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            told = await self.heard()
            raise AssertionError(f"{text!r} was not heard, but {told}\n{self.gateway.output()[-3000:]}") from None


class Web(Surface):
    """A chat window: what it hears as `chat` events; opened again after a kill, what the history shows."""

    opened = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        self.opened += 1
        self._finals: list[str] = []
        async with self.gateway.client() as self._client:
            await self._client.call("sessions.subscribe", {})
            hearing = asyncio.create_task(self._hear())
            try:
                yield
                assert Counter(await self.history()) == Counter(await self.heard())
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)

    async def _hear(self) -> None:
        async for event in self._client.events():
            name, payload = getattr(event, "event", ""), getattr(event, "payload", None) or {}
            if name == "chat" and payload.get("state") == "final" and payload.get("sessionKey") == "agent:main:main":
                self._finals.append(_text(payload.get("message") or {}))

    async def says(self, text: str) -> None:
        params = {"sessionKey": "main", "message": text, "idempotencyKey": str(uuid.uuid4())}
        await self._client.call("chat.send", params)

    async def history(self) -> list[str]:
        shown = await self._client.call("chat.history", {"sessionKey": "main", "limit": 200})
        return _plain(_text(each) for each in shown["messages"] if each["role"] == "assistant")

    async def heard(self) -> list[str]:
        return await self.history() if self.opened > 1 else _plain(self._finals)


class Terminal(Surface):
    """`openclaw chat`: the rows of its screen."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        environment = Environment(environ=self.home.environ, home_dir=self.home.root, cwd=self.home.workspace)
        self._session = ChatSession(ChatArguments(), environment, SystemClock())
        keeping = asyncio.create_task(self._session.keep())
        try:
            async with asyncio.timeout(DEADLINE):
                while self._session.connection != "connected":
                    self._session.changed.clear()
                    await self._session.changed.wait()
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def says(self, text: str) -> None:
        await self._session.send(text)

    async def heard(self) -> list[str]:
        items = self._session.talk.items()
        return _plain(item.text for item in items if isinstance(item, TextItem) and item.who == "assistant")


class Channel(Surface):
    """A plugin's channel: the letters of a mailbox."""

    where = "mailbox:ada"

    def settings(self) -> dict[str, Any]:
        self._root = self.home.root / "post"
        (self._root / "inbox").mkdir(parents=True)
        box = {"config": {"directory": str(self._root), "seconds": 0.05}}
        return {
            "plugins": {"load": {"paths": [str(MAILBOX)]}, "entries": {"mailbox": box}},
            "commands": {"ownerAllowFrom": ["mailbox:ada"]},
            "channels": {"mailbox": {}},
        }

    async def says(self, text: str) -> None:
        waiting = self._root / "new.part"
        waiting.write_text(text)
        waiting.rename(self._root / "inbox" / f"ada--{uuid.uuid4()}.txt")

    async def heard(self) -> list[str]:
        return [path.read_text().strip() for path in sorted((self._root / "outbox").glob("ada--*.txt"))]


class Telegram(Surface):
    """A bot, against a server that speaks its API."""

    where = "telegram:7"

    def settings(self) -> dict[str, Any]:
        self._server = TelegramServer()
        return {
            "channels": {"telegram": {"botToken": TOKEN, "apiRoot": self._server.url}},
            "commands": {"ownerAllowFrom": ["telegram:7"]},
        }

    async def says(self, text: str) -> None:
        self._server.says(text)

    async def heard(self) -> list[str]:
        return [str(each.get("text")) for each in self._server.sent]

    def server(self) -> AbstractContextManager[object]:
        return self._server


def _plain(texts: Iterable[str]) -> list[str]:
    """What was said; the name of a job before its result is not what is counted."""
    return [text.removeprefix("[sheep] ") for text in texts if text.strip()]


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(each.get("text", "") for each in content)


# Sources: why the assistant speaks.

Trigger = Callable[[Surface, GatewayClient], Awaitable[None]]


async def run_job(client: GatewayClient, name: str, target: str, payload: dict[str, str]) -> None:
    at = {"kind": "every", "everyMs": 86_400_000}
    about = {"name": name, "schedule": at, "sessionTarget": target, "wakeMode": "now", "payload": payload}
    job = (await client.call("cron.add", about))["id"]
    await client.call("cron.run", {"id": job, "mode": "force"})


async def reminder(here: Surface, client: GatewayClient) -> None:
    await run_job(client, "tea", "main", {"kind": "systemEvent", "text": "Reminder: tea-time"})


async def heartbeat(here: Surface, client: GatewayClient) -> None:
    tasks = here.home.workspace / "HEARTBEAT.md"
    tasks.write_text("- look after the plants\n")
    await here.until_heard("The plants are dry.")
    tasks.write_text("")


async def cron(here: Surface, client: GatewayClient) -> None:
    await run_job(client, "sheep", "isolated", {"kind": "agentTurn", "message": "count-the-sheep"})


async def wake(here: Surface, client: GatewayClient) -> None:
    await client.call("wake", {"text": "the-bell-rang", "mode": "now"})


async def webhook(here: Surface, client: GatewayClient) -> None:
    body = json.dumps({"message": "mail-has-come", "name": "Mail"}).encode()
    head = {"authorization": f"Bearer {HOOKS}", "content-type": "application/json"}
    call = urllib.request.Request(f"http://127.0.0.1:{here.gateway.port}/hooks/agent", body, head)
    await asyncio.to_thread(urllib.request.urlopen, call)


async def subagent(here: Surface, client: GatewayClient) -> None:
    await here.says("ask-a-child")
    await here.until_heard("I have asked.")
    await quiet(client)
    here.model.go_on()


async def ended_command(here: Surface, client: GatewayClient) -> None:
    await here.says("start-the-build")
    await here.until_heard("It is being built.")
    await quiet(client)
    (here.home.workspace / "go").touch()


async def yielded(here: Surface, client: GatewayClient) -> None:
    await here.says("wait-for-a-child")
    async with asyncio.timeout(DEADLINE):
        steps = {("wait-for-a-child", 1), ("take-your-time", 0)}
        while not (steps <= set(here.model.log) and await idle(client)):
            await asyncio.sleep(0.02)
    here.model.go_on()


async def delivered(here: Surface, client: GatewayClient) -> None:
    params: dict[str, Any] = {"message": "say-it-there", "sessionKey": "main", "idempotencyKey": "say-it"}
    await client.call("agent", {**params, **({"deliver": True} if here.where else {})})


async def idle(client: GatewayClient) -> bool:
    """Whether nothing is going on in the main conversation."""
    rows = (await client.call("sessions.list", {}))["sessions"]
    return any(row["isMain"] and not row["activeRunIds"] for row in rows)


SOURCES: dict[str, tuple[Trigger, tuple[str, ...]]] = {
    "reminder": (reminder, ("Tea!",)),
    "heartbeat": (heartbeat, ("The plants are dry.",)),
    "cron announce": (cron, ("All sheep are here.",)),
    "wake": (wake, ("Somebody is at the door.",)),
    "sub-agent": (subagent, ("I have asked.", "It is 42.")),
    "exec completion": (ended_command, ("It is being built.", "The build is done.")),
    "sessions_yield": (yielded, ("It is 84.",)),
    "agent deliver": (delivered, ("It is said.",)),
    # The last: its text labels the conversation, and commands would be asked about.
    "webhook": (webhook, ("A letter.",)),
}


@asynccontextmanager
async def person(home: TemporaryHome, kind: type[Surface]) -> AsyncIterator[Surface]:
    """Somebody who has just said good morning, and was answered."""
    with Oracle() as model:
        here = kind(home, model)
        own = model.settings()
        own["agents"]["defaults"]["heartbeat"] = {"every": "1s", "timeoutSeconds": 300}
        hooks = {"enabled": True, "token": HOOKS}
        tools = {"exec": {"security": "full", "ask": "off"}}
        home.configure({**own, "hooks": hooks, "tools": tools, **here.settings()})
        with here.server(), here.gateway:
            yield here


def half_a_minute_passes(home: TemporaryHome) -> None:
    """As far as heartbeats know: between two of them that are woken lie thirty seconds."""
    with closing(sqlite3.connect(home.state / "state" / "openclaw-py.sqlite", timeout=DEADLINE)) as db, db:
        db.execute("UPDATE heartbeats SET last_at = 0")


async def quiet(client: GatewayClient) -> None:
    async with asyncio.timeout(DEADLINE):
        while not await idle(client):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", (Web, Terminal, Channel, Telegram))
async def test_everything_that_is_said_is_heard_once(openclaw_home: TemporaryHome, kind: type[Surface]) -> None:
    async with person(openclaw_home, kind) as here, here.open(), here.gateway.client() as client:
        await here.says("good morning")
        await here.until_heard("Good morning.")
        expected = ["Good morning."]
        for source, (happens, texts) in SOURCES.items():
            await quiet(client)
            half_a_minute_passes(openclaw_home)
            await happens(here, client)
            for text in texts:
                await here.until_heard(text)
            expected += texts
            assert Counter(await here.heard()) == Counter(expected), source
        await quiet(client)
        await here.says("good morning")
        async with asyncio.timeout(DEADLINE):
            while (await here.heard()).count("Good morning.") < 2:
                await asyncio.sleep(0.02)
        assert Counter(await here.heard()) == Counter([*expected, "Good morning."])


@pytest.mark.parametrize(
    ("kind", "source", "words"),
    [
        (Web, "reminder", "tea-time"),
        (Terminal, "cron announce", "count-the-sheep"),
        (Channel, "sub-agent", "forty-two"),
        (Telegram, "wake", "the-bell-rang"),
    ],
)
async def test_what_a_kill_interrupts_is_heard_once(
    openclaw_home: TemporaryHome, kind: type[Surface], source: str, words: str
) -> None:
    happens, texts = SOURCES[source]
    async with person(openclaw_home, kind) as here:
        async with here.open(), here.gateway.client() as client:
            await here.says("good morning")
            await here.until_heard("Good morning.")
            await quiet(client)
            here.model.hangs = words
            await happens(here, client)
            assert await asyncio.to_thread(here.model.hung.wait, DEADLINE)
        here.gateway.kill()
        here.gateway.start()
        async with here.open(), here.gateway.client() as client:
            await here.until_heard(texts[-1])
            await quiet(client)
            assert Counter(await here.heard()) == Counter(["Good morning.", *texts])
