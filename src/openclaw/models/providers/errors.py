"""Classifies provider failures: status, body and headers to a `ProviderError`."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.deferred import email_utils
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
from openclaw.core.secret import Secret, redact
from openclaw.core.text import compile_lazily, sanitize_line
from openclaw.models import registry

EXCERPT_CHARS = 300

_OVERFLOW = compile_lazily(
    "|".join(
        (
            r"prompt (is )?too long",
            r"request_too_large",
            r"request exceeds the maximum size",
            r"context[ _](length|window)[ _]exceeded",
            r"exceeded (the )?context (length|window)",
            r"context_overflow|context overflow:",
            r"exceeds? (the|this model's|the model's|its|available)? ?(model's )?(available )?"
            r"(maximum )?context( (window|size|length|limit))?",
            r"maximum context length",
            r"maximum prompt length is",
            r"input is too long for (this|the|requested) model",
            r"input token count.{0,40}exceeds the maximum",
            r"input exceeds.{0,60}maximum number of tokens",
            r"longer than the model's context length",
            r"input length and `?max_tokens`? exceed context limit",
            r"greater than the context length",
            r"exceeded model token limit|token limit exceeded|too many tokens",
            r"reduce the length of the (messages|prompt|input)",
            r"prompt exceeds max length",
            r"too large for model with \d+ maximum context length",
            r"configured context size is",
            r"total tokens exceed the model maximum",
            "上下文过长|上下文超出|超出最大上下文|请压缩上下文",
        )
    )
)
_NEVER_OVERFLOW = compile_lazily(
    r"rate.?limit|too many requests|tokens per (min|day)|\btp[md]\b|context window too small"
    r"|billing|credit balance|insufficient (credits|quota|funds)"
)
_BILLING = compile_lazily(
    r"insufficient[ _](credits?|quota|funds|balance)|credit balance|payment required|out of credits"
    r"|billing_error|billing (hard )?limit|billing.{0,40}(not active|disabled|inactive|overdue)|exceeded.{0,20}spend"
)
_QUOTA_GONE = compile_lazily(r"insufficient[ _](credits?|quota|funds|balance)|credit balance|payment required")
_USAGE_WINDOW = compile_lazily(
    r"usage.?limit|usage window|(daily|weekly|monthly|hourly) (usage )?limit|resets? (at|in|on)"
)
_RATE = compile_lazily(
    r"rate.?limit|too many requests|throttl|resource.?(has been )?.?exhausted|quota|concurrency limit"
)
_OVERLOADED = compile_lazily(r"overloaded|high demand|modelnotready|at capacity|temporarily unavailable")
_AUTH = compile_lazily(
    r"invalid.{0,3}(x-)?api.?key|incorrect api key|api key (is )?not (valid|found)|api_key_invalid|unauthori[sz]ed"
    r"|unauthenticated|authentication_error|permission_(error|denied)|(expired|revoked|invalid).{0,12}token"
    r"|token (is |has )?(been )?(expired|revoked)|(key|token|credential)s? (has been |was )?revoked"
)
_TIMEOUT = compile_lazily(r"timeout|timed out|deadline|socket hang up|econnreset|premature close")
_NO_MODEL = compile_lazily(
    r"model[ _]not[ _]found|model.{0,80}(does not exist|not found|decommissioned)|not a valid model id"
    r"|no endpoints found|no such model|unknown model|not_found_error"
)
_REFUSED = compile_lazily(
    r"content_policy|content[ _]filter|bio_policy|misalignment_policy|usage polic|responsible ?ai ?policy"
    r"|prohibited_content"
)
_TPM_CEILING = compile_lazily(r"limit:? (\d+),.{0,40}requested:? (\d+)")
_TRY_AGAIN = compile_lazily(
    r"(?:try again|retry) (?:in|after) (?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?) ?(ms|s\b|seconds?))?"
)
_RETRY_DELAY = compile_lazily(r'"retrydelay":\s*"(\d+(?:\.\d+)?)s"')
_TIMEOUT_STATUSES = frozenset((408, 499, 504, 522, 524))


class FaultOrigin(Struct, frozen=True, kw_only=True):
    """The provider and model a failure came from, and the secrets to redact from its message."""

    provider: str
    model: str = ""
    secrets: tuple[Secret, ...] = ()


class Fault(Struct, frozen=True):
    """An error as the provider reported it."""

    message: str = ""
    kind: str = ""
    """Its machine-readable part: type, code, status."""

    @property
    def text(self) -> str:
        return f"{self.message}\n{self.kind}".lower()


def excerpt(text: str, origin: FaultOrigin) -> str:
    """A short excerpt of a provider's message, without secrets and control characters."""
    # Redact before cutting: a cut key would no longer match.
    line = sanitize_line(" ".join(redact(text, *origin.secrets).split()))
    return line if len(line) <= EXCERPT_CHARS else line[: EXCERPT_CHARS - 1] + "…"


