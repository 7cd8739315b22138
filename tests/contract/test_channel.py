"""What every chat platform does, against a scripted server that fails on demand, and the same on the fake.

The machinery is the real one: the inbox and outbox of a database, and the sender. A process that was killed is one
whose rows belong to nobody who lives.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from openclaw.channels.chunking import measure
from openclaw.channels.delivery import Sender
from openclaw.channels.discord.channel import Discord
from openclaw.channels.discord.settings import DiscordSettings
from openclaw.channels.email.channel import Email
from openclaw.channels.email.settings import EmailSettings, SenderAuthSettings
from openclaw.channels.inbox import ChannelInbox
from openclaw.channels.irc.channel import Irc
from openclaw.channels.irc.settings import IrcSettings
from openclaw.channels.matrix.channel import Matrix
from openclaw.channels.matrix.client import MatrixSession
from openclaw.channels.matrix.settings import MatrixSettings
from openclaw.channels.settings import DeliverySettings
from openclaw.channels.signal.channel import Signal
from openclaw.channels.signal.settings import SignalSettings
from openclaw.channels.slack.channel import Slack
from openclaw.channels.slack.settings import SlackSettings
from openclaw.channels.telegram.channel import Telegram
from openclaw.channels.telegram.settings import TelegramSettings
from openclaw.channels.webhook.channel import WebhookChannel
from openclaw.channels.webhook.settings import WebhookChannelSettings
from openclaw.channels.whatsapp.channel import WhatsApp
from openclaw.channels.whatsapp.settings import WhatsAppSettings
from openclaw.core.channel import (
    Address,
    ChannelWebhook,
    Inbound,
    Outbound,
    Platform,
    Receipt,
    TakesEvents,
    TakesWebhooks,
    TryLater,
    Unsure,
)
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
from tests.channels.email import server as email_server
from tests.channels.fake_platform import Slate
from tests.channels.http_fault import HttpFault
from tests.channels.irc import server as irc_server
from tests.channels.matrix import server as matrix_server
from tests.channels.signal import server as signal_server
from tests.channels.slack import server as slack_server
from tests.channels.telegram import server as telegram_server
from tests.channels.webhook import server as webhook_server
from tests.channels.whatsapp import server as whatsapp_server

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
    flood_wait = 200.0
    redelivers = True
    """Whether what was not acknowledged comes again."""

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """What it takes to be able to send."""
        yield

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


class CallingBench(Bench):
    """A platform that calls us, and again until it is answered well."""

    def __init__(self) -> None:
        self.calls: list[ChannelWebhook] = []

    async def hear(self, cursor: str | None, inbox: TakesEvents) -> None:
        """Hears as the gateway does; what the machinery does not take ends it."""
        assert isinstance(self.platform, TakesWebhooks)
        running = asyncio.create_task(self.platform.run(cursor, inbox))
        try:
            while True:
                await until(lambda: self.calls)
                answer = await self.platform.take_webhook(self.calls[0], inbox)
                assert answer.status < 300
                self.calls.pop(0)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


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
                        end = len(bench.said)  # more may come while these are taken
                        await inbox.take(bench.said[at:end], str(end))
                        at = end
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


class EmailBench(Bench):
    def __init__(self, server: email_server.MailboxServer) -> None:
        self.server = server
        section = server.section
        settings = EmailSettings(
            address=section["address"],
            imap=section["imap"],
            smtp=section["smtp"],
            sender_auth=SenderAuthSettings(trusted_authserv_ids=(email_server.AUTHSERV,)),
        )
        self.platform = Email(Secret(email_server.PASSWORD), SystemClock(), settings=settings)
        self.to = Address(channel="email", to=email_server.ADA)

    def writes(self, text: str) -> None:
        self.server.says(text, Subject="")

    def texts(self) -> list[str]:
        return self.server.texts()

    def listens(self) -> bool:
        return self.server.waits()

    def meet(self, fault: str) -> None:
        said = {"429": "450 4.7.1 please try again in 200 seconds", "500": "451 4.3.0 not now"}
        self.server.faults = [said.get(fault, fault)]


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


class SignalBench(Bench):
    """Its daemon does not wait for acknowledgements: what was not committed is kept by the platform itself."""

    flood_wait = 60.0

    def __init__(self, server: signal_server.SignalServer) -> None:
        self.server = server
        self.platform = Signal(signal_server.ME, settings=SignalSettings(http_url=server.url))
        self.to = Address(channel="signal", to=signal_server.ADA)

    def writes(self, text: str) -> None:
        self.server.says(text)

    def texts(self) -> list[str]:
        return [each["message"] for each in list(self.server.sent)]

    def meet(self, fault: str) -> None:
        # signal-cli names no seconds with its rate limit: a minute is waited for.
        status, code = (500 if fault == "500" else 0), (-5 if fault == "429" else 0)
        cut = fault if fault in ("before", "after") else ""
        self.server.faults = [signal_server.Fault("send", status, code=code, cut=cut)]


class WebhookBench(CallingBench):
    def __init__(self, server: webhook_server.WebhookProgram) -> None:
        super().__init__()
        self.server = server
        settings = WebhookChannelSettings(url=f"{server.url}/take")
        self.platform = WebhookChannel(Secret(webhook_server.SECRET), SystemClock(), settings=settings)
        self.to = Address(channel="webhook", to="ada")

    def writes(self, text: str) -> None:
        self.calls.append(self.server.call(text=text))

    def texts(self) -> list[str]:
        return self.server.texts()

    def meet(self, fault: str) -> None:
        status = int(fault) if fault.isdecimal() else 0
        self.server.faults = [
            HttpFault("/take", status, after="200" if status == 429 else "", cut="" if status else fault)
        ]


class WhatsAppBench(CallingBench):
    def __init__(self, server: whatsapp_server.CloudApi) -> None:
        super().__init__()
        self.server = server
        settings = WhatsAppSettings(
            api_root=server.url,
            phone_number_id=whatsapp_server.NUMBER_ID,
            app_secret=Secret(whatsapp_server.APP_SECRET),
        )
        self.platform = WhatsApp(Secret(whatsapp_server.TOKEN), settings=settings)
        self.to = Address(channel="whatsapp", to=f"+{whatsapp_server.ADA}")

    def writes(self, text: str) -> None:
        self.calls.append(self.server.says(text))

    def texts(self) -> list[str]:
        return self.server.texts()

    def meet(self, fault: str) -> None:
        status = int(fault) if fault.isdecimal() else 0
        after = "200" if status == 429 else ""
        self.server.faults = [HttpFault("/messages", status, after=after, cut="" if status else fault)]


class IrcBench(Bench):
    redelivers = False

    def __init__(self, server: irc_server.IrcTestServer) -> None:
        self.server = server
        settings = IrcSettings(server=server.address, nick=irc_server.NICK, password=Secret(irc_server.PASSWORD))
        self.platform = Irc(FastClock(), settings=settings)
        self.to = Address(channel="irc", to="ada")

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        async def keep() -> None:
            while True:
                with suppress(TryLater):
                    await self.platform.run(None, Deaf())

        task = asyncio.create_task(keep())
        try:
            await until(self.listens)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def writes(self, text: str) -> None:
        self.server.says(text)

    def texts(self) -> list[str]:
        return self.server.texts()

    def listens(self) -> bool:
        return bool(self.server.connections)

    def meet(self, fault: str) -> None:
        said = {"429": "439 :Target change too fast. Please wait 200 seconds.", "500": "263 :Please wait a while"}
        self.server.faults = [said.get(fault, fault)]


class Deaf:
    def connected(self) -> None: ...

    async def take(self, events: Sequence[Inbound], cursor: str | None) -> None: ...


@pytest.fixture(
    params=["fake", "telegram", "matrix", "discord", "slack", "signal", "email", "webhook", "whatsapp", "irc"]
)
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
        case "signal":
            with signal_server.SignalServer() as signal:
                made = SignalBench(signal)
                yield made
                await made.platform.close()
        case "slack":
            with slack_server.SlackServer() as slack:
                made = SlackBench(slack)
                yield made
                await made.platform.close()
        case "email":
            with email_server.MailboxServer() as mailbox:
                made = EmailBench(mailbox)
                yield made
                await made.platform.close()
        case "webhook":
            with webhook_server.WebhookProgram() as program:
                made = WebhookBench(program)
                yield made
                await made.platform.close()
        case "whatsapp":
            with whatsapp_server.CloudApi() as cloud:
                made = WhatsAppBench(cloud)
                yield made
                await made.platform.close()
        case "irc":
            with irc_server.IrcTestServer() as ircd:
                made = IrcBench(ircd)
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
    hear = bench.hear if isinstance(bench, CallingBench) else bench.platform.run
    task = asyncio.create_task(hear(cursor, taking))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_was_not_committed_comes_again_and_what_was_does_not(bench: Bench, db: Sqlite) -> None:
    if not bench.redelivers:
        pytest.skip(f"{bench.platform.name} keeps nothing for those who are not there")
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
async def sending(bench: Bench, outbox: Outbox, clock: SystemClock | None = None, **more: Any) -> AsyncIterator[None]:
    platforms = {(bench.platform.name, "default"): bench.platform}
    sender = Sender(outbox, platforms, clock or FastClock(), Fixed(DeliverySettings(**more)), jitter=lambda: 0.5)
    async with bench.connected():
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
        assert clock.now() - began >= bench.flood_wait, "it is waited for as long as the platform says"


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
    if not bench.platform.facts.media_bytes:
        assert bench.texts() == ["look", "[not sent here: file.bin]", "And on."]
        return
    assert (refused.state, following.state) == ("refused", "sent") and why in refused.error
    assert bench.texts() == ["And on."]


async def test_two_conversations_do_not_wait_for_each_other(bench: Bench, db: Sqlite) -> None:
    clock = SystemClock()  # one waits for minutes, so that nothing here is quick or slow by chance
    outbox = Outbox(db, clock)
    bench.meet("429")
    others = {
        "telegram": "8",
        "matrix": "@bob:test",
        "discord": "8",
        "slack": "U008",
        "signal": "+15550008",
        "email": email_server.EVE,
        "webhook": "bob",
        "irc": "bob",
        "whatsapp": f"+{whatsapp_server.EVE}",
        "slate": "bob",
    }
    elsewhere = Address(channel=bench.to.channel, to=others[bench.to.channel])
    async with sending(bench, outbox, clock):
        await outbox.put(Outbound(to=bench.to, text="Slow."), "slow")
        async with asyncio.timeout(DEADLINE):
            while not (await outbox.get("slow")).error:
                await asyncio.sleep(0.01)
        await outbox.put(Outbound(to=elsewhere, text="Quick."), "quick")
        (quick,) = await settled(outbox, "quick")
        assert quick.state == "sent" and (await outbox.get("slow")).state == "pending"


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
