"""A Bot API server on loopback with faults on demand: what was heard is repeated until it is acknowledged."""

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

TOKEN = "42:test-token"
BOT = {"id": 42, "is_bot": True, "first_name": "Claw", "username": "claw_bot"}


class Fault:
    """What the next call of `method` meets: an answer of this status, or a cut connection before or after it."""

    def __init__(self, method: str, status: int = 0, *, retry_after: int | None = None, cut: str = "") -> None:
        self.method = method
        self.status = status
        self.retry_after = retry_after
        self.cut = cut


class TelegramServer:
    """`with TelegramServer() as server`: people write with `says`, the bot's messages are in `sent`."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[Fault] = []
        self.changed = threading.Condition()
        self.closing = False
        self._ids = 100
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="telegram")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "TelegramServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing = True
        with self.changed:
            self.changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def says(self, text: str, sender: int = 7, **more: Any) -> int:
        """A person writes; gives the id of the message."""
        with self.changed:
            self._ids += 1
            message = {
                "message_id": self._ids,
                "date": int(time.time()),
                "from": {"id": sender, "is_bot": False, "first_name": f"Person {sender}"},
                "chat": {"id": sender, "type": "private"},
                "text": text,
                **more,
            }
            self.updates.append({"update_id": 1_000 + self._ids, "message": message})
            self.changed.notify_all()
            return self._ids

    def hears(self, count: int, seconds: float = 60.0) -> list[dict[str, Any]]:
        """The bot's messages, once there are so many."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.sent) >= count, seconds), f"only {len(self.sent)} came"
            return list(self.sent)

    def _call(self, method: str, params: Mapping[str, Any]) -> Any:
        match method:
            case "getMe":
                return BOT
            case "getUpdates":
                return self._poll(int(params.get("offset") or 0), float(params.get("timeout") or 0))
            case "sendMessage" | "sendPhoto" | "sendDocument":
                with self.changed:
                    self._ids += 1
                    self.sent.append({"message_id": self._ids, "method": method, **params})
                    self.changed.notify_all()
                    return {"message_id": self._ids, "date": int(time.time()), "chat": {"id": params.get("chat_id")}}
            case _:
                return True

    def _poll(self, offset: int, seconds: float) -> list[dict[str, Any]]:
        with self.changed:
            self.updates = [each for each in self.updates if each["update_id"] >= offset]
            self.changed.wait_for(lambda: self.updates or self.closing, min(seconds, 20.0))
            return list(self.updates)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                _, bot, method = self.path.split("/")
                kind = self.headers.get("content-type", "")
                params = json.loads(body) if kind.startswith("application/json") else {"form": body.decode("latin-1")}
                with server.changed:
                    server.calls.append((method, params))
                    fault = next((each for each in server.faults if each.method == method), None)
                    if fault is not None:
                        server.faults.remove(fault)
                if bot != f"bot{TOKEN}":
                    return self._answer(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
                if fault is not None and fault.status:
                    said = {"ok": False, "error_code": fault.status, "description": "as told"}
                    if fault.retry_after is not None:
                        said["parameters"] = {"retry_after": fault.retry_after}
                    return self._answer(fault.status, said)
                if fault is not None and fault.cut == "before":
                    return self._cut()
                result = server._call(method, params)
                if fault is not None:
                    return self._cut()
                return self._answer(200, {"ok": True, "result": result})

            def _cut(self) -> None:
                self.close_connection = True
                self.connection.close()

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return None

        return Handler
