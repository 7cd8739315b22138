"""A program that talks to the assistant: calls the gateway with what people say, and is called with the answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from urllib.parse import urlsplit

import httpx2
from msgspec import structs

from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.http import stream_file, translate_errors
from openclaw.channels.media.outbound import read_file
from openclaw.channels.webhook import wire
from openclaw.channels.webhook.settings import WebhookChannelSettings
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Action,
    ChannelFacts,
    ChannelWebhook,
    ChannelWebhookAnswer,
    InboundFile,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
    Unsure,
)
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret
from openclaw.models.providers.http import certificates

ANSWER_SECONDS = 30.0
REFUSED = (400, 404, 405, 410, 413, 415, 422)
"""What a message is answered with that would never be taken; everything else may be better later."""


class WebhookChannel:
    """One program on the other side."""

    name = wire.NAME

    def __init__(
        self, secret: Secret, clock: Clock, *, account: str = "default", settings: WebhookChannelSettings
    ) -> None:
        self.account = account
        self._secret = secret
        self._clock = clock
        self._settings = settings
        actions: tuple[Action, ...] = ("send", *settings.actions)
        self.facts: ChannelFacts = structs.replace(
            wire.FACTS, media_bytes=settings.media_max_mb * 1_000_000, actions=actions, buttons=settings.buttons
        )
        self._http = httpx2.AsyncClient(verify=certificates(), timeout=ANSWER_SECONDS)

    @property
    def webhook_path(self) -> str:
        usual = "/webhook" if self.account == "default" else f"/webhook/{self.account}"
        return self._settings.webhook_path or usual

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        """It calls us; there is nothing to keep open."""
        inbox.connected()
        await asyncio.Event().wait()

    async def take_webhook(self, call: ChannelWebhook, inbox: TakesEvents) -> ChannelWebhookAnswer:
        if call.method != "POST":
            return ChannelWebhookAnswer(status=405)
        key = wire.signing_key(self._secret.reveal())
        try:
            name = wire.check_signature(key, call.headers, call.body, self._clock.now())
        except InvalidRequest as error:
            return ChannelWebhookAnswer(status=401, text=error.message)
        try:
            event = wire.decode_call(call.body, name, self.account)
        except InvalidRequest as error:
            return ChannelWebhookAnswer(status=400, text=error.message)
        await inbox.take([event], None)
        return ChannelWebhookAnswer(status=202)

    async def send(self, message: Outbound) -> Receipt:
        files = [await asyncio.to_thread(read_file, path) for path in message.media]
        name, body = wire.encode_message(message, files, self._clock.now())
        answer = await self._post(name, body)
        return Receipt(id=wire.decode_receipt(answer.content) or message.about or name)

    async def probe(self) -> AccountProbe:
        """Calls the other side with a message of the type `ping`."""
        try:
            await self._post(*wire.encode_ping(self._clock.now()))
        except Unsure as error:
            raise TryLater(error.message) from error
        except MessageRefused as error:
            raise AccountClosed(f"{error.message}; it must answer a ping with 200") from error
        return AccountProbe(id=urlsplit(self._url).netloc)

    @property
    def _url(self) -> str:
        if not self._settings.url:
            raise MessageRefused("nobody can be called: set channels.webhook.url to the address that takes answers")
        return self._settings.url

    async def _post(self, name: str, body: bytes) -> httpx2.Response:
        url, now = self._url, int(self._clock.now())
        headers = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(now),
            "webhook-signature": wire.sign(wire.signing_key(self._secret.reveal()), name, now, body),
        }
        where = urlsplit(url).netloc
        try:
            with translate_errors(where, sending=True):
                answer = await self._http.post(url, content=body, headers=headers)
        except httpx2.InvalidURL as error:
            raise MessageRefused(f"channels.webhook.url is no address: {error}") from error
        if answer.status_code < 300:
            return answer
        why = f"{where} answered {answer.status_code}"
        if answer.status_code in REFUSED:
            raise MessageRefused(why)
        after = answer.headers.get("retry-after", "")
        raise TryLater(why, after=float(after) if after.isdecimal() and after.isascii() else None)

    async def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        """Files are fetched from the other side's own server, and from nowhere else."""
        own, asked = urlsplit(self._url), urlsplit(file.ref)
        if (asked.scheme, asked.netloc) != (own.scheme, own.netloc):
            raise MessageRefused(f"its address is not on {own.scheme}://{own.netloc}, where channels.webhook.url is")
        async with aclosing(stream_file(self._http, file.ref, own.netloc)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        await self._http.aclose()


def build(config: AccountConfig, context: ChannelContext) -> WebhookChannel:
    assert isinstance(config.settings, WebhookChannelSettings)
    return WebhookChannel(config.credential, context.clock, account=config.account, settings=config.settings)
