"""A Signal account over signal-cli's daemon: hears its stream of events, calls its methods.

The daemon does not wait for an acknowledgement. What could not be put on record is kept here and handed over before
anything else; only what arrives in the instant in which the gateway is killed is lost.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import structs

from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.http import translate_errors, unclear
from openclaw.channels.media.outbound import read_file
from openclaw.channels.signal import wire
from openclaw.channels.signal.daemon import SignalDaemon, list_accounts
from openclaw.channels.signal.settings import SignalSettings
from openclaw.channels.signal.wire import SignalCall, SignalRefused, SignalSelf
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Address,
    ChannelFacts,
    Inbound,
    InboundFile,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
)
from openclaw.core.errors import InvalidRequest
from openclaw.models.providers.http import certificates

log = logging.getLogger("openclaw.channels")

ANSWER_SECONDS = 60.0
"""A message goes to every device of every member of a group before its call is answered."""
SILENT_SECONDS = 60.0
"""The daemon gives a sign of life every fifteen seconds; without any the stream counts as lost."""
LOOK_SECONDS = 0.25
MOST_TEXTS = 500
LINE_BYTES = 4_000_000


class Signal:
    """One account."""

    name = wire.NAME

    def __init__(
        self, number: str, *, account: str = "default", settings: SignalSettings, silent: float = SILENT_SECONDS
    ) -> None:
        self.account = account
        self._settings = settings
        self._silent = silent
        self._url = (settings.http_url or "").rstrip("/")
        self._me = SignalSelf(number)
        self.facts: ChannelFacts = structs.replace(wire.FACTS, media_bytes=settings.media_max_mb * 1_000_000)
        self._pending: list[Inbound] = []
        """What was heard and is not on record yet."""
        self._texts: dict[str, str] = {}
        """What people said lately: an answer repeats what it answers."""
        self._hearing: asyncio.Task[None] | None = None
        """Fills `_pending`; ends with `close`."""
        self._is_connected = False
        self._stirred = asyncio.Event()
        self._http = httpx2.AsyncClient(verify=certificates(), timeout=ANSWER_SECONDS)

    # Hearing.

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        """Hands over what is heard. The stream outlives a failure to record it: what it holds would be lost with it."""
        if self._hearing is None:
            self._is_connected = False
            self._hearing = asyncio.create_task(self._hear_all(), name=f"signal:{self.account}")
            self._hearing.add_done_callback(self._stir)
        told = False
        while True:
            self._stirred.clear()
            if self._is_connected and not told:
                inbox.connected()
                told = True
            await self._hand_over(inbox)
            if self._hearing.done():
                ended, self._hearing = self._hearing, None
                ended.result()
                raise TryLater("signal-cli closed the connection")
            await self._stirred.wait()

    def _stir(self, _: object = None) -> None:
        self._stirred.set()

    async def _hear_all(self) -> None:
        """Listens to the daemon, which is started where none is named, until one of them ends."""
        if self._settings.http_url:
            await self._listen()
            return
        settings = self._settings
        daemon = SignalDaemon(settings.cli_path, self._me.number, attachments=not settings.ignore_attachments)
        self._url = daemon.url
        tasks = {
            asyncio.create_task(daemon.keep(), name="signal-cli"),
            asyncio.create_task(self._listen(), name="signal:listen"),
        }
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            self._url = ""
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self) -> None:
        await self._wait_for_daemon()
        self._me = await self._look_up_self()
        url = f"{self._url}/api/v1/events?account={quote(self._me.number, safe='')}"
        patience = httpx2.Timeout(ANSWER_SECONDS, read=self._silent)
        try:
            async with self._http.stream("GET", url, timeout=patience) as answer:
                if answer.status_code == 400:  # a daemon with several accounts does not have this one
                    raise AccountClosed(wire.unregistered(self._me.number))
                if answer.status_code != 200:
                    raise TryLater(f"signal-cli answered {answer.status_code} instead of its events")
                self._is_connected = True
                self._stir()
                await self._read(answer)
        except httpx2.ReadTimeout:
            raise TryLater("signal-cli has gone silent") from None
        except httpx2.HTTPError as error:
            raise TryLater(f"the connection to signal-cli was lost: {type(error).__name__}") from None

    async def _read(self, answer: httpx2.Response) -> None:
        data: list[str] = []
        async for line in answer.aiter_lines():
            if line.startswith("data:"):
                data.append(line.removeprefix("data:").removeprefix(" "))
                if sum(map(len, data)) > LINE_BYTES:
                    raise TryLater("signal-cli sent an event without an end")
            elif not line and data:
                self._hear("\n".join(data))
                data = []

    def _hear(self, data: str) -> None:
        try:
            value = wire.decode_json(data)
            heard = wire.decode_event(value, self._me, self.account, files=not self._settings.ignore_attachments)
        except InvalidRequest as error:  # what one sender can shape must not keep the next from being heard
            log.warning("channel signal: an event is passed over: %s", error.message)
            return
        if heard is None:
            if isinstance(value, Mapping) and "exception" in value:
                failed = wire.decode(value, wire.SignalEvent).exception
                log.warning("channel signal: a message could not be read: %s", str(failed and failed.message)[:200])
            return
        self._pending.append(heard)
        self._stir()
        self._texts[heard.id] = heard.text
        if len(self._texts) > MOST_TEXTS:
            self._texts.pop(next(iter(self._texts)))

    async def _hand_over(self, inbox: TakesEvents) -> None:
        if not self._pending:
            return
        events = list(self._pending)
        await inbox.take(events, None)
        del self._pending[: len(events)]
        if self._settings.send_read_receipts:
            for each in events:
                if each.kind == "message":
                    await self._confirm(each)

    async def _confirm(self, event: Inbound) -> None:
        """Shows that a message was read; that it was not shown is no reason to hear nothing more."""
        when, author = wire.split_id(event.id)
        params = {"recipient": author.removeprefix("uuid:"), "targetTimestamp": when, "type": "read"}
        try:
            await self._ask(SignalCall(method="sendReceipt", params={"account": self._me.number, **params}))
        except (MessageRefused, TryLater) as error:
            log.info("channel signal: no receipt: %s", error.message)

    async def _wait_for_daemon(self) -> None:
        """Java takes its time to start."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (0 if self._settings.http_url else self._settings.startup_timeout_ms / 1000)
        while True:
            try:
                answer = await self._http.get(f"{self._url}/api/v1/check")
            except httpx2.HTTPError as error:
                why = f"signal-cli does not answer on {self._url} ({type(error).__name__})"
            else:
                if answer.status_code == 200:
                    return
                why = f"{self._url} answers {answer.status_code}: is that signal-cli's daemon?"
            if loop.time() >= deadline:
                command = f"signal-cli -a {self._me.number} daemon --http HOST:PORT --receive-mode on-connection"
                raise TryLater(f"{why}; start it with {command}")
            await asyncio.sleep(LOOK_SECONDS)

    async def _look_up_self(self) -> SignalSelf:
        """Our uuid, by which people may mention us."""
        number = self._me.number
        try:
            found = await self._ask(
                SignalCall(method="getUserStatus", params={"account": number, "recipient": [number]})
            )
        except (MessageRefused, TryLater) as error:
            log.info("channel signal: our uuid is not known: %s", error.message)
            return self._me
        uuids = [each.get("uuid") for each in found or () if isinstance(each, Mapping)] if found else []
        return SignalSelf(number, str(uuids[0]) if uuids and uuids[0] else "")

    # Speaking.

    async def send(self, message: Outbound) -> Receipt:
        call = wire.encode_message(message, self._me, self._texts.get(message.reply_to or "", ""))
        if call.file:
            call = structs.replace(
                call, params={**call.params, "attachments": [await asyncio.to_thread(_inline, call)]}
            )
        result = await self._ask(call, sending=message.action == "send")
        receipt = wire.decode_receipt(result)
        # An edit has a time of its own, but stays the message that it was.
        return receipt if message.action == "send" else Receipt(id=message.about or "", timestamp=receipt.timestamp)

    def length(self, text: str) -> int:
        return len(wire.encode_text(text)[0])

    async def typing(self, to: Address) -> None:
        await self._ask(SignalCall(method="sendTyping", params={"account": self._me.number, **wire.encode_target(to)}))

    async def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        if file.size > self.facts.media_bytes:
            raise MessageRefused(f"it has {file.size:,} bytes; channels.signal.mediaMaxMb allows fewer")
        params = {"account": self._me.number, **wire.split_file(file.ref)}
        found = await self._ask(SignalCall(method="getAttachment", params=params))
        try:
            yield base64.b64decode(str(found["data"]), validate=True)
        except (TypeError, KeyError, ValueError) as error:
            raise MessageRefused("signal-cli handed out something that is no file") from error

    async def probe(self) -> AccountProbe:
        number = self._me.number
        if not self._url:
            accounts: list[str] | None = await list_accounts(self._settings.cli_path)
        else:
            await self._wait_for_daemon()
            try:
                found = await self._ask(SignalCall(method="listAccounts"))
                accounts = [str(each.get("number")) for each in found if isinstance(each, Mapping)]
            except SignalRefused:  # a daemon of one account has no list
                accounts = None
        if accounts is not None and number not in accounts:
            raise AccountClosed(wire.unregistered(number))
        return AccountProbe(id=number, name=number)

    async def close(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.gather(self._hearing, return_exceptions=True)
        await self._http.aclose()

    async def _ask(self, call: SignalCall, *, sending: bool = False) -> Any:
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "method": call.method, "params": call.params})
        headers = {"content-type": "application/json"}
        if not self._url:
            raise TryLater("signal-cli is not running")
        with translate_errors("signal-cli", call.method, sending=sending):
            answer = await self._http.post(f"{self._url}/api/v1/rpc", content=body, headers=headers)
        try:
            found = wire.decode_json(answer.content) if answer.content else {}
        except InvalidRequest:
            found = None
        if answer.status_code >= 300 or (isinstance(found, Mapping) and "error" in found):
            raise wire.failure(call.method, answer.status_code, found, self._me.number)
        if not isinstance(found, Mapping):
            raise unclear(f"signal-cli answered {call.method} with something that is no JSON", sending)
        return found.get("result")


def _inline(call: SignalCall) -> str:
    """A file as the daemon takes it, which may be on another machine."""
    name, kind, content = read_file(call.file)
    return f"data:{kind};filename={quote(name)};base64,{base64.b64encode(content).decode()}"


def build(config: AccountConfig, context: ChannelContext) -> Signal:
    assert isinstance(config.settings, SignalSettings)
    return Signal(config.credential.reveal(), account=config.account, settings=config.settings)