def fault_of(value: Any) -> Fault:
    """The fault inside a decoded error body or in-stream error, whatever its shape."""
    if isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, str):
        return Fault(value)
    if not isinstance(value, dict):
        return Fault()
    inner = value.get("error")
    if isinstance(inner, dict | str) and inner:
        found = fault_of(inner)
        return found if found.message else Fault(_words(value.get("message")), found.kind)
    message = next((text for key in ("message", "detail", "msg") if (text := _words(value.get(key)))), "")
    nested = value.get("metadata")
    if isinstance(nested, dict) and isinstance(nested.get("raw"), str):
        message = f"{message}: {nested['raw']}"
    kinds = [str(value[key]) for key in ("type", "code", "status") if value.get(key)]
    return Fault(message, " ".join(kinds))


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if value else ""


def body_fault(body: bytes) -> Fault:
    """The fault in an error body; a body that is not JSON is the message."""
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return Fault(body.decode("utf-8", "replace"))
    fault = fault_of(value)
    return fault if fault.message else Fault(body.decode("utf-8", "replace"), fault.kind)


def from_status(origin: FaultOrigin, status: int, body: bytes, headers: Mapping[str, str]) -> ProviderError:
    """The error for an answer with a failure status."""
    fault = body_fault(body)
    kind = _too_large_ever(fault.text) or _by_status(status, fault.text, bare=not body.strip())
    wait = retry_after(headers)
    if wait is None:
        wait = _wait_in_text(body[:8192].decode("utf-8", "replace").lower())
    return _error(kind, origin, fault, status=status, wait=wait)


def from_fault(origin: FaultOrigin, fault: Fault) -> ProviderError:
    """The error for an error object inside a stream that began well."""
    code = re.search(r"\b[45]\d\d\b", fault.kind)
    by_code = _by_status(int(code[0]), fault.text, bare=False) if code else ServerFailed
    by_text = ContextTooLong if is_overflow(fault.text) else _first_match(_BY_TEXT, fault.text, by_code)
    kind = _too_large_ever(fault.text) or by_text
    return _error(kind, origin, fault, status=None, wait=_wait_in_text(fault.text))


def is_overflow(text: str) -> bool:
    """Whether `text` says that the conversation no longer fits the model."""
    text = text.lower()
    return bool(_OVERFLOW.search(text)) and not _NEVER_OVERFLOW.search(text)


def _too_large_ever(text: str) -> type[ProviderError] | None:
    """A request above the account's whole quota cannot succeed by waiting."""
    found = _TPM_CEILING.search(text)
    return BadRequest if found and int(found[2]) > int(found[1]) else None


