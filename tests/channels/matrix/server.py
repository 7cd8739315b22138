"""A Matrix server on loopback with faults on demand: rooms, people who write in them, and one account for the bot."""

import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.channels.scripted import ScriptedHandler, ScriptedServer

TOKEN = "syt_test-token"
PASSWORD = "bot-password"
BOT = "@claw:test"
ADA = "@ada:test"
LIMIT = 50


class Fault:
    """What the next call of `method` meets: an answer of this status, or a cut connection before or after it.

    `hold` does it and says nothing, until `let_go` is set.
    """

    def __init__(self, method: str, status: int = 0, *, retry_after: int | None = None, cut: str = "") -> None:
        self.method = method
        self.status = status
        self.retry_after = retry_after
        self.cut = cut
        self.let_go = False


class Room:
    """Its events in order, each with its place in the stream of the whole server."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.events: list[tuple[int, dict[str, Any]]] = []

    def state(self, kind: str, key: str = "") -> dict[str, Any] | None:
        for _, event in reversed(self.events):
            if event["type"] == kind and event.get("state_key") == key:
                found: dict[str, Any] = event["content"]
                return found
        return None

    def membership(self, user: str) -> str:
        return str((self.state("m.room.member", user) or {}).get("membership", ""))

    def joined(self) -> dict[str, Any]:
        users = dict.fromkeys(event["state_key"] for _, event in self.events if event["type"] == "m.room.member")
        return {user: self.state("m.room.member", user) for user in users if self.membership(user) == "join"}


class MatrixServer(ScriptedServer[Fault]):
    """`with MatrixServer() as server`: people write with `says`, the bot's messages are in `sent`."""

    def __init__(self) -> None:
        super().__init__("matrix")
        self.rooms: dict[str, Room] = {}
        self.sent: list[dict[str, Any]] = []
        """What the bot said: the contents of its messages, with room, event and `text`."""
        self.other: list[dict[str, Any]] = []
        """What else it did to messages: edits, reactions, redactions."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self.tokens = {TOKEN}
        self.logins: list[dict[str, Any]] = []
        self.soft_logout = False
        self.direct: dict[str, Any] = {}
        self._place = 0
        self._transactions: dict[str, str] = {}

    # What people do.

    def room(
        self, *people: str, name: str = "", encrypted: bool = False, invite: str = "", direct: bool = False
    ) -> str:
        """A room that somebody made: `people` are in it; the bot too, unless `invite` says who only invites it."""
        with self.changed:
            room = self.rooms.setdefault(f"!room{len(self.rooms) + 1}:test", Room(f"!room{len(self.rooms) + 1}:test"))
            maker = invite or people[0]
            self._add(room.id, maker, "m.room.create", {"creator": maker}, "")
            for user in dict.fromkeys((maker, *people)):
                self.joins(room.id, user)
            if name:
                self._add(room.id, maker, "m.room.name", {"name": name}, "")
            if encrypted:
                self._add(room.id, maker, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, "")
            if invite:
                asked = {"membership": "invite", **({"is_direct": True} if direct else {})}
                self._add(room.id, maker, "m.room.member", asked, BOT)
            else:
                self.joins(room.id, BOT)
            return room.id

    def joins(self, room: str, user: str) -> None:
        name = user[1:].partition(":")[0].title()
        self._add(room, user, "m.room.member", {"membership": "join", "displayname": name}, user)

    def says(self, text: str, sender: str = ADA, room: str = "", **more: Any) -> str:
        """A person writes, in a room they have with the bot when none is named; gives the id of the event."""
        with self.changed:
            known = [each.id for each in self.rooms.values() if {*_people(each)} == {sender, BOT}]
            room = room or next(iter(known), "") or self.room(sender, invite=sender, direct=True)
            return self._add(room, sender, "m.room.message", {"msgtype": "m.text", "body": text, **more})

    def does(self, kind: str, content: dict[str, Any], sender: str = ADA, room: str = "", **more: Any) -> str:
        """A person does something else in a room."""
        return self._add(room, sender, kind, content, **more)

    def called(self, method: str) -> int:
        return sum(name == method for name, _ in self.calls)

    # The server.

    def _add(
        self, room: str, sender: str, kind: str, content: dict[str, Any], key: str | None = None, **more: Any
    ) -> str:
        with self.changed:
            self._place += 1
            name = f"$event{self._place}"
            event = {
                "event_id": name,
                "type": kind,
                "sender": sender,
                "content": content,
                "origin_server_ts": int(time.time() * 1000),
                **more,
            }
            if key is not None:
                event["state_key"] = key
                if (before := self.rooms[room].state(kind, key)) is not None:
                    event["unsigned"] = {"prev_content": before}
            self.rooms[room].events.append((self._place, event))
            self.changed.notify_all()
            return name

    def _sync(self, query: Mapping[str, str]) -> dict[str, Any]:
        since = int(query["since"][1:]) if query.get("since") else 0
        seconds = min(float(query.get("timeout") or 0) / 1000, 20.0)
        with self.changed:
            self.changed.wait_for(lambda: self.closing or self._news(since), seconds if "since" in query else 0.0)
            return {"next_batch": f"s{self._place}", "rooms": self._news(since)}

    def _news(self, since: int) -> dict[str, Any]:
        join: dict[str, Any] = {}
        invite: dict[str, Any] = {}
        leave: dict[str, Any] = {}
        for room in self.rooms.values():
            mine = [place for place, event in room.events if event.get("state_key") == BOT]
            match room.membership(BOT):
                case "join":
                    new = max(place for place in mine) > since
                    events = [(place, each) for place, each in room.events if new or place > since]
                    if events:
                        join[room.id] = {"timeline": _timeline(events), "state": {"events": []}}
                case "invite" if max(mine) > since:
                    asked = next(event for place, event in room.events if place == max(mine))
                    invite[room.id] = {"invite_state": {"events": [asked]}}
                case "leave" if max(mine) > since:
                    leave[room.id] = {}
                case _:
                    pass
        found = {"join": join, "invite": invite, "leave": leave}
        return found if any(found.values()) else {}

    def _messages(self, room: Room, query: Mapping[str, str]) -> dict[str, Any]:
        start, end = int(query["from"][1:]), int(query.get("to", "s0")[1:])
        found = [(place, event) for place, event in reversed(room.events) if end < place < start]
        chunk = found[: int(query["limit"])]
        more = {"end": f"s{chunk[-1][0]}"} if len(found) > len(chunk) else {}
        return {"chunk": [event for _, event in chunk], **more}

    def _put(self, room: Room, kind: str, txn: str, content: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The same transaction again is the same event."""
        name = f"{room.id} {kind} {txn}"
        if room.membership(BOT) != "join":
            raise Refusal(403, "M_FORBIDDEN", "not in the room")
        if len(json.dumps(content)) > 65_000:
            raise Refusal(413, "M_TOO_LARGE", "event too large")
        if name not in self._transactions:
            event = self._transactions[name] = self._add(room.id, BOT, kind, content, **more)
            said = {**content, **more, "room_id": room.id, "event_id": event, "type": kind, "txn": txn}
            relation = content.get("m.relates_to", {}).get("rel_type")
            if kind == "m.room.message" and relation != "m.replace":
                self.sent.append({**said, "text": content["body"]})
            else:
                self.other.append(said)
            self.changed.notify_all()
        return {"event_id": self._transactions[name]}

    def _call(self, method: str, path: list[str], query: Mapping[str, str], body: dict[str, Any]) -> Any:
        match method, *path:
            case _, "account", "whoami":
                return {"user_id": BOT, "device_id": "DEVICE"}
            case _, "login":
                self.logins.append(body)
                if body.get("password") != PASSWORD:
                    raise Refusal(403, "M_FORBIDDEN", "Invalid username or password")
                token = f"syt_login-{len(self.logins)}"
                self.tokens.add(token)
                return {"user_id": BOT, "device_id": body.get("device_id") or "NEWDEVICE", "access_token": token}
            case _, "logout":
                self.tokens.clear()
                return {}
            case "GET", "sync":
                return self._sync(query)
            case _, "join", room:
                self.joins(room, BOT)
                return {"room_id": room}
            case "POST", "createRoom":
                room = self.room(*body["invite"])
                return {"room_id": room}
            case "GET", "user", _, "account_data", "m.direct":
                return self.direct
            case "PUT", "user", _, "account_data", "m.direct":
                self.direct = body
                return {}
            case "GET", "profile", _, "displayname":
                return {"displayname": "Claw"}
            case "GET", "media", "config":
                return {"m.upload.size": 1_000_000}
            case "GET", "media", "download", _, name if name in self.files:
                return self.files[name]
            case "POST", "upload":
                return {"content_uri": f"mxc://test/{len(self.files)}"}
            case "GET", "directory", "room", _:
                return {"room_id": next(iter(self.rooms))}
            case _, "rooms", name, *rest if name in self.rooms:
                return self._in_room(method, self.rooms[name], rest, query, body)
            case _:
                raise Refusal(404, "M_NOT_FOUND", "there is nothing")

    def _in_room(self, method: str, room: Room, path: list[str], query: Mapping[str, str], body: dict[str, Any]) -> Any:
        match method, *path:
            case "GET", "messages":
                return self._messages(room, query)
            case "GET", "joined_members":
                return {
                    "joined": {
                        user: {"display_name": (at or {}).get("displayname")} for user, at in room.joined().items()
                    }
                }
            case "GET", "state", kind, *_ if (found := room.state(kind)) is not None:
                return found
            case "GET", "event", name:
                for _, event in room.events:
                    if event["event_id"] == name:
                        return event
            case "GET", "relations", about, *_:
                gone = {event.get("redacts") for _, event in room.events}
                reactions = [event for _, event in room.events if event["type"] == "m.reaction"]
                return {
                    "chunk": [
                        event
                        for event in reactions
                        if event["content"]["m.relates_to"]["event_id"] == about and event["event_id"] not in gone
                    ]
                }
            case "PUT", "send", kind, txn:
                return self._put(room, kind, txn, body)
            case "PUT", "redact", event, txn:
                return self._put(room, "m.room.redaction", txn, {}, redacts=event)
            case "PUT" | "POST", "typing" | "receipt", *_:
                return {}
            case _:
                pass
        raise Refusal(404, "M_NOT_FOUND", "there is nothing")

    def _handler(self) -> type[ScriptedHandler]:
        server = self

        class Handler(ScriptedHandler):
            def _do(self) -> None:
                if (data := self.read()) is None:
                    return None
                url = urlsplit(self.path)
                # /_matrix/client/v3/NAME… or /_matrix/media/v3/upload
                path = [unquote(part) for part in url.path.split("/")[4:]]
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                plain = self.headers.get("content-type", "").startswith("application/json")
                body = json.loads(data) if data and plain else {}
                method = next((part for part in path if part in NAMED), path[0])
                with server.changed:
                    server.calls.append((method, {**query, **body, "path": "/".join(path)}))
                    fault = server.take_fault(lambda each: each.method == method)
                    server.changed.notify_all()
                token = self.headers.get("authorization", "").removeprefix("Bearer ")
                if path[0] != "login" and token not in server.tokens:
                    said = {"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown access token"}
                    return self._answer(401, {**said, **({"soft_logout": True} if server.soft_logout else {})})
                if fault is not None and fault.status:
                    code = "M_LIMIT_EXCEEDED" if fault.status == 429 else "M_UNKNOWN"
                    after = {} if fault.retry_after is None else {"retry_after_ms": fault.retry_after * 1000}
                    return self._answer(fault.status, {"errcode": code, "error": "as told", **after})
                if fault is not None and fault.cut == "before":
                    return self.cut()
                try:
                    with server.changed:
                        result = server._call(self.command, path, query, body)
                        if path == ["upload"]:
                            server.files[str(len(server.files))] = (self.headers["content-type"], data)
                except Refusal as refusal:
                    return self._answer(refusal.status, {"errcode": refusal.code, "error": refusal.why})
                if fault is not None:
                    if fault.cut == "hold":  # it took effect, and the answer does not come
                        with server.changed:
                            server.changed.wait_for(lambda: server.closing or fault.let_go, 60.0)
                    return self.cut()
                if isinstance(result, tuple):
                    return self._answer(200, result[1], result[0])
                return self._answer(200, result)

            do_GET = do_POST = do_PUT = _do

            def _answer(self, status: int, body: Any, kind: str = "application/json") -> None:
                self.reply(status, body if isinstance(body, bytes) else json.dumps(body).encode(), kind)

        return Handler


NAMED = ("send", "redact", "typing", "receipt", "messages", "state", "event", "joined_members", "relations", "whoami")


class Refusal(Exception):
    def __init__(self, status: int, code: str, why: str) -> None:
        super().__init__(why)
        self.status, self.code, self.why = status, code, why


def _people(room: Room) -> list[str]:
    users = dict.fromkeys(str(event["state_key"]) for _, event in room.events if event["type"] == "m.room.member")
    return [user for user in users if room.membership(user) in ("join", "invite")]


def _timeline(events: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    shown = events[-LIMIT:]
    return {
        "events": [event for _, event in shown],
        "limited": len(events) > len(shown),
        "prev_batch": f"s{shown[0][0]}",
    }
