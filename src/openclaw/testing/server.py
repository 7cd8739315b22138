"""A model server on loopback that speaks `openai-completions` and answers from a script.

For tests that run the real program in its own process, where an object cannot be handed in.
"""

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from msgspec import Struct

from openclaw.testing import Calls, Says, Step


class Hangs(Struct):
    """Sends `text`, then nothing more until the server is closed."""

    text: str = ""


class Pauses(Struct):
    """Sends nothing until the test calls `go_on`; each call lets one pause end."""


class Breaks(Struct):
    """Sends `text`, then closes the connection."""

    text: str = ""


class Answers:
    """Answers with a status and a body instead of a stream."""

    def __init__(self, status: int, body: str, **headers: str) -> None:
        self.status = status
        self.body = body
        self.headers = headers


Reply = Step | Hangs | Breaks | Pauses | Answers


class MockModelServer:
    """`with MockModelServer([Says("hello")]) as server: …`; the last reply repeats for ever."""

    def __init__(self, replies: Sequence[Reply | Sequence[Step | Pauses]]) -> None:
        self.replies = [(reply,) if isinstance(reply, Reply) else tuple(reply) for reply in replies]
        self.requests: list[dict[str, Any]] = []
        self.asked = threading.Event()
        self._changed = threading.Condition()
        self.closing = threading.Event()
        self._going_on = threading.Semaphore(0)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="mock-model")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def settings(self, **model: Any) -> dict[str, Any]:
        """Configuration that makes this server the default model."""
        models = [{"id": "mock", "contextWindow": 200_000, **model}]
        access = {"baseUrl": self.url, "apiKey": "mock-key-123456", "api": "openai-completions"}
        providers = {"mock": {**access, "models": models}}
        return {"models": {"providers": providers}, "agents": {"defaults": {"model": "mock/mock"}}}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def go_on(self) -> None:
        """Ends one pause."""
        self._going_on.release()

    def _next(self, request: dict[str, Any]) -> tuple[Reply, ...]:
        with self._changed:
            place = min(len(self.requests), len(self.replies) - 1)
            self.requests.append(request)
            self._changed.notify_all()
        self.asked.set()
        return self.replies[place]

    def until_asked(self, count: int, seconds: float = 60.0) -> None:
        """Waits until the model was asked so often."""
        with self._changed:
            met = self._changed.wait_for(lambda: len(self.requests) >= count, seconds)
        assert met, f"the model was asked {len(self.requests)} times, not {count}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # No Nagle: otherwise each chunk would wait 40 ms for the client's acknowledgement.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                try:
                    self._reply(server._next(json.loads(body)))
                except (BrokenPipeError, ConnectionResetError):
                    return

            def _reply(self, steps: tuple[Reply, ...]) -> None:
                first = steps[0]
                if isinstance(first, Answers):
                    self.send_response(first.status)
                    for name, value in first.headers.items():
                        self.send_header(name.replace("_", "-"), value)
                    self.send_header("content-length", str(len(first.body.encode())))
                    self.end_headers()
                    self.wfile.write(first.body.encode())
                    return
                # A reply that is going to break off has no Content-Length, as with real servers that break off.
                self.close_connection = any(isinstance(step, Hangs | Breaks) for step in steps)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                if not self.close_connection:
                    self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                calls = 0
                for step in steps:
                    match step:
                        case Says(text=text, piece=piece):
                            for start in range(0, len(text), piece):
                                self._event({"content": text[start : start + piece]})
                        case Calls(tool=tool, arguments=arguments):
                            function = {"name": tool, "arguments": json.dumps(arguments)}
                            call = {"index": calls, "id": f"call_{len(server.requests)}_{calls}", "function": function}
                            self._event({"tool_calls": [{"type": "function", **call}]})
                            calls += 1
                        case Pauses():
                            while not server._going_on.acquire(timeout=0.1):
                                if server.closing.is_set():
                                    return
                        case Hangs(text=text) | Breaks(text=text):
                            if text:
                                self._event({"content": text})
                            if isinstance(step, Hangs):
                                server.closing.wait()
                            return
                        case _:
                            raise TypeError(f"the mock server cannot {step!r}")
                self._event({}, "tool_calls" if calls else "stop")
                usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
                self._data(json.dumps({"choices": [], "usage": usage}))
                self._data("[DONE]")
                self.wfile.write(b"0\r\n\r\n")

            def _event(self, delta: dict[str, Any], finish: str | None = None) -> None:
                self._data(json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))

            def _data(self, text: str) -> None:
                data = f"data: {text}\n\n".encode()
                self.wfile.write(data if self.close_connection else b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        return Handler
