"""Errors as HTTP answers, in the shapes clients expect."""

from collections.abc import Mapping
from typing import Any

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
    message, retry = "Too many failed authentication attempts. Please try again later.", max(1, round(seconds))
    return HttpProblem(429, message, "rate_limited", headers={"retry-after": str(retry)})


def missing_scope(scope: str) -> HttpProblem:
    error = scopes.missing_scope(scope)
    return HttpProblem(403, error.message, "forbidden", details=error.details)


def too_large(limit: int) -> HttpProblem:
    message = f"the body is larger than {limit} bytes: send less"
    return HttpProblem(413, message, code="body_too_large", headers={"connection": "close"})


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


_KINDS = {
    "invalid_request": (400, INVALID),
    "format": (400, INVALID),
    "refused": (400, INVALID),
    "context_overflow": (400, INVALID),
    "not_found": (404, INVALID),
    "model_not_found": (404, INVALID),
    "aborted": (409, "conflict"),
    "queue_full": (429, "rate_limit_error"),
    "rate_limit": (429, "rate_limit_error"),
    # The credential that failed is ours for the model, not the client's for us.
    "auth": (502, FAILED),
    "billing": (502, FAILED),
    "overloaded": (503, FAILED),
    "timeout": (504, FAILED),
}
_CODES = {"refused": "content_filter", "context_overflow": "context_length_exceeded"}
"""OpenAI's names of error kinds that we call otherwise."""


def from_outcome(outcome: RunOutcome) -> HttpProblem:
    """A failed run as an HTTP problem."""
    reason = outcome.error_kind or ""
    status, kind = _KINDS.get(reason, (500, FAILED))
    code = _CODES.get(reason, outcome.error_kind)
    return HttpProblem(status, outcome.error or "the run failed", kind, code=code, headers=NO_RETRY)
