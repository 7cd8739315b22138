"""A Signal account against the fault server: what it hears over lost connections, and what it does to messages."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from openclaw.channels.signal.channel import Signal
from openclaw.channels.signal.settings import SignalSettings
from openclaw.core.channel import (
    AccountClosed,
    Address,
    InboundFile,
    MessageRefused,
    Outbound,
    TryLater,
    Unsure,
)
from openclaw.core.errors import StateError
from tests.channels.scripted import Heard, listening, there
from tests.channels.signal.server import ADA, EVE, GROUP, ME, MY_UUID, Fault, SignalServer

pytestmark = pytest.mark.anyio

HER = Address(channel="signal", to=ADA)
CLUB = Address(channel="signal", to=GROUP)


@pytest.fixture
def server() -> Iterator[SignalServer]:
    with SignalServer() as running:
        yield running


@pytest.fixture
async def signal(server: SignalServer) -> AsyncIterator[Signal]:
    made = Signal(ME, settings=SignalSettings(account=ME, http_url=server.url))
    yield made
    await made.close()


async def test_messages_groups_quotes_edits_and_reactions_are_heard(server: SignalServer, signal: Signal) -> None:
    inbox = Heard()
    hello = server.says("hello")  # before anybody listens: it waits on the servers
    async with listening(signal, inbox):
        mention = [{"name": "Claw", "uuid": MY_UUID, "number": None, "start": 0, "length": 1}]
        server.says("\ufffc look", sender=EVE, group=GROUP, mentions=mention)
        quote = {"id": 5, "author": ME, "authorNumber": ME, "text": "before"}
        server.says("and this?", group=GROUP, quote=quote)
        server.edits(hello, "hello!")
        server.reacts("5", "👍")
        server.happens({"receiptMessage": {"isRead": True}})
        server.says("the last")
        direct, named, answer, edit, mark, last = await inbox.until(lambda: len(inbox.events) == 6)
        await there(server, lambda: len(server.called("sendReceipt")) == 4)
    assert (direct.text, direct.sender, direct.sender_name, direct.origin.to) == ("hello", ADA, "Ada", ADA)
    assert (named.text, named.group, named.group_name, named.mentioned) == ("look", GROUP, "Club", True)
    assert answer.mentioned and answer.quote is not None and answer.quote.ours
    assert (edit.kind, edit.about, mark.kind, mark.about, last.text) == ("edit", hello, "reaction", "5", "the last")
    receipts = server.called("sendReceipt")
    assert {each["type"] for each in receipts} == {"read"} and receipts[1]["recipient"] == EVE


async def test_what_could_not_be_recorded_is_handed_over_first(server: SignalServer, signal: Signal) -> None:
    inbox = Heard(failures=2)
    server.says("one")
    for _ in range(2):
        async with listening(signal, inbox) as task:
            with pytest.raises(StateError):
                await task
    server.says("two")
    async with listening(signal, inbox):
        events = await inbox.until(lambda: len(inbox.events) == 2)
    assert [each.text for each in events] == ["one", "two"]


async def test_a_cut_stream_and_a_silent_one_are_lost_connections(server: SignalServer, signal: Signal) -> None:
    async with listening(signal, Heard()) as task:
        await there(server, lambda: server.listeners)
        server.drop()
        with pytest.raises(TryLater):
            await task
    server.silent = True
    quiet = Signal(ME, settings=SignalSettings(account=ME, http_url=server.url), silent=0.3)
    with pytest.raises(TryLater, match="silent"):
        await quiet.run(None, Heard())
    await quiet.close()


async def test_what_is_wrong_with_the_daemon_is_said(server: SignalServer) -> None:
    other = Signal("+15559999", settings=SignalSettings(http_url=server.url))
    with pytest.raises(AccountClosed, match="signal-cli link"):
        await other.run(None, Heard())
    server.accounts = [ME]
    with pytest.raises(AccountClosed, match=r"no account \+15559999"):
        await other.probe()
    server.unavailable = True
    with pytest.raises(TryLater, match="503"):
        await other.probe()
    await other.close()
    nobody = Signal(ME, settings=SignalSettings(http_url="http://127.0.0.1:9"))
    with pytest.raises(TryLater, match=r"start it with signal-cli -a \+15550000 daemon"):
        await nobody.run(None, Heard())
    await nobody.close()


async def test_a_message_is_sent_edited_reacted_to_and_deleted(server: SignalServer, signal: Signal) -> None:
    sent = await signal.send(Outbound(to=HER, text="**Good** day"))
    (message,) = server.sent
    assert (message["message"], message["textStyle"], message["to"]) == ("Good day", ["0:4:BOLD"], ADA)
    edited = await signal.send(Outbound(to=HER, text="Done", action="edit", about=sent.id))
    assert edited.id == sent.id and message["message"] == "Done" and len(server.sent) == 1
    await signal.send(Outbound(to=CLUB, text="👀", action="react", about=f"5:{ADA}"))
    await signal.send(Outbound(to=CLUB, text="", action="react", about=f"5:{ADA}"))
    added, removed = server.called("sendReaction")
    assert (added["emoji"], added["targetAuthor"], added["targetTimestamp"], added["groupId"]) == ("👀", ADA, 5, GROUP)
    assert removed["remove"] is True
    await signal.send(Outbound(to=HER, text="", action="delete", about=sent.id))
    assert not server.sent
    await signal.typing(HER)
    assert server.called("sendTyping")[0]["recipient"] == [ADA]


async def test_an_answer_quotes_what_it_answers(server: SignalServer, signal: Signal) -> None:
    inbox = Heard()
    async with listening(signal, inbox):
        name = server.says("what is it?", group=GROUP)
        await inbox.until(lambda: inbox.events)
        await signal.send(Outbound(to=CLUB, text="It is this.", reply_to=name))
    (message,) = server.sent
    assert (message["groupId"], message["quoteAuthor"], message["quoteMessage"]) == (GROUP, ADA, "what is it?")
    assert message["quoteTimestamp"] == int(name.partition(":")[0])


async def test_a_file_goes_out_and_comes_in(server: SignalServer, signal: Signal, tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_bytes(b"content")
    await signal.send(Outbound(to=HER, text="look", media=(str(tmp_path / "a b.txt"),)))
    assert server.sent[0]["files"] == [("a b.txt", b"content")] and server.sent[0]["message"] == "look"
    server.files["b.png"] = b"bytes" * 1000
    pieces = [piece async for piece in signal.fetch(InboundFile(ref=f"b.png|{ADA}"))]
    assert b"".join(pieces) == b"bytes" * 1000 and server.called("getAttachment")[0]["recipient"] == ADA
    for ref, why in (("c|" + GROUP, "Could not find"), ("../x|" + ADA, "no file"), ("a|nobody", "nobody")):
        with pytest.raises(MessageRefused, match=why):
            [piece async for piece in signal.fetch(InboundFile(ref=ref))]


async def test_faults_are_told_apart(server: SignalServer, signal: Signal) -> None:
    server.faults = [
        Fault("send", 502),
        Fault("send", code=-5, message="Rate limited"),
        Fault("send", code=-3, message="Connection closed"),
    ]
    waits = []
    for _ in range(3):
        with pytest.raises(TryLater) as told:
            await signal.send(Outbound(to=HER, text="x"))
        waits.append(told.value.after)
    assert waits == [None, 60.0, None]
    server.faults = [Fault("send", cut="after"), Fault("send", code=-4, message="Untrusted Identity")]
    with pytest.raises(Unsure):
        await signal.send(Outbound(to=HER, text="there?"))
    with pytest.raises(MessageRefused, match="trust"):
        await signal.send(Outbound(to=HER, text="x"))
    with pytest.raises(MessageRefused, match="UNREGISTERED"):
        await signal.send(Outbound(to=Address(channel="signal", to="+15559999"), text="x"))


FAKE = """#!{python}
import sys
sys.path.insert(0, {root!r})
from tests.channels.signal.server import SignalServer
if "listAccounts" in sys.argv:
    print('[{{"number": "+15550000"}}]')
