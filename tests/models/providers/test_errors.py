"""What a provider's failure means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import (
    AuthFailed,
    BadRequest,
    BillingFailed,
    ContextTooLong,
    ModelNotFound,
    ModelRefused,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    RateLimited,
    ServerFailed,
)
from openclaw.core.secret import Secret
from openclaw.models.providers.errors import (
    EXCERPT_CHARS,
    Fault,
    FaultOrigin,
    fault_of,
    from_fault,
    from_status,
    is_overflow,
    retry_after,
)

KEY = "sk-very-secret-key"
ACME = FaultOrigin(provider="acme", model="acme-1", secrets=(Secret(KEY),))

STATUSES: list[tuple[int, str, type[ProviderError]]] = [
    (400, "messages: roles must alternate", BadRequest),
    (400, "prompt is too long: 210000 tokens > 200000 maximum", ContextTooLong),
    (400, "Your credit balance is too low to access the API", BillingFailed),
    (400, "API key not valid. Please pass a valid API key.", AuthFailed),
    (400, "The model `x` does not exist", ModelNotFound),
    (400, "x is not a valid model ID", ModelNotFound),
    (400, '{"error":{"code":"content_filter","message":"blocked"}}', ModelRefused),
    (400, "Model gpt-x: the parameter top_k is not supported", BadRequest),
    (400, "The model `x` has been decommissioned", ModelNotFound),
    (400, "thinking.type.enabled is not supported for this model", BadRequest),
    (401, "nope", AuthFailed),
    (403, "forbidden", AuthFailed),
    (403, "insufficient credits on this account", BillingFailed),
    (402, "", BillingFailed),
    (402, "You have reached your weekly usage limit; it resets at noon", RateLimited),
    (404, "not here", ModelNotFound),
    (408, "", ProviderTimeout),
    (413, "", ContextTooLong),
    (413, "Request too large", ContextTooLong),
    (413, '{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}', ContextTooLong),
    (422, "field required", BadRequest),
    (429, "slow", RateLimited),
    (429, "You exceeded your current quota, please check your plan and billing details.", RateLimited),
    (429, '{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}', BillingFailed),
    (429, "Rate limit reached: too many tokens per min (TPM)", RateLimited),
    (429, "Request too large for gpt-x (TPM): Limit 30000, Requested 50000.", BadRequest),
    (499, "", ProviderTimeout),
    (500, "internal", ServerFailed),
    (500, "Input is too long for requested model.", ContextTooLong),
    (502, "<html>bad gateway</html>", ServerFailed),
    (503, "The service is unavailable", Overloaded),
    (503, "no healthy upstream", ServerFailed),
    (500, "The model is experiencing high demand", Overloaded),
    (522, "", ProviderTimeout),
    (524, "", ProviderTimeout),
    (529, "", Overloaded),
]


@pytest.mark.parametrize(("status", "body", "kind"), STATUSES)
def test_status_and_words_name_the_failure(status: int, body: str, kind: type[ProviderError]) -> None:
    error = from_status(ACME, status, body.encode(), {})

    assert type(error) is kind
    assert error.status == status
    assert "acme" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 9 > 8",
        "prompt too long",
        "request_too_large",
        "request exceeds the maximum size",
        "context length exceeded",
        "context_length_exceeded",
        "context_window_exceeded",
        "model_context_window_exceeded",
        "context_overflow",
        "Context overflow: 9",
        "Your input exceeds the context window of this model",
        "the request exceeds the model's maximum context",
        "the request exceeds the available context size, try increasing it",
        "This model's maximum context length is 8192 tokens",
        "maximum prompt length is 131072",
        "Input is too long for this model",
        "Input is too long for requested model",
        "The input token count (12) exceeds the maximum number of tokens allowed (10)",
        "input exceeds the maximum number of tokens",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens)",
        "input length and `max_tokens` exceed context limit: 9 + 8 > 10",
        "the prompt is greater than the context length",
        "exceeded model token limit",
        "token limit exceeded",
        "too many tokens",
        "Please reduce the length of the messages",
        "prompt exceeds max length",
        "too large for model with 8192 maximum context length",
        "configured context size is 4096 tokens",
        "ollama error: context length exceeded",
        "total tokens exceed the model maximum",
        "上下文过长",
        "上下文超出限制",
        "超出最大上下文长度",
        "请压缩上下文后重试",
    ],
)
def test_every_way_of_saying_too_long_is_known(text: str) -> None:
    assert is_overflow(text)
    assert type(from_fault(ACME, Fault(text))) is ContextTooLong


@pytest.mark.parametrize(
    "text",
    [
        "rate limit: too many tokens",
        "too many requests: token limit exceeded",
        "tokens per minute (TPM) token limit exceeded",
        "billing: token limit exceeded",
        "context window too small: maximum context length",
        "hello",
    ],
)
def test_what_only_sounds_too_long_is_not(text: str) -> None:
    assert not is_overflow(text)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("Overloaded", "overloaded_error"), Overloaded),
        (Fault("slow", "rate_limit_error"), RateLimited),
        (Fault("exhausted", "RESOURCE_EXHAUSTED"), RateLimited),
        (Fault("no", "authentication_error"), AuthFailed),
        (Fault("pay", "billing_error"), BillingFailed),
        (Fault("x", "timeout_error"), ProviderTimeout),
        (Fault("x", "DEADLINE_EXCEEDED"), ProviderTimeout),
        (Fault("x", "api_error"), ServerFailed),
        (Fault("bad", "invalid_request_error"), BadRequest),
        (Fault("model x not found", "not_found_error"), ModelNotFound),
        (Fault("no", "bio_policy"), ModelRefused),
        (Fault("", ""), ServerFailed),
        (Fault("Provider returned error", "429"), RateLimited),
        (Fault("Provider returned error", "502"), ServerFailed),
        (Fault("Provider returned error", "400"), BadRequest),
    ],
)
def test_an_error_inside_a_stream_is_told_by_its_words(fault: Fault, kind: type[ProviderError]) -> None:
    assert type(from_fault(ACME, fault)) is kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, Fault("m", "t c")),
        ({"type": "error", "error": {"type": "t", "message": "m"}}, Fault("m", "t")),
        ([{"error": {"code": 400, "message": "m", "status": "S"}}], Fault("m", "400 S")),
        ({"error": "plain"}, Fault("plain")),
        ({"detail": [{"msg": "field required"}]}, Fault('[{"msg":"field required"}]')),
        ({"message": "m", "code": 3}, Fault("m", "3")),
        ({"error": {"message": "m", "metadata": {"raw": "inner"}}}, Fault("m: inner")),
        ({"error": {"type": "t"}, "message": "outer"}, Fault("outer", "t")),
        (7, Fault()),
    ],
)
def test_the_words_are_found_in_every_shape(value: object, expected: Fault) -> None:
    assert fault_of(value) == expected


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (
            {"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            30.0,
        ),
        (
            {"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            0.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
def test_the_wait_a_provider_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ('{"error":{"message":"x","details":[{"@type":"RetryInfo","retryDelay":"34.5s"}]}}', 34.5),
        ("Rate limit reached. Please try again in 1.5s.", 1.5),
        ("Please try again in 250ms", 0.25),
        ("Please try again in 6m0s", 360.0),
        ("Please try again in 1h2m3s", 3723.0),
        ("Please try again in 20 seconds", 20.0),
        ("Please try again later", None),
    ],
)
def test_the_wait_may_stand_in_the_text(body: str, seconds: float | None) -> None:
    assert from_status(ACME, 429, body.encode(), {}).retry_after == seconds


def test_a_rejected_key_says_what_to_set() -> None:
    error = from_status(FaultOrigin(provider="anthropic"), 401, b"", {})

    assert "anthropic rejected the key: set models.providers.anthropic.apiKey or ANTHROPIC_API_KEY" in str(error)


@given(before=st.text(max_size=400), after=st.text(max_size=400), status=st.integers(400, 599))
def test_no_message_repeats_the_key_or_runs_on(before: str, after: str, status: int) -> None:
    body = f"{before}{KEY}{after}".encode("utf-8", "replace")

    text = str(from_status(ACME, status, body, {}))

    assert KEY not in text
    assert len(text) < EXCERPT_CHARS + 200
    assert "\n" not in text


@given(st.binary(max_size=200), st.integers(300, 599))
def test_any_body_gives_an_error(body: bytes, status: int) -> None:
    assert isinstance(from_status(ACME, status, body, {}), ProviderError)
