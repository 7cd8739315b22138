"""One frame in, a value or a problem out; nothing a client writes can raise."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from openclaw.protocol.frames import (
    ErrorShape,
    EventFrame,
    NotARequest,
    NotJson,
    RequestFrame,
    Response,
    StateVersion,
    close_reason,
    encode,
    failure,
    parse_from_server,
    parse_request,
)


def test_a_request_keeps_its_params_as_text() -> None:
    found = parse_request('{"type":"req","id":"1:a","method":"health","params":{"probe":true}}')
    assert isinstance(found, RequestFrame)
    assert (found.id, found.method, bytes(found.params)) == ("1:a", "health", b'{"probe":true}')


def test_a_request_without_params_goes_out_without_them() -> None:
    assert encode(RequestFrame(id="1", method="health")) == b'{"type":"req","id":"1","method":"health"}'


@pytest.mark.parametrize(
    ("text", "own_id", "message"),
    [
        ("{}", "invalid", "must have required property"),
        ("[]", "invalid", "must be object"),
        ("3", "invalid", "must be object"),
        ("null", "invalid", "must be object"),
        ('"text"', "invalid", "must be object"),
        ('{"id":"7"}', "7", "must have required property"),
        ('{"id":7,"type":"req","method":"m"}', "invalid", "at /id: must be string"),
        ('{"id":"","type":"req","method":"m"}', "invalid", "at /id: must NOT have fewer than 1 characters"),
        ('{"id":"7","type":"req","method":""}', "7", "at /method: must NOT have fewer than 1 characters"),
        ('{"id":"7","type":"req"}', "7", "must have required property 'method'"),
        ('{"id":"7","method":"m"}', "7", "must have required property 'type'"),
        ('{"id":"7","type":"event","method":"m"}', "7", "at /type: must be equal to one of the allowed values"),
        ('{"id":"7","type":"res","ok":true}', "7", ""),
        ('{"id":"7","type":"req","method":"m","more":1}', "7", "at root: unexpected property 'more'"),
        (
            '{"id":"7","type":"req","method":"m","traceparent":"' + "x" * 129 + '"}',
            "7",
            "at /traceparent: must NOT have more",
        ),
    ],
)
def test_json_that_is_no_request_is_answered_under_its_id(text: str, own_id: str, message: str) -> None:
    found = parse_request(text)
    assert isinstance(found, NotARequest)
    assert found.id == own_id
    assert found.message.startswith("invalid request frame")
    assert message in found.message
    answer = json.loads(encode(found.answer()))
    assert (answer["ok"], answer["error"]["code"]) == (False, "INVALID_REQUEST")


@pytest.mark.parametrize("text", ["", "hello", "{", '{"type":"req"', "\x00", '{"a":1} {"b":2}', "NaN", b"\xff\xfe"])
def test_text_that_is_no_json_is_told_apart(text: str | bytes) -> None:
    assert parse_request(text) == NotJson()


@pytest.mark.parametrize("inner", ["[" * 200_000 + "]" * 200_000, '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_a_depth_bomb_is_refused(inner: str) -> None:
    found = parse_request('{"type":"req","id":"1","method":"m","params":' + inner + "}")
    assert found == NotARequest("invalid", "invalid request frame: nested too deeply")


def test_a_huge_number_does_no_harm() -> None:
    found = parse_request('{"type":"req","id":"1","method":"m","params":{"n":' + "9" * 60_000 + "}}")
    assert isinstance(found, RequestFrame)


def test_half_an_emoji_is_mended_rather_than_lost() -> None:
    found = parse_request('{"type":"req","id":"1","method":"m","params":{"text":"a\\ud83d"}}')
    assert isinstance(found, RequestFrame)
    assert json.loads(bytes(found.params)) == {"text": "a?"}


def test_a_client_reads_what_a_gateway_writes() -> None:
    error = ErrorShape(code="UNAVAILABLE", message="later", retryable=True, retry_after_ms=5, details={"a": 1})
    for frame in (
        Response(id="1", ok=True, payload={"a": [1, None]}),
        failure("2", error, {"runId": "r"}),
        EventFrame(event="presence", payload={"x": 1}, seq=3, state_version=StateVersion(1, 2)),
    ):
        assert parse_from_server(encode(frame)) == frame


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"type":"req","id":"1","method":"m"}', '{"type":"res"}'])
def test_a_client_ignores_anything_else(text: str) -> None:
    assert parse_from_server(text) is None


def test_an_answer_says_no_more_than_it_has() -> None:
    assert encode(Response(id="1", ok=True, payload=[])) == b'{"type":"res","id":"1","ok":true,"payload":[]}'
    assert encode(failure("1", ErrorShape(code="X", message="m"))) == (
        b'{"type":"res","id":"1","ok":false,"error":{"code":"X","message":"m"}}'
    )


def test_a_close_reason_fits_its_frame_and_stays_text() -> None:
    reason = close_reason("é" * 100)
    assert len(reason.encode()) <= 123
    assert set(reason) == {"é"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["type", "id", "method", "params", "x"]), inner),
    max_leaves=10,
)


@given(st.text() | st.binary() | json_values.map(json.dumps))
@example('{"id":"\\ud800"}')
@example('"\\udfff" NaN')
def test_whatever_arrives_is_a_request_a_problem_or_no_json(data: str | bytes) -> None:
    found = parse_request(data)
    assert isinstance(found, RequestFrame | NotARequest | NotJson)
    if isinstance(found, NotARequest):
        assert found.id
        json.loads(encode(found.answer()))
    assert isinstance(parse_from_server(data), Response | EventFrame | None)


@given(st.text(min_size=1), st.text(min_size=1), json_values)
def test_a_request_survives_the_wire(request_id: str, method: str, params: Any) -> None:
    frame = RequestFrame(id=request_id, method=method, params=Raw(encode(params)))
    found = parse_request(encode(frame))
    assert isinstance(found, RequestFrame)
    assert (found.id, found.method, bytes(found.params)) == (request_id, method, bytes(frame.params))
