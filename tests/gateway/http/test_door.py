"""Who gets in, and what becomes of requests that are wrong."""

import asyncio
import json
from typing import Any

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw.config.settings import HttpEndpointsSettings
from openclaw.core.events import ModelCalled
from openclaw.core.secret import Secret
from openclaw.gateway.http import routes
from openclaw.protocol.auth import secrets_equal
from openclaw.testing import ScriptedModel, TemporaryHome, says, stalls
from tests.gateway.http.support import ON, TOKEN, House, house

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
HELLO = {"model": "openclaw", "messages": [{"role": "user", "content": "hello"}]}


async def test_a_wrong_token_is_refused_and_soon_locked_out(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place:
        async with place.client("wrong") as client:
            for _ in range(3):
                with pytest.raises(openai.AuthenticationError) as caught:
                    await client.models.list()
                assert caught.value.body == {"message": "Unauthorized", "type": "unauthorized"}
            with pytest.raises(openai.RateLimitError) as locked:
                await client.models.list()
        assert locked.value.response.headers["retry-after"] == "30"
        status, _, _ = await place.request("GET", "/v1/models")
        assert status == 429  # the right token from the same address waits as well


async def test_guesses_do_not_lock_out_a_secret_that_nobody_guesses(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place:
        place.secret = Secret("0123456789abcdef" * 4)
        for status in (401, 401, 401, 429):
            assert (await place.request("GET", "/v1/models", key="wrong"))[0] == status
        right = place.secret.reveal()
        assert (await place.request("GET", "/v1/models", key=right))[0] == 200


async def test_nothing_is_read_from_a_stranger(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place:
        for path in (CHAT, "/v1/responses", "/v1/embeddings", "/tools/invoke"):
            for header in ({}, {"authorization": f"Basic {TOKEN}"}, {"authorization": "Bearer"}):
                status, headers, body = await place.request("POST", path, b"{not json", key=None, headers=header)
                assert status == 401 and headers["www-authenticate"] == "bearer"
                assert body == {"error": {"message": "Unauthorized", "type": "unauthorized"}}
    assert scripted_model.requests == []


async def test_a_rotated_token_counts_at_once(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place:
        assert (await place.request("GET", "/v1/models"))[0] == 200
        place.secret = Secret("another")
        assert (await place.request("GET", "/v1/models"))[0] == 401
        assert (await place.request("GET", "/v1/models", key="another"))[0] == 200


async def test_declared_scopes_narrow_only_where_there_is_no_secret(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("hi"), says("hi"))
    narrow = {"x-openclaw-scopes": "operator.read, bogus"}
    async with house(openclaw_home, scripted_model) as place:
        assert (await place.request("POST", CHAT, HELLO, headers=narrow))[0] == 200
        place.secret = None
        status, _, body = await place.request("POST", CHAT, HELLO, key=None, headers=narrow)
        assert status == 403 and body["error"]["details"]["code"] == "MISSING_SCOPE"
        assert body["error"]["details"]["missingScope"] == "operator.write"
        assert (await place.request("GET", "/v1/models", key=None, headers=narrow))[0] == 200
        assert (await place.request("POST", CHAT, HELLO, key=None))[0] == 200


async def test_interfaces_are_off_until_switched_on(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model, switches=HttpEndpointsSettings()) as place:
        for method, path in (("POST", CHAT), ("POST", "/v1/responses"), ("GET", "/v1/models"), ("GET", "/v1/models/x")):
            status, _, body = await place.request(method, path, HELLO if method == "POST" else None)
            assert status == 404 and "gateway.http.endpoints" in body["error"]["message"]
    async with house(openclaw_home, scripted_model, switches=HttpEndpointsSettings(responses=ON)) as place:
        assert (await place.request("POST", CHAT, HELLO))[0] == 404
        assert (await place.request("GET", "/v1/models"))[0] == 200


async def test_another_method_is_told_which_one_to_use(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place:
        for method, path, right in (
            ("GET", CHAT, "post"),
            ("PUT", "/tools/invoke", "post"),
            ("POST", "/v1/models", "get"),
        ):
            status, headers, body = await place.request(method, path)
            assert status == 405 and headers["allow"] == right
            assert body["error"]["message"].startswith("Method Not Allowed")


WRONG: list[tuple[Any, str]] = [
    (b"", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b"[" * 100_000, "object"),
    (b'{"model": ' + b"[" * 100_000, "/model"),
    (b'{"x": ' + b"[" * 100_000, "not JSON"),
    (b"[]", "object"),
    ({"messages": [{"role": "user", "content": "x"}]}, "model"),
    ({"model": "openclaw"}, "messages"),
    ({"model": "openclaw", "messages": []}, "/messages"),
    ({"model": "openclaw", "messages": [{"role": "pope", "content": "x"}]}, "/messages/0/role"),
    ({"model": "openclaw", "messages": [{"role": "user", "content": " "}]}, "nothing to answer"),
    ({"model": "openclaw", "messages": [{"role": "system", "content": "x"}]}, "nothing to answer"),
    ({**HELLO, "n": 2}, "`n`"),
    ({**HELLO, "tool_choice": "required"}, "no tools"),
    ({**HELLO, "model": "gpt-5"}, "openclaw/<agentId>"),
    ({**HELLO, "tools": [{"type": "function", "function": {"name": "a b"}}]}, "function name"),
    (
        {"model": "openclaw", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
        "data: URL",
    ),
]


async def test_a_wrong_body_is_told_what_is_wrong(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place:
        for body, hint in WRONG:
            status, _, answer = await place.request("POST", CHAT, body)
            assert status == 400 and answer["error"]["type"] == "invalid_request_error", body
            assert hint in answer["error"]["message"] + str(answer["error"].get("param"))
    assert scripted_model.requests == []


async def test_an_unknown_agent_is_not_found(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(model="openclaw/nobody", messages=[{"role": "user", "content": "x"}])
    assert caught.value.code == "model_not_found" and "main, ops" in caught.value.message


async def test_a_body_that_is_too_large_is_refused(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place:
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
        declared = await place.send(f"{head}content-length: 40000001\r\n\r\n".encode())
        assert declared.startswith(b"HTTP/1.1 413 ") and b'"code":"body_too_large"' in declared
        endless = b"".join(b"%x\r\n" % 500_000 + b"x" * 500_000 + b"\r\n" for _ in range(5))
        invoke = f"POST /tools/invoke HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
        chunked = await place.send(f"{invoke}transfer-encoding: chunked\r\n\r\n".encode() + endless + b"0\r\n\r\n")
        assert chunked.startswith(b"HTTP/1.1 413 ")


async def test_a_gateway_that_stops_lets_its_clients_go(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(stalls())
    async with house(openclaw_home, scripted_model) as place, place.client() as client:
        waiting = asyncio.create_task(
            client.chat.completions.create(model="openclaw", messages=[{"role": "user", "content": "x"}])
        )
        await place.until(lambda told: isinstance(told.event, ModelCalled))
        await place.runs.drain(0.0)
        place.fanout.close()
        with pytest.raises(openai.InternalServerError) as caught:
            await waiting
        assert caught.value.status_code == 503
        status, _, _ = await place.request("POST", CHAT, HELLO)
        assert status == 503


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["openclaw", "openclaw/main", "agent:x"]) | ANYTHING,
        "messages": st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
                optional={
                    "content": ANYTHING
                    | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "image_url"])})),
                    "tool_calls": ANYTHING,
                    "tool_call_id": ANYTHING,
                },
            )
            | ANYTHING,
            max_size=4,
        ),
        "input": ANYTHING,
        "tool": st.sampled_from(["read", "ls", "exec", "\u0000"]),
        "args": ANYTHING,
        "tools": ANYTHING,
        "tool_choice": ANYTHING,
        "stream": st.booleans(),
        "user": st.text(max_size=600),
        "sessionKey": st.text(max_size=20),
        "previous_response_id": ANYTHING,
    },
)


