"""How long a model may be silent."""

import pytest

from openclaw.core.provider import Model
from openclaw.models.timeouts import StreamTimeouts, locate_model, stream_timeouts


def model(
    url: str = "https://api.example.com/v1", *, provider: str = "cloud", name: str = "m", limit: float | None = None
) -> Model:
    return Model(provider=provider, id=name, api="openai-completions", base_url=url, timeout_seconds=limit)


CLOUD = model()
LOCAL = model("http://127.0.0.1:8000/v1")
HOSTED = model("https://gpu.example.com", provider="vllm")


def timeouts(model: Model, run: float | None) -> StreamTimeouts:
    return stream_timeouts(model.provider, model.id, model.base_url, model.timeout_seconds, run)


@pytest.mark.parametrize(
    ("url", "provider", "name", "place"),
    [
        ("https://api.example.com", "openai", "gpt", "cloud"),
        ("http://127.0.0.1:11434", "ollama", "llama", "local"),
        ("http://localhost:1234", "mine", "m", "local"),
        ("http://box.local/v1", "mine", "m", "local"),
        ("http://10.1.2.3", "mine", "m", "local"),
        ("http://172.16.0.1", "mine", "m", "local"),
        ("http://172.32.0.1", "mine", "m", "cloud"),
        ("http://192.168.1.1", "mine", "m", "local"),
        ("http://100.64.0.1", "mine", "m", "local"),
        ("http://0.0.0.0:8000", "mine", "m", "local"),
        ("http://[::1]:8000", "mine", "m", "local"),
        ("http://[fd00::1]", "mine", "m", "local"),
        ("http://[fe80::1]", "mine", "m", "local"),
        ("http://127.0.0.1:11434", "ollama", "big:cloud", "self-hosted"),
        ("http://127.0.0.1:11434", "mine", "big:cloud", "cloud"),
        ("http://127.0.0.1:11434", "ollama", "gpt-oss:120b-cloud", "self-hosted"),
        ("https://gpu.example.com", "vllm", "m", "self-hosted"),
        ("https://gpu.example.com", "vllm-2", "m", "self-hosted"),
        ("https://gpu.example.com", "vllmish", "m", "cloud"),
        ("http://host.docker.internal:1234", "mine", "m", "self-hosted"),
    ],
)
def test_where_a_model_runs(url: str, provider: str, name: str, place: str) -> None:
    assert locate_model(provider, name, url) == place


@pytest.mark.parametrize(
    ("who", "run", "seconds"),
    [
        # nothing is set
        (CLOUD, None, 120),
        (HOSTED, None, 300),
        (LOCAL, None, 0),
        # the run has a limit
        (CLOUD, 600, 120),
        (CLOUD, 30, 30),
        (CLOUD, 0, 120),  # 0 is no limit
        (HOSTED, 600, 300),
        (HOSTED, 30, 30),
        (LOCAL, 600, 600),
        # the provider has one, which goes first
        (model(limit=500), None, 500),
        (model(limit=500), 200, 200),
        (model(limit=500), 0, 500),
        (model("http://127.0.0.1:1/v1", limit=20), None, 20),
    ],
)
def test_the_idle_limit(who: Model, run: float | None, seconds: float) -> None:
    assert timeouts(who, run).idle == seconds


@pytest.mark.parametrize(
    ("who", "run", "expected"),
    [
        (CLOUD, None, StreamTimeouts(120, 120)),
        (LOCAL, None, StreamTimeouts(300, 0)),  # it may load for minutes, but not for ever
        (HOSTED, None, StreamTimeouts(300, 300)),
        (LOCAL, 600, StreamTimeouts(300, 600)),
        (CLOUD, 30, StreamTimeouts(30, 30)),
        (model(limit=900), None, StreamTimeouts(900, 900)),
        (model(limit=10), None, StreamTimeouts(10, 10)),
    ],
)
def test_the_first_word_may_take_longer_where_a_model_must_load(
    who: Model, run: float | None, expected: StreamTimeouts
) -> None:
    assert timeouts(who, run) == expected
