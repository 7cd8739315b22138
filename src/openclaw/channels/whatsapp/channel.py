"""A number of the Cloud API: Meta calls the gateway with what people write; answers and files go to its Graph API."""

import asyncio
import logging
import mimetypes
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import structs

from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.http import stream_file, translate_errors, unclear
from openclaw.channels.whatsapp import wire
from openclaw.channels.whatsapp.settings import WhatsAppSettings
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Address,
    ChannelFacts,
    ChannelWebhook,
    ChannelWebhookAnswer,
    InboundFile,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
)
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret
from openclaw.models.providers.http import certificates
from openclaw.protocol.auth import secrets_equal

log = logging.getLogger("openclaw.channels")

API_ROOT = "https://graph.facebook.com"
FILE_HOSTS = (".fbsbx.com", ".facebook.com", ".whatsapp.net", ".fbcdn.net")
ANSWER_SECONDS = 30.0
UPLOAD_SECONDS = 300.0
MOST_CHATS = 1_000
SIGNATURE = "x-hub-signature-256"


class WhatsApp:
    """One number."""

    name = wire.NAME

    def __init__(self, token: Secret, *, account: str = "default", settings: WhatsAppSettings) -> None:
        self.account = account
        self._token = token
        self._settings = settings
        self._root = f"{(settings.api_root or API_ROOT).rstrip('/')}/{settings.api_version}"
        self._number = settings.phone_number_id or ""
        self.facts: ChannelFacts = structs.replace(wire.FACTS, media_bytes=settings.media_max_mb * 1_000_000)
        self._last: dict[str, str] = {}
        """The last message of a person: a typing notice belongs to one."""
        self._http = httpx2.AsyncClient(verify=certificates(), timeout=ANSWER_SECONDS)

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        """Meta calls us; we only look whether the token is good."""
        await self.probe()
        inbox.connected()
        await asyncio.Event().wait()

    # Hearing.

    @property
    def webhook_path(self) -> str:
        # An app has one address for all its numbers: the calls say which is meant.
        return self._settings.webhook_path or "/whatsapp-webhook"

    async def take_webhook(self, call: ChannelWebhook, inbox: TakesEvents) -> ChannelWebhookAnswer:
        if call.method == "GET":
            return self._shake_hands(call)
        secret = self._settings.app_secret
        if secret is None or not wire.is_signed(call.body, call.headers.get(SIGNATURE, ""), secret.reveal()):
            return ChannelWebhookAnswer(status=401)
        try:
            news = wire.decode_call(call.body, self._number, self.account)
        except InvalidRequest as error:
            # Refused, it would come again and again.
            log.warning("channel %s: a call of Meta's is passed over: %s", self.name, error.message)
            return ChannelWebhookAnswer()
        if not news.ours:
            return ChannelWebhookAnswer(status=401)  # another account's number
        for to, why in news.failures:
            log.error("channel %s: a message to %s did not arrive: %s", self.name, to, why)
        if news.events:
            await inbox.take(news.events, None)
        for event in news.events:
            self._last.pop(event.sender, None)
            self._last[event.sender] = event.id if event.kind == "message" else ""
        while len(self._last) > MOST_CHATS:
            del self._last[next(iter(self._last))]
        return ChannelWebhookAnswer()

    def _shake_hands(self, call: ChannelWebhook) -> ChannelWebhookAnswer:
        """Meta asks whether the address is ours, with the word that was agreed on."""
        token = self._settings.verify_token
        given = call.query.get("hub.verify_token", "")
        if call.query.get("hub.mode") != "subscribe" or token is None or not secrets_equal(given, token):
            return ChannelWebhookAnswer(status=401)
        return ChannelWebhookAnswer(text=call.query.get("hub.challenge", "")[:200])

    async def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        if not wire.is_media_id(file.ref):
            raise MessageRefused("it has no name that Meta would know")
        found = await self._ask("GET", file.ref)
        url = found.get("url") if isinstance(found, dict) else None
        host = urlsplit(url).hostname or "" if isinstance(url, str) else ""
        own = urlsplit(self._root).hostname
        # The token goes along, so only to Meta.
        if not isinstance(url, str) or not (host.endswith(FILE_HOSTS) or host == own):
            raise MessageRefused("Meta names no address for it")
        async with aclosing(stream_file(self._http, url, "Meta", headers=self._headers())) as pieces:
            async for piece in pieces:
                yield piece

    # Speaking.

    async def send(self, message: Outbound) -> Receipt:
        if message.media:
            body = await self._with_file(message)
        else:
            body = wire.encode_message(message)
        answer = await self._ask("POST", f"{self._number}/messages", body, sending=True)
        return Receipt(id=wire.decode_receipt(answer))

    async def _with_file(self, message: Outbound) -> dict[str, Any]:
        """A file is handed to Meta before the message that shows it; one that nobody shows is forgotten there."""
        path = Path(message.media[0])
        mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        try:
            size = path.stat().st_size
            file = await asyncio.to_thread(path.open, "rb")
        except OSError as error:
            raise MessageRefused(f"{path} cannot be read: {error.strerror}") from error
        with file:
            fields = {"messaging_product": "whatsapp", "type": mime}
            files = {"file": (path.name, file, mime)}
            answer = await self._ask("POST", f"{self._number}/media", fields, files=files)
        name = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(name, str):
            raise TryLater("Meta did not name the file")
        return wire.encode_message(message, name, mime, path.name, size)

    def length(self, text: str) -> int:
        return wire.length(text)

    async def typing(self, to: Address) -> None:
        if last := self._last.get(to.to):
            read = {"messaging_product": "whatsapp", "status": "read", "message_id": last}
            await self._ask("POST", f"{self._number}/messages", {**read, "typing_indicator": {"type": "text"}})

    async def probe(self) -> AccountProbe:
        try:
            found = await self._ask("GET", f"{self._number}?fields=display_phone_number,verified_name")
        except MessageRefused as error:
            raise AccountClosed(f"{error.message}: is {self._number} the phoneNumberId, and not the number?") from error
        known = found if isinstance(found, dict) else {}
        number = str(known.get("display_phone_number") or self._number)
        return AccountProbe(id=number, name=" ".join(filter(None, (known.get("verified_name"), number))))

    async def close(self) -> None:
        await self._http.aclose()

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token.reveal()}"}

    async def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        files: dict[str, Any] | None = None,
        sending: bool = False,
    ) -> Any:
        url, headers = f"{self._root}/{path}", self._headers()
        with translate_errors("WhatsApp", sending=sending):
            if files is not None:
                answer = await self._http.post(url, data=body, files=files, headers=headers, timeout=UPLOAD_SECONDS)
            else:
                content = msgspec.json.encode(body) if body is not None else None
                headers |= {"content-type": "application/json"}
                answer = await self._http.request(method, url, content=content, headers=headers)
        try:
            found = msgspec.json.decode(answer.content)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            found = None
        if answer.status_code >= 300:
            raise wire.failure(answer.status_code, found, answer.headers.get("retry-after", ""))
        if found is None:
            raise unclear("WhatsApp answered without JSON", sending)
        return found


def build(config: AccountConfig, context: ChannelContext) -> WhatsApp:
    assert isinstance(config.settings, WhatsAppSettings)
    return WhatsApp(config.credential, account=config.account, settings=config.settings)
