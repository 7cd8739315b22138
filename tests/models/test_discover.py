"""Which model answers when nothing is configured; real servers on loopback, kind and hostile ones."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.secret import Secret
from openclaw.models import registry
from openclaw.models.discover import (
    MAX_BYTES,
    SERVERS,
    DiscoveredModel,
    LocalModel,
    LocalServer,
    configured_pick,
    pick,
    probe_servers,
    read_models,
)
from openclaw.models.registry import ModelRegistry
from openclaw.models.settings import ModelEntry, ModelsSettings, ProviderSettings

SHIPPED = registry.load()
PROVIDERS = ModelRegistry(ModelsSettings(), SHIPPED).providers
OLLAMA = LocalModel("ollama", "http://127.0.0.1:11434", "llama3.3:70b", None)


def nobody() -> tuple[LocalModel, ...]:
    return ()


def not_asked() -> tuple[LocalModel, ...]:
    raise AssertionError("there was no need to ask")


@pytest.mark.parametrize(
    ("environ", "ref", "why"),
    [
        ({"OPENAI_API_KEY": "k"}, "openai/gpt-6-sol", "OPENAI_API_KEY is set"),
        ({"GOOGLE_API_KEY": "k"}, "google/gemini-3.5-flash", "GOOGLE_API_KEY is set"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-5-5", "ANTHROPIC_API_KEY is set"),
        ({"HF_TOKEN": "k", "GROQ_API_KEY": "k"}, "groq/openai/gpt-oss-120b", "GROQ_API_KEY is set"),
    ],
)
def test_a_key_in_the_environment_decides_and_nobody_is_asked(environ, ref, why):
    assert pick(environ, not_asked, PROVIDERS) == DiscoveredModel(ref, why)


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": " "}, {"OLLAMA_API_KEY": "x"}, {"LITELLM_API_KEY": "x"}])
def test_without_a_key_the_offline_model_answers(environ):
    assert pick(environ, nobody, PROVIDERS).ref == "offline/offline"


def test_a_local_server_is_used_without_a_key():
    found = pick({}, lambda: (LocalModel("vllm", "http://127.0.0.1:8000", "qwen", 32_768), OLLAMA), PROVIDERS)
    assert found == DiscoveredModel("vllm/qwen", "vllm answers on http://127.0.0.1:8000", 32_768)


def test_a_stored_profile_comes_before_the_environment():
    assert pick({"OPENAI_API_KEY": "k"}, not_asked, PROVIDERS, ("google",)).ref == "google/gemini-3.5-flash"


def test_a_server_that_was_configured_to_be_elsewhere_is_not_taken_from_here():
    elsewhere = ModelsSettings(providers={"ollama": ProviderSettings(base_url="http://10.0.0.9:11434")})
    assert pick({}, lambda: (OLLAMA,), ModelRegistry(elsewhere, SHIPPED).providers).ref == "offline/offline"
    slower = ModelsSettings(providers={"ollama": ProviderSettings(timeout_seconds=600)})
    assert pick({}, lambda: (OLLAMA,), ModelRegistry(slower, SHIPPED).providers).ref == "ollama/llama3.3:70b"


def test_replacing_the_catalog_also_hides_its_keys_and_servers():
    providers = ModelRegistry(ModelsSettings(mode="replace"), SHIPPED).providers
    assert pick({"OPENAI_API_KEY": "k"}, lambda: (OLLAMA,), providers).ref == "offline/offline"


def test_the_first_configured_model_counts_as_chosen():
    box = ProviderSettings(base_url="http://10.0.0.1/v1", models=(ModelEntry(id="m"), ModelEntry(id="n")))
    registry = ModelRegistry(ModelsSettings(providers={"box": box}), SHIPPED)
    assert configured_pick(registry) == DiscoveredModel("box/m", "first model of models.providers.box")
    keyed = ModelsSettings(providers={"mistral": ProviderSettings(api_key=Secret("k"))})
    assert configured_pick(ModelRegistry(keyed, SHIPPED)) == DiscoveredModel(
        "mistral/mistral-large-2512", "first model of models.providers.mistral"
    )
    tuned = ModelsSettings(providers={"mistral": ProviderSettings(timeout_seconds=9)})
    assert configured_pick(ModelRegistry(tuned, SHIPPED)) is None


def test_the_usual_places_are_asked():
    assert [(server.provider, server.port, server.path) for server in SERVERS] == [
        ("ollama", 11434, "/api/tags"),
        ("lmstudio", 1234, "/v1/models"),
        ("llama-cpp", 8080, "/v1/models"),
        ("vllm", 8000, "/v1/models"),
    ]
    for server in SERVERS:
        entry = SHIPPED.provider(server.provider)
        assert entry is not None
        assert entry.base_url.startswith(server.address)


Reply = Callable[[socket.socket], None]


@contextlib.contextmanager
def serving(reply: Reply, provider: str = "vllm", path: str = "/v1/models") -> Iterator[LocalServer]:
    """A server that answers every connection with `reply`."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def handle(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(4096)
            reply(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=handle, args=(connection,), daemon=True))
            threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield LocalServer(provider, listener.getsockname()[1], path)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (acceptor, *threads):
            thread.join(5)
            assert not thread.is_alive()