def _by_status(status: int, text: str, *, bare: bool) -> type[ProviderError]:
    if status not in (401, 402, 403, 429) and (is_overflow(text) or (status == 413 and (bare or "too large" in text))):
        return ContextTooLong
    if status in (401, 403):
        return BillingFailed if _BILLING.search(text) else ModelRefused if _REFUSED.search(text) else AuthFailed
    if status == 402:
        return RateLimited if _USAGE_WINDOW.search(text) else BillingFailed
    if status == 404:
        return AuthFailed if _AUTH.search(text) else ModelNotFound
    if status in _TIMEOUT_STATUSES:
        return ProviderTimeout
    if status == 429:
        return BillingFailed if _QUOTA_GONE.search(text) else RateLimited
    if status == 529:
        return Overloaded
    if status >= 500:
        if _OVERLOADED.search(text) or (status == 503 and "unavailable" in text):
            return Overloaded
        return RateLimited if re.search(r"too many requests|rate.?limit|throttl", text) else ServerFailed
    return _first_match(_BY_BODY, text, BadRequest)


_Kinds = tuple[tuple[re.Pattern[str], type[ProviderError]], ...]
_BY_BODY: _Kinds = (
    (_BILLING, BillingFailed),
    (_AUTH, AuthFailed),
    (_REFUSED, ModelRefused),
    (_NO_MODEL, ModelNotFound),
)
_BY_TEXT: _Kinds = (
    (_REFUSED, ModelRefused),
    (_BILLING, BillingFailed),
    (_OVERLOADED, Overloaded),
    (_RATE, RateLimited),
    (_AUTH, AuthFailed),
    (_NO_MODEL, ModelNotFound),
    (_TIMEOUT, ProviderTimeout),
    (re.compile("invalid_request_error|invalid_argument|invalid_prompt|invalid_image"), BadRequest),
)


def _first_match(kinds: _Kinds, text: str, otherwise: type[ProviderError]) -> type[ProviderError]:
    return next((kind for pattern, kind in kinds if pattern.search(text)), otherwise)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait from the headers; a date is compared with the provider's own `Date`."""
    names = {name.lower(): value.strip() for name, value in headers.items()}
    millis = _number(names.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    asked = names.get("retry-after")
    if not asked:
        return None
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    try:
        then, now = email_utils.parsedate_to_datetime(asked), email_utils.parsedate_to_datetime(names.get("date", ""))
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError):
        return None


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"\d{1,9}(\.\d+)?", value):
        return None
    return float(value)


def _wait_in_text(text: str) -> float | None:
    delay = _RETRY_DELAY.search(text)
    if delay:
        return float(delay[1])
    found = _TRY_AGAIN.search(text)
    if not found or not any(found.groups()):
        return None
    hours, minutes, amount, unit = found.groups()
    seconds = float(amount or 0) / (1000 if unit == "ms" else 1)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + seconds


def key_hint(provider: str) -> str:
    """Tells where to set the provider's key."""
    known = registry.load().provider(provider)
    return f"set models.providers.{provider}.apiKey" + (f" or {known.env[0]}" if known and known.env else "")


def _error(
    kind: type[ProviderError], origin: FaultOrigin, fault: Fault, *, status: int | None, wait: float | None
) -> ProviderError:
    who, model = origin.provider, origin.model or "the model"
    if kind is ServerFailed and status is None:
        sentence = f"{who} failed in the middle of its answer: try again"
    else:
        sentence = {
            AuthFailed: f"{who} rejected the key: {key_hint(who)}",
            BillingFailed: f"{who} wants payment: check the credit and the plan of your {who} account",
            RateLimited: f"{who} limits the rate of requests: wait"
            + (f" {wait:g} s" if wait else " a moment")
            + " or use another model",
            Overloaded: f"{who} is overloaded: try again in a moment or use another model",
            ContextTooLong: f"{model} cannot hold this conversation: start a new one, or use a larger model",
            ProviderTimeout: f"{who} took too long: try again",
            ModelNotFound: f"{who} does not know {model}: check the model's name and models.providers.{who}.baseUrl",
            ModelRefused: f"{who} declined to answer: rephrase the request or use another model",
            ServerFailed: f"{who} failed: try again in a moment",
            BadRequest: f"{who} rejected the request: check the settings of {model}",
        }[kind]
    said = excerpt(fault.message, origin)
    code = f" (status {status})" if status else ""
    return kind(f"{sentence}{code}" + (f". It said: {said}" if said else ""), status=status, retry_after=wait)
