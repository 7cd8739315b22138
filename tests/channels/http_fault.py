"""A small HTTP server on loopback for platforms that are called: faults on demand, everything recorded."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

PATIENCE = 90.0
Answer = tuple[int, bytes]


class HttpFault:
    """What the next request with this method and a path that holds `path` meets: a status, or a cut connection."""

    def __init__(self, path: str, status: int = 0, *, after: str = "", cut: str = "", body: Any = None) -> None:
        self.path = path
        self.status = status
        self.after = after
        self.cut = cut
        self.body = body


class HttpFaultServer:
    """`answer` says what a request is answered with; subclasses give it."""

    def __init__(self) -> None:
        self.faults: list[HttpFault] = []
        self.changed = threading.Condition()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        raise NotImplementedError

    def until(self, true: Callable[[], Any]) -> None:
        with self.changed:
            assert self.changed.wait_for(true, PATIENCE)


def _handler(server: HttpFaultServer) -> Any:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            fault = next((each for each in server.faults if each.path in self.path), None)
            if fault is not None:
                server.faults.remove(fault)
            if fault is not None and fault.cut != "after" and (fault.status or fault.cut):
                if fault.cut:
                    self.close_connection = True
                    return
                self.reply(fault.status, json.dumps(fault.body or {}).encode(), fault.after)
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            with server.changed:
                status, said = server.answer(self.command, self.path, headers, body)
                server.changed.notify_all()
            if fault is not None:
                self.close_connection = True
                return
            self.reply(status, said)

        def reply(self, status: int, body: bytes, after: str = "") -> None:
            self.send_response(status)
            if after:
                self.send_header("retry-after", after)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