async def test_no_body_brings_the_server_down(openclaw_home: TemporaryHome) -> None:
    class Patient(ScriptedModel):
        async def stream(self, request: Any) -> Any:
            self.script(says("ok"))
            async for event in super().stream(request):
                yield event

    async with house(openclaw_home, Patient()) as place:
        loop = asyncio.get_running_loop()

        @settings(
            max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True
        )
        @given(
            st.sampled_from([CHAT, "/v1/responses", "/v1/embeddings", "/tools/invoke"]), FIELDS | ANYTHING | st.binary()
        )
        def fuzz(path: str, body: Any) -> None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            answer = asyncio.run_coroutine_threadsafe(_post(place, path, data), loop).result(15)
            status = int(answer.split(b" ", 2)[1])
            assert status in (200, 400, 404, 501), answer

        await asyncio.to_thread(fuzz)


async def _post(place: House, path: str, data: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n"
        f"content-length: {len(data)}\r\n\r\n"
    )
    return await place.send(head.encode() + data)


def test_an_empty_secret_fits_nothing() -> None:
    assert (
        not secrets_equal("", Secret(""))
        and not secrets_equal("x", Secret("xy"))
        and secrets_equal("pässwört", Secret("pässwört"))
    )


async def test_the_addresses_that_are_answered_late_are_those_of_the_surface(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place:
        assert tuple(route.path for route in place.routes) == routes.PATHS
