"""All expected failures, each with its code on the wire.

A message tells the person what to do next. Anything raised that is not in this tree is a bug.
"""


class OpenClawError(Exception):
    """The root of the tree; `code` is what clients see."""

    code = "INTERNAL"

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else self.__class__.__name__


class InvalidRequest(OpenClawError):
    """The request is malformed or cannot be fulfilled."""

    code = "INVALID_REQUEST"


class NotFound(OpenClawError):
    code = "NOT_FOUND"


class Conflict(OpenClawError):
    """The resource changed since the caller read it."""

    code = "CONFLICT"


class Unavailable(OpenClawError):
    """Not now; the same request may work later."""

    code = "UNAVAILABLE"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ConfigError(OpenClawError):
    """The configuration is invalid; `path` is the setting, `file` where it is written."""

    code = "CONFIG_INVALID"

    def __init__(self, message: str, *, path: str = "", file: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.file = file


class StateError(OpenClawError):
    """A state file cannot be read or written; nothing was changed."""

    code = "STATE"


class SessionBusy(OpenClawError):
    """Another writer holds the session."""

    code = "SESSION_BUSY"

    def __init__(self, message: str, *, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder


class ProviderError(OpenClawError):
    """A model could not answer. `reason` is the failover class, `retryable` whether the same call may work later."""

    code = "UNAVAILABLE"
    reason = "unknown"
    retryable = False

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class AuthFailed(ProviderError):
    reason = "auth"


class BillingFailed(ProviderError):
    reason = "billing"


class RateLimited(ProviderError):
    reason = "rate_limit"
    retryable = True


class Overloaded(ProviderError):
    reason = "overloaded"
    retryable = True


class ContextTooLong(ProviderError):
    reason = "context_overflow"


class ProviderTimeout(ProviderError):
    reason = "timeout"
    retryable = True


class ServerFailed(ProviderError):
    reason = "server_error"
    retryable = True


class NetworkFailed(ProviderError):
    reason = "timeout"
    retryable = True


class ModelNotFound(ProviderError):
    reason = "model_not_found"


class ModelRefused(ProviderError):
    """The model or its provider declined to answer; asking again will not help."""

    reason = "refused"


class OverBudget(ProviderError):
    """The call was not sent because it would exceed the budget."""

    reason = "budget"


class BadRequest(ProviderError):
    """The provider rejected the format of the request."""

    reason = "format"


class BadResponse(ProviderError):
    """The provider's answer cannot be parsed."""

    reason = "server_error"
    retryable = True
