"""A Telegram bot: asks for updates, or is called with them, and hands them over; sends messages; fetches files."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
from msgspec import structs

from openclaw.channels.accounts import AccountConfig, ChannelContext
from openclaw.channels.http import stream_file, translate_errors, unclear
from openclaw.channels.media.outbound import open_file
from openclaw.channels.telegram import wire
from openclaw.channels.telegram.settings import TelegramSettings
from openclaw.channels.telegram.wire import BotIdentity, TelegramCall
from openclaw.core.channel import (
    AccountClosed,
    AccountProbe,
    Address,
    ChannelWebhook,
    ChannelWebhookAnswer,
    Inbound,
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

API_ROOT = "https://api.telegram.org"
POLL_SECONDS = 50
ANSWER_SECONDS = 30.0
SLACK_SECONDS = 15.0
"""How much later than promised an answer to a poll may come before the connection counts as dead."""
WEBHOOK_LOOK_SECONDS = 300.0
"""How often Telegram is asked whether its calls arrive here."""
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105
DEFAULT_SETTINGS = TelegramSettings()


class Telegram:
    """One bot."""

    name = wire.NAME
    facts = wire.FACTS

    def __init__(
        self,
        token: Secret,
        *,
        account: str = "default",
        settings: TelegramSettings = DEFAULT_SETTINGS,
        menu: Sequence[tuple[str, str]] = (),
    ) -> None:
        """`menu` has the names and descriptions of our commands."""
        self.account = account
        self._token = token
        self._settings = settings
        self._root = (settings.api_root or API_ROOT).rstrip("/")
        self._menu = [*menu, *((each.command, each.description) for each in settings.custom_commands)]
        self._webhook_secret = settings.webhook_secret or Secret(secrets.token_urlsafe(32))
        self._bot: BotIdentity | None = None
        proxy = settings.proxy.reveal() if settings.proxy else None
        self._http = httpx2.AsyncClient(verify=certificates(), timeout=ANSWER_SECONDS, proxy=proxy)

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        self._bot = bot = wire.decode_bot(await self._ask("getMe", {}))
        await self._show_menu()
        if self._settings.webhook_url:
            await self._be_called(inbox)
        else:
            await self._poll(cursor, bot, inbox)

    async def _poll(self, cursor: str | None, bot: BotIdentity, inbox: TakesEvents) -> None:
        inbox.connected()
        offset = int(cursor) if cursor is not None and cursor.isdecimal() else None
        while True:
            params: dict[str, Any] = {"timeout": POLL_SECONDS, "allowed_updates": list(wire.UPDATES)}
            if offset is not None:
                params["offset"] = offset
            try:
                found = await self._ask("getUpdates", params, seconds=POLL_SECONDS + SLACK_SECONDS)
            except TryLater as error:
                if "webhook is active" not in error.message:
                    raise
                log.info("channel %s: this bot had a webhook; it is deleted, because we poll", self.name)
                await self._ask("deleteWebhook", {})
                continue
            events, following = wire.decode_updates(found, bot, self.account)
            if following is not None:
                # Telegram forgets what lies before the offset of the next call: by then it is on record here.
                await inbox.take(events, str(following))
                offset = following

    # Being called.

    @property
    def webhook_path(self) -> str:
        if not self._settings.webhook_url:
            return ""
        usual = "/telegram-webhook" if self.account == "default" else f"/telegram-webhook/{self.account}"
        return self._settings.webhook_path or usual

    async def _be_called(self, inbox: TakesEvents) -> None:
        """Says where we are, and looks from time to time whether the calls arrive."""
        url = str(self._settings.webhook_url)
        if urlsplit(url).path in ("", "/"):
            url = url.rstrip("/") + self.webhook_path
        wanted = {"url": url, "secret_token": self._webhook_secret.reveal(), "allowed_updates": list(wire.UPDATES)}
        await self._ask("setWebhook", wanted)
        inbox.connected()
        reported = 0
        while True:
            await asyncio.sleep(WEBHOOK_LOOK_SECONDS)
            info = await self._ask("getWebhookInfo", {})
            if not isinstance(info, Mapping) or info.get("url") != url:
                raise TryLater("another program changed the webhook of this bot: it is set again")
            failed = info.get("last_error_date")
            if isinstance(failed, int) and failed > reported:
                reported = failed
                said = str(info.get("last_error_message"))[:200]
                log.warning("channel %s: Telegram could not call %s: %s", self.name, url, said)

    async def take_webhook(self, call: ChannelWebhook, inbox: TakesEvents) -> ChannelWebhookAnswer:
        if call.method != "POST":
            return ChannelWebhookAnswer(status=405)
        if not secrets_equal(call.headers.get(SECRET_HEADER, ""), self._webhook_secret):
            return ChannelWebhookAnswer(status=401)
        if self._bot is None:
            return ChannelWebhookAnswer(status=503)  # Telegram calls again
        try:
            update = wire.decode_json(call.body)
        except InvalidRequest:
            return ChannelWebhookAnswer(status=400)
        try:
            event = wire.decode_update(update, self._bot, self.account)
        except InvalidRequest as error:
            # Refused, it would come again and again, before everything else.
            log.warning("channel %s: an update is passed over: %s", self.name, error.message)
            return ChannelWebhookAnswer()
        if event is not None:
            await inbox.take([event], None)
        return ChannelWebhookAnswer()

    # Speaking.

    async def send(self, message: Outbound) -> Receipt:
        call = wire.encode_message(message, link_preview=self._settings.link_preview)
        try:
            return wire.decode_receipt(await self._deliver(call), message.about)
        except MessageRefused as error:
            if message.action != "send" and wire.is_done_already(error):
                return Receipt(id=message.about or "")
            if call.method == "editMessageText" and wire.is_a_caption(error):
                return wire.decode_receipt(await self._deliver(wire.edit_caption(call)), message.about)
            if call.file and call.method != "sendDocument" and wire.is_the_kind_of_file(error):
                return wire.decode_receipt(await self._deliver(wire.as_document(call)))
            raise

    async def open_thread(self, to: Address, title: str) -> Address:
        """A topic, in a group that has topics."""
        asked = {**wire.encode_target(to), "name": title[: wire.TOPIC_CHARS]}
        return structs.replace(to, thread=wire.decode_topic(await self._ask("createForumTopic", asked, sending=True)))

    def seconds_between(self, to: Address) -> float:
        return wire.GROUP_PACE if to.to.startswith("-") else wire.FACTS.per_chat

    def length(self, text: str) -> int:
        return wire.length(text)

    async def typing(self, to: Address) -> None:
        await self._ask("sendChatAction", {**wire.encode_target(to, sending=False), "action": "typing"})

    async def answer_press(self, event: Inbound, text: str) -> None:
        try:
            await self._ask("answerCallbackQuery", {"callback_query_id": event.press, "text": text[:200]})
        except MessageRefused as error:
            if not wire.is_done_already(error):
                raise

    async def probe(self) -> AccountProbe:
        bot = wire.decode_bot(await self._ask("getMe", {}))
        return AccountProbe(id=str(bot.id), name=f"@{bot.username}")

    async def close(self) -> None:
        await self._http.aclose()

    async def _show_menu(self) -> None:
        """Puts our commands into the menu, unless they are there."""
        menu = wire.encode_commands(self._menu)
        try:
            there = await self._ask("getMyCommands", {})
        except AccountClosed:  # not the token: a server that does not know the method says the same
            there = None
        try:
            if menu != there:
                await self._ask("setMyCommands", {"commands": menu})
        except MessageRefused as error:  # a conversation is worth more than its menu
            log.warning("channel %s: the menu of commands was refused: %s", self.name, error.message)

    async def _deliver(self, call: TelegramCall) -> Any:
        if not call.file:
            return await self._ask(call.method, call.params, sending=True)
        with await asyncio.to_thread(open_file, call.file) as file:
            if call.method == "sendPhoto" and Path(call.file).stat().st_size > wire.PHOTO_BYTES:
                call = wire.as_document(call)
            fields = {name: _form(value) for name, value in call.params.items()}
            # Read piece by piece while it leaves.
            parts = {call.field: (Path(call.file).name, file)}
            return await self._ask(call.method, fields, files=parts, sending=True)

    # Files.

    async def fetch(self, file: InboundFile) -> AsyncIterator[bytes]:
        if self._root == API_ROOT and file.size > wire.DOWNLOAD_BYTES:
            raise MessageRefused(
                f"it has {file.size:,} bytes, and Telegram hands bots no file of more than {wire.DOWNLOAD_BYTES:,}"
            )
        found = await self._ask("getFile", {"file_id": file.ref})
        path = found.get("file_path") if isinstance(found, Mapping) else None
        if not isinstance(path, str) or not path or path.startswith("/"):
            raise MessageRefused("Telegram's server hands out no address for it: is apiRoot a server in local mode?")
        url = f"{self._root}/file/bot{self._token.reveal()}/{quote(path)}"
        async with aclosing(stream_file(self._http, url, "Telegram")) as pieces:
            async for piece in pieces:
                yield piece

    async def _ask(
        self,
        method: str,
        params: dict[str, Any],
        *,
        files: dict[str, Any] | None = None,
        seconds: float = ANSWER_SECONDS,
        sending: bool = False,
    ) -> Any:
        """One call. The address holds the token, so no error may quote it."""
        url = f"{self._root}/bot{self._token.reveal()}/{method}"
        with translate_errors("Telegram", method, sending=sending):
            if files is not None:
                answer = await self._http.post(url, data=params, files=files, timeout=seconds)
            else:
                body = msgspec.json.encode(params)
                headers = {"content-type": "application/json"}
                answer = await self._http.post(url, content=body, headers=headers, timeout=seconds)
        try:
            return wire.decode_answer(answer.content)
        except InvalidRequest as error:
            why = f"Telegram answered {method} with {answer.status_code} and no JSON"
            raise unclear(why, sending and answer.status_code == 200) from error


def _form(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def build(config: AccountConfig, context: ChannelContext) -> Telegram:
    assert isinstance(config.settings, TelegramSettings)
    return Telegram(config.credential, account=config.account, settings=config.settings, menu=context.menu)
