"""A Discord on loopback with faults on demand: the gateway with sessions that resume, and the REST API."""

import json
import re
import threading
import time
from email import message_from_bytes
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from tests.channels.scripted import ScriptedHandler, ScriptedServer

TOKEN = "test.discord.token"
BOT = {"id": "900", "username": "claw", "discriminator": "0", "avatar": None, "global_name": None, "bot": True}
ADA, EVE = "7", "8"
GUILD, CHANNEL, THREAD = "100", "200", "300"
WHEN = "2026-11-01T00:00:00.000000+00:00"
_OPEN = {"archived": False, "auto_archive_duration": 1440, "archive_timestamp": WHEN, "locked": False}
_BLANK: dict[str, Any] = {
    "timestamp": WHEN,
    "edited_timestamp": None,
    "tts": False,
    "mention_everyone": False,
    "mentions": [],
    "mention_roles": [],
    "attachments": [],
    "embeds": [],
    "pinned": False,
    "components": [],
}
"""What every message has, also when there is nothing to say about it."""


class Fault:
    """What the next call of `method` and a path that ends in `path` meets: this status, or a cut connection."""

    def __init__(self, method: str, path: str, status: int = 0, *, retry_after: float = 0.0, cut: str = "") -> None:
        self.method = method
        self.path = path
        self.status = status
        self.retry_after = retry_after
        self.cut = cut