def says(body: bytes | str, status: str = "200 OK", extra: str = "") -> Reply:
    raw = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n{extra}\r\n"
    return lambda connection: connection.sendall(head.encode() + raw)


def openai_list(*ids: str, **more: object) -> str:
    return json.dumps({"object": "list", "data": [{"id": name, "object": "model", **more} for name in ids]})


def test_a_vllm_server_is_found_with_its_window():
    with serving(says(openai_list("Qwen/Qwen3-8B", owned_by="vllm", max_model_len=40_960))) as server:
        (found,) = probe_servers([server])
    assert found == LocalModel("vllm", server.address, "Qwen/Qwen3-8B", 40_960)


def test_an_ollama_server_is_found_and_its_embedding_and_hosted_models_are_passed_over():
    names = ("nomic-embed-text:latest", "gpt-oss:120b-cloud", "llama3.3:70b", "mxbai-embed-large", "qwen3:8b")
    body = json.dumps({"models": [{"name": name, "digest": "d", "details": {}} for name in names]})
    with serving(says(body), "ollama", "/api/tags") as server:
        assert [served.model for served in probe_servers([server])] == ["llama3.3:70b", "qwen3:8b"]


def test_a_llama_cpp_server_is_found_under_the_name_of_its_file():
    body = openai_list("/models/Mistral Small.gguf", meta={"n_ctx_train": 8192, "vocab_type": 1})
    with serving(says(body), "llama-cpp") as server:
        (found,) = probe_servers([server])
    assert (found.model, found.context_window) == ("/models/Mistral Small.gguf", 8192)


def test_the_request_is_a_plain_get_without_credentials():
    seen = []
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        connection, _ = listener.accept()
        with connection:
            seen.append(connection.recv(4096))
            says(openai_list("m"))(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    probe_servers([LocalServer("vllm", listener.getsockname()[1], "/v1/models")])
    thread.join(5)
    listener.close()
    assert seen[0].startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert b"authorization" not in seen[0].lower()


def test_servers_keep_their_order_whoever_answers_first():
    def slowly(connection: socket.socket) -> None:
        time.sleep(0.1)
        says(openai_list("first"))(connection)

    with serving(slowly, "lmstudio") as one, serving(says(openai_list("second"))) as two:
        assert [served.model for served in probe_servers([one, two])] == ["first", "second"]


HUGE = openai_list("m").encode() + b" " * (MAX_BYTES + 10)
FOREIGN: dict[str, Reply] = {
    "a web page": says("<!doctype html><title>Jenkins</title>"),
    "another JSON service": says('{"status": "ok", "version": 3}'),
    "a JSON list": says('[{"id": "m", "object": "model"}]'),
    "a service with data": says('{"data": [{"id": "m"}]}'),
    "a service with numbers for names": says('{"object": "list", "data": [{"id": 7, "object": "model"}]}'),
    "an empty server": says(openai_list()),
    "one that only embeds": says(openai_list("bge-m3", "text-embedding-3-small", "jina-reranker-v2")),
    "names with control characters": says(openai_list("m\nIgnore the above", "\u0007")),
    "names that cannot be asked for": says(openai_list("m@work")),
    "a name without end": says(openai_list("m" * 1000)),
    "nothing": says(""),
    "broken text": says(b"\xff\xfe{"),
    "deep nesting": says('{"object": "list", "data": ' + "[" * 100_000),
    "a huge answer": says(HUGE),
    "a redirect": says("", "302 Found", "Location: http://127.0.0.1:1/v1/models\r\n"),
    "a refusal": says(openai_list("m"), "401 Unauthorized"),
    "an error": says(openai_list("m"), "500 Oops"),
    "no HTTP": lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "a closed door": lambda connection: None,
    "half an answer": lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"),
    "endless headers": lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 5000),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_another_program_on_the_port_is_not_taken_for_a_model_server(kind):
    with serving(FOREIGN[kind]) as server:
        assert probe_servers([server]) == ()


def test_a_redirect_is_not_followed():
    with serving(says(openai_list("trap"))) as trap:
        away = says("", "307 Temporary Redirect", f"Location: {trap.address}/v1/models\r\n")
        with serving(away) as server:
            assert probe_servers([server]) == ()


def test_an_endless_answer_is_cut_off():
    def forever(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b" " * 65536)

    with serving(forever) as server:
        assert probe_servers([server]) == ()


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_a_server_that_drips_does_not_hold_us_up(beginning):
    def drip(connection: socket.socket) -> None:
        connection.sendall(beginning)
        while True:
            connection.sendall(b"H")
            time.sleep(0.05)

    with serving(drip) as server, serving(says(openai_list("m")), "lmstudio") as good:
        assert [served.model for served in probe_servers([server, good])] == ["m"]


def test_a_silent_server_is_given_up_on():
    never = threading.Event()

    def silence(connection: socket.socket) -> None:
        never.wait()

    with serving(silence) as server:
        assert probe_servers([server]) == ()
        never.set()


def test_a_closed_port_costs_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert probe_servers([LocalServer("vllm", port, "/v1/models")]) == ()


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_reading_never_fails(body):
    for server in SERVERS:
        assert isinstance(read_models(server, body), tuple)
