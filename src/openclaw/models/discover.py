"""Picks the model to use when none is configured: stored keys, environment keys, local servers, else offline."""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from openclaw.core.deferred import http_client
from openclaw.core.errors import AuthFailed, BadResponse, NetworkFailed
from openclaw.core.secret import Secret
from openclaw.models.refs import split_profile
from openclaw.models.registry import OFFLINE, ModelRegistry, ProviderFacts, is_cloud_id

ANSWER_SECONDS = 0.3
"""Timeout for connecting and for each read; a closed port on this machine refuses at once."""
ALL_SECONDS = 1.0
"""Total time for one server, however slowly it answers."""
SERVER_SECONDS = 10.0
"""For a server that a person named."""
MAX_BYTES = 1 << 20
MAX_ID_CHARS = 300

_NOT_CHAT = re.compile(
    r"embed|rerank|whisper|moderation|guard|minilm|(?:^|[/_-])(?:bge|gte|e5|clip|tts|sdxl|flux)(?:[-_.:]|$)"
    r"|stable-diffusion|bert",
    re.IGNORECASE,
)


class LocalServer(Struct, frozen=True):
    """A port on which a local model server usually listens."""

    provider: str
    port: int
    path: str
    host: str = "127.0.0.1"

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"


SERVERS = (
    LocalServer("ollama", 11434, "/api/tags"),
    LocalServer("lmstudio", 1234, "/v1/models"),
    LocalServer("llama-cpp", 8080, "/v1/models"),
    LocalServer("vllm", 8000, "/v1/models"),
)


class LocalModel(Struct, frozen=True):
    """A model that a local server offers."""

    provider: str
    address: str
    model: str
    context_window: int | None = None


class DiscoveredModel(Struct, frozen=True):
    """The chosen model, and why it was chosen."""

    ref: str
    why: str
    context_window: int | None = None
    """As the server reports it; None when it does not."""


Probe = Callable[[], Sequence[LocalModel]]


def pick(
    environ: Mapping[str, str], probe: Probe, providers: Sequence[ProviderFacts], signed_in: Sequence[str] = ()
) -> DiscoveredModel:
    """The model to use with nothing configured.

    Stored profiles (`signed_in`, provider ids) come first, then keys in the environment, both in the order of
    `providers`; then local servers in the order they were asked; then the offline model, which only explains
    what to do.
    """
    usual = [facts for facts in providers if facts.default_model and facts.id != OFFLINE]
    for facts in usual:
        if facts.id in signed_in:
            return DiscoveredModel(f"{facts.id}/{facts.default_model}", f"a profile for {facts.id} is stored")
    for facts in usual:
        for name in facts.env:
            if environ.get(name, "").strip():
                return DiscoveredModel(f"{facts.id}/{facts.default_model}", f"{name} is set")
    expected = {facts.id: facts.base_url for facts in providers}
    for served in probe():
        if expected.get(served.provider, "").startswith(served.address):
            why = f"{served.provider} answers on {served.address}"
            return DiscoveredModel(f"{served.provider}/{served.model}", why, served.context_window)
    return DiscoveredModel(f"{OFFLINE}/{OFFLINE}", "no key is set and no local model server answers")


def configured_pick(registry: ModelRegistry) -> DiscoveredModel | None:
    """The first model of the user's own providers; of a built-in provider without models, its usual one."""
    for facts in registry.providers:
        own = [ref.key for ref in registry.configured() if ref.provider == facts.id]
        if not own and facts.configured and facts.default_model and facts.api_key:
            own = [f"{facts.id}/{facts.default_model}"]
        if own:
            return DiscoveredModel(own[0], f"first model of models.providers.{facts.id}")
    return None


# Answers of model servers. These ports are common: an answer that does not match exactly is another program's.


class _OllamaModel(Struct):
    name: str
    digest: str


class _OllamaTags(Struct):
    models: list[_OllamaModel]


class _LlamaMeta(Struct):
    n_ctx: int | None = None
    n_ctx_train: int | None = None


class _OpenAIModel(Struct):
    id: str
    object: Literal["model"]
    max_model_len: int | None = None
    meta: _LlamaMeta | None = None


