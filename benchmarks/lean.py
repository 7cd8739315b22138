"""A model and a client that cost next to nothing, so that what is measured is the gateway between them.

The model speaks `openai-completions` in a process of its own, without reading what it is sent: a message that says
`BENCH-READ <n> <file>` is answered with `n` calls of `read` (or `read_file`), one after another, and anything else in
ten words at once.
"""

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent))

from openclaw.core.secret import Secret
from tests.e2e.raw_client import RawClient

WORDS = "an answer of ten words or so, to be fair "
SAID = WORDS[:20].encode()


def cpu_ms(pid: int) -> float:
    """CPU milliseconds of a process so far, all its threads, without the ten-millisecond steps of `stat`."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


# The model.


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _answer(events: bytes) -> bytes:
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}\n\n'
    body = events + usage + b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def _says(text: str) -> bytes:
    return _answer(b"".join(_event({"content": f"{word} "}) for word in text.split()) + _event({}, "stop"))


def _whole(text: str) -> bytes:
    """The answer to a request that does not stream."""
    message = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    reply = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [message],
        "usage": usage,
    }
    body = msgspec.json.encode(reply)
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


class LeanModel(asyncio.Protocol):
    """One connection of the model."""

    words = _says(WORDS)
    whole = _whole(WORDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._buffer = bytearray()
        self._until = 0

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._until:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            self._until = end + 4 + size
        if len(self._buffer) >= self._until:
            self._transport.write(self._reply(self._buffer))
            self._buffer.clear()
            self._until = 0

    def _reply(self, request: bytearray) -> bytes:
        if request.startswith(b"GET"):
            body = b'{"object":"list","data":[{"id":"mock","object":"model"}]}'
            return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
                len(body),
                body,
            )
        if b'"stream":true' not in request and b'"stream": true' not in request:
            return self.whole
        asked = request.rfind(b"BENCH-READ ")
        if asked < 0 or request.find(SAID, asked) >= 0:
            return self.words
        count, name = bytes(request[asked + 11 : asked + 200]).split(b'"', 1)[0].split()[:2]
        done = request.count(b'"role":"tool"', asked) + request.count(b'"role": "tool"', asked)
        if done >= int(count):
            return self.words
        tool = "read_file" if b'"read_file"' in request else "read"
        function = {"name": tool, "arguments": msgspec.json.encode({"path": name.decode()}).decode()}
        call = {"index": 0, "id": f"call_{uuid.uuid4().hex[:12]}", "type": "function", "function": function}
        return _answer(_event({"tool_calls": [call]}) + _event({}, "tool_calls"))


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(LeanModel, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


class ModelProcess:
    """The model in its own process: `with ModelProcess() as model: home.configure(model.settings())`."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def settings(self) -> dict[str, Any]:
        """Configuration that makes it the default model."""
        access = {"baseUrl": self.url, "apiKey": "mock-key-123456", "api": "openai-completions"}
        providers = {"mock": {**access, "models": [{"id": "mock", "name": "mock", "contextWindow": 2_000_000}]}}
        return {"models": {"providers": providers}, "agents": {"defaults": {"model": "mock/mock"}}}


# The client.


class Turn:
    """One message on its way: when the first words and the end came, in milliseconds after it was sent."""

    def __init__(self) -> None:
        self.sent = time.perf_counter()
        self.first = 0.0
        self.took = 0.0
        self.state = ""
        self.over: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()

    def heard(self, state: str) -> None:
        if state == "status":
            return
        took = (time.perf_counter() - self.sent) * 1000
        self.first = self.first or took
        if state != "delta" and not self.over.done():
            self.state, self.took = state, took
            self.over.set_result(self)


class LeanClient(RawClient):
    """A client of the gateway that looks at nothing but the states of its own messages."""

    def __init__(self, port: int, token: Secret) -> None:
        super().__init__(port, token)
        self._turns: dict[bytes, Turn] = {}
        self._calls: dict[bytes, asyncio.Future[bytes]] = {}

    def heard(self, data: bytes) -> None:
        if b'"event":"chat"' in data[:60]:
            at = data.find(b'"runId":"') + 9
            turn = self._turns.get(data[at : at + 32])
            if turn is not None:
                at = data.find(b'"state":"') + 9
                turn.heard(data[at : data.find(b'"', at)].decode())
        elif data.startswith(b'{"type":"res"'):
            at = data.find(b'"id":"') + 6
            waiting = self._calls.pop(data[at : at + 32], None)
            if waiting is not None:
                waiting.set_result(data)

    async def call(self, method: str, params: dict[str, Any]) -> bytes:
        """The raw answer to a request."""
        number = uuid.uuid4().hex
        answer = self._calls[number.encode()] = asyncio.get_running_loop().create_future()
        request = {"type": "req", "id": number, "method": method, "params": params}
        self.send(msgspec.json.encode(request))
        return await asyncio.wait_for(answer, 120)

    async def say(self, session: str, message: str = "hello") -> Turn:
        """One chat message, to its end."""
        run = uuid.uuid4().hex
        turn = self._turns[run.encode()] = Turn()
        params = {"sessionKey": session, "message": message, "idempotencyKey": run}
        request = {"type": "req", "id": uuid.uuid4().hex, "method": "chat.send", "params": params}
        self.send(msgspec.json.encode(request))
        await asyncio.wait_for(turn.over, 120)
        assert turn.state == "final", turn.state
        del self._turns[run.encode()]
        return turn


@asynccontextmanager
async def lean_client(port: int, token: Secret) -> AsyncIterator[LeanClient]:
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(lambda: LeanClient(port, token), "127.0.0.1", port)
    try:
        await client.ready
        yield client
    finally:
        transport.close()


if __name__ == "__main__":
    asyncio.run(_serve())