elif "+15550000" not in sys.argv:
    print("User +15559999 is not registered.", file=sys.stderr)
    sys.exit(1)
else:
    assert sys.argv[1:4] == ["-a", "+15550000", "daemon"] and "on-connection" in sys.argv, sys.argv
    port = int(sys.argv[sys.argv.index("--http") + 1].partition(":")[2])
    with SignalServer(port) as server:
        server.says("hello from a daemon of our own")
        server.until(lambda: server.called("sendReceipt"))
        server.until(lambda: False, 600)
"""


async def test_without_an_address_a_daemon_is_started_and_ended(tmp_path: Path) -> None:
    program = tmp_path / "signal-cli"
    program.write_text(FAKE.format(python=sys.executable, root=str(Path.cwd())))
    program.chmod(0o755)
    signal = Signal(ME, settings=SignalSettings(account=ME, cli_path=str(program), startup_timeout_ms=120_000))
    assert (await signal.probe()).id == ME
    inbox = Heard()
    with pytest.raises(TryLater, match="not running"):
        await signal.send(Outbound(to=HER, text="x"))
    async with listening(signal, inbox):
        events = await inbox.until(lambda: inbox.events)
        await signal.send(Outbound(to=HER, text="heard"))
    assert events[0].text == "hello from a daemon of our own"
    await signal.close()
    other = Signal("+15559999", settings=SignalSettings(cli_path=str(program)))
    with pytest.raises(AccountClosed, match="signal-cli link"):
        await other.run(None, Heard())
    with pytest.raises(AccountClosed, match="no account"):
        await other.probe()
    await other.close()
    missing = Signal(ME, settings=SignalSettings(cli_path=str(tmp_path / "nothing")))
    for use in (missing.probe, lambda: missing.run(None, Heard())):
        with pytest.raises(AccountClosed, match="is not installed"):
            await use()
    await missing.close()
