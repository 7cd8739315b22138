"""A signal-cli daemon on loopback with faults on demand: the stream of events, and JSON-RPC over HTTP."""

import base64
import json
import socket
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.channels.scripted import ScriptedHandler, ScriptedServer

ME, MY_UUID = "+15550000", "00000000-0000-4000-8000-000000000000"
ADA, EVE = "+15550007", "+15550008"
UUIDS = {ADA: "00000000-0000-4000-8000-000000000007", EVE: "00000000-0000-4000-8000-000000000008"}
NAMES = {ADA: "Ada", EVE: "Eve"}
GROUP = "Y2x1YjEyMzQ1Njc4OTBhYmNkZWZnaGlqa2xtbm9wcXI="


class Fault:
    """What the next call of `method` meets: an HTTP status, an error of JSON-RPC, or a cut connection."""

    def __init__(self, method: str, status: int = 0, *, code: int = 0, message: str = "as told", cut: str = "") -> None:
        self.method = method
        self.status = status
        self.code = code
        self.message = message
        self.cut = cut


class SignalServer(ScriptedServer[Fault]):
    """`with SignalServer() as server`: people write with `says`, the account's messages are in `sent`."""

    def __init__(self, port: int = 0) -> None:
        super().__init__("signal", port)
        self.accounts: list[str] | None = None
        """The numbers it has, when it has several."""
        self.sent: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.files: dict[str, bytes] = {}
        self.listeners = 0
        self.silent = False
        """No sign of life is given."""
        self.unavailable = False
        self._events: list[dict[str, Any]] = []
        """What nobody has heard yet: it waits on Signal's servers until somebody listens."""
        self._generation = 0
        self._time = int(time.time() * 1000)

    # People.

    def says(self, text: str, sender: str = ADA, group: str = "", **more: Any) -> str:
        """Somebody writes, alone or in the group; gives the name of the message."""
        when = self.now()
        info = {"groupInfo": {"groupId": group, "groupName": "Club", "revision": 1, "type": "DELIVER"}} if group else {}
        message = {"timestamp": when, "message": text, "expiresInSeconds": 0, "viewOnce": False, **info, **more}
        self.happens({"dataMessage": message}, sender, when)
        return f"{when}:{sender}"

    def edits(self, name: str, text: str, sender: str = ADA) -> None:
        when = self.now()
        message = {"timestamp": when, "message": text}
        self.happens(
            {"editMessage": {"targetSentTimestamp": int(name.partition(":")[0]), "dataMessage": message}}, sender, when
        )

    def reacts(self, name: str, emoji: str, sender: str = ADA, author: str = ME, **more: Any) -> None:
        when = self.now()
        target = {"targetAuthor": author, "targetAuthorNumber": author, "targetSentTimestamp": int(name)}
        reaction = {"emoji": emoji, "isRemove": False, **target, **more}
        self.happens({"dataMessage": {"timestamp": when, "message": None, "reaction": reaction}}, sender, when)

    def happens(self, content: dict[str, Any], sender: str = ADA, when: int = 0) -> None:
        source = {"source": sender, "sourceNumber": sender, "sourceUuid": UUIDS.get(sender), "sourceDevice": 1}
        envelope = {**source, "sourceName": NAMES.get(sender), "timestamp": when or self.now(), **content}
        with self.changed:
            self._events.append({"envelope": envelope, "account": ME})
            self.changed.notify_all()

    def drop(self) -> None:
        """Cuts the streams."""
        with self.changed:
            self._generation += 1
            self.changed.notify_all()

    def now(self) -> int:
        with self.changed:
            self._time += 1
            return self._time

    def called(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.calls if name == method]

    # The daemon.

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("account") not in (None, ME):
            return _error(-32602, "Specified account does not exist")
        match method:
            case "version":
                return {"result": {"version": "0.13.19"}}
            case "listAccounts" if self.accounts is not None:
                return {"result": [{"number": each} for each in self.accounts]}
            case "getUserStatus":
                who = {"recipient": ME, "number": ME, "uuid": MY_UUID, "isRegistered": True}
                return {"result": [who]}
            case "send":
                return self._send(params)
            case "remoteDelete":
                self.sent = [each for each in self.sent if each["timestamp"] != params["targetTimestamp"]]
                return {"result": {"timestamp": self.now(), "results": []}}
            case "sendReaction" | "sendReceipt" | "sendTyping":
                if method == "sendReaction" and not params.get("emoji"):
                    return _error(-1, "Missing emoji")
                return {"result": {"timestamp": self.now(), "results": []}}
            case "getAttachment":
                found = self.files.get(params["id"])
                if found is None:
                    return _error(-1, "Could not find attachment with ID: " + params["id"])
                return {"result": {"data": base64.b64encode(found).decode()}}
            case _:
                return _error(-32601, "Method not implemented")

    def _send(self, params: dict[str, Any]) -> dict[str, Any]:
        target = params.get("groupId") or (params.get("recipient") or [""])[0]
        if not params.get("message") and not params.get("attachments"):
            return _error(-1, "Sending empty message is not allowed")
        when = self.now()
        if before := params.get("editTimestamp"):
            there = next((each for each in self.sent if each["timestamp"] == before), None)
            if there is None:
                return _error(-1, "there is no such message")
            there["message"], there["textStyle"] = params["message"], params.get("textStyle", [])
        else:
            files = [_decode_file(each) for each in params.get("attachments", ())]
            self.sent.append({**params, "to": target, "timestamp": when, "files": files})
        kind = "SUCCESS" if target in (ADA, EVE, GROUP, *UUIDS.values()) else "UNREGISTERED_FAILURE"
        return {"result": {"timestamp": when, "results": [{"recipientAddress": {"number": target}, "type": kind}]}}

    def _handler(self) -> type[ScriptedHandler]:
        server = self

        class Handler(ScriptedHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/api/v1/check":
                    self.reply(503 if server.unavailable else 200, b"")
                elif parse_qs(parts.query).get("account", [ME]) != [ME]:
                    self.reply(400, b"")
                else:
                    self._events()

            def _events(self) -> None:
                self.close_connection = True
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                with server.changed:
                    mine = server._generation
                    server.listeners += 1
                    server.changed.notify_all()
                try:
                    while True:
                        with server.changed:
                            server.changed.wait_for(lambda: server._events or server._generation != mine, 0.2)
                            if server._generation != mine or _is_gone(self.connection):
                                return
                            events, server._events = server._events, []
                        for event in events:
                            # The data may come in several lines.
                            text = json.dumps(event, indent=1).replace("\n", "\ndata:")
                            self.wfile.write(f"event:receive\ndata:{text}\n\n".encode())
                        if not events and not server.silent:
                            self.wfile.write(b":\n")
                        self.wfile.flush()
                except OSError:
                    return

            def do_POST(self) -> None:
                if (raw := self.read()) is None:
                    return None
                if self.headers.get("content-type") != "application/json":
                    self.reply(415, b"")
                    return None
                asked = json.loads(raw)
                method, params = asked["method"], asked.get("params", {})
                with server.changed:
                    server.calls.append((method, params))
                    fault = server.take_fault(lambda each: each.method == method)
                    if fault is not None and fault.cut != "after":
                        answer = _error(fault.code, fault.message)
                    else:
                        answer = server.answer(method, params)
                    server.changed.notify_all()
                if fault is not None and fault.cut:
                    return self.cut()
                body = {"jsonrpc": "2.0", "id": asked.get("id"), **answer}
                failed = fault.status if fault else 0
                return self.reply(failed or 200, b"" if failed else json.dumps(body).encode())

        return Handler


def _is_gone(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "data": None}}


def _decode_file(uri: str) -> tuple[str, bytes]:
    head, _, content = uri.partition(",")
    return unquote(head.partition("filename=")[2].partition(";")[0]), base64.b64decode(content)
