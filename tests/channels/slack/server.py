"""A Slack on loopback with faults on demand: Socket Mode, calls over HTTP, and the Web API."""

import hashlib
import hmac
import json
import threading
import time
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from tests.channels.scripted import ScriptedHandler, ScriptedServer

TOKEN, APP_TOKEN, SIGNING = "xoxb-test-token", "xapp-test-token", "slack-signing"
TEAM, BOT = "T01", "U900"
ADA, EVE = "U007", "U008"
CHANNEL = "C200"
DIRECTS = {ADA: "D007", EVE: "D008"}
PEOPLE = {ADA: "Ada", EVE: "Eve", BOT: "claw"}


class Fault:
    """What the next call of `method` meets: this status, or a cut connection `before` or `after` it is done."""

    def __init__(
        self, method: str, status: int = 0, *, error: str = "ratelimited", retry_after: int = 0, cut: str = ""
    ) -> None:
        self.method = method
        self.status = status
        self.error = error
        self.retry_after = retry_after
        self.cut = cut


class SlackServer(ScriptedServer[Fault]):
    """`with SlackServer() as server`: people write with `says`, the app's messages are in `sent`."""

    def __init__(self) -> None:
        super().__init__("slack")
        self.messages: list[dict[str, Any]] = []
        """Everything that was said, by people and by the app."""
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.acks: list[dict[str, Any]] = []
        self.connections = 0
        self.subscribed = True
        """Whether what is said reaches the app by itself; else only its history tells."""
        self.app_token = APP_TOKEN
        self.events_url = ""
        """Where the app is called, instead of Socket Mode."""
        self.answers: list[tuple[int, str]] = []
        """What it answered to those calls."""
        self.ephemeral: list[dict[str, str]] = []
        self.statuses: list[dict[str, str]] = []
        self.reactions: dict[str, list[str]] = {}
        self.uploads: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}
        self._number = 0
        self._waiting: list[dict[str, Any]] = []
        """Envelopes that were not acknowledged: they come again on the next connection."""
        self._sockets: list[ServerConnection] = []
        self._socket: Server = serve(self._connection, "127.0.0.1", 0)
        self._serve(self._socket)

    @property
    def url(self) -> str:
        return f"{self.root}/api"

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [each for each in self.messages if each["user"] == BOT]

    # People.

    def says(self, text: str, sender: str = ADA, channel: str = "", **more: Any) -> str:
        """Somebody writes: to the app alone, or in a channel."""
        with self.changed:
            message = {
                "type": "message",
                "user": sender,
                "text": text,
                "ts": self._ts(),
                "channel": channel or DIRECTS[sender],
                "channel_type": "channel" if channel else "im",
                "team": TEAM,
                **more,
            }
            self.messages.append(message)
            root = next((each for each in self.messages if each["ts"] == more.get("thread_ts")), None)
            if root is not None:
                root.update(thread_ts=root["ts"], reply_count=1, latest_reply=message["ts"])
                message.setdefault("parent_user_id", root["user"])
            self.happens(message)
            return str(message["ts"])

    def happens(self, event: dict[str, Any]) -> None:
        """An event of the Events API."""
        number = self._next()
        payload = {
            "type": "event_callback",
            "token": "old",
            "team_id": TEAM,
            "api_app_id": "A01",
            "event": event,
            "event_id": f"Ev{number}",
            "event_time": int(time.time()),
        }
        if self.subscribed:
            self.deliver("events_api", payload)

    def presses(self, message_ts: str, data: str, sender: str = ADA, channel: str = "") -> None:
        place = channel or DIRECTS[sender]
        payload = {
            "type": "block_actions",
            "user": {"id": sender, "username": PEOPLE[sender].lower(), "name": PEOPLE[sender].lower(), "team_id": TEAM},
            "team": {"id": TEAM, "domain": "club"},
            "channel": {"id": place, "name": "directmessage"},
            "container": {"type": "message", "message_ts": message_ts, "channel_id": place, "is_ephemeral": False},
            "actions": [
                {"type": "button", "action_id": "b0.0", "block_id": "x", "value": data, "action_ts": self._ts()}
            ],
            "trigger_id": f"{self._next()}.1",
            "response_url": f"{self.root}/response",
        }
        self.deliver("interactive", payload)

    def chooses(self, command: str, text: str = "", sender: str = ADA, channel: str = "") -> None:
        """Somebody takes a command from the menu."""
        payload = {
            "command": command,
            "text": text,
            "user_id": sender,
            "user_name": PEOPLE[sender].lower(),
            "channel_id": channel or DIRECTS[sender],
            "team_id": TEAM,
            "trigger_id": f"{self._next()}.1",
            "response_url": f"{self.root}/response",
        }
        self.deliver("slash_commands", payload)

    def deliver(self, kind: str, payload: dict[str, Any]) -> None:
        if self.events_url:
            threading.Thread(target=self._call, args=(kind, payload), daemon=True).start()
            return
        with self.changed:
            envelope = {
                "envelope_id": f"e{self._next()}",
                "type": kind,
                "payload": payload,
                "accepts_response_payload": kind == "slash_commands",
            }
            self._waiting.append(envelope)
            for socket in self._sockets:
                _send(socket, envelope)
            self.changed.notify_all()

    def disconnect(self, reason: str = "refresh_requested") -> None:
        with self.changed:
            for socket in self._sockets:
                _send(socket, {"type": "disconnect", "reason": reason})

    def drop(self, *, forget: bool = False) -> None:
        """Cuts the connections; `forget` gives up on what was not acknowledged, as Slack does after some minutes."""
        with self.changed:
            sockets, self._sockets = self._sockets, []
            if forget:
                self._waiting.clear()
        for socket in sockets:
            socket.close()

    def called(self, method: str) -> list[dict[str, str]]:
        return [params for name, params in self.calls if name == method]

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ts(self) -> str:
        return f"{int(time.time())}.{self._next():06d}"

    # Calls over HTTP.

    def sign(self, body: bytes, at: float | None = None, secret: str = SIGNING) -> dict[str, str]:
        now = str(int(time.time() if at is None else at))
        made = hmac.new(secret.encode(), f"v0:{now}:".encode() + body, hashlib.sha256).hexdigest()
        return {"x-slack-request-timestamp": now, "x-slack-signature": f"v0={made}"}

    def _call(self, kind: str, payload: dict[str, Any]) -> None:
        """Calls the app until it answers with 200, as Slack does three times."""
        form = kind != "events_api"
        fields = {"payload": json.dumps(payload)} if kind == "interactive" else payload
        body = urlencode(fields).encode() if form else json.dumps(payload).encode()
        headers = {"content-type": "application/x-www-form-urlencoded" if form else "application/json"}
        for _ in range(600):
            try:
                answer = httpx2.post(self.events_url, content=body, headers={**headers, **self.sign(body)}, timeout=60)
            except httpx2.HTTPError:
                time.sleep(0.1)
                continue
            with self.changed:
                self.answers.append((answer.status_code, answer.text))
                self.changed.notify_all()
            if answer.status_code == 200:
                return
            time.sleep(0.1)

    # Socket Mode.

    def _connection(self, socket: ServerConnection) -> None:
        with self.changed:
            _send(socket, {"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A01"}})
            for envelope in self._waiting:
                _send(socket, {**envelope, "retry_attempt": 1, "retry_reason": "timeout"})
            self._sockets.append(socket)
            self.connections += 1
            self.changed.notify_all()
        try:
            while True:
                ack = json.loads(socket.recv())
                with self.changed:
                    self.acks.append(ack)
                    self._waiting = [each for each in self._waiting if each["envelope_id"] != ack["envelope_id"]]
                    self.changed.notify_all()
        except ConnectionClosed:
            pass
        finally:
            with self.changed:
                if socket in self._sockets:
                    self._sockets.remove(socket)
                self.changed.notify_all()

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self._socket.socket.getsockname()[1]}/link"

    # The Web API.

    def answer(self, method: str, token: str, params: dict[str, str]) -> dict[str, Any]:
        if token != (self.app_token if method == "apps.connections.open" else TOKEN):
            return _error("invalid_auth" if token else "not_authed")
        match method:
            case "auth.test":
                who = {"user_id": BOT, "user": "claw", "team_id": TEAM, "team": "Club", "bot_id": "B900"}
                return {"ok": True, "url": "https://club.slack.com/", **who}
            case "apps.connections.open":
                return {"ok": True, "url": self.socket_url}
            case "users.info":
                name = PEOPLE.get(params["user"])
                about = {"id": params["user"], "name": (name or "").lower(), "profile": {"display_name": name}}
                return {"ok": True, "user": about} if name else _error("user_not_found")
            case "users.conversations":
                directs = [{"id": place, "is_im": True, "user": person} for person, place in DIRECTS.items()]
                return {"ok": True, "channels": [*directs, {"id": CHANNEL, "name": "general", "is_channel": True}]}
            case "conversations.info":
                known = params["channel"] == CHANNEL
                return (
                    {"ok": True, "channel": {"id": CHANNEL, "name": "general"}}
                    if known
                    else _error("channel_not_found")
                )
            case "conversations.open":
                place = DIRECTS.get(params["users"])
                return {"ok": True, "channel": {"id": place}} if place else _error("user_not_found")
            case "conversations.history" | "conversations.replies":
                return self._history(method, params)
            case "files.getUploadURLExternal":
                name = f"F{self._next()}"
                return {"ok": True, "file_id": name, "upload_url": f"{self.root}/upload/{name}"}
            case "assistant.threads.setStatus":
                self.statuses.append(params)
                return {"ok": True}
            case "files.info":
                return {
                    "ok": True,
                    "file": {"id": params["file"], "url_private": f"{self.root}/files/{params['file']}"},
                }
            case "chat.postEphemeral":
                self.ephemeral.append(params)
                return {"ok": True, "message_ts": self._ts()}
            case "chat.postMessage" | "files.completeUploadExternal":
                return self._post(params)
            case _:
                return self._change(method, params)

    def _history(self, method: str, params: dict[str, str]) -> dict[str, Any]:
        oldest, thread = params.get("oldest", "0"), params.get("ts")
        found = [each for each in self.messages if each["channel"] == params["channel"]]
        if method.endswith("replies"):
            found = [each for each in found if thread in (each["ts"], each.get("thread_ts"))]
            found = [each for each in found if each["ts"] > oldest or each["ts"] == thread]
        else:
            found = [each for each in found if each.get("thread_ts") in (None, each["ts"]) and each["ts"] > oldest][
                ::-1
            ]
        start, most = int(params.get("cursor") or 0), int(params.get("limit", "100"))
        page, following = found[start : start + most], start + most
        bare = [{key: value for key, value in each.items() if key not in ("channel", "channel_type")} for each in page]
        more = len(found) > following
        about = {"next_cursor": str(following) if more else ""}
        return {"ok": True, "messages": bare, "has_more": more, "response_metadata": about}

    def _post(self, params: dict[str, str]) -> dict[str, Any]:
        uploaded = json.loads(params.get("files", "[]"))
        text = params.get("initial_comment", "") if uploaded else params.get("text", "")
        if not text and not uploaded:
            return _error("no_text")
        if len(text) > 4_000:
            return _error("msg_too_long")
        place = params.get("channel") or params.get("channel_id", "")
        if place not in (CHANNEL, *DIRECTS.values()):
            return _error("channel_not_found")
        message: dict[str, Any] = {
            "type": "message",
            "user": BOT,
            "bot_id": "B900",
            "ts": self._ts(),
            "channel": place,
            "text": text,
            "blocks": json.loads(params.get("blocks", "[]")),
            "files": [{"id": each["id"], "title": each.get("title")} for each in uploaded],
        }
        if thread := params.get("thread_ts"):
            message["thread_ts"] = thread
        self.messages.append(message)
        if uploaded:
            return {"ok": True, "files": message["files"]}
        return {"ok": True, "channel": place, "ts": message["ts"], "message": message}

    def _change(self, method: str, params: dict[str, str]) -> dict[str, Any]:
        ts = params.get("ts") or params.get("timestamp") or ""
        there = next((each for each in self.messages if each["ts"] == ts), None)
        if there is None:
            return _error("message_not_found" if ts else "unknown_method")
        marks = self.reactions.setdefault(ts, [])
        match method:
            case "chat.update":
                there.update(text=params["text"], blocks=json.loads(params.get("blocks", "[]")))
                return {"ok": True, "channel": there["channel"], "ts": ts, "text": params["text"]}
            case "chat.delete":
                self.messages.remove(there)
                return {"ok": True, "channel": there["channel"], "ts": ts}
            case "reactions.add":
                if params["name"] in marks:
                    return _error("already_reacted")
                marks.append(params["name"])
                return {"ok": True}
            case "reactions.remove":
                if params["name"] not in marks:
                    return _error("no_reaction")
                marks.remove(params["name"])
                return {"ok": True}
            case "reactions.get":
                shown = [{"name": each, "count": 1, "users": [BOT]} for each in marks]
                return {"ok": True, "type": "message", "message": {**there, "reactions": shown}}
            case _:
                return _error("unknown_method")

    def _handler(self) -> type[ScriptedHandler]:
        server = self

        class Handler(ScriptedHandler):
            def _any(self) -> None:
                parts = urlsplit(self.path)
                if (raw := self.read()) is None:
                    return None
                if not parts.path.startswith("/api/"):
                    self._file(parts.path, raw)
                    return None
                method, given = parts.path.removeprefix("/api/"), raw.decode() if raw else parts.query
                if "json" in self.headers.get("content-type", ""):
                    read = json.loads(raw or b"{}")
                    params = {
                        key: value if isinstance(value, str) else json.dumps(value) for key, value in read.items()
                    }
                else:
                    params = {key: values[0] for key, values in parse_qs(given).items()}
                token = self.headers.get("authorization", "").removeprefix("Bearer ") or params.pop("token", "")
                with server.changed:
                    server.calls.append((method, params))
                    fault = server.take_fault(lambda each: each.method == method)
                    if fault is not None and fault.cut != "after":
                        answer = {"ok": False, "error": fault.error}
                    else:
                        answer = server.answer(method, token, params)
                    server.changed.notify_all()
                if fault is not None and fault.cut:
                    return self.cut()
                after = {"retry_after": str(fault.retry_after)} if fault is not None and fault.retry_after else {}
                return self.reply(fault.status if fault else 200, json.dumps(answer).encode(), **after)

            do_GET = do_POST = _any

            def _file(self, path: str, raw: bytes) -> None:
                name = path.rpartition("/")[2]
                if path.startswith("/upload/"):
                    server.uploads[name] = raw
                    self.reply(200, b"OK")
                elif self.headers.get("authorization") != f"Bearer {TOKEN}":
                    self.reply(200, b"<html>sign in</html>", kind="text/html")
                else:
                    self.reply(200, server.files.get(name, b""), kind="application/octet-stream")

        return Handler


def _error(name: str) -> dict[str, Any]:
    return {"ok": False, "error": name}


def _send(socket: ServerConnection, frame: dict[str, Any]) -> None:
    with suppress(ConnectionClosed):  # it comes again on the next one
        socket.send(json.dumps(frame))
