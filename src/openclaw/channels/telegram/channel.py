"""A Telegram bot: asks for updates and hands them over with their offset; sends messages; one request at a time."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from openclaw.channels.telegram import wire
from openclaw.channels.telegram.wire import BotIdentity, TelegramCall
from openclaw.core.channel import (
    Address,
    MessageRefused,
    Outbound,
    Receipt,
    TakesEvents,
    TryLater,
    Unsure,
)
from openclaw.core.errors import InvalidRequest
from openclaw.core.secret import Secret

API_ROOT = "https://api.telegram.org"
POLL_SECONDS = 50
ANSWER_SECONDS = 30.0
SLACK_SECONDS = 15.0
"""How much later than promised an answer to a poll may come before the connection counts as dead."""


class Telegram:
    """One bot."""

    name = wire.NAME
    facts = wire.FACTS

    def __init__(self, token: Secret, *, account: str = "default", api_root: str = API_ROOT) -> None:
        self.account = account
        self._token = token
        self._root = api_root.rstrip("/")
        self._bot: BotIdentity | None = None
        self._http = httpx2.AsyncClient(timeout=ANSWER_SECONDS)

    async def run(self, cursor: str | None, inbox: TakesEvents) -> None:
        if self._bot is None:
            self._bot = wire.decode_bot(await self._ask("getMe", {}))
        offset = int(cursor) if cursor is not None and cursor.isdecimal() else None
        while True:
            params: dict[str, Any] = {"timeout": POLL_SECONDS, "allowed_updates": list(wire.UPDATES)}
            if offset is not None:
                params["offset"] = offset
            found = await self._ask("getUpdates", params, seconds=POLL_SECONDS + SLACK_SECONDS)
            events, following = wire.decode_updates(found, self._bot, self.account)
            if following is not None:
                # Telegram forgets what lies before the offset of the next call: by then it is on record here.
                await inbox.take(events, str(following))
                offset = following

    async def send(self, message: Outbound) -> Receipt:
        receipt = Receipt(id="")
        for call in wire.encode_message(message):
            receipt = wire.decode_receipt(await self._deliver(call))
        return receipt

    async def typing(self, to: Address) -> None:
        await self._ask("sendChatAction", {**wire.encode_target(to), "action": "typing"})

    async def close(self) -> None:
        await self._http.aclose()

    async def _deliver(self, call: TelegramCall) -> Any:
        if not call.file:
            return await self._ask(call.method, call.params, sending=True)
        data = await asyncio.to_thread(_read, call.file, wire.FACTS.media_bytes)
        fields = {name: _form(value) for name, value in call.params.items()}
        parts = {call.field: (Path(call.file).name, data)}
        return await self._ask(call.method, fields, files=parts, sending=True)

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
        try:
            if files is not None:
                answer = await self._http.post(url, data=params, files=files, timeout=seconds)
            else:
                body = msgspec.json.encode(params)
                headers = {"content-type": "application/json"}
                answer = await self._http.post(url, content=body, headers=headers, timeout=seconds)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise TryLater(f"Telegram could not be reached: {type(error).__name__}") from None
        except httpx2.HTTPError as error:
            why = f"Telegram did not answer {method}: {type(error).__name__}"
            raise (Unsure(why) if sending else TryLater(why)) from None
        try:
            return wire.decode_answer(answer.content)
        except InvalidRequest as error:
            why = f"Telegram answered {method} with {answer.status_code} and no JSON"
            raise (Unsure(why) if sending and answer.status_code == 200 else TryLater(why)) from error


def _read(path: str, limit: int) -> bytes:
    file = Path(path)
    if not file.is_file():
        raise MessageRefused(f"there is no file {path}")
    if file.stat().st_size > limit:
        raise MessageRefused(f"{path} is larger than {limit:,} bytes")
    return file.read_bytes()


def _form(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
