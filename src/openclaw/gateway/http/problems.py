"""Errors as HTTP answers, in the shapes clients expect."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from openclaw.core.errors import Conflict, InvalidRequest, NotFound, OpenClawError, SessionBusy, Unavailable
from openclaw.protocol import scopes
from openclaw.runs.inbox import RunOutcome

INVALID = "invalid_request_error"
FAILED = "api_error"
NO_RETRY = {"x-should-retry": "false"}
"""A turn has effects: client libraries that repeat failed requests by themselves are asked not to."""


class HttpProblem(OpenClawError):
    """An answer with an error status."""

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = INVALID,
        *,
        param: str | None = None,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
        self.error_code = code
        self.details = details
        self.headers = dict(headers or {})


def body(problem: HttpProblem) -> dict[str, Any]:
    """The shape OpenAI's clients read; unknown fields are left out."""
    known = {
        "message": problem.message,
        "type": problem.kind,
        "param": problem.param,
        "code": problem.error_code,
        "details": problem.details,
    }
    return {"error": {name: value for name, value in known.items() if value is not None}}


def short_body(problem: HttpProblem) -> dict[str, Any]:
    """The shape of `/tools/invoke`; authentication errors look the same everywhere."""
    if problem.status in (401, 403, 429):
        return body(problem)
    return {"ok": False, "error": {"type": problem.kind, "message": problem.message}}


def unauthorized() -> HttpProblem:
    return HttpProblem(401, "Unauthorized", "unauthorized", headers={"www-authenticate": "Bearer"})


def locked_out(seconds: float) -> HttpProblem:
    return HttpProblem(
        429,
        "Too many failed authentication attempts. Please try again later.",
        "rate_limited",
        headers={"retry-after": str(max(1, round(seconds)))},
    )


def missing_scope(scope: str) -> HttpProblem:
    error = scopes.missing_scope(scope)
    return HttpProblem(403, error.message, "forbidden", details=error.details)


def too_large(limit: int) -> HttpProblem:
    return HttpProblem(
        413, f"the body is larger than {limit} bytes: send less", code="body_too_large", headers={"connection": "close"}
    )


def from_error(error: OpenClawError) -> HttpProblem:
    """One of our errors as an HTTP problem."""
    match error:
        case HttpProblem():
            return error
        case InvalidRequest():
            return HttpProblem(400, error.message)
        case NotFound():
            return HttpProblem(404, error.message, code="not_found")
        case Conflict() | SessionBusy():
            return HttpProblem(409, error.message, "conflict", headers=NO_RETRY)
        case Unavailable(retry_after=after):
            headers = {} if after is None else {"retry-after": str(max(1, round(after)))}
            return HttpProblem(503, error.message, FAILED, code="unavailable", headers=headers)
        case _:
            return HttpProblem(500, error.message, FAILED, headers=NO_RETRY)


class _Kind(Struct, frozen=True):
    status: int
    kind: str = FAILED
    code: str | None = None


_KINDS = {
    "invalid_request": _Kind(400, INVALID),
    "format": _Kind(400, INVALID),
    "refused": _Kind(400, INVALID, "content_filter"),
    "context_overflow": _Kind(400, INVALID, "context_length_exceeded"),
    "not_found": _Kind(404, INVALID, "not_found"),
    "model_not_found": _Kind(404, INVALID, "model_not_found"),
    "aborted": _Kind(409, "conflict", "aborted"),
    "queue_full": _Kind(429, "rate_limit_error", "queue_full"),
    "rate_limit": _Kind(429, "rate_limit_error"),
    # The credential that failed is ours for the model, not the client's for us.
    "auth": _Kind(502),
    "billing": _Kind(502),
    "overloaded": _Kind(503),
    "timeout": _Kind(504),
}


def from_outcome(outcome: RunOutcome) -> HttpProblem:
    """A failed run as an HTTP problem."""
    found = _KINDS.get(outcome.error_kind or "", _Kind(500))
    code = found.code or outcome.error_kind
    return HttpProblem(found.status, outcome.error or "the run failed", found.kind, code=code, headers=NO_RETRY)