class DiscordServer(ScriptedServer[Fault]):
    """`with DiscordServer() as server`: people write with `says`, the bot's messages are in `sent`."""

    def __init__(self, heartbeat_ms: int = 45_000) -> None:
        super().__init__("discord")
        self.heartbeat_ms = heartbeat_ms
        self.messages: list[dict[str, Any]] = []
        """Everything that was said, by people and by the bot."""
        self.calls: list[tuple[str, str, Any]] = []
        self.identified: list[dict[str, Any]] = []
        self.resumed: list[dict[str, Any]] = []
        self.deaf = False
        """Heartbeats are not answered."""
        self.close_with = 0
        """The next connection is closed with this code instead of being let in."""
        self.commands: list[dict[str, Any]] = []
        self.responses: list[dict[str, Any]] = []
        """Answers to interactions."""
        self.reactions: dict[str, list[str]] = {}
        self.made_threads: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self._ids = int(time.time() * 1000) - 1_420_070_400_000 + 3_600_000
        self._events: list[dict[str, Any]] = []
        """What the session has to hear, in order; its numbers begin with 1."""
        self._session = 0
        self._nonces: dict[str, dict[str, Any]] = {}
        self._sockets: list[ServerConnection] = []
        self._gateway: Server = serve(self._connection, "127.0.0.1", 0)
        self._serve(self._gateway)

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [each for each in self.messages if each["author"]["id"] == BOT["id"]]

    # People.

    def says(self, text: str, sender: str = ADA, channel: str = "", **more: Any) -> str:
        """Somebody writes: to the bot alone, or in a channel of the server."""
        with self.changed:
            message = {
                "id": self._next(),
                "channel_id": channel or f"5{sender}",
                "author": _user(sender),
                "content": text,
                "type": 0,
                **_BLANK,
                **({"guild_id": GUILD, "member": {"nick": None}} if channel else {}),
                **more,
            }
            self.messages.append(message)
            self.happens("MESSAGE_CREATE", message)
            return str(message["id"])

    def presses(self, message_id: str, data: str, sender: str = ADA) -> None:
        self._interacts(
            3, {"custom_id": data, "component_type": 2}, sender, message=self._message(message_id, f"5{sender}")
        )

    def chooses(self, name: str, text: str = "", sender: str = ADA) -> None:
        """Somebody takes a command from the menu."""
        options = [{"name": "text", "type": 3, "value": text}] if text else []
        self._interacts(2, {"id": "801", "type": 1, "name": name, "options": options}, sender)

    def _interacts(self, kind: int, data: dict[str, Any], sender: str, **more: Any) -> None:
        with self.changed:
            event = {"id": self._next(), "token": "itoken", "type": kind, "data": data, "user": _user(sender), **more}
            where = {"channel_id": f"5{sender}", "channel": {"id": f"5{sender}", "type": 1}}
            about = {"application_id": "901", "version": 1, "authorizing_integration_owners": {}, "entitlements": []}
            self.happens("INTERACTION_CREATE", {**where, **about, "attachment_size_limit": 10_000_000, **event})

    def happens(self, kind: str, data: Any) -> None:
        with self.changed:
            self._events.append({"op": 0, "t": kind, "d": data, "s": len(self._events) + 1})
            self.changed.notify_all()

    def drop(self, *, forget: bool = False) -> None:
        """Cuts the connections; `forget` ends the session too."""
        with self.changed:
            self._session += forget
            sockets, self._sockets = self._sockets, []
            self.changed.notify_all()
        for socket in sockets:
            socket.close(4009 if forget else 4000)

    def _next(self) -> str:
        self._ids += 1
        return str(self._ids << 22)

    # The gateway.

    def _connection(self, socket: ServerConnection) -> None:
        if self.close_with:
            code, self.close_with = self.close_with, 0
            socket.close(code)
            return
        with self.changed:
            self._sockets.append(socket)
        try:
            _send(socket, {"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}})
            while (hello := json.loads(socket.recv()))["op"] == 1:  # a heart may beat before anybody says who they are
                _send(socket, {"op": 11})
            start = self._welcome(socket, hello)
            if start is None:
                return
            threading.Thread(target=self._tell, args=(socket, start), daemon=True).start()
            while True:
                if json.loads(socket.recv())["op"] == 1 and not self.deaf:
                    _send(socket, {"op": 11})
        except ConnectionClosed:
            pass
        finally:
            with self.changed:
                if socket in self._sockets:
                    self._sockets.remove(socket)
                self.changed.notify_all()

    def _welcome(self, socket: ServerConnection, hello: dict[str, Any]) -> int | None:
        data, name = hello["d"], f"session{self._session}"
        if data["token"] != TOKEN:
            socket.close(4004)
            return None
        if hello["op"] == 6:
            with self.changed:
                self.resumed.append(data)
                self.changed.notify_all()
            if data["session_id"] != name:
                _send(socket, {"op": 9, "d": False})
                return None
            return int(data["seq"])
        with self.changed:
            self._events = []
            guilds = [{"id": GUILD, "unavailable": True}]
            ready = {"v": 10, "user": BOT, "session_id": name, "resume_gateway_url": self.address, "guilds": guilds}
            self.happens("READY", {**ready, "private_channels": [], "application": {"id": "901", "flags": 0}})
            self.happens("GUILD_CREATE", self._guild())
            self.identified.append(data)
            self.changed.notify_all()
        return 0

    @property
    def address(self) -> str:
        return f"ws://127.0.0.1:{self._gateway.socket.getsockname()[1]}"

    def _guild(self) -> dict[str, Any]:
        last = {each["channel_id"]: each["id"] for each in self.messages}
        channel = {"id": CHANNEL, "type": 0, "name": "general", "last_message_id": last.get(CHANNEL)}
        channel |= {"guild_id": GUILD, "position": 0, "permission_overwrites": []}
        thread = {"id": THREAD, "type": 11, "name": "plans", "parent_id": CHANNEL, "last_message_id": last.get(THREAD)}
        thread |= {"guild_id": GUILD, "owner_id": ADA, "message_count": 1, "member_count": 1, "thread_metadata": _OPEN}
        members = [{"user": BOT, "roles": [], "joined_at": WHEN, "deaf": False, "mute": False, "flags": 0}]
        everyone = {"id": GUILD, "name": "@everyone", "permissions": "2147483647", "position": 0, "color": 0}
        about = {"owner_id": ADA, "roles": [everyone], "members": members, "member_count": 1, "unavailable": False}
        return {"id": GUILD, "name": "Club", **about, "channels": [channel], "threads": [thread, *self.made_threads]}

    def _tell(self, socket: ServerConnection, start: int) -> None:
        place = start
        try:
            if start:
                _send(socket, {"op": 0, "t": "RESUMED", "d": {}, "s": start})
            while True:
                with self.changed:
                    while socket in self._sockets and len(self._events) <= place:
                        self.changed.wait()
                    if socket not in self._sockets:
                        return
                    frames, place = self._events[place:], len(self._events)
                for frame in frames:
                    _send(socket, frame)
        except ConnectionClosed:
            return

    # The REST API.

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        match method, path.split("/"):
            case "GET", ["gateway", "bot"]:
                return 200, {"url": self.address}
            case "GET", ["users", "@me"]:
                return 200, BOT
            case "GET", ["oauth2", "applications", "@me"]:
                about = {"description": "", "icon": None, "verify_key": "", "bot_public": True, "owner": _user(ADA)}
                return 200, {"id": "901", "name": "claw", "bot_require_code_grant": False, "flags": 0, **about}
            case "POST", ["users", "@me", "channels"]:
                name = str(body["recipient_id"])
                if name not in (ADA, EVE):
                    return 400, {"code": 50033, "message": "Invalid Recipient(s)"}
                return 200, {"id": f"5{name}", "type": 1, "recipients": [_user(name)], "last_message_id": None}
            case "GET", ["channels", name]:
                known = {each["id"]: each for each in (*self._guild()["channels"], *self._guild()["threads"])}
                return (200, known[name]) if name in known else (404, {"code": 10003, "message": "Unknown Channel"})
            case "GET", ["channels", name, "messages"]:
                after, most = int(query.get("after", ["0"])[0]), int(query["limit"][0])
                found = [each for each in self.messages if each["channel_id"] == name and int(each["id"]) > after]
                kept = [(each, each.keys() - {"guild_id", "files"}) for each in found[:most]]
                return 200, [{key: each[key] for key in keys} for each, keys in kept][::-1]
            case "POST", ["channels", name, "threads"]:
                return self._thread(name, body)
            case "POST", ["channels", name, "messages"]:
                return self._post(name, body)
            case "POST", ["channels", _, "typing"]:
                return 204, None
            case (("GET" | "PATCH" | "DELETE"), ["channels", _, "messages", number]):
                return self._change(method, number, body)
            case (("PUT" | "DELETE"), ["channels", _, "messages", number, "reactions", emoji, "@me"]):
                marks = self.reactions.setdefault(number, [])
                marks.append(unquote(emoji)) if method == "PUT" else marks.remove(unquote(emoji))
                return 204, None
            case (("GET" | "PUT"), ["applications", "901", "commands"]):
                self.commands = body if method == "PUT" else self.commands
                return 200, self.commands
            case "POST", ["interactions", name, "itoken", "callback"]:
                self.responses.append(body)
                if query.get("with_response", [""])[0] in ("1", "true", "True"):
                    return 200, {"interaction": {"id": name, "type": 3, "response_message_ephemeral": True}}
                return 204, None
            case _:
                return 404, {"code": 0, "message": f"404: Not Found {path}"}

    def _change(self, method: str, number: str, body: Any) -> tuple[int, Any]:
        there = next((each for each in self.messages if each["id"] == number), None)
        if there is None:
            return 404, {"code": 10008, "message": "Unknown Message"}
        if method == "DELETE":
            self.messages.remove(there)
            return 204, None
        there.update(body or {})
        marks = [{"me": True, "emoji": {"id": None, "name": each}} for each in self.reactions.get(number, [])]
        return 200, {**there, "reactions": marks}

    def _thread(self, channel: str, body: dict[str, Any]) -> tuple[int, Any]:
        if channel != CHANNEL or body.get("type") != 11:
            return 400, {"code": 50024, "message": "Cannot execute action on this channel type"}
        made = {"id": self._next(), "type": 11, "name": body["name"], "parent_id": channel, "guild_id": GUILD}
        about = {"owner_id": BOT["id"], "message_count": 0, "member_count": 1, "thread_metadata": _OPEN}
        self.made_threads.append({**made, **about, "last_message_id": None})
        return 201, self.made_threads[-1]

    def _post(self, channel: str, body: dict[str, Any]) -> tuple[int, Any]:
        if len(body.get("content", "")) > 2_000:
            return 400, {"code": 50035, "message": "Invalid Form Body", "errors": {"content": "too long"}}
        if not body.get("content") and not body.get("files"):
            return 400, {"code": 50006, "message": "Cannot send an empty message"}
        nonce = body.get("nonce")
        if nonce and nonce in self._nonces:
            return 200, self._nonces[nonce]
        message = {**self._message(self._next(), channel), **body}
        message["attachments"] = [
            {"id": str(at), "filename": name, "size": len(content), "url": f"{self.url}/files/{at}", "proxy_url": ""}
            for at, (name, content) in enumerate(body.get("files") or ())
        ]
        self.messages.append(message)
        if nonce:
            self._nonces[nonce] = message
        return 200, {key: value for key, value in message.items() if key != "files"}

    def _message(self, name: str, channel: str) -> dict[str, Any]:
        return {"id": name, "channel_id": channel, "author": BOT, "type": 0, "content": "", **_BLANK}

    def _handler(self) -> type[ScriptedHandler]:
        server = self

        class Handler(ScriptedHandler):
            def _any(self) -> None:
                parts = urlsplit(self.path)
                if (raw := self.read()) is None:
                    return None
                if parts.path.startswith("/files/"):
                    self.reply(200, server.files.get(parts.path.removeprefix("/files/"), b""))
                    return None
                path, body = parts.path.removeprefix("/v10/"), _body(self.headers.get("content-type", ""), raw)
                with server.changed:
                    server.calls.append((self.command, path, body))
                    fault = server.take_fault(lambda each: each.method == self.command and path.endswith(each.path))
                    status, answer = 0, None
                    if fault is not None and fault.cut != "after":
                        status, answer = fault.status, {"message": "as told", "retry_after": fault.retry_after}
                    elif self.headers.get("authorization") != f"Bot {TOKEN}" and not path.startswith("interactions/"):
                        status, answer = 401, {"message": "401: Unauthorized", "code": 0}
                    else:
                        status, answer = server.answer(self.command, path, parse_qs(parts.query), body)
                    server.changed.notify_all()
                if fault is not None and fault.cut:
                    return self.cut()
                return self.reply(status, b"" if answer is None else json.dumps(answer).encode())

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

        return Handler


def _user(name: str) -> dict[str, Any]:
    return {"id": name, "username": f"user{name}", "discriminator": "0", "avatar": None, "global_name": None}


def _body(kind: str, raw: bytes) -> Any:
    if not kind.startswith("multipart/"):
        return json.loads(raw) if raw else None
    whole = message_from_bytes(f"content-type: {kind}\r\n\r\n".encode() + raw, policy=HTTP)
    fields: dict[str, Any] = {}
    files: list[tuple[str, bytes]] = []
    for part in whole.iter_parts():
        found, content = re.search(r'name="([^"]+)"', part["content-disposition"]), part.get_payload(decode=True)
        assert isinstance(content, bytes)
        if found and found[1] == "payload_json":
            fields = json.loads(content)
        else:
            files.append((str(part.get_filename()), content))
    return {**fields, "files": files}


def _send(socket: ServerConnection, frame: dict[str, Any]) -> None:
    socket.send(json.dumps(frame))
