"""Remote embedders, against a server on this machine."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from openclaw.core.embedder import EmbedderEndpoint
from openclaw.core.errors import (
    AuthFailed,
    BadRequest,
    BadResponse,
    BillingFailed,
    ModelNotFound,
    NetworkFailed,
    Overloaded,
    RateLimited,
    ServerFailed,
)
from openclaw.core.secret import Secret
from openclaw.memory import embedders

pytestmark = pytest.mark.anyio


class Server:
    """Answers with `status` and `body`; remembers what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body: Any = None
        self.raw: bytes | None = None
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, data))
                body = outer.raw if outer.raw is not None else json.dumps(outer.body).encode()
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


async def embedded(server: Server, provider: str, *texts: str, query: bool = False) -> Any:
    embedder = embedders.open_embedder(
        EmbedderEndpoint(provider=provider, base_url=server.url, key=Secret("sk-very-secret"), model="m")
    )
    try:
        if query:
            return await embedder.embed_query(texts[0])  # type: ignore[attr-defined]
        return await embedder.embed(list(texts))
    finally:
        await embedder.close()


async def test_openai(server: Server):
    server.body = {"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]}
    assert [list(vector) for vector in await embedded(server, "openai", "a", "b")] == [[1, 0], [0, 1]]
    path, headers, body = server.asked[0]
    assert (path, headers["authorization"]) == ("/embeddings", "Bearer sk-very-secret")
    assert body == {"model": "m", "input": ["a", "b"], "encoding_format": "float"}


async def test_gemini_reads_questions_differently(server: Server):
    server.body = {"embeddings": [{"values": [1, 0]}]}
    await embedded(server, "gemini", "a")
    await embedded(server, "gemini", "a", query=True)
    (path, headers, body), (_, _, question) = server.asked
    assert (path, headers["x-goog-api-key"]) == ("/models/m:batchEmbedContents", "sk-very-secret")
    assert body["requests"][0]["content"] == {"parts": [{"text": "a"}]}
    assert body["requests"][0]["taskType"] == "RETRIEVAL_DOCUMENT"
    assert question["requests"][0]["taskType"] == "RETRIEVAL_QUERY"


async def test_voyage_reads_questions_differently(server: Server):
    server.body = {"data": [{"index": 0, "embedding": [1.5]}]}
    assert list(await embedded(server, "voyage", "a", query=True)) == [1.5]
    assert server.asked[0][2] == {"model": "m", "input": ["a"], "input_type": "query"}


async def test_ollama(server: Server):
    server.body = {"embeddings": [[1, 2, 3]]}
    assert [list(vector) for vector in await embedded(server, "ollama", "a")] == [[1, 2, 3]]
    assert server.asked[0][0] == "/api/embed"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {"error": "no"}, AuthFailed),
        (402, {}, BillingFailed),
        (404, {}, ModelNotFound),
        (429, {"error": {"code": "insufficient_quota"}}, BillingFailed),
        (429, {"error": "slow down"}, RateLimited),
        (400, {"error": "too many inputs"}, BadRequest),
        (500, {}, ServerFailed),
        (503, {}, Overloaded),
        (302, {}, BadRequest),
    ],
)
async def test_failures_are_told_apart(server: Server, status: int, body: Any, error: type[Exception]):
    server.status, server.body, server.headers = status, body, {"retry-after": "7"}
    with pytest.raises(error) as raised:
        await embedded(server, "openai", "a")
    if isinstance(raised.value, RateLimited):
        assert raised.value.retry_after == 7


@pytest.mark.parametrize(
    "raw",
    [
        b"<html>",
        b'{"data": []}',
        b'{"data": [{"embedding": []}]}',
        b'{"data": [{"embedding": [1e400]}]}',
        b'{"data": [{"embedding": [NaN]}]}',
        b'{"data": [{"embedding": [null]}]}',
        b'{"data": [{"embedding": [1e300]}]}',
    ],
)
async def test_an_answer_that_is_no_vector_is_refused(server: Server, raw: bytes):
    server.raw = raw
    with pytest.raises(BadResponse):
        await embedded(server, "openai", "a")


async def test_a_key_never_shows_in_an_error(server: Server):
    server.status, server.body = 500, {"error": "you sent sk-very-secret"}
    with pytest.raises(ServerFailed) as raised:
        await embedded(server, "openai", "a")
    assert "sk-very-secret" not in str(raised.value)


async def test_nobody_there():
    embedder = embedders.open_embedder(EmbedderEndpoint(provider="ollama", base_url="http://127.0.0.1:9", model="m"))
    with pytest.raises(NetworkFailed):
        async with asyncio.timeout(120):
            await embedder.embed(["a"])
    await embedder.close()
