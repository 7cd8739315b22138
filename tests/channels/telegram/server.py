"""A Bot API server on loopback with faults on demand: what was heard is repeated until it is acknowledged."""

import json
import time
from collections.abc import Mapping
from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl, unquote
from urllib.request import Request, urlopen

from tests.channels.scripted import ScriptedHandler, ScriptedServer

TOKEN = "42:test-token"
BOT = {"id": 42, "is_bot": True, "first_name": "Claw", "username": "claw_bot"}
SENDS = {
    "sendMessage": "text",
    "sendPhoto": "photo",
    "sendDocument": "document",
    "sendVoice": "voice",
    "sendAudio": "audio",
    "sendVideo": "video",
    "sendAnimation": "animation",
}


class Fault:
    """What the next call of `method` meets: an answer of this status, or a cut connection before or after it."""

    def __init__(
        self, method: str, status: int = 0, *, retry_after: int | None = None, cut: str = "", says: str = "as told"
    ) -> None:
        self.method = method
        self.status = status
        self.retry_after = retry_after
        self.cut = cut
        self.says = says


class Refused(Exception):
    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


FORUM = -100
"""A group with topics."""


class TelegramServer(ScriptedServer[Fault]):
    """`with TelegramServer() as server`: people write with `says`, the bot's messages are in `sent`."""

    def __init__(self, token: str = TOKEN) -> None:
        super().__init__("telegram")
        self.token = token
        self.updates: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        """The messages, as they were sent; an edit changes them."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.files: dict[str, bytes] = {}
        """What getFile finds, by file id."""
        self.commands: list[dict[str, str]] = []
        self.webhook: dict[str, Any] | None = None
        self.answers: list[int] = []
        """What the webhook answered, call by call."""
        self._ids = 100
        self._run(self._call_webhook)

    # People.

    def says(self, text: str | None, sender: int = 7, **more: Any) -> int:
        """A person writes; gives the id of the message. Without a text it is something else, in `more`."""
        with self.changed:
            self._ids += 1
            number = self._ids
            message = {**self._from(sender), "message_id": number, "text": text, **more}
            self.happens(message={name: value for name, value in message.items() if value is not None})
            return number

    def edits(self, message_id: int, text: str, sender: int = 7, **more: Any) -> None:
        changed = {**self._from(sender), "message_id": message_id, "edit_date": int(time.time()), "text": text}
        self.happens(edited_message={**changed, **more})

    def presses(self, message_id: int, data: str, sender: int = 7, press: str = "p1", **more: Any) -> None:
        about = {"message_id": message_id, "date": 1, "chat": {"id": sender, "type": "private"}, **more}
        who = self._from(sender)["from"]
        self.happens(callback_query={"id": press, "from": who, "chat_instance": "c", "data": data, "message": about})

    def reacts(self, message_id: int, emoji: str, sender: int = 7) -> None:
        who = self._from(sender)
        now = [{"type": "emoji", "emoji": emoji}] if emoji else []
        changed = {"chat": who["chat"], "user": who["from"], "message_id": message_id, "date": who["date"]}
        self.happens(message_reaction={**changed, "old_reaction": [], "new_reaction": now})

    def happens(self, **update: Any) -> None:
        """An update of any kind."""
        with self.changed:
            self._ids += 1
            self.updates.append({"update_id": 1_000 + self._ids, **update})
            self.changed.notify_all()

    @staticmethod
    def _from(sender: int) -> dict[str, Any]:
        return {
            "date": int(time.time()),
            "from": {"id": sender, "is_bot": False, "first_name": f"Person {sender}"},
            "chat": {"id": sender, "type": "private"},
        }

    # What the bot does.

    def called(self, method: str, count: int = 1, seconds: float = 60.0) -> dict[str, Any]:
        """The parameters of a call, once it was made so often."""

        def made() -> list[dict[str, Any]]:
            return [params for name, params in self.calls if name == method]

        self.until(lambda: len(made()) >= count, seconds)
        return made()[count - 1]

    def _call(self, method: str, params: Mapping[str, Any]) -> Any:
        match method:
            case "getMe":
                return {**BOT, "id": int(self.token.partition(":")[0])}
            case "getUpdates":
                if self.webhook is not None:
                    why = "Conflict: can't use getUpdates method while webhook is active; delete the webhook first"
                    raise Refused(why, 409)
                return self._poll(int(params.get("offset") or 0), float(params.get("timeout") or 0))
            case "getMyCommands":
                return self.commands
            case "setMyCommands":
                self.commands = params["commands"]
                return True
            case "setWebhook" | "deleteWebhook":
                with self.changed:
                    self.webhook = dict(params) if method == "setWebhook" else None
                    self.changed.notify_all()
                return True
            case "getWebhookInfo":
                url = self.webhook["url"] if self.webhook else ""
                return {"url": url, "has_custom_certificate": False, "pending_update_count": len(self.updates)}
            case "getFile":
                if params["file_id"] not in self.files:
                    raise Refused("Bad Request: wrong file_id or the file is temporarily unavailable")
                about = {"file_id": params["file_id"], "file_unique_id": f"u{params['file_id']}"}
                return {**about, "file_path": f"documents/{params['file_id']}"}
            case "editMessageText" | "editMessageCaption":
                return self._edit(method, params)
            case "createForumTopic":
                if int(params["chat_id"]) != FORUM:
                    raise Refused("Bad Request: the chat is not a forum")
                return {"message_thread_id": 44, "name": params["name"], "icon_color": 7322096}
            case "deleteMessage":
                self._find(params, "delete")["deleted"] = True
                return True
            case _ if method in SENDS:
                return self._send(method, params)
            case _:
                return True

    def _send(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        kind = SENDS[method]
        _check(params)
        with self.changed:
            self._ids += 1
            self.sent.append({"message_id": self._ids, "method": method, **params})
            self.changed.notify_all()
            return self._told(self._ids, kind, params)

    def _edit(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        _check(params)
        name = "text" if method == "editMessageText" else "caption"
        with self.changed:
            found = self._find(params, "edit")
            if (found["method"] == "sendMessage") != (name == "text"):
                raise Refused(f"Bad Request: there is no {name} in the message to edit")
            new = {"reply_markup": None, **params}
            if all(found.get(each) == new.get(each) for each in (name, "reply_markup", "entities")):
                raise Refused("Bad Request: message is not modified: specified new message content is the same")
            found |= {**new, "edits": found.get("edits", 0) + 1}
            self.changed.notify_all()
            return self._told(found["message_id"], "text", {**found, "text": params.get("text", "")})

    def _find(self, params: Mapping[str, Any], what: str) -> dict[str, Any]:
        for each in self.sent:
            if each["message_id"] == int(params["message_id"]) and not each.get("deleted"):
                return each
        raise Refused(f"Bad Request: message to {what} not found")

    def _told(self, number: int, kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """A message as Telegram gives it back."""
        to = str(params["chat_id"])
        if to.startswith("@"):
            chat = {"id": -1_000_000_000_042, "type": "channel", "title": to, "username": to[1:]}
        else:
            chat = {"id": int(to), "type": "private", "first_name": "Person"}
        told = {"message_id": number, "date": int(time.time()), "chat": chat, "from": BOT}
        if kind == "text":
            return {**told, "text": params["text"]}
        file = {"file_id": f"sent{number}", "file_unique_id": f"u{number}", "file_size": params["file_size"]}
        sized = {**file, "width": 1, "height": 1}
        if kind == "photo":
            return {**told, "photo": [sized]}
        return {**told, kind: {**(sized if kind in ("video", "animation") else file), "duration": 1}}

    def _poll(self, offset: int, seconds: float) -> list[dict[str, Any]]:
        with self.changed:
            self.updates = [each for each in self.updates if each["update_id"] >= offset]
            self.changed.wait_for(lambda: self.updates or self.closing, min(seconds, 20.0))
            return list(self.updates)

    def _call_webhook(self) -> None:
        """Calls the webhook with every update, until it answers with 200."""
        while not self.closing:
            with self.changed:
                self.changed.wait_for(lambda: self.closing or (self.webhook and self.updates))
                if self.closing or self.webhook is None:
                    continue
                webhook, update = self.webhook, self.updates[0]
            headers = {"content-type": "application/json"}
            headers["x-telegram-bot-api-secret-token"] = webhook.get("secret_token", "")
            status = self._post(webhook["url"], json.dumps(update).encode(), headers)
            with self.changed:
                self.answers.append(status)
                if status == 200 and update in self.updates:
                    self.updates.remove(update)
                self.changed.notify_all()
                if status != 200:
                    self.changed.wait_for(lambda: self.closing, 0.2)

    @staticmethod
    def _post(url: str, body: bytes, headers: dict[str, str]) -> int:
        try:
            with urlopen(Request(url, body, headers), timeout=30) as answer:
                return int(answer.status)
        except HTTPError as error:
            error.close()
            return error.code
        except OSError:
            return 0

    def _handler(self) -> type[ScriptedHandler]:
        server = self

        class Handler(ScriptedHandler):
            def do_GET(self) -> None:
                bot, _, path = unquote(self.path).partition("/file/")[2].partition("/")
                content = server.files.get(path.rpartition("/")[2])
                with server.changed:
                    server.calls.append(("file", {"path": path}))
                if bot != f"bot{server.token}" or content is None:
                    return self._answer(404, {"ok": False, "error_code": 404, "description": "Not Found"})
                return self.reply(200, content, "application/octet-stream")

            def do_POST(self) -> None:
                if (body := self.read()) is None:
                    return None
                bot, method = self.path.split("/")[-2:]
                params = _params(self.headers.get("content-type", ""), body)
                with server.changed:
                    server.calls.append((method, params))
                    server.changed.notify_all()
                    fault = server.take_fault(lambda each: each.method == method)
                if bot != f"bot{server.token}":
                    return self._answer(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
                if fault is not None and fault.status:
                    said = {"ok": False, "error_code": fault.status, "description": fault.says}
                    if fault.retry_after is not None:
                        said["parameters"] = {"retry_after": fault.retry_after}
                    return self._answer(fault.status, said)
                if fault is not None and fault.cut == "before":
                    return self.cut()
                try:
                    result = server._call(method, params)
                except Refused as why:
                    return self._answer(why.status, {"ok": False, "error_code": why.status, "description": str(why)})
                if fault is not None:
                    if fault.cut == "hold":  # it took effect, and the answer does not come
                        with server.changed:
                            server.changed.wait_for(lambda: server.closing, 60.0)
                    return self.cut()
                return self._answer(200, {"ok": True, "result": result})

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                self.reply(status, json.dumps(body).encode())

        return Handler


def _check(params: Mapping[str, Any]) -> None:
    for name, most in (("text", 4_096), ("caption", 1_024)):
        if len(str(params.get(name) or "").encode("utf-16-le", "surrogatepass")) // 2 > most:
            raise Refused(f"Bad Request: message {name} is too long")
    for row in (params.get("reply_markup") or {}).get("inline_keyboard", ()):
        if any(not 0 < len(button["callback_data"].encode()) <= 64 for button in row):
            raise Refused("Bad Request: BUTTON_DATA_INVALID")


def _params(kind: str, body: bytes) -> dict[str, Any]:
    """The parameters of a call; of a file its name, size and content."""
    if kind.startswith("application/json"):
        found = json.loads(body)
        assert isinstance(found, dict)
        return found
    if kind.startswith("application/x-www-form-urlencoded"):
        return {name: _value(name, text) for name, text in parse_qsl(body.decode(), keep_blank_values=True)}
    if not kind.startswith("multipart/"):
        return {}
    params: dict[str, Any] = {}
    for part in message_from_bytes(f"content-type: {kind}\r\n\r\n".encode() + body, policy=HTTP).iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        if part.get_filename() is not None:
            params |= {"file_name": part.get_filename(), "file_size": len(content), "content": content}
        else:
            params[name] = _value(name, content.decode())
    return params


def _value(name: str, text: str) -> Any:
    """A field of a form: numbers and structures are written as JSON."""
    numbers = ("chat_id", "message_id", "message_thread_id")
    return json.loads(text) if text[:1] in ("{", "[") or (name in numbers and text[:1] != "@") else text
