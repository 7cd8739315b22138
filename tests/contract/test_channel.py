"""What every chat platform does, against a scripted server that fails on demand, and the same on the fake.

The machinery is the real one: the inbox and outbox of a database, and the sender. A process that was killed is one
whose rows belong to nobody who lives.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from openclaw.channels.chunking import measure
from openclaw.channels.delivery import Sender
from openclaw.channels.discord.channel import Discord
from openclaw.channels.discord.settings import DiscordSettings
from openclaw.channels.inbox import ChannelInbox
from openclaw.channels.matrix.channel import Matrix
from openclaw.channels.matrix.client import MatrixSession
from openclaw.channels.matrix.settings import MatrixSettings
from openclaw.channels.settings import DeliverySettings
from openclaw.channels.slack.channel import Slack
from openclaw.channels.slack.settings import SlackSettings
from openclaw.channels.telegram.channel import Telegram
from openclaw.channels.telegram.settings import TelegramSettings
from openclaw.core.channel import Address, Inbound, Outbound, Platform, Receipt, TakesEvents, TryLater, Unsure
from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.core.settings import Fixed
from openclaw.process.tasks import SystemClock
from openclaw.runs.outbox import Outbox, OutboxEntry
from openclaw.storage.atomic import JsonFile
from openclaw.storage.migrations import STATE_MIGRATIONS
from openclaw.storage.owners import Owner
from openclaw.storage.sqlite import Sqlite
from tests.channels.discord import server as discord_server
from tests.channels.fake_platform import Slate
from tests.channels.matrix import server as matrix_server
from tests.channels.slack import server as slack_server
from tests.channels.telegram import server as telegram_server

pytestmark = pytest.mark.anyio

DEADLINE = 90.0
FASTER = 50.0
DEAD = Owner(2**30, "a process that was killed")


class FastClock(SystemClock):
    """Runs faster, so that a long wait is a short one."""

    def __init__(self) -> None:
        self._began = time.time()

    def now(self) -> float:
        return self._began + (time.time() - self._began) * FASTER

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / FASTER)


class Bench:
    """A platform, a way to write to it as a person, and what people were told. The next send meets what `meet` says."""

    platform: Platform
    to: Address

    def writes(self, text: str) -> None:
        raise NotImplementedError

    def texts(self) -> list[str]:
        raise NotImplementedError

    def listens(self) -> bool:
        """Whether what is written now is heard, also on the very first connection."""
        return True

    def meet(self, fault: str) -> None:
        """One of `429`, `500`, `before` and `after`: a flood wait of 200 s, an error, a cut connection."""
        raise NotImplementedError


class FakeBench(Bench):
    """The platform in memory; it delivers what was not acknowledged again."""

    def __init__(self) -> None:
        bench = self
        self.said: list[Inbound] = []
        self.stirred = asyncio.Event()

        class Pigeon(Slate):
            async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
                at = int(cursor or 0)
                while True:
                    bench.stirred.clear()
                    if len(bench.said) > at:
                        await inbox.take(bench.said[at:], str(len(bench.said)))
                        at = len(bench.said)
                    await bench.stirred.wait()

            async def send(self, message: Outbound) -> Receipt:
                if bench.after:
                    bench.after = False
                    await super().send(message)
                    raise Unsure("cut")
                return await super().send(message)

        self.after = False
        self.slate = Pigeon(media_bytes=1_000, caption=1_000)
        self.platform = self.slate
        self.to = Address(channel="slate", to="ada")

    def writes(self, text: str) -> None:
        number = str(len(self.said))
        self.said.append(Inbound(id=number, channel="slate", sender="ada", text=text))
        self.stirred.set()

    def texts(self) -> list[str]:
        return self.slate.texts()

    def meet(self, fault: str) -> None:
        faults = {"429": TryLater("flood", after=200.0), "500": TryLater("down"), "before": Unsure("cut")}
        if fault == "after":
            self.after = True
        else:
            self.slate.faults = {"send": [faults[fault]]}


class TelegramBench(Bench):
    def __init__(self, server: telegram_server.TelegramServer) -> None:
        self.server = server
        settings = TelegramSettings(api_root=server.url)
        self.platform = Telegram(Secret(server.token), settings=settings)
        self.to = Address(channel="telegram", to="7")

    def writes(self, text: str) -> None:
        self.server.says(text)

    def texts(self) -> list[str]:
        return [each["text"] for each in list(self.server.sent)]

    def meet(self, fault: str) -> None:
        status = int(fault) if fault.isdecimal() else 0
        after = 200 if status == 429 else None
        cut = "" if status else fault
        self.server.faults = [telegram_server.Fault("sendMessage", status, retry_after=after, cut=cut)]


class MatrixBench(Bench):
    def __init__(self, server: matrix_server.MatrixServer, folder: Path) -> None:
        self.server = server
        settings = MatrixSettings(homeserver=server.url, access_token=Secret(matrix_server.TOKEN))
        stored = JsonFile(folder / "session.json", MatrixSession, "")
        self.platform = Matrix(settings, stored, lambda _: True, "default")
        self.room = server.room(matrix_server.ADA)
        self.to = Address(channel="matrix", to=self.room)

    def writes(self, text: str) -> None:
        self.server.says(text, room=self.room)

    def texts(self) -> list[str]:
        return [each["text"] for each in list(self.server.sent)]

    def meet(self, fault: str) -> None:
        status = int(fault) if fault.isdecimal() else 0
        after = 200 if status == 429 else None
        self.server.faults = [matrix_server.Fault("send", status, retry_after=after, cut="" if status else fault)]

    def listens(self) -> bool:
        return sum(name == "sync" for name, _ in list(self.server.calls)) > 1


class DiscordBench(Bench):
    def __init__(self, server: discord_server.DiscordServer) -> None:
        self.server = server
        settings = DiscordSettings(api_root=server.url)
        self.platform = Discord(Secret(discord_server.TOKEN), SystemClock(), settings=settings)
        self.to = Address(channel="discord", to=discord_server.ADA)

    def writes(self, text: str) -> None:
        self.server.says(text)

    def texts(self) -> list[str]:
        return [each["content"] for each in self.server.sent]

    def listens(self) -> bool:
        return bool(self.server.identified)

    def meet(self, fault: str) -> None:
        status = int(fault) if fault.isdecimal() else 0
        cut = "" if status else fault
        self.server.faults = [discord_server.Fault("POST", "messages", status, retry_after=200.0, cut=cut)]


class SlackBench(Bench):
    def __init__(self, server: slack_server.SlackServer) -> None:
        self.server = server
        settings = SlackSettings(api_root=server.url, app_token=Secret(slack_server.APP_TOKEN))
        self.platform = Slack(Secret(slack_server.TOKEN), SystemClock(), settings=settings)
        self.to = Address(channel="slack", to=slack_server.ADA)

    def writes(self, text: str) -> None:
        self.server.says(text)

    def texts(self) -> list[str]:
        return [each["text"] for each in self.server.sent]

    def listens(self) -> bool:
        return self.server.connections > 0

    def meet(self, fault: str) -> None:
        status = int(fault) if fault.isdecimal() else 0
        cut = "" if status else fault
        self.server.faults = [slack_server.Fault("chat.postMessage", status, retry_after=200, cut=cut)]


@pytest.fixture(params=["fake", "telegram", "matrix", "discord", "slack"])
async def bench(request: Any, tmp_path: Path) -> AsyncIterator[Bench]:
    match request.param:
        case "telegram":
            with telegram_server.TelegramServer() as telegram:
                made: Bench = TelegramBench(telegram)
                yield made
                await made.platform.close()
        case "matrix":
            with matrix_server.MatrixServer() as matrix:
                made = MatrixBench(matrix, tmp_path)
                yield made
                await made.platform.close()
        case "discord":
            with discord_server.DiscordServer() as discord:
                made = DiscordBench(discord)
                yield made
                await made.platform.close()
        case "slack":
            with slack_server.SlackServer() as slack:
                made = SlackBench(slack)
                yield made
                await made.platform.close()
        case _:
            yield FakeBench()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Sqlite]:
    found = await Sqlite.open(tmp_path / "state.sqlite", STATE_MIGRATIONS)
    yield found
    await found.close()


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not true():
            await asyncio.sleep(0.01)


# Hearing.


class Taking:
    """Commits what a platform hands over; fails as often as it is told, before it has committed anything."""

    def __init__(self, inbox: ChannelInbox, name: str, failures: int = 0) -> None:
        self._inbox = inbox
        self._name = name
        self.failures = failures
        self.new: list[str] = []
        self.offered: list[str] = []

    def connected(self) -> None: ...

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None:
        self.offered += [event.text for event in events]
        if events and self.failures:
            self.failures -= 1
            raise StateError("the disk is full")
        for event in events:
            if await self._inbox.take(self._name, "default", [(event, 0.0)], None):
                self.new.append(event.text)
        await self._inbox.take(self._name, "default", [], cursor)


@asynccontextmanager
async def listening(bench: Bench, inbox: ChannelInbox, taking: Taking) -> AsyncIterator["asyncio.Task[None]"]:
    cursor = await inbox.cursor(bench.platform.name, "default")
    task = asyncio.create_task(bench.platform.run(cursor, taking))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_was_not_committed_comes_again_and_what_was_does_not(bench: Bench, db: Sqlite) -> None:
    inbox = ChannelInbox(db, SystemClock())
    taking = Taking(inbox, bench.platform.name)
    async with listening(bench, inbox, taking):  # a place to go on from
        await until(bench.listens)
        bench.writes("begin")
        await until(lambda: "begin" in taking.new)
    failing = Taking(inbox, bench.platform.name, failures=1)
    for text in ("one", "two", "three"):
        bench.writes(text)
    async with listening(bench, inbox, failing) as task:  # killed before the commit
        with pytest.raises(StateError):
            await asyncio.wait_for(task, DEADLINE)
    assert failing.new == []
    again = Taking(inbox, bench.platform.name)
    async with listening(bench, inbox, again):
        await until(lambda: len(again.new) >= 3)
        bench.writes("four")
        await until(lambda: len(again.new) >= 4)
    assert again.new == ["one", "two", "three", "four"]
    last = Taking(inbox, bench.platform.name)
    async with listening(bench, inbox, last):
        bench.writes("five")
        await until(lambda: "five" in last.new)
    assert last.new == ["five"]


# Saying.


@asynccontextmanager
async def sending(bench: Bench, outbox: Outbox, **more: Any) -> AsyncIterator[None]:
    platforms = {(bench.platform.name, "default"): bench.platform}
    sender = Sender(outbox, platforms, FastClock(), Fixed(DeliverySettings(**more)), jitter=lambda: 0.5)
    task = asyncio.create_task(sender.keep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settled(outbox: Outbox, *names: str) -> list[OutboxEntry]:
    async with asyncio.timeout(DEADLINE):
        return [await outbox.settled(name, DEADLINE * FASTER) for name in names]


async def test_a_long_text_with_emoji_arrives_whole_and_in_order(bench: Bench, db: Sqlite) -> None:
    text = "".join(f"{number:05} 👩‍👩‍👧👍🏽 " for number in range(3_600))[:50_000]
    outbox = Outbox(db, FastClock())
    async with sending(bench, outbox):
        await outbox.put(Outbound(to=bench.to, text=text), "long")
        await outbox.put(Outbound(to=bench.to, text="The end."), "end")
        (long, _) = await settled(outbox, "long", "end")
    facts, arrived = bench.platform.facts, bench.texts()
    assert long.state == "sent" and arrived[-1] == "The end."
    assert "".join("".join(arrived[:-1]).split()) == "".join(text.split())
    assert all(measure(each, facts.unit) <= facts.limit for each in arrived)
    for each in arrived[:-1]:
        assert not each.startswith(("\u200d", "🏽")) and not each.endswith("\u200d"), "no character is split"


@pytest.mark.parametrize("fault", ["429", "500", "before", "after"])
async def test_a_fault_delays_and_loses_nothing(bench: Bench, db: Sqlite, fault: str) -> None:
    clock = FastClock()
    outbox, began = Outbox(db, clock), clock.now()
    bench.meet(fault)
    async with sending(bench, outbox):
        await outbox.put(Outbound(to=bench.to, text="One."), "one")
        await outbox.put(Outbound(to=bench.to, text="Two."), "two")
        (one, two) = await settled(outbox, "one", "two")
    assert (one.state, two.state) == ("sent", "sent")
    doubled = fault == "after" and not bench.platform.facts.idempotent
    assert bench.texts() == ["One."] * (2 if doubled else 1) + ["Two."]
    assert one.doubled == (0 if bench.platform.facts.idempotent or fault in ("429", "500") else 1)
    if fault == "429":
        assert clock.now() - began >= 200.0, "it is waited for as long as the platform says"


@pytest.mark.parametrize("step", ["before", "after"])
@pytest.mark.parametrize("unsure", ["resend", "hold"])
async def test_a_process_killed_while_it_sends_loses_nothing(bench: Bench, db: Sqlite, step: str, unsure: str) -> None:
    killed = Outbox(db, FastClock(), DEAD)
    await killed.put(Outbound(to=bench.to, text="One.", key="unused"), "one")
    entry = await killed.get("one")
    if step == "after":  # it left, and the process was killed before the answer came
        bench.meet("after")
        async with sending(bench, killed, unsure=unsure):
            await until(lambda: bench.texts() == ["One."])
    # As the killed one left it.
    await db.write("UPDATE outbox SET state = 'sending', owner = :dead, doubled = 0", {"dead": str(DEAD)})
    outbox = Outbox(db, FastClock())
    async with sending(bench, outbox, unsure=unsure):
        (entry,) = await settled(outbox, "one")
        if entry.state == "held":
            assert unsure == "hold" and not bench.platform.facts.idempotent
            await outbox.release("one")
            (entry,) = await settled(outbox, "one")
    assert entry.state == "sent" and set(bench.texts()) == {"One."}
    repeats = bench.texts().count("One.") - 1
    assert repeats == (1 if step == "after" and not bench.platform.facts.idempotent else 0)
    if repeats and unsure == "resend":
        assert entry.doubled == 1, "what may come twice is counted"


@pytest.mark.parametrize(("size", "why"), [(0, "is empty"), (60_000_000, "is the most")])
async def test_a_file_of_no_bytes_or_too_many_is_refused_and_the_next_is_sent(
    bench: Bench, db: Sqlite, tmp_path: Path, size: int, why: str
) -> None:
    path = tmp_path / "file.bin"
    with path.open("wb") as file:
        file.truncate(size)
    outbox = Outbox(db, FastClock())
    async with sending(bench, outbox):
        await outbox.put(Outbound(to=bench.to, text="look", media=(str(path),)), "file")
        await outbox.put(Outbound(to=bench.to, text="And on."), "next")
        (refused, following) = await settled(outbox, "file", "next")
    assert (refused.state, following.state) == ("refused", "sent") and why in refused.error
    assert bench.texts() == ["And on."]


async def test_two_conversations_do_not_wait_for_each_other(bench: Bench, db: Sqlite) -> None:
    outbox = Outbox(db, FastClock())
    bench.meet("429")
    others = {"telegram": "8", "matrix": "@bob:test", "discord": "8", "slack": "U008", "slate": "bob"}
    elsewhere = Address(channel=bench.to.channel, to=others[bench.to.channel])
    async with sending(bench, outbox):
        await outbox.put(Outbound(to=bench.to, text="Slow."), "slow")
        async with asyncio.timeout(DEADLINE):
            while (await outbox.get("slow")).attempts == 0:
                await asyncio.sleep(0.01)
        await outbox.put(Outbound(to=elsewhere, text="Quick."), "quick")
        (quick,) = await settled(outbox, "quick")
        assert quick.state == "sent" and (await outbox.get("slow")).state == "pending"
        await settled(outbox, "slow")


async def test_an_account_sends_only_what_is_its_own(bench: Bench, db: Sqlite) -> None:
    outbox = Outbox(db, FastClock())
    other = structs.replace(bench.to, account="work")
    async with sending(bench, outbox):
        await outbox.put(Outbound(to=other, text="For another."), "other")
        await outbox.put(Outbound(to=bench.to, text="For me."), "mine")
        (mine,) = await settled(outbox, "mine")
    assert mine.state == "sent" and bench.texts() == ["For me."]
    waits = await outbox.get("other")
    assert (waits.state, waits.attempts) == ("pending", 0)
