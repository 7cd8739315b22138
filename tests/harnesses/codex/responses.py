"""A model server on loopback that speaks the Responses API and answers from a script, for the real `codex`."""

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from msgspec import Struct

from openclaw.testing import Calls, Says, Thinks
from openclaw.testing.server import Answers, Breaks, Hangs, Pauses


class Native(Struct, frozen=True):
    """The model calls a tool of Codex itself."""

    tool: str
    arguments: dict[str, Any] = {}


class Writes(Struct, frozen=True):
    """The model calls a tool of Codex that takes plain text: a patch, or in code mode a script."""

    tool: str
    text: str


Reply = Says | Thinks | Calls | Hangs | Breaks | Answers | Pauses | Native | Writes
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 10},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 120,
}


class ResponsesServer:
    """`with ResponsesServer([Says("hello")]) as server: …`; the last reply repeats for ever."""

    def __init__(self, *replies: Reply | Sequence[Reply]) -> None:
        self._replies = [tuple(each) if isinstance(each, list | tuple) else (each,) for each in replies]
        self.requests: list[dict[str, Any]] = []
        self.then: Callable[[dict[str, Any]], Sequence[Reply] | None] | None = None
        """Asked first: the reply to a request that the script cannot know."""
        self._changed = threading.Condition()
        self._going_on = threading.Semaphore(0)
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="responses")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def settings(self, model: str = "mock-model", **entry: Any) -> dict[str, Any]:
        """Configuration that makes this server the default model, with Codex as its runtime."""
        models = [{"id": model, "contextWindow": 200_000, "cost": {"input": 1.0, "output": 10.0}, **entry}]
        access = {"baseUrl": self.url, "apiKey": "mock-key-123456", "api": "openai-responses", "models": models}
        provider = {**access, "agentRuntime": {"id": "codex"}}
        return {"models": {"providers": {"mock": provider}}, "agents": {"defaults": {"model": f"mock/{model}"}}}

    def go_on(self) -> None:
        """Ends one pause."""
        self._going_on.release()

    def until_asked(self, count: int) -> None:
        with self._changed:
            met = self._changed.wait_for(lambda: len(self.requests) >= count, 60)
        assert met, f"the model was asked {len(self.requests)} times, not {count}"

    def saw(self, text: str, number: int = -1) -> bool:
        return text in json.dumps(self.requests[number], ensure_ascii=False)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _next(self, request: dict[str, Any]) -> tuple[Reply, ...]:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            if self.then is not None and (found := self.then(request)) is not None:
                return tuple(found)
            return self._replies[min(len(self.requests), len(self._replies)) - 1]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
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
                    self.send_header("content-length", str(len(first.body.encode())))
                    self.end_headers()
                    self.wfile.write(first.body.encode())
                    return
                self.close_connection = True
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                name = f"resp_{len(server.requests)}"
                self._event("response.created", response={"id": name})
                for place, step in enumerate(steps):
                    item = f"{name}_{place}"
                    match step:
                        case Pauses():
                            while not server._going_on.acquire(timeout=0.05):
                                if server._closing.is_set():
                                    return
                        case Hangs(text=text):
                            self._begin(item, text)
                            server._closing.wait()
                            return
                        case Breaks(text=text):
                            self._begin(item, text)
                            return
                        case Thinks(text=text):
                            about = {"type": "reasoning", "id": item, "summary": [], "content": []}
                            self._event("response.output_item.added", item=about)
                            self._event("response.reasoning_summary_part.added", item_id=item, summary_index=0)
                            self._event(
                                "response.reasoning_summary_text.delta", item_id=item, summary_index=0, delta=text
                            )
                            done = {**about, "summary": [{"type": "summary_text", "text": text}]}
                            self._event("response.output_item.done", item=done)
                        case Says(text=text):
                            self._begin(item, text)
                            self._event("response.output_item.done", item=_message(item, text))
                        case Calls(tool=tool, arguments=arguments):
                            call = {"type": "function_call", "call_id": f"call_{item}", "namespace": "openclaw"}
                            written = {**call, "name": tool, "arguments": json.dumps(arguments)}
                            self._event("response.output_item.done", item=written)
                        case Native(tool=tool, arguments=arguments):
                            call = {"type": "function_call", "call_id": f"call_{item}", "name": tool}
                            self._event("response.output_item.done", item={**call, "arguments": json.dumps(arguments)})
                        case Writes(tool=tool, text=text):
                            call = {"type": "custom_tool_call", "call_id": f"call_{item}", "name": tool}
                            self._event("response.output_item.done", item={**call, "input": text})
                self._event("response.completed", response={"id": name, "usage": USAGE})

            def _begin(self, item: str, text: str) -> None:
                if text:
                    self._event("response.output_item.added", item=_message(item, ""))
                    self._event("response.output_text.delta", item_id=item, delta=text)

            def _event(self, kind: str, **fields: Any) -> None:
                data = json.dumps({"type": kind, **fields})
                self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *given: object) -> None:
                return None

        return Handler


def _message(item: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}] if text else []
    return {"type": "message", "role": "assistant", "id": item, "content": content}