class _OpenAIList(Struct):
    object: Literal["list"]
    data: list[_OpenAIModel]


def read_models(server: LocalServer, body: bytes) -> tuple[LocalModel, ...]:
    """The chat models in a server's answer; nothing when it is not a model server's answer."""
    kind: Any = _OllamaTags if server.provider == "ollama" else _OpenAIList
    try:
        answer = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    if isinstance(answer, _OllamaTags):
        found = [LocalModel(server.provider, server.address, item.name) for item in answer.models]
    else:
        found = [LocalModel(server.provider, server.address, item.id, _window(item)) for item in answer.data]
    return tuple(served for served in found if _can_chat(served.model))


def _window(item: _OpenAIModel) -> int | None:
    meta = item.meta or _LlamaMeta()
    return next((size for size in (item.max_model_len, meta.n_ctx, meta.n_ctx_train) if size and size > 0), None)


def _can_chat(model: str) -> bool:
    fine = 0 < len(model) <= MAX_ID_CHARS and model.isprintable() and model == model.strip()
    # A name that reads as `model@profile` could not be asked for by reference.
    return fine and split_profile(model)[1] is None and not _NOT_CHAT.search(model) and not is_cloud_id(model)


def probe_servers(servers: Sequence[LocalServer] = SERVERS) -> tuple[LocalModel, ...]:
    """The models local servers offer, in the order of `servers`; all are asked at once."""
    asked = [_Question(server) for server in servers]
    deadline = time.monotonic() + ALL_SECONDS
    for question in asked:
        question.start()
    for question in asked:
        question.join(max(0.0, deadline - time.monotonic()))
    for question in asked:
        question.give_up()
    return tuple(served for question in asked for served in question.found)


def list_served(base_url: str, key: Secret | None = None) -> tuple[str, ...]:
    """The chat models that an OpenAI-compatible server at `base_url` offers; raises when it is none."""
    parts = urlsplit(base_url.strip().rstrip("/"))
    kind = http_client.HTTPSConnection if parts.scheme == "https" else http_client.HTTPConnection
    headers = {"Accept": "application/json", **({"Authorization": f"Bearer {key.reveal()}"} if key else {})}
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=SERVER_SECONDS)
        try:
            connection.request("GET", f"{parts.path}/models", headers=headers)
            with connection.getresponse() as response:
                status, body = response.status, response.read(MAX_BYTES + 1)
        finally:
            connection.close()
    except (OSError, http_client.HTTPException, ValueError) as error:
        raise NetworkFailed(f"nothing answers at {base_url}: {error or type(error).__name__}") from error
    if status in (http_client.UNAUTHORIZED, http_client.FORBIDDEN):
        raise AuthFailed(f"{base_url} wants a key, or another one (HTTP {status})")
    found = read_models(LocalServer("server", 0, ""), body) if len(body) <= MAX_BYTES else ()
    if status != http_client.OK or not found:
        raise BadResponse(f"{base_url}/models is no list of models (HTTP {status}): most addresses end in /v1")
    return tuple(each.model for each in found)


class _Question(threading.Thread):
    """Asks one server, in a thread of its own."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__(name=f"probe:{server.provider}", daemon=True)
        self.found: tuple[LocalModel, ...] = ()
        self._server = server
        self._socket: socket.socket | None = None

    def run(self) -> None:
        connection = http_client.HTTPConnection(self._server.host, self._server.port, timeout=ANSWER_SECONDS)
        try:
            connection.connect()
            self._socket = connection.sock
            connection.request("GET", self._server.path, headers={"Accept": "application/json"})
            with connection.getresponse() as response:
                body = response.read(MAX_BYTES + 1) if response.status == http_client.OK else b""
        except (OSError, http_client.HTTPException, ValueError):
            return  # refused, silent, cut off by `give_up`, or not HTTP at all
        finally:
            connection.close()
        if len(body) <= MAX_BYTES:
            self.found = read_models(self._server, body)

    def give_up(self) -> None:
        """Closes a connection that takes too long, so that the thread ends too."""
        if self.is_alive() and self._socket is not None:
            with contextlib.suppress(OSError):  # it may have ended by itself just now
                self._socket.shutdown(socket.SHUT_RDWR)
