"""The road out: headers, addresses, and what goes wrong on the way."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from openclaw.core.errors import AuthFailed, BadRequest, BadResponse, NetworkFailed, Overloaded, ProviderError
from openclaw.core.events import Done
from openclaw.core.messages import User
from openclaw.core.provider import ModelRequest, Provider
from openclaw.core.secret import Secret
from openclaw.models.providers import anthropic
from openclaw.models.providers.http import is_loopback
from tests.models.providers.loopback import Answer, Loopback, loopback, pieces
from tests.models.providers.recorded import CHAT, KEY, MESSAGES, OLLAMA, Dialect

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[Loopback]:
    async with loopback() as served:
        served.will(Answer(pieces=pieces(CHAT.greeting)))
        yield served


async def ask(provider: Provider, dialect: Dialect = CHAT, **changes: Any) -> None:
    request = ModelRequest(model=dialect.model(**changes.pop("model", {})), messages=(User(content="hi"),), **changes)
    try:
        assert isinstance([event async for event in provider.stream(request)][-1], Done)
    finally:
        await provider.close()


async def failure(provider: Provider, dialect: Dialect = CHAT, **changes: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(provider, dialect, **changes)
    return caught.value


async def test_a_key_copied_with_a_line_break_still_works(server: Loopback) -> None:
    await ask(CHAT.build(CHAT.endpoint(server.url, key=Secret(f" {KEY}\n"))))

    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_key_that_cannot_be_a_key_is_not_sent(server: Loopback) -> None:
    error = await failure(CHAT.build(CHAT.endpoint(server.url, key=Secret("sk-“quoted”-0123"))))

    assert type(error) is AuthFailed
    assert "OPENAI_API_KEY" in str(error)
    assert "quoted" not in str(error)
    assert not server.asked


async def test_a_header_that_cannot_be_sent_is_named_but_not_shown(server: Loopback) -> None:
    error = await failure(CHAT.build(CHAT.endpoint(server.url, headers={"x-token": "topsecret\nvalue"})))

    assert type(error) is BadRequest
    assert "models.providers.openai.headers" in str(error)
    assert "topsecret" not in f"{error} {error.__cause__}"


async def test_no_key_means_no_header(server: Loopback) -> None:
    await ask(CHAT.build(CHAT.endpoint(server.url, key=None)))

    assert "authorization" not in server.asked[0].headers


async def test_a_secret_header_does_not_come_back_in_an_error(server: Loopback) -> None:
    server.will(Answer(status=400, pieces=(b'{"error":"who is hunter2hunter2?"}',)))

    error = await failure(CHAT.build(CHAT.endpoint(server.url, headers={"x-auth": "Token hunter2hunter2"})))

    assert "hunter2" not in str(error)


async def test_a_subscription_token_is_sent_as_a_bearer_with_its_flag(server: Loopback) -> None:
    server.will(Answer(pieces=pieces(MESSAGES.greeting)))

    provider = MESSAGES.build(MESSAGES.endpoint(server.url, bearer=True, headers={"anthropic-beta": "mine"}))
    await ask(provider, MESSAGES, thinking="low", model={"base_url": "", "params": {"context1m": True}})

    headers = server.asked[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in headers
    assert headers["anthropic-version"] == anthropic.VERSION
    assert headers["anthropic-beta"] == f"{anthropic.OAUTH_BETA},{anthropic.LONG_CONTEXT_BETA},mine"


async def test_the_models_own_address_wins(server: Loopback) -> None:
    await ask(CHAT.build(CHAT.endpoint("http://127.0.0.1:9")), model={"base_url": f"{server.url}/elsewhere/"})

    assert server.asked[0].path == "/elsewhere/chat/completions"


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_addresses_with_and_without_version_reach_the_same_place(server: Loopback, suffix: str) -> None:
    for dialect in (MESSAGES, OLLAMA):
        server.will(Answer(pieces=pieces(dialect.greeting)))
        await ask(dialect.build(replace(dialect.endpoint(""), base_url=server.url + suffix)), dialect)

    assert [asked.path for asked in server.asked] == [MESSAGES.path, OLLAMA.path]


@pytest.mark.parametrize("address", ["", "api.example.com/v1", "ftp://example.com", "http://host:port"])
async def test_an_address_that_is_none_is_named(address: str) -> None:
    error = await failure(CHAT.build(replace(CHAT.endpoint(""), base_url=address)))

    assert type(error) is BadRequest
    assert "models.providers.openai.baseUrl" in str(error)


async def test_a_name_nobody_has_is_a_network_failure() -> None:
    error = await failure(CHAT.build(CHAT.endpoint("http://no-such-host.invalid")))

    assert type(error) is NetworkFailed
    assert "no-such-host.invalid" in str(error)


async def test_a_password_in_the_address_stays_there() -> None:
    error = await failure(CHAT.build(CHAT.endpoint("http://me:hunter2@127.0.0.1:9")))

    assert "127.0.0.1:9" in str(error)
    assert "hunter2" not in str(error)


async def test_a_redirect_is_not_followed_with_the_key(server: Loopback) -> None:
    server.will(Answer(status=302, headers={"location": "http://127.0.0.1:9/"}))

    error = await failure(CHAT.build(CHAT.endpoint(server.url)))

    assert type(error) is BadResponse
    assert "baseUrl" in str(error)


async def test_a_failure_told_with_a_good_status_is_a_failure(server: Loopback) -> None:
    server.will(Answer(pieces=(b'{"error":{"message":"overloaded"}}',), content_type="application/json"))

    assert type(await failure(CHAT.build(CHAT.endpoint(server.url)))) is Overloaded


async def test_a_whole_document_instead_of_a_stream_is_not_understood(server: Loopback) -> None:
    server.will(Answer(pieces=(b'{"choices":[{"message":{"content":"hi"}}]}',), content_type="application/json"))

    assert type(await failure(CHAT.build(CHAT.endpoint(server.url)))) is BadResponse


async def test_talking_plainly_to_nobody_in_secret_says_what_is_wrong(server: Loopback) -> None:
    error = await failure(CHAT.build(CHAT.endpoint(server.url.replace("http:", "https:"))))

    assert type(error) is NetworkFailed
    assert "no secure connection to openai" in str(error)


async def test_broken_compression_is_named(server: Loopback) -> None:
    server.will(Answer(pieces=(b"not gzip at all",), headers={"content-encoding": "gzip"}))

    error = await failure(CHAT.build(CHAT.endpoint(server.url)))

    assert type(error) is BadResponse
    assert "compression" in str(error)


async def test_a_closed_provider_can_be_used_again(server: Loopback) -> None:
    provider = CHAT.build(CHAT.endpoint(server.url))

    await ask(provider)
    await ask(provider)

    assert server.connections == 2


async def test_a_proxy_for_the_world_does_not_hide_this_machine(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    await ask(CHAT.build(CHAT.endpoint(server.url)))

    assert server.asked


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1:80", True),
        ("127.9.9.9", True),
        ("localhost:11434", True),
        ("ollama.localhost", True),
        ("[::1]:80", True),
        ("[::1]", True),
        ("api.openai.com", False),
        ("10.0.0.1:80", False),
        ("127.0.0.1.example.com", False),
        ("", False),
    ],
)
async def test_which_addresses_are_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here
